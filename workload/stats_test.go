package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"tidemark/checker/history"
)

func TestStatsCountEachOutcomeOnce(t *testing.T) {
	records := []history.Record{{Offset: 1}}
	var s Stats
	for _, a := range []struct {
		op     history.OpType
		answer Answer
	}{
		{history.Produce, Answer{Kind: ok, Offset: 0}},
		{history.Produce, Answer{Kind: ok, Offset: history.Unknown}},
		{history.Produce, Answer{Kind: unknown}},
		{history.Produce, Answer{Kind: failed}},
		{history.Fetch, Answer{Kind: ok, Records: records}},
		{history.Fetch, Answer{Kind: ok}},
		{history.Fetch, Answer{Kind: ok}},
		{history.Fetch, Answer{Kind: failed}},
		{history.End, Answer{Kind: ok}},
		{history.End, Answer{Kind: unknown}},
	} {
		s.count(a.op, 3, &a.answer, time.Millisecond)
	}
	want := Totals{Acked: 1, Values: 3, Reads: 1, EmptyReads: 2, Ends: 1, Unknown: 3, Failed: 2}
	assert.Equal(t, want, s.Totals())
	assert.EqualValues(t, 10, s.Totals().Operations())
}

func TestASecondHasTheLatenciesOfWhatWasAnsweredInIt(t *testing.T) {
	var s Stats
	for i := range 100 {
		s.count(history.Produce, 1, &Answer{Kind: ok}, time.Duration(i+1)*time.Millisecond)
	}
	s.count(history.Fetch, 0, &Answer{Kind: ok}, time.Hour)
	s.count(history.Fetch, 0, &Answer{Kind: failed}, time.Second)
	s.tick(time.Second)
	s.tick(2 * time.Second)
	s.count(history.End, 0, &Answer{Kind: ok}, 0)
	s.tick(2500 * time.Millisecond)

	got := s.Seconds()
	assert.Len(t, got, 3)
	near := func(want, got time.Duration) { assert.InEpsilon(t, want, got, 0.01) }
	produce := got[0].Produce
	assert.EqualValues(t, 100, produce.Count)
	near(50*time.Millisecond, produce.P50)
	near(95*time.Millisecond, produce.P95)
	near(99*time.Millisecond, produce.P99)
	near(100*time.Millisecond, produce.Max)
	assert.EqualValues(t, 1, got[0].Read.Count, "a failure has no latency")
	near(time.Minute, got[0].Read.Max)
	assert.Equal(t, Second{At: 2 * time.Second, Totals: got[0].Totals}, got[1], "nothing happened in it")
	assert.Equal(t, Latency{Count: 1, P50: time.Microsecond, P95: time.Microsecond, P99: time.Microsecond, Max: time.Microsecond}, got[2].Read)
	assert.Equal(t, 2500*time.Millisecond, got[2].At)
}

func TestTheNextProcessIsAboveAllThatWereUsed(t *testing.T) {
	var s Stats
	assert.Zero(t, s.NextProcess())
	for _, p := range []int64{4, 9, 2} {
		s.used(p)
	}
	assert.EqualValues(t, 10, s.NextProcess())
}

func TestProcessNumbersCanBeUsedUp(t *testing.T) {
	c := Config{Clients: 2, FirstProcess: maxProcess - 3, Stats: &Stats{}}
	r := newRecorder(&history.Memory{}, &c, 0)
	retired, err := r.returned(history.Info, history.Op{Type: history.End, Partition: "orders-0"})
	assert.True(t, retired)
	assert.NoError(t, err)
	_, err = r.returned(history.Info, history.Op{Type: history.End, Partition: "orders-0"})
	assert.ErrorContains(t, err, "used up")
}

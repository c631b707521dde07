package checker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

// fetchRaw records an answer as it is, however wrong.
func (s *story) fetchRaw(from, hw int64, rs ...history.Record) *story {
	p := s.call(history.Op{Type: history.Fetch, From: from, Node: 2})
	return s.answer(p, history.OK, history.Op{Type: history.Fetch, Records: rs, HighWatermark: hw, Node: 2})
}

// TestEachAnomalyHasItsNameAndSentence tells those that the golden histories do not.
func TestEachAnomalyHasItsNameAndSentence(t *testing.T) {
	for name, c := range map[string]struct {
		story    *story
		findings []string
		sentence string
	}{
		"a value at two offsets": {(&story{}).produce(0, "a").unknown("b").fetch(0, 3, "a", "b", "a").final("a", "b", "a"),
			[]string{"duplicate a"},
			"a of orders-0 has two offsets, 0 (read by process 3 at 0.006 s) and 2 (read by process 3 at 0.006 s)."},
		"a value acked at one offset and read at another": {(&story{}).produce(0, "a").produce(1, "b").final("b", "a"),
			[]string{"duplicate a", "duplicate b"},
			"b of orders-0 has two offsets, 1 (acked to process 2 at 0.004 s) and 0 (read by process 3 at 0.006 s)."},
		"a value read before it was produced": {(&story{}).fetch(0, 1, "a").produce(0, "a").final("a"), []string{"phantom a"},
			"a was read at offset 0 of orders-0 by process 1 at 0.002 s, before process 2 called its produce at 0.003 s."},
		"a batch of which a part is lost": {(&story{}).produce(0, "a").produce(1, "b", "c").final("a", "b"),
			[]string{"lost-acked c", "torn-batch c"},
			"offset 2 of orders-0 (c) was acked to process 2 at 0.004 s; the final log ends at 2."},
		"a batch of unknown outcome whose values are apart": {(&story{}).unknown("a", "b").unknown("c").fetch(0, 3, "a", "c", "b").final("a", "c", "b"),
			[]string{"torn-batch a"},
			"the batch a..b that process 1 produced at once at 0.001 s is not whole in orders-0: a is at 0, b is at 2."},
		"an answer with a gap": {(&story{}).produce(0, "a").produce(1, "b").produce(2, "c").
			fetchRaw(0, 3, append(records(0, "a"), records(2, "c")...)...).final("a", "b", "c"), []string{"nonmonotonic-fetch 0"},
			"process 4 asked orders-0 for records from 0 on and at 0.008 s got some that are not consecutive from there: fetch from 0 -> [a c], hw 3."},
		"an answer above its own high watermark": {(&story{}).produce(0, "a").produce(1, "b").fetchRaw(0, 1, records(0, "a", "b")...).final("a", "b"),
			[]string{"uncommitted-read b"},
			"offset 1 of orders-0 (b) was returned to process 3 at 0.006 s by broker 2 in an answer whose high watermark was 1."},
		"an answer with nothing below its high watermark": {(&story{}).produce(0, "a").produce(1, "b").fetchRaw(1, 2).final("a", "b"),
			[]string{"hole 1"},
			"process 3 asked broker 2 for offset 1 of orders-0 and at 0.006 s got nothing, in an answer whose high watermark was 2."},
		"an answer in which the epoch goes down": {(&story{}).produce(0, "a").produce(1, "b").
			fetchRaw(0, 2, history.Record{Epoch: 3, Value: "a"}, history.Record{Offset: 1, Epoch: 2, Value: "b"}).final("a", "b"),
			[]string{"epoch-regression 1"},
			"in the answer that process 3 got at 0.006 s the record at offset 1 of orders-0 has a lower leader epoch than the one before it."},
		"an offset that nobody can have filled": {(&story{}).produce(0, "a").produce(2, "c").fetch(0, 3, "a"), []string{"hole 1"},
			"process 2 saw a log of 3 records in orders-0 at 0.004 s, but nobody can have produced the one at offset 1."},
		"an offset that only a later produce could fill": {(&story{}).produce(0, "a").produce(2, "c").unknown("late"), []string{"hole 1"},
			"process 2 saw a log of 3 records in orders-0 at 0.004 s, but nobody can have produced the one at offset 1."},
		"a produce below an end that was seen": {(&story{}).unknown("u").end(2).produce(0, "a").unknown("v").final("a", "v", "u"),
			[]string{"order-inversion a", "order-inversion v"},
			"a was produced to orders-0 by process 3 at 0.005 s and got offset 0, although process 2 had seen a log of 2 records before, at 0.004 s."},
		"an end that was seen and is not there in the end": {(&story{}).produce(0, "a").unknown("u").end(2).final("a").final("a"),
			[]string{"end-regression 1"},
			"process 4 found at the end of the run a log of 1 for orders-0 at 0.008 s, after an end of 2 had been proved to process 3 at 0.006 s."},
		"two acknowledgements of one offset, and no end": {(&story{}).produce(0, "a").produce(0, "b"), []string{"reread-differs 0"},
			"offset 0 of orders-0 had two values: a (acked to process 1 at 0.002 s), then b (acked to process 2 at 0.004 s)."},
		"three values at one offset": {(&story{}).unknown("a").unknown("b").unknown("c").fetch(0, 1, "a").fetch(0, 1, "b").final("c"),
			[]string{"reread-differs 0"},
			"offset 0 of orders-0 had 3 values: a (read by process 4 at 0.008 s), then b (read by process 5 at 0.010 s), then c (read by process 6 at 0.012 s)."},
		"an end within a batch": {(&story{}).produce(0, "a", "b").final("a"), []string{"lost-acked b", "torn-batch b"},
			"offset 1 of orders-0 (b) was acked to process 1 at 0.002 s; the final log ends at 1."},
	} {
		t.Run(name, func(t *testing.T) {
			res := c.story.judge(t, history.Contract{}, checker.Options{})
			assert.ElementsMatch(t, c.findings, res.Shorts())
			require.NotEmpty(t, res.Findings)
			assert.Equal(t, c.sentence, res.Findings[0].Sentence)
			assert.Equal(t, checker.Violation, res.Verdict)
			if res.Findings[0].Anomaly != checker.EpochRegression {
				assert.Equal(t, checker.Illegal, res.Porcupine)
				assert.Less(t, res.Level(), checker.CommittedLog)
			}
		})
	}
}

func TestAnEndWithinABatchBreaksOnlyWhatNeedsExactEnds(t *testing.T) {
	res := (&story{}).produce(0, "a", "b").end(1).final("a", "b").judge(t, history.Contract{}, checker.Options{})
	assert.Equal(t, checker.Consistent, res.Verdict)
	assert.Equal(t, checker.CommittedLog, res.Level())
	require.Len(t, res.Observations, 2)
	assert.Equal(t, "process 2 was told an end of 1 for orders-0 at 0.004 s, after an end of 2 had been proved to process 1 at 0.002 s (broker 1 answered).",
		res.Observations[0].First)
	assert.Equal(t, "the log of orders-0 was said to end at 1, within the batch a..b that process 1 produced at once at 0.001 s.",
		res.Observations[1].First)
}

func TestBatchesOfUnknownOutcomeFillHoles(t *testing.T) {
	// Offsets 0 to 4 are unseen; batches of 3, 2 and 2 are unknown: only 3 and one 2 fill them exactly.
	s := (&story{}).unknown("a", "b").unknown("c", "d", "e").unknown("f", "g").produce(5, "z").end(6)
	res := s.judge(t, history.Contract{}, checker.Options{})
	assert.Empty(t, res.Findings)
	assert.Equal(t, checker.Ok, res.Porcupine)
	// Two of 2 and one of 2 do not.
	s = (&story{}).unknown("a", "b").unknown("c", "d").unknown("f", "g").produce(5, "z").end(6)
	assert.Equal(t, []string{"hole 0"}, s.judge(t, history.Contract{}, checker.Options{}).Shorts())
	// The one that would fit was called after the offset had been proved.
	s = (&story{}).unknown("a", "b").unknown("f", "g").produce(5, "z").unknown("c")
	assert.Equal(t, []string{"hole 0"}, s.judge(t, history.Contract{}, checker.Options{}).Shorts())
}

func TestASearchThatIsGivenUpIsInconclusive(t *testing.T) {
	// 61 holes for batches of 2, 4 and 6: an odd number cannot be filled, and to see that takes longer than the bound.
	s := &story{}
	for i := range 60 {
		s.unknown(fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
		s.unknown(fmt.Sprint(i, "c"), fmt.Sprint(i, "d"), fmt.Sprint(i, "e"), fmt.Sprint(i, "f"))
		s.unknown(fmt.Sprint(i, "g"), fmt.Sprint(i, "h"), fmt.Sprint(i, "i"), fmt.Sprint(i, "j"), fmt.Sprint(i, "k"), fmt.Sprint(i, "l"))
	}
	s.produce(61, "z").end(62)
	res := s.judge(t, history.Contract{}, checker.Options{})
	assert.Equal(t, checker.Inconclusive, res.Verdict)
	assert.Contains(t, res.Reasons, checker.BecauseCheckerLimit)
	assert.Contains(t, res.Details[0], "checker-limit: orders-0: the search for produces of unknown outcome")
	assert.Equal(t, checker.NotRun, res.Porcupine)
}

func TestPorcupineSaysWhyItDidNotJudge(t *testing.T) {
	s := &story{}
	for i := range 30 {
		s.produce(int64(i), fmt.Sprint(i))
	}
	s.final()
	for name, c := range map[string]struct {
		limits checker.Limits
		bar    string
		why    string
	}{
		"switched off":    {checker.Limits{Operations: -1}, "", "switched off"},
		"too many":        {checker.Limits{Operations: 10}, "", "31 operations, the budget is 10"},
		"too low a bar":   {checker.Limits{}, "agreement", "the model has no level below committed log"},
		"too little time": {checker.Limits{Timeout: time.Nanosecond}, "", "no answer within 1ns"},
	} {
		res := s.judge(t, history.Contract{Bar: c.bar}, checker.Options{Porcupine: c.limits})
		assert.Equal(t, checker.NotRun, res.Porcupine, name)
		assert.Equal(t, c.why, res.Partitions[0].PorcupineWhy, name)
	}
	s = &story{}
	var open []int64
	for i := range 21 {
		open = append(open, s.call(history.Op{Type: history.Produce, Values: []string{fmt.Sprint(i)}, Acks: -1}))
	}
	for i, p := range open {
		s.answer(p, history.OK, history.Op{Type: history.Produce, Offset: int64(i)})
	}
	res := s.judge(t, history.Contract{}, checker.Options{})
	assert.Equal(t, "21 operations are concurrent, the budget is 20", res.Partitions[0].PorcupineWhy)
}

func TestAThousandFindingsAreAllReportedAndFewAreTold(t *testing.T) {
	const n = 1000
	s := &story{}
	for i := range n {
		s.produce(int64(i), fmt.Sprintf("v%04d", i))
	}
	res := s.final().judge(t, history.Contract{}, checker.Options{})
	require.Len(t, res.Findings, n)
	assert.Equal(t, "lost-acked v0999", res.Findings[n-1].Short())
	var text bytes.Buffer
	require.NoError(t, res.WriteText(&text))
	assert.Equal(t, 10, strings.Count(text.String(), "\nlost-acked v"))
	assert.Contains(t, text.String(), "... and 990 more of lost-acked on orders-0\n")
	assert.True(t, strings.HasPrefix(text.String(), "violation: lost-acked v0000, lost-acked v0001, lost-acked v0002, lost-acked v0003, "+
		"lost-acked v0004, lost-acked v0005, lost-acked v0006, lost-acked v0007, and 992 more\n"))
}

func TestPartitionsAreJudgedApart(t *testing.T) {
	s := (&story{}).produce(0, "a").final("a")
	for _, name := range []string{"orders-10", "orders-9"} {
		s.process++
		s.add(history.Event{Kind: history.Invoke, Process: s.process, Op: history.Op{Type: history.Produce, Partition: name, Values: []string{"a"}, Acks: -1}})
		s.add(history.Event{Kind: history.OK, Process: s.process, Op: history.Op{Type: history.Produce, Partition: name, Offset: 0}})
	}
	s.process++
	s.add(history.Event{Kind: history.Invoke, Process: s.process, Op: history.Op{Type: history.Fetch, Partition: "orders-9", Final: true}})
	s.add(history.Event{Kind: history.OK, Process: s.process, Op: history.Op{Type: history.Fetch, Partition: "orders-9", Final: true}})
	res := s.judge(t, history.Contract{}, checker.Options{})
	var names []string
	for _, p := range res.Partitions {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"orders-0", "orders-9", "orders-10"}, names, "partitions stand in the order of their numbers")
	assert.Equal(t, checker.Linearizable, res.Partitions[0].Level)
	assert.Equal(t, checker.Agreement, res.Partitions[1].Level)
	assert.Equal(t, checker.Ok, res.Partitions[2].Porcupine)
	assert.Equal(t, checker.Agreement, res.Level())
	assert.Equal(t, checker.Illegal, res.Porcupine)
	assert.Equal(t, "orders-9", res.Findings[0].Partition)
}

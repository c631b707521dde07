package workload

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/node/replica"
)

// filled is a cluster of three brokers on which a workload has run, with the history of it.
func filled(t *testing.T, c Config) (*testCluster, *until, int64) {
	cluster := newTestCluster(t, 3, c.Topics...)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	sink := &until{end: cancel, enough: func(e *history.Event) bool { return e.Seq >= 3000 }}
	stats, err := Run(ctx, c, cluster, sink)
	require.NoError(t, err)
	sink.end = func() {}
	cluster.drain(t)
	return cluster, sink, stats.NextProcess()
}

func TestFinalReadsAreTheWholeLog(t *testing.T) {
	c := Config{Topics: []history.Topic{orders(3)}, Clients: 3, Seed: 1, BatchShare: 0.2, ValueSize: 1000}
	cluster, sink, next := filled(t, c)
	cluster.lead("orders", 1, 3)
	before := len(sink.Events())
	require.NoError(t, FinalReads(t.Context(), c, cluster, sink, next))

	got := verify(t, sink.Events())
	pieces := 0
	for _, e := range sink.Events()[before:] {
		assert.Equal(t, next, e.Process)
		assert.True(t, e.Op.Final)
		if e.Kind == history.OK {
			pieces++
		}
	}
	assert.Greater(t, pieces, 3, "a log that is larger than one answer is read in pieces")
	for p, l := range cluster.logs {
		final := got.final[p.String()]
		require.Len(t, final, int(l.end()), "%s", p)
		for i, r := range final {
			assert.EqualValues(t, i, r.Offset)
		}
		assert.Equal(t, final[0].Value, got.values[p.String()][0])
	}
}

func TestFinalReadsOfEmptyAndOfTrimmedLogs(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(2))
	cluster.logs[replica.Partition{Topic: "orders", Index: 1}].start = 7
	var sink history.Memory
	require.NoError(t, FinalReads(t.Context(), Config{Topics: []history.Topic{orders(2)}}, cluster, &sink, 5))
	events := sink.Events()
	require.Len(t, events, 4)
	assert.Equal(t, history.Op{Type: history.Fetch, Partition: "orders-0", Node: 1, Final: true}, events[0].Op)
	assert.Equal(t, history.OK, events[1].Kind)
	assert.EqualValues(t, 7, events[2].Op.From, "a log is read from where it begins")
	assert.EqualValues(t, 7, events[3].Op.HighWatermark)
}

// The first attempts meet a broker that does not lead any more, and one that does not answer.
func TestFinalReadsAreTriedAgain(t *testing.T) {
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 2, Timeout: 100e6}
	cluster, sink, next := filled(t, c)
	before := len(sink.Events())
	n := 0
	cluster.intercept(func(_ int32, m replica.Message) replica.Body {
		if _, ok := m.Body.(*replica.Fetch); !ok {
			return nil
		}
		switch n++; n {
		case 1:
			return &replica.FetchAnswer{Error: replica.NotLeaderOrFollower, HighWatermark: -1}
		case 2:
			return dropped{}
		}
		return nil
	})
	require.NoError(t, FinalReads(t.Context(), c, cluster, sink, next))
	got := verify(t, sink.Events())
	var outcomes []string
	for _, e := range sink.Events()[before:] {
		if e.Kind.IsReturn() {
			outcomes = append(outcomes, fmt.Sprintf("%s of %d %s", e.Kind, e.Process-next, e.Op.Error))
		}
	}
	assert.Equal(t, []string{"fail of 0 NOT_LEADER_OR_FOLLOWER", "info of 0 connection lost", "ok of 1 "}, outcomes)
	assert.Len(t, got.final["orders-0"], int(cluster.logs[replica.Partition{Topic: "orders"}].end()))
}

// A partition that nobody leads is left after a while, and the others are read.
func TestFinalReadsLeaveWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{brokers: []int32{1}, serve: metadataFrom(
			func(int32) *kmsg.MetadataResponse {
				return metadata(told{nobody, 3, []int32{1}}, told{1, 3, []int32{1}}, told{nobody, 3, []int32{1}})
			},
			func(p *peer, r *request) {
				resp := r.respond(0, nil)
				if l, ok := resp.(*kmsg.ListOffsetsResponse); ok {
					l.Topics[0].Partitions[0].Offset = 0 // the earliest
				}
				p.answer(r, resp)
			})}
		var sink history.Memory
		c := Config{Topics: []history.Topic{orders(3)}}
		start := time.Now()
		err := FinalReads(t.Context(), c, d, &sink, 0)
		assert.ErrorIs(t, err, ErrIncomplete)
		assert.ErrorContains(t, err, "orders-0: no leader known, for 10s")
		assert.ErrorContains(t, err, "orders-2: no leader known")
		assert.InDelta(t, 2*patience*defaultTimeout, time.Since(start), float64(time.Second))
		last := sink.Events()[len(sink.Events())-1]
		assert.Equal(t, "orders-1", last.Op.Partition)
		assert.Equal(t, history.OK, last.Kind)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		err = FinalReads(ctx, c, d, &sink, 1)
		assert.ErrorIs(t, err, ErrIncomplete)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start), "no patience when all is over")
	})
}

func TestLogsThatCannotBeReadToTheirEnd(t *testing.T) {
	emptyBelow := func(_ int32, m replica.Message, answer replica.Body) replica.Body {
		if f, ok := answer.(*replica.FetchAnswer); ok {
			f.Batches = nil
		}
		return answer
	}
	gone := func(_ int32, m replica.Message, answer replica.Body) replica.Body {
		if _, ok := answer.(*replica.FetchAnswer); ok {
			return &replica.FetchAnswer{Error: replica.OffsetOutOfRange, HighWatermark: 0, Start: 0}
		}
		return answer
	}
	for _, tc := range []struct {
		name  string
		after func(int32, replica.Message, replica.Body) replica.Body
		final string
		dump  string
	}{
		{"nothing where there is something", emptyBelow, "nothing at offset 0, below the high watermark",
			"on broker 2: nothing at offset 0, below its log end offset"},
		{"it became shorter", gone, "the leader has no offset 0 any more", "has no offset 0 any more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 2}
			cluster, sink, next := filled(t, c)
			cluster.mu.Lock()
			cluster.after = tc.after
			cluster.mu.Unlock()
			err := FinalReads(t.Context(), c, cluster, sink, next)
			assert.ErrorIs(t, err, ErrIncomplete)
			assert.ErrorContains(t, err, tc.final)
			verify(t, sink.Events())
			_, err = Dump(t.Context(), c, cluster, 2, "orders", 0)
			assert.ErrorIs(t, err, ErrIncomplete)
			assert.ErrorContains(t, err, tc.dump)
		})
	}
}

// What is beyond the high watermark belongs to a replica's log too, and it can be read from a replica that does not lead.
func TestDumpsGoBeyondTheHighWatermark(t *testing.T) {
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 3, ValueSize: 2000}
	cluster, sink, _ := filled(t, c)
	l := cluster.logs[replica.Partition{Topic: "orders"}]
	cluster.mu.Lock()
	cluster.after = func(_ int32, m replica.Message, answer replica.Body) replica.Body {
		if f, ok := answer.(*replica.FetchAnswer); ok {
			f.HighWatermark = l.end() - 3
		}
		return answer
	}
	cluster.mu.Unlock()
	got, err := Dump(t.Context(), c, cluster, 3, "orders", 0)
	require.NoError(t, err)
	assert.Equal(t, "orders-0", got.Partition)
	assert.EqualValues(t, 3, got.Node)
	assert.Equal(t, l.end(), got.LEO)
	assert.Equal(t, l.end()-3, got.HW)
	assert.Nil(t, got.Epochs, "the caller adds them")
	require.Len(t, got.Entries, int(l.end()))
	known := verify(t, sink.Events()).values["orders-0"]
	for i, e := range got.Entries {
		require.EqualValues(t, i, e.Offset)
		if value, ok := known[e.Offset]; ok {
			require.Equal(t, value, e.Value)
		}
	}
	require.NoError(t, sink.Append(&history.Event{Kind: history.KindReplica, Replica: got}), "it can be written as it is")
}

func TestDumpsBeginWhereTheLogDoes(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	cluster.logs[replica.Partition{Topic: "orders"}].start = 7
	got, err := Dump(t.Context(), Config{Topics: []history.Topic{orders(1)}}, cluster, 1, "orders", 0)
	require.NoError(t, err)
	assert.Equal(t, &history.Replica{Node: 1, Partition: "orders-0", HW: 7, LEO: 7}, got)
}

func TestDumpsOfWhatIsNotThere(t *testing.T) {
	_, err := Dump(t.Context(), Config{Topics: []history.Topic{orders(1)}}, &scripted{}, 1, "orders", 1)
	assert.ErrorIs(t, err, ErrConfig)
	assert.ErrorContains(t, err, "orders-1")
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{brokers: []int32{1}, dial: func(context.Context, int32) error { return errRefused }}
		_, err := Dump(t.Context(), Config{Topics: []history.Topic{orders(1)}}, d, 1, "orders", 0)
		assert.ErrorIs(t, err, ErrIncomplete)
		assert.ErrorContains(t, err, "orders-0: cannot connect, for 10s")
	})
}

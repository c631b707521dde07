package workload

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/node/replica"
)

// runIdempotent runs until n records are acked and as many read.
func runIdempotent(t *testing.T, c Config, d Dialer, n int64) (*Stats, *verified) {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var acked, read int64
	sink := &until{end: cancel, enough: func(e *history.Event) bool {
		if e.Kind == history.OK && e.Op.Type == history.Produce {
			acked++
		}
		read += int64(len(e.Op.Records))
		return acked >= n && read >= n
	}}
	stats, err := RunIdempotent(ctx, c, d, sink)
	require.NoError(t, err)
	require.True(t, acked >= n && read >= n, "acked %d, read %d", acked, read)
	return stats, verify(t, sink.Events())
}

func TestAnOrdinaryClientAppendsAndReads(t *testing.T) {
	cluster := newTestCluster(t, 3, orders(2))
	c := Config{Topics: []history.Topic{orders(2)}, Clients: 8, Seed: 1, ValueSize: 50}
	stats, got := runIdempotent(t, c, cluster, 400)
	assert.Empty(t, keysBut(got.errors, "canceled", "no records"))
	assert.Zero(t, got.ok[history.End])
	for process, values := range got.produced {
		assert.Zero(t, process%2, "every second client appends")
		assert.Len(t, values, got.processes[process], "one operation is one record")
	}
	totals := stats.Totals()
	assert.EqualValues(t, got.ok[history.Produce], totals.Acked)
	assert.Equal(t, totals.Acked, totals.Values)
	assert.EqualValues(t, got.ok[history.Fetch], totals.Reads)
}

// lostAnswers drops the answer to every nth append, after it went into the log, and answers every mth that somebody else leads. The
// client sends those again.
func lostAnswers(c *testCluster, n, m int) (lost *int) {
	lost = new(int)
	appends := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = func(_ int32, m2 replica.Message, answer replica.Body) replica.Body {
		if _, ok := answer.(*replica.ProduceAnswer); !ok {
			return answer
		}
		appends++
		switch {
		case appends%n == 0:
			*lost++
			return dropped{}
		case appends%m == 0:
			*lost++
			return &replica.ProduceAnswer{Error: replica.NotLeaderOrFollower, Base: -1}
		}
		return answer
	}
	return lost
}

func TestRetriesAreNotSeenAndAppendNothingTwice(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	lost := lostAnswers(cluster, 20, 33)
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 6, Seed: 2}
	_, got := runIdempotent(t, c, cluster, 150)
	assert.Greater(t, *lost, 3)
	assert.Empty(t, keysBut(got.errors, "canceled", "no records"), "the client tries again until it is told")

	var sink history.Memory
	require.NoError(t, FinalReads(t.Context(), c, cluster, &sink, 1000))
	seen := map[string]bool{}
	for _, r := range verify(t, sink.Events()).final["orders-0"] {
		assert.False(t, seen[r.Value], "%s is in the log twice", r.Value)
		seen[r.Value] = true
	}
}

// The log loses what the consumer has read, as by an unclean election. The consumer finds out by the leader epochs and says so.
func TestAConsumerNoticesThatTheLogHasLostRecords(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cut := false
	var lost []string
	sink := &until{end: cancel, enough: func(e *history.Event) bool {
		if e.Op.Type != history.Fetch {
			return false
		}
		if n := len(e.Op.Records); n > 0 && e.Op.Records[n-1].Offset >= 40 && !cut {
			cut = true
			go cluster.cut("orders", 0, 20)
		}
		if e.Kind == history.Fail && e.Op.Error != "no records" && e.Op.Error != "canceled" {
			lost = append(lost, e.Op.Error)
		}
		return len(lost) > 0
	}}
	_, err := RunIdempotent(ctx, Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 3, Rate: 400}, cluster, sink)
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	assert.Contains(t, lost[0], "log has lost offsets 20 to ")
}

// cut shortens a partition's log and begins a new leader epoch.
func (c *testCluster) cut(topic string, index int32, end int64) {
	c.mu.Lock()
	l := c.logs[replica.Partition{Topic: topic, Index: index}]
	l.batches = slices.DeleteFunc(l.batches, func(b replica.Batch) bool { return b.End() > end })
	node := int32(l.state.Leader)
	c.mu.Unlock()
	c.lead(topic, index, node)
}

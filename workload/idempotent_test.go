package workload

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

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

	cluster.drain(t)
	var sink history.Memory
	require.NoError(t, FinalReads(t.Context(), c, cluster, &sink, 1000))
	seen := map[string]bool{}
	for _, r := range verify(t, sink.Events()).final["orders-0"] {
		assert.False(t, seen[r.Value], "%s is in the log twice", r.Value)
		seen[r.Value] = true
	}
}

// While nobody accepts a record, its client goes on trying. When that takes too long the operation's outcome is unknown, and rightly
// so: here the record is appended after all.
func TestARecordThatTakesTooLongIsUnknown(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	refused := 0
	cluster.intercept(func(_ int32, m replica.Message) replica.Body {
		if _, ok := m.Body.(*replica.Produce); ok && refused >= 0 {
			refused++
			return &replica.ProduceAnswer{Error: replica.NotEnoughReplicas, Base: -1, Refused: true}
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	sink := &until{end: cancel, enough: func(e *history.Event) bool {
		if e.Kind == history.Info && e.Op.Error == "timeout" {
			cluster.mu.Lock()
			assert.Greater(t, refused, 1, "it was tried more than once")
			refused = -1
			cluster.mu.Unlock()
		}
		return e.Kind == history.OK && len(e.Op.Records) > 0
	}}
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 4, Timeout: clientLeast}
	_, err := RunIdempotent(ctx, c, cluster, sink)
	require.NoError(t, err)
	got := verify(t, sink.Events())
	assert.Equal(t, 1, got.errors["timeout"])
	assert.True(t, got.retired[0])
	assert.Equal(t, got.produced[0], []string{"a0"})
	assert.Equal(t, "a0", got.values["orders-0"][0])
}

// A broker that was restarted elsewhere is found by its new address, and by way of the dialer.
func TestOrdinaryClientsFindBrokersByWhatTheyAdvertise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var port atomic.Int32
		port.Store(9092)
		var dialed []int32
		d := &scripted{brokers: []int32{1},
			dial: func(_ context.Context, node int32) error { dialed = append(dialed, node); return nil },
			serve: metadataFrom(func(int32) *kmsg.MetadataResponse {
				m := metadata(told{7, 0, []int32{7}})
				b := kmsg.NewMetadataResponseBroker()
				b.NodeID, b.Host, b.Port = 7, "broker-7.example", port.Load()
				m.Brokers = append(m.Brokers, b)
				return m
			}, nil)}
		cl := clientOf(t, t.Context(), d)
		f := newFinder(t.Context(), cl.config, cl.routes)
		defer f.client.close()
		dial := func(address string) error {
			nc, err := f.dial(t.Context(), "tcp", address)
			if err == nil {
				err = nc.Close()
			}
			return err
		}
		require.NoError(t, dial("broker-7.example:9092"))
		port.Store(19092)
		require.NoError(t, dial("broker-7.example:19092"))
		require.NoError(t, dial("broker-7.example:9092"), "those that a broker does not tell of may be there all the same")
		assert.Equal(t, []int32{1, 7, 7, 7}, dialed, "broker 1 tells, broker 7 is connected to")
		assert.ErrorContains(t, dial("elsewhere.example:9092"), "no broker advertises elsewhere.example:9092")
	})
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

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/node/replica"
)

// until is a sink that ends a run when it has enough events. It shows them one at a time, in order.
type until struct {
	history.Memory
	enough func(e *history.Event) bool
	end    func()

	mu sync.Mutex
}

func (u *until) Append(e *history.Event) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.Memory.Append(e)
	if u.enough(e) {
		u.end()
	}
	return err
}

// runUntil runs a workload until n events are recorded.
func runUntil(t *testing.T, c Config, d Dialer, n int64) (*Stats, *verified) {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	sink := &until{enough: func(e *history.Event) bool { return e.Seq >= n }, end: cancel}
	stats, err := Run(ctx, c, d, sink)
	require.NoError(t, err)
	require.GreaterOrEqual(t, int64(len(sink.Events())), n, "the run came to an end too early")
	return stats, verify(t, sink.Events())
}

func TestARunAsksAndRecords(t *testing.T) {
	cluster := newTestCluster(t, 3, orders(2), history.Topic{Name: "payments", Partitions: 1})
	c := Config{Topics: []history.Topic{orders(2), {Name: "payments", Partitions: 1}}, Clients: 4, Seed: 1, BatchShare: 0.2, ValueSize: 20}
	stats, got := runUntil(t, c, cluster, 4000)

	assert.Greater(t, got.ok[history.Produce], 500)
	assert.Greater(t, got.ok[history.Fetch], 500)
	assert.Greater(t, got.ok[history.End], 50)
	assert.Empty(t, keysBut(got.errors, "canceled"))
	assert.LessOrEqual(t, got.errors["canceled"], 4, "only what was broken off when the run was stopped")
	assert.Equal(t, []string{"a0", "a1", "a2"}, got.produced[0][:3], "values have no padding")
	for _, name := range []string{"orders-0", "orders-1", "payments-0"} {
		assert.Greater(t, got.known(name), 100)
	}

	totals := stats.Totals()
	assert.EqualValues(t, got.ok[history.Produce], totals.Acked)
	assert.EqualValues(t, got.ok[history.Fetch], totals.Reads+totals.EmptyReads)
	assert.Greater(t, totals.Reads, totals.EmptyReads)
	assert.EqualValues(t, got.ok[history.End], totals.Ends)
	assert.Greater(t, totals.Values, totals.Acked, "there are batches")
	assert.Zero(t, totals.LeaderChanges)
	require.NotEmpty(t, stats.Seconds())
	assert.Equal(t, totals, stats.Seconds()[len(stats.Seconds())-1].Totals)
}

func TestFetchesGoToFollowersNowAndThen(t *testing.T) {
	cluster := newTestCluster(t, 3, orders(1))
	nodes := map[bool]map[int32]int{false: {}, true: {}}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	sink := &until{end: cancel, enough: func(e *history.Event) bool {
		if e.Kind == history.Invoke {
			nodes[e.Op.Type == history.Fetch][e.Op.Node]++
		}
		return e.Seq >= 4000
	}}
	_, err := Run(ctx, Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 3}, cluster, sink)
	require.NoError(t, err)
	got := verify(t, sink.Events())
	assert.Empty(t, keysBut(got.errors, "canceled"), "a follower serves them")
	fetches := nodes[true][1] + nodes[true][2] + nodes[true][3]
	assert.InDelta(t, 0.1, float64(nodes[true][2]+nodes[true][3])/float64(fetches), 0.04)
	assert.Positive(t, nodes[true][2])
	assert.Positive(t, nodes[true][3])
	assert.Len(t, nodes[false], 1, "all else goes to the leader")
}

func TestClientsFollowTheLeader(t *testing.T) {
	cluster := newTestCluster(t, 3, orders(1))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	acked := map[int32]int{}
	open := map[int64]int32{}
	sink := &until{end: cancel, enough: func(e *history.Event) bool {
		switch {
		case e.Op.Type != history.Produce:
		case e.Kind == history.Invoke:
			open[e.Process] = e.Op.Node
		case e.Kind == history.OK:
			acked[open[e.Process]]++
			if node := open[e.Process]; acked[node] == 100 {
				go cluster.lead("orders", 0, node%3+1) // not while the sink is locked, nor the cluster by an answer
			}
		}
		return acked[1] >= 200 && acked[2] >= 100 && acked[3] >= 100
	}}
	// Each leader is followed by the next one after 100 appends: 1, 2, 3, 1.
	stats, err := Run(ctx, Config{Topics: []history.Topic{orders(1)}, Clients: 5, Seed: 4}, cluster, sink)
	require.NoError(t, err)
	require.GreaterOrEqual(t, acked[1], 200, "%v", acked)
	got := verify(t, sink.Events())
	assert.EqualValues(t, 3, stats.Totals().LeaderChanges)
	assert.Positive(t, got.errors["NOT_LEADER_OR_FOLLOWER, refused before append"], "an append that the broker marks as refused has failed")
	assert.Empty(t, keysBut(got.errors, "NOT_LEADER_OR_FOLLOWER, refused before append", "NOT_LEADER_OR_FOLLOWER", "canceled"))
}

func keysBut(m map[string]int, known ...string) []string {
	var out []string
	for k := range m {
		if !slices.Contains(known, k) {
			out = append(out, k)
		}
	}
	return out
}

func TestAnUnknownOutcomeRetiresItsProcess(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	n := 0
	cluster.intercept(func(_ int32, m replica.Message) replica.Body {
		if _, ok := m.Body.(*replica.Produce); ok {
			if n++; n%10 == 0 {
				return &replica.ProduceAnswer{Error: replica.RequestTimedOut, Base: -1}
			}
		}
		return nil
	})
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 3, Seed: 5, FirstProcess: 100}
	stats, got := runUntil(t, c, cluster, 2000)
	require.Greater(t, len(got.retired), 20)
	assert.Positive(t, got.errors["REQUEST_TIMED_OUT"])
	highest := int64(0)
	for process := range got.processes {
		assert.GreaterOrEqual(t, process, int64(100))
		highest = max(highest, process)
		if client := (process - 100) % 3; process >= 103 {
			assert.True(t, got.retired[process-3], "client %d goes on as process %d only after its process before", client, process)
		}
	}
	assert.GreaterOrEqual(t, stats.NextProcess(), highest+1)
	assert.LessOrEqual(t, stats.NextProcess(), highest+1+3, "only processes that took over at the very end were not used")
}

// Whatever the others do, and however fast, a process asks what its seed says.
func TestWhatAProcessAppendsDoesNotDependOnOthers(t *testing.T) {
	produced := func(clients int) []string {
		cluster := newTestCluster(t, 1, orders(4))
		var lines []string
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		sink := &until{end: cancel, enough: func(e *history.Event) bool {
			if e.Process == 0 && e.Kind == history.Invoke && len(lines) < 300 {
				line := fmt.Sprintf("%s %s", e.Op.Type, e.Op.Partition)
				if e.Op.Type == history.Produce {
					line += " " + strings.Join(e.Op.Values, ",")
				}
				lines = append(lines, line)
			}
			return len(lines) == 300
		}}
		_, err := Run(ctx, Config{Topics: []history.Topic{orders(4)}, Clients: clients, Seed: 6, BatchShare: 0.3}, cluster, sink)
		require.NoError(t, err)
		return lines
	}
	assert.Equal(t, produced(1), produced(7))
}

func TestAcksZeroLeavesOpenWhatHappened(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	stats, got := runUntil(t, Config{Topics: []history.Topic{orders(1)}, Clients: 2, Seed: 7, Acks: "0"}, cluster, 1000)
	assert.Positive(t, got.ok[history.Produce])
	assert.Zero(t, stats.Totals().Acked)
	assert.GreaterOrEqual(t, stats.Totals().Unknown, int64(got.ok[history.Produce]))
	assert.Greater(t, got.known("orders-0"), 100, "what was sent can be read")
}

var errDiskFull = errors.New("no space left on device")

// full is a sink that fails from some event on.
type full struct {
	history.Memory
	at int64
}

func (f *full) Append(e *history.Event) error {
	if int64(len(f.Events())) >= f.at {
		return errDiskFull
	}
	return f.Memory.Append(e)
}

func TestARunEndsWhenItCannotBeRecorded(t *testing.T) {
	cluster := newTestCluster(t, 1, orders(1))
	sink := &full{at: 500}
	stats, err := Run(t.Context(), Config{Topics: []history.Topic{orders(1)}, Clients: 3, Seed: 8}, cluster, sink)
	assert.ErrorIs(t, err, errDiskFull)
	assert.Positive(t, stats.Totals().Operations())
	assert.Len(t, sink.Events(), 500)
}

func TestARunEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		d := &scripted{brokers: []int32{1}, serve: metadataFrom(
			func(int32) *kmsg.MetadataResponse { return metadata(told{1, 0, []int32{1}}) },
			func(p *peer, r *request) {
				time.Sleep(400 * time.Millisecond)
				answered++
				p.answer(r, r.respond(1, nil)) // an error, since the scripted log does not grow
			})}
		sink := &history.Memory{}
		start := time.Now()
		stats, err := Run(t.Context(), Config{Topics: []history.Topic{orders(1)}, Clients: 1, Mix: Mix{Fetch: 1}, Time: 3 * time.Second}, d, sink)
		require.NoError(t, err)
		assert.Equal(t, 3200*time.Millisecond, time.Since(start), "what runs when the time is over is finished")
		assert.Equal(t, 8, answered)
		verify(t, sink.Events())
		assert.Len(t, stats.Seconds(), 4)
		assert.Equal(t, 2*time.Second, stats.Seconds()[1].At)
		assert.EqualValues(t, 8, stats.Seconds()[3].Totals.Failed)
	})
}

func TestARunThatIsStoppedBeforeItBeginsEndsToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var sink history.Memory
	stats, err := Run(ctx, Config{Topics: []history.Topic{orders(1)}, Clients: 2}, &scripted{brokers: []int32{1}}, &sink)
	assert.NoError(t, err)
	assert.Zero(t, stats.Totals().Operations())
	assert.Empty(t, sink.Events())
}

func TestARunNeedsItsTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			d    *scripted
			want string
		}{
			{"nobody is there", &scripted{brokers: []int32{1, 2}, dial: func(context.Context, int32) error { return errRefused }}, "broker 2"},
			{"a partition is missing", &scripted{brokers: []int32{1}, serve: metadataFrom(
				func(int32) *kmsg.MetadataResponse { return metadata(told{1, 0, []int32{1}}) }, nil)}, "no broker knows orders-1"},
			{"the broker is too new", &scripted{brokers: []int32{1}, serve: func(p *peer) { p.greet(offers{3: {10, 13}}) }},
				"no common version of Metadata: the broker offers 10-13, known here are 1-9"},
		} {
			start := time.Now()
			_, err := Run(t.Context(), Config{Topics: []history.Topic{orders(2)}, Clients: 1}, tc.d, &history.Memory{})
			assert.ErrorIs(t, err, ErrNotReady, tc.name)
			assert.ErrorContains(t, err, tc.want)
			assert.GreaterOrEqual(t, time.Since(start), readyTimeout, "the cluster gets time to start")
		}
	})
}

func TestARunBeginsWhenThereAreLeaders(t *testing.T) {
	for _, tc := range []struct {
		name    string
		elected time.Duration
		begins  time.Duration
		failed  bool
	}{
		{"a leader is elected soon", time.Second, 1100 * time.Millisecond, false},
		{"none is elected for long", time.Minute, readyTimeout, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				d := &scripted{brokers: []int32{1}, serve: metadataFrom(
					func(int32) *kmsg.MetadataResponse {
						if time.Since(start) < tc.elected {
							return metadata(told{nobody, 0, []int32{1}})
						}
						return metadata(told{1, 1, []int32{1}})
					},
					func(p *peer, r *request) {
						time.Sleep(time.Millisecond)
						p.answer(r, r.respond(0, nil))
					})}
				sink := &history.Memory{Clock: history.Since(start)}
				stats, err := Run(t.Context(), Config{Topics: []history.Topic{orders(1)}, Clients: 1, Mix: Mix{End: 1}, Time: time.Second}, d, sink)
				require.NoError(t, err)
				first := time.Duration(sink.Events()[0].Time)
				assert.InDelta(t, tc.begins, first, float64(lastPause))
				assert.Equal(t, tc.failed, stats.Totals().Failed > 0)
			})
		})
	}
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	good := Config{Topics: []history.Topic{orders(1)}, Clients: 1}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no topic", func(c *Config) { c.Topics = nil }, "topics is none"},
		{"a topic without a name", func(c *Config) { c.Topics = []history.Topic{{Partitions: 1}} }, "needs a name"},
		{"a topic twice", func(c *Config) { c.Topics = append(c.Topics, orders(2)) }, "named twice"},
		{"a topic without partitions", func(c *Config) { c.Topics = []history.Topic{orders(0)} }, "partitions of topic orders is 0"},
		{"no clients", func(c *Config) { c.Clients = 0 }, "clients is 0"},
		{"a negative rate", func(c *Config) { c.Rate = -1 }, "rate is -1"},
		{"a rate that never comes to an operation", func(c *Config) { c.Rate = 1e-9 }, "rate is 1e-09"},
		{"a negative time", func(c *Config) { c.Time = -time.Second }, "time is -1s"},
		{"other acks", func(c *Config) { c.Acks = "2" }, `acks is "2"`},
		{"a negative weight", func(c *Config) { c.Mix = Mix{Produce: -1, Fetch: 2} }, "weights"},
		{"too many follower reads", func(c *Config) { c.FollowerReads = 1.1 }, "follower reads is 1.1"},
		{"too many batches", func(c *Config) { c.BatchShare = 2 }, "batch share is 2"},
		{"batches of one", func(c *Config) { c.BatchValues = 1 }, "batch values is 1"},
		{"values that no broker takes", func(c *Config) { c.ValueSize = 2 << 20 }, "value size is 2097152"},
		{"negative fetch bytes", func(c *Config) { c.FetchBytes = -1 }, "fetch bytes is -1"},
		{"a negative timeout", func(c *Config) { c.Timeout = -1 }, "timeout is -1ns"},
		{"a produce timeout of less than a millisecond", func(c *Config) { c.ProduceTimeout = 1 }, "produce timeout is 1ns"},
		{"a negative process", func(c *Config) { c.FirstProcess = -1 }, "first process is -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good
			tc.change(&c)
			stats, err := Run(t.Context(), c, &scripted{}, &history.Memory{})
			assert.ErrorIs(t, err, ErrConfig)
			assert.ErrorContains(t, err, tc.want)
			assert.NotNil(t, stats)
		})
	}
	for _, tc := range []struct {
		config Config
		want   string
	}{
		{Config{Acks: "1"}, `acks is "1": idempotence needs "all"`},
		{Config{Timeout: 50 * time.Millisecond}, "timeout is 50ms"},
		{Config{ProduceTimeout: 50 * time.Millisecond}, "produce timeout is 50ms"},
		{Config{Acks: "2"}, `acks is "2"`},
	} {
		tc.config.Topics, tc.config.Clients = good.Topics, 1
		_, err := RunIdempotent(t.Context(), tc.config, &scripted{}, &history.Memory{})
		assert.ErrorIs(t, err, ErrConfig)
		assert.ErrorContains(t, err, tc.want)
	}
}

func TestARateIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		start := time.Now()
		d := &scripted{brokers: []int32{1}, serve: metadataFrom(
			func(int32) *kmsg.MetadataResponse { return metadata(told{1, 0, []int32{1}}) },
			func(p *peer, r *request) {
				mu.Lock()
				at = append(at, time.Since(start))
				slow := len(at) == 10
				mu.Unlock()
				if slow {
					time.Sleep(time.Second)
				}
				p.answer(r, r.respond(0, nil))
			})}
		c := Config{Topics: []history.Topic{orders(1)}, Clients: 2, Rate: 20, Mix: Mix{End: 1}, Time: 4 * time.Second}
		_, err := Run(t.Context(), c, d, &history.Memory{})
		require.NoError(t, err)
		for i := range at[:10] {
			assert.Equal(t, time.Duration(i)*50*time.Millisecond, at[i], "clients take turns, evenly")
		}
		assert.InDelta(t, 70, len(at), 2, "what a slow answer delayed is not made up for")
	})
}

func TestPausesGrowWithFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pause
		var took []time.Duration
		for range 7 {
			start := time.Now()
			p.longer(t.Context())
			took = append(took, time.Since(start))
		}
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms}, took)
		p.reset()
		start := time.Now()
		p.longer(t.Context())
		assert.Equal(t, firstPause, time.Since(start))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		p.longer(ctx)
		assert.Zero(t, time.Since(start), "nobody waits when all is over")
	})
}

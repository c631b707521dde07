package workload

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
)

// metadataFrom serves questions about who leads, and whatever else as f says.
func metadataFrom(tell func(node int32) *kmsg.MetadataResponse, f func(p *peer, r *request)) func(*peer) {
	return func(p *peer) {
		if !p.greet(nil) {
			return
		}
		for r := p.next(); r != nil; r = p.next() {
			if _, ok := r.Request.(*kmsg.MetadataRequest); ok {
				p.answer(r, tell(p.node))
			} else {
				f(p, r)
			}
		}
	}
}

func workerOf(cl *client, sink history.Sink) *worker {
	w := &worker{Actor: newActor(cl.config, cl.routes, sink, 0, time.Now()), client: cl}
	w.client.become(w.record.process)
	return w
}

// What sends a client to look for the leader, and what does not: leadership is where the cluster says it is after the attempt.
func TestWhenClientsLookForTheLeader(t *testing.T) {
	answer := func(code int16) func(p *peer, r *request) {
		return func(p *peer, r *request) { p.answer(r, r.respond(code, nil)) }
	}
	for _, tc := range []struct {
		name     string
		serve    func(p *peer, r *request)
		follower bool
		looks    bool
	}{
		{name: "OK", serve: answer(0)},
		{name: "OFFSET_OUT_OF_RANGE", serve: answer(1)},
		{name: "UNKNOWN_TOPIC_OR_PARTITION", serve: answer(3), looks: true},
		{name: "LEADER_NOT_AVAILABLE", serve: answer(5), looks: true},
		{name: "NOT_LEADER_OR_FOLLOWER", serve: answer(6), looks: true},
		{name: "REQUEST_TIMED_OUT", serve: answer(7)},
		{name: "NOT_ENOUGH_REPLICAS", serve: answer(19)},
		{name: "KAFKA_STORAGE_ERROR", serve: answer(56), looks: true},
		{name: "FENCED_LEADER_EPOCH", serve: answer(74), looks: true},
		{name: "UNKNOWN_LEADER_EPOCH", serve: answer(75), looks: true},
		{name: "OFFSET_NOT_AVAILABLE", serve: answer(78)},
		{name: "a timeout", serve: func(p *peer, _ *request) { p.stuck() }, looks: true},
		{name: "a lost connection", serve: func(p *peer, _ *request) { p.Close() }, looks: true},
		{name: "NOT_LEADER_OR_FOLLOWER of a replica that need not lead", serve: answer(6), follower: true},
	} {
		for _, op := range []Operation{
			{Type: history.Produce, Values: []string{"a0"}}, {Type: history.Fetch}, {Type: history.End},
		} {
			if op.Follower = tc.follower; tc.follower && op.Type != history.Fetch {
				continue
			}
			t.Run(fmt.Sprintf("%s, %s", tc.name, op.Type), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var leader atomic.Int32
					leader.Store(1)
					tell := func(int32) *kmsg.MetadataResponse { return metadata(told{leader.Load(), leader.Load(), []int32{1, 2}}) }
					cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1, 2}, over: t.Context().Done(),
						serve: metadataFrom(tell, tc.serve)})
					defer cl.close()
					require.NoError(t, cl.routes.refresh(cl, cl.routes.now.Load()))
					leader.Store(2)
					require.NoError(t, workerOf(cl, &history.Memory{}).attempt(&op))
					want := int32(1)
					if tc.looks {
						want = 2
					}
					assert.Equal(t, want, cl.routes.node(&Operation{Type: history.End}))
					assert.Equal(t, int64(want-1), cl.config.Stats.Totals().LeaderChanges)
				})
			})
		}
	}
}

func TestOfManyClientsThatLookForTheLeaderOneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		d := &scripted{brokers: []int32{1}, serve: metadataFrom(func(int32) *kmsg.MetadataResponse {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return metadata(told{1, 0, []int32{1}})
		}, nil)}
		first := clientOf(t, t.Context(), d)
		defer first.close()
		seen := first.routes.now.Load()
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				cl := newClient(t.Context(), first.config, first.routes)
				cl.become(1)
				defer cl.close()
				assert.NoError(t, cl.routes.refresh(cl, seen))
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, asked.Load())
	})
}

func TestWhoHasNotHeardOfTheElectionIsNotBelieved(t *testing.T) {
	r := newRoutes(&scripted{}, Config{Topics: []history.Topic{orders(2)}}.partitions(), &Stats{})
	leaders := func() []int32 {
		return []int32{r.node(&Operation{Partition: 0, Type: history.End}), r.node(&Operation{Partition: 1, Type: history.End})}
	}
	missing, _ := r.missing()
	assert.Equal(t, []string{"orders-0", "orders-1"}, missing)
	both := []int32{1, 2}
	for _, step := range []struct {
		name    string
		told    []told
		leaders []int32
		changes int64
	}{
		{"the first word counts", []told{{1, 5, both}, {2, 5, both}}, []int32{1, 2}, 0},
		{"a newer epoch counts", []told{{2, 6, both}, {2, 5, both}}, []int32{2, 2}, 1},
		{"an older one does not, partition by partition", []told{{1, 5, both}, {1, 7, both}}, []int32{2, 1}, 2},
		{"nobody leads for a while", []told{{nobody, 7, both}, {1, 7, both}}, []int32{nobody, 1}, 2},
		{"the same leader again is no change", []told{{2, 8, both}, {1, 8, both}}, []int32{2, 1}, 2},
		{"another one after a while without is", []told{{nobody, 9, both}, {1, 8, both}}, []int32{nobody, 1}, 2},
		{"as told by a broker without epochs", []told{{1, -1, both}, {1, -1, both}}, []int32{1, 1}, 3},
	} {
		r.learn(metadata(step.told...))
		assert.Equal(t, step.leaders, leaders(), step.name)
		assert.Equal(t, step.changes, r.stats.leaderChanges.Load(), step.name)
	}
	missing, leaderless := r.missing()
	assert.Empty(t, missing)
	assert.Zero(t, leaderless)
}

func TestBrokersAreAskedInTurnAndTheSilentOnesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []int32
		d := &scripted{brokers: []int32{1, 2, 3}, over: t.Context().Done(), serve: func(p *peer) {
			p.greet(nil)
			for r := p.next(); r != nil; r = p.next() {
				mu.Lock()
				asked = append(asked, p.node)
				mu.Unlock()
				if p.node == 2 {
					p.stuck()
					return
				}
				p.answer(r, metadata(told{1, 0, []int32{1}}))
			}
		}}
		cl := clientOf(t, t.Context(), d)
		defer cl.close()
		start := time.Now()
		for range 6 {
			require.NoError(t, cl.routes.refresh(cl, cl.routes.now.Load()))
		}
		assert.Equal(t, []int32{1, 2, 3, 1, 3, 1, 3}, asked, "broker 2 is asked once, and left alone when it does not answer")
		assert.Equal(t, askTimeout, time.Since(start))
	})
}

func TestThatNobodyTellsWhoLeadsIsSaidForEachBroker(t *testing.T) {
	d := &scripted{brokers: []int32{1, 2}, dial: func(context.Context, int32) error { return errRefused }}
	cl := clientOf(t, t.Context(), d)
	err := cl.routes.refresh(cl, cl.routes.now.Load())
	assert.ErrorIs(t, err, errNoBroker)
	assert.ErrorIs(t, err, errRefused)
	assert.ErrorContains(t, err, "broker 1")
	assert.ErrorContains(t, err, "broker 2")
}

func TestFetchesFromFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoutes(&scripted{brokers: []int32{1, 2, 3}}, Config{Topics: []history.Topic{orders(1)}}.partitions(), &Stats{})
		at := func(pick uint64) int32 { return r.node(&Operation{Type: history.Fetch, Follower: true, Pick: pick}) }

		r.learn(metadata(told{1, 0, []int32{1}}))
		assert.EqualValues(t, 1, at(7), "a partition without followers is read from its leader")
		r.learn(metadata(told{2, 0, []int32{1, 2, 3}}))
		assert.Equal(t, []int32{1, 3, 1}, []int32{at(0), at(1), at(2)}, "the pick chooses")
		r.learn(metadata(told{nobody, 1, []int32{1, 2, 3}}))
		assert.Equal(t, []int32{1, 2, 3}, []int32{at(0), at(1), at(2)}, "without a leader anybody will do")
		r.learn(metadata(told{2, 1, []int32{1, 2, 3}}))

		r.silent(3)
		assert.Equal(t, []int32{1, 1, 1, 1}, []int32{at(0), at(1), at(2), at(3)}, "who is silent is left alone")
		r.silent(1)
		assert.EqualValues(t, 2, at(0), "if all are silent the leader is read")
		time.Sleep(quiet)
		assert.EqualValues(t, 3, at(1), "after a while it is tried again,")
		assert.EqualValues(t, 1, at(1), "by one client only")
		assert.EqualValues(t, 2, at(1))
		r.heard(3)
		assert.EqualValues(t, 3, at(1), "who answers is believed at once")
	})
}

// An idle connection that its broker closed is replaced, so that no outcome is unknown for it.
func TestAConnectionThatWasClosedWhileIdleIsReplaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conns := make(chan *peer, 2)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: nc}
			conns <- p
			go func() {
				p.greet(nil)
				for r := p.next(); r != nil; r = p.next() {
					p.answer(r, r.respond(0, nil))
				}
			}()
		}
	}()
	cl := clientOf(t, t.Context(), dialTo(l.Addr().String()))
	defer cl.close()
	op := &Operation{Type: history.Produce, Values: []string{"a0"}}
	a, _ := cl.do(op, 1)
	require.Equal(t, ok, a.Kind, a.Error)

	require.NoError(t, (<-conns).Close())
	old := cl.conns[1]
	if old.probe == nil {
		t.Skip("idle connections cannot be looked at on this system")
	}
	require.NoError(t, old.nc.SetDeadline(time.Time{}))
	require.Eventually(t, old.probe.gone, soon, time.Millisecond, "the close arrives")
	a, _ = cl.do(op, 1)
	assert.Equal(t, ok, a.Kind, a.Error)
	assert.NotSame(t, old, cl.conns[1])
	require.NoError(t, (<-conns).Close())
}

// dialTo connects to an address whatever the broker.
type dialTo string

func (d dialTo) Brokers() []int32 { return []int32{1} }

func (d dialTo) Dial(ctx context.Context, _ int32) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", string(d))
}

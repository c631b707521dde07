package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/checker/history"
	"tidemark/nemesis"
	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/workload"
)

// origin is virtual time 0 as a time.
var origin = time.Unix(0, 0)

func (k *Cluster) time() time.Time { return origin.Add(time.Duration(k.clock.now)) }

func virtually(t time.Time) int64 { return int64(t.Sub(origin)) }

// polled is how many events happen between two looks at the context.
const polled = 1 << 10

// until lets time pass until a condition holds. The condition may change only by what happens.
func (k *Cluster) until(ctx context.Context, done func() bool) error {
	for n := 0; !done(); n++ {
		switch {
		case k.failed != nil:
			return k.failed
		case n%polled == polled-1 && ctx.Err() != nil:
			return context.Cause(ctx)
		case k.queue.empty():
			return errors.New("nothing happens any more")
		}
		k.happen()
	}
	return k.failed
}

// Pass lets virtual time pass.
func (k *Cluster) Pass(ctx context.Context, d time.Duration) error {
	end := k.clock.now + int64(d)
	if err := k.until(ctx, func() bool { return k.queue.empty() || k.queue.next() > end }); err != nil {
		return err
	}
	k.clock.now = end
	return nil
}

// WaitFor lets time pass until a condition holds, at most until the limit, and asks after it every so often. The error is the
// condition's last one, or the simulation's own.
func (k *Cluster) WaitFor(ctx context.Context, limit, every time.Duration, condition func(context.Context) error) error {
	for end := k.clock.now + int64(limit); ; {
		err := condition(ctx)
		if err == nil || k.clock.now >= end {
			return err
		}
		if err := k.Pass(ctx, min(every, time.Duration(end-k.clock.now))); err != nil {
			return err
		}
	}
}

// Workload is what [Cluster.Work] lets happen.
type Workload struct {
	workload.Config
	// Plan is played from the beginning of the workload on.
	Plan nemesis.Plan
	// Played is called with what was done of it, at the end.
	Played func(nemesis.Plan)
	// Told is called with each step of the plan before it is done, Second at each second of virtual time.
	Told   func(nemesis.Step)
	Second func(since time.Duration)
}

// looksEvery is how often a step that waits for a state or a role looks whether it is there.
const looksEvery = time.Millisecond

// Work lets clients work while a plan of faults is played. It ends when both have ended; what the plan left open is over then, but
// brokers that are down stay down. Operations and faults go into the sink.
func (k *Cluster) Work(ctx context.Context, w Workload, sink history.Sink) error {
	if err := k.hire(w.Config, sink); err != nil {
		return err
	}
	if err := k.ready(ctx); err != nil {
		return err
	}
	start := k.clock.now
	k.crew.Start()
	for c := range k.reader() {
		k.running++
		k.queue.push(max(k.clock.now, virtually(k.crew.Due(c))), event{what: wakes, client: int32(c)})
	}
	player := nemesis.NewPlayer(k, sink)
	player.InOrder, player.Watch, player.Told = true, k.options.Nodes, w.Told
	steps := len(w.Plan)
	for _, s := range w.Plan {
		var act func()
		act = func() {
			if k.failed == nil && !player.Ready(s) && k.clock.now+int64(looksEvery) < start+int64(s.Until()) {
				k.queue.push(k.clock.now+int64(looksEvery), event{what: acts, act: act})
				return
			}
			steps--
			if k.failed == nil {
				s.At = time.Duration(k.clock.now - start)
				k.note(player.Play(ctx, s))
			}
		}
		k.queue.push(start+int64(s.At), event{what: acts, act: act})
	}
	k.everySecond(start, w.Second)
	err := k.until(ctx, func() bool { return k.running == 0 && steps == 0 })
	if w.Played != nil {
		w.Played(player.Played())
	}
	k.crew.Second(time.Duration(k.clock.now - start))
	return errors.Join(err, player.Close(context.WithoutCancel(ctx)))
}

// everySecond counts the seconds of a workload as long as it runs.
func (k *Cluster) everySecond(start int64, told func(time.Duration)) {
	crew := k.crew
	k.queue.push(k.clock.now+int64(time.Second), event{what: acts, act: func() {
		if k.running == 0 || k.crew != crew {
			return
		}
		since := time.Duration(k.clock.now - start)
		crew.Second(since)
		if told != nil {
			told(since)
		}
		k.everySecond(start, told)
	}})
}

// hire makes the clients of a workload.
func (k *Cluster) hire(c workload.Config, sink history.Sink) error {
	crew, err := workload.NewCrew(c, k.Brokers(), sink, k.time)
	if err != nil {
		return err
	}
	k.makeClients(crew)
	return nil
}

// readyWithin is how long the brokers may take until one knows every partition's leader.
const readyWithin = 10 * time.Second

// ready waits until clients can find every partition's leader.
func (k *Cluster) ready(ctx context.Context) error {
	r := reads{k, ctx}
	for end := k.clock.now + int64(readyWithin); ; {
		r.Refresh()
		switch {
		case k.failed != nil:
			return k.failed
		case k.crew.Ready():
			return nil
		case k.clock.now > end:
			return fmt.Errorf("%w: no broker knows the leader of every partition after %s", workload.ErrNotReady, readyWithin)
		}
		if err := r.Sleep(k.crew.AskTimeout() / 50); err != nil {
			return err
		}
	}
}

// FinalReads reads every partition from its leader, as workload.FinalReads does.
func (k *Cluster) FinalReads(ctx context.Context, sink history.Sink) error {
	if k.crew == nil {
		return errors.New("final reads: there was no workload")
	}
	k.finally = true
	err := k.crew.FinalReads(reads{k, ctx}, sink)
	k.finally = false
	return errors.Join(err, k.failed)
}

// Dump reads one replica up to its log end, as workload.Dump does.
func (k *Cluster) Dump(ctx context.Context, n int32, topic string, index int32) (*history.Replica, error) {
	if k.crew == nil {
		return nil, errors.New("dump: there was no workload")
	}
	d, err := k.crew.Dump(reads{k, ctx}, n, topic, index)
	return d, errors.Join(err, k.failed)
}

// reads are the last client's: each lets time pass until it is answered.
type reads struct {
	k   *Cluster
	ctx context.Context
}

var _ workload.Reads = reads{}

// debugging is the replica id of Kafka's debugging consumer.
const debugging = -2

// ask makes one request and waits for what comes of it.
func (r reads) ask(node int32, place int, body replica.Body) result {
	k := r.k
	to, ok := k.place[control.NodeID(node)]
	if !ok {
		return result{why: workload.WhyNoLeader}
	}
	k.read = result{}
	k.call(k.reader(), to, k.parts[place], body, k.crew.Config().Timeout)
	if err := k.until(r.ctx, func() bool { return k.callers[k.reader()].number == 0 }); err != nil {
		k.callers[k.reader()].number = 0
		return result{why: workload.WhyTimeout, sent: true}
	}
	return k.read
}

// Fetch is what workload.Reads says.
func (r reads) Fetch(reader int32, place int, from int64, node int32, most int32) workload.Answer {
	got := r.ask(node, place, &replica.Fetch{Offset: from, LeaderEpoch: replica.NoEpoch, LastEpoch: replica.NoEpoch,
		BrokerEpoch: replica.NoBrokerEpoch, MaxBytes: most, FromFollower: true, Debug: reader == debugging})
	if b, ok := got.body.(*replica.FetchAnswer); ok {
		a, _ := r.k.fetched(b, from)
		return a
	}
	return workload.Unanswered(got.sent, got.why)
}

// List is what workload.Reads says.
func (r reads) List(_ int32, timestamp int64, place int, node int32) workload.Answer {
	got := r.ask(node, place, &replica.ListOffsets{LeaderEpoch: replica.NoEpoch, Timestamp: timestamp})
	if b, ok := got.body.(*replica.ListOffsetsAnswer); ok {
		a, _ := listed(b)
		return a
	}
	return workload.Unanswered(got.sent, got.why)
}

// Refresh is what workload.Reads says.
func (r reads) Refresh() {
	k := r.k
	k.callers[k.reader()].seen = k.crew.Seen()
	k.read = result{}
	k.refresh(k.reader())
	// An error comes back with the next request.
	_ = k.until(r.ctx, func() bool { return k.read.why != "" })
}

// Sleep is what workload.Reads says.
func (r reads) Sleep(d time.Duration) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return r.k.Pass(r.ctx, d)
}

// Now is what workload.Reads says.
func (r reads) Now() time.Time { return r.k.time() }

// AtRest says what keeps the cluster from rest, "" if nothing does: every partition has its leader and its whole ISR, and each of its
// replicas has its high watermark at its log's end, which is the leader's.
func (k *Cluster) AtRest() string {
	c := &k.servers[k.controllers()]
	if !c.up {
		return "the controller is down"
	}
	for _, v := range c.ruler.Views() {
		if v.Leader == replica.None || len(v.ISR) < len(v.Replicas) {
			return fmt.Sprintf("%s has leader %s and ISR %v", v.Partition, v.Leader, v.ISR)
		}
		end := int64(-1)
		for _, id := range append([]replica.ID{v.Leader}, v.Replicas...) {
			s := &k.servers[k.place[control.NodeID(id)]]
			if !s.up {
				return fmt.Sprintf("broker %s is down", id)
			}
			r, _ := s.broker.View(v.Partition)
			if end < 0 {
				end = r.LEO
			}
			if r.Role == replica.RoleOffline || r.HW != r.LEO || r.LEO != end {
				return fmt.Sprintf("broker %s is %s, high watermark %d of %d, leader at %d", id, r.Role, r.HW, r.LEO, end)
			}
		}
		if !slices.Contains(v.ISR, v.Leader) {
			return fmt.Sprintf("leader %s is not in the ISR", v.Leader)
		}
	}
	return ""
}

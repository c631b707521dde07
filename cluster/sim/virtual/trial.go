package virtual

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/workload"
)

// Trial is a short run for those who want very many: a few clients, some dozens of operations, a few faults. Everything about time is that
// of a real run divided by a hundred, so that elections and time-outs have room in it.
type Trial struct {
	Rules rules.Set
	Seed  uint64
	// Faults that are drawn from; none: the network's hiccups only.
	Faults []nemesis.Fault
	// Brokers is how many there are, 0: 3, and Clients how many at a time, 0: 4.
	Brokers, Clients int
	Acks             string  // "": all
	MinISR           int     // 0: 2
	BatchShare       float64 // of the produces that append several values
	// Network is how messages travel; the zero value is [DefaultNetwork] four times as fast, with ten times as many hiccups.
	Network Network
	// Nodes has the history tell also what the nodes reported.
	Nodes bool
	// Traced is that of [Options].
	Traced func(number int64, trace uint64)
}

// Tried is what a trial came to.
type Tried struct {
	Header history.Header
	Events []history.Event
	// Facts are the truth of each partition.
	Facts  []Fact
	Counts Counts
	Trace  uint64
	// Rested says whether the cluster came to rest at the end; Why says what kept it from that.
	Rested bool
	Why    string
}

// Check judges the history as anybody would who has nothing else.
func (t *Tried) Check(ctx context.Context, o checker.Options) (*checker.Result, error) {
	return checker.Check(ctx, checker.Events(t.Header, t.Events), o)
}

// How long a trial is, and how it is scaled.
const (
	scale     = 100
	denser    = 2 // faults come and go faster than that
	trialTime = 4 * time.Second / scale
	trialRate = 1000 // operations a second of all clients together
	restTime  = 20 * time.Second / scale
)

// scaled are settings with all times divided by n.
func scaled(s node.Settings, n time.Duration) node.Settings {
	for _, d := range []*time.Duration{&s.SessionTimeout, &s.HeartbeatInterval, &s.LagMax, &s.FetchWait, &s.RequestTimeout, &s.Backoff,
		&s.CheckpointInterval, &s.FlushInterval} {
		*d /= n
	}
	return s
}

// trialNetwork is the default of trials.
func trialNetwork() Network {
	n := DefaultNetwork()
	n.Delay, n.Jitter, n.Late = n.Delay/4, n.Jitter/4, n.Late/4
	n.Reorder, n.Duplicate, n.Lose = 10*n.Reorder, 10*n.Duplicate, 10*n.Lose
	return n
}

func (t Trial) withDefaults() Trial {
	if t.Brokers == 0 {
		t.Brokers = 3
	}
	if t.Clients == 0 {
		t.Clients = 4
	}
	if t.MinISR == 0 {
		t.MinISR = min(2, t.Brokers)
	}
	if t.Network == (Network{}) {
		t.Network = trialNetwork()
	}
	return t
}

// Plan is what the trial does to its cluster.
func (t Trial) Plan() nemesis.Plan {
	t = t.withDefaults()
	plan := nemesis.Random(t.Seed, t.Faults, t.brokers(), trialTime*scale*denser)
	for i := range plan {
		plan[i].At /= scale * denser
		plan[i].Cut.Keep /= 4 // a flush interval has fewer operations here
	}
	return plan
}

func (t Trial) brokers() []control.NodeID {
	ids := make([]control.NodeID, t.Brokers)
	for i := range ids {
		ids[i] = control.NodeID(i + 1)
	}
	return ids
}

// ledger is a history in memory without locks.
type ledger struct {
	clock  *Clock
	events []history.Event
}

// Append is what a history.Sink has.
func (l *ledger) Append(e *history.Event) error {
	e.Time, e.Seq = l.clock.now, int64(len(l.events))+1
	l.events = append(l.events, *e)
	return nil
}

// Run makes the trial: create, work under faults, heal, rest, read.
func (t Trial) Run(ctx context.Context) (*Tried, error) {
	t = t.withDefaults()
	ids := t.brokers()
	clock := &Clock{}
	sink := &ledger{clock: clock, events: make([]history.Event, 0, 160)}
	o := Options{Seed: t.Seed, Network: t.Network, Clock: clock, Truth: true, Traced: t.Traced}
	if t.Nodes {
		o.Sink = sink
	}
	settings := scaled(node.Defaults(), scale)
	settings.MinISR, settings.HeartbeatInterval = t.MinISR, settings.SessionTimeout/3
	topic := node.Topic{Name: "orders", Partitions: [][]control.NodeID{ids}}
	k, err := Open(cluster.Config{Brokers: ids, Topics: []node.Topic{topic}, Rules: t.Rules, Settings: settings}, o)
	if err != nil {
		return nil, err
	}
	rest := func(context.Context) error {
		if why := k.AtRest(); why != "" {
			return errors.New(why)
		}
		return nil
	}
	if err := k.WaitFor(ctx, restTime, restTime/100, rest); err != nil {
		return nil, fmt.Errorf("the cluster did not come up: %w", err)
	}
	r := &Tried{Header: history.Header{Contract: history.Contract{Acks: t.Acks, MinISR: t.MinISR},
		Topics: []history.Topic{{Name: topic.Name, Partitions: 1, Replicas: t.Brokers}}}}
	work := workload.Config{Topics: r.Header.Topics, Clients: t.Clients, Rate: trialRate, Time: trialTime, Acks: t.Acks, Seed: t.Seed,
		BatchShare: t.BatchShare, Timeout: 2 * time.Second / scale, ProduceTimeout: time.Second / scale}
	if err := k.Work(ctx, Workload{Config: work, Plan: t.Plan()}, sink); err != nil {
		return nil, err
	}
	if err := nemesis.HealInOrder(ctx, k); err != nil {
		return nil, err
	}
	if err := k.WaitFor(ctx, restTime, restTime/100, rest); err != nil {
		r.Why = err.Error()
	}
	r.Rested = r.Why == ""
	if err := k.FinalReads(ctx, sink); err != nil && !errors.Is(err, workload.ErrIncomplete) {
		return nil, err
	}
	for part := range k.truth.Partitions() {
		r.Facts = append(r.Facts, k.Judge(part))
	}
	r.Events, r.Counts, r.Trace = sink.events, k.counts, k.trace
	return r, nil
}

package tidemark

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/sim/virtual"
	"tidemark/nemesis"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/workload"
)

// theatre is a cluster together with the time in which a run on it takes place: real nodes in real time, or simulated ones in
// virtual time. The phases of a run are the same on both.
type theatre interface {
	Brokers() []int32
	Control(ctx context.Context, n cluster.NodeID, c control.Command) (control.Reply, error)
	Close(ctx context.Context) error

	// waitFor is cluster.WaitFor.
	waitFor(ctx context.Context, limit time.Duration, condition func(context.Context) error) error
	// disturb lets clients work while the run's faults come and go, and heals.
	disturb(ctx context.Context, r *run, w workload.Config, sink *history.Writer) error
	// finalReads is workload.FinalReads, and dump is workload.Dump.
	finalReads(ctx context.Context, w workload.Config, sink history.Sink) error
	dump(ctx context.Context, w workload.Config, n int32, topic string, index int32) (*history.Replica, error)
}

// opened opens a theatre. What its nodes report goes into the sink and is shown to the nemesis.
type opened = func(ctx context.Context, c RunConfig, k cluster.Config, sink history.Sink, nodes *nemesis.Watch) (theatre, error)

// real is a cluster of processes or containers.
type real struct {
	cluster.Cluster
	pump    sync.WaitGroup // of the nodes' events into the sink
	pumpErr error
}

func openReal(ctx context.Context, c RunConfig, k cluster.Config, sink history.Sink, watch *nemesis.Watch) (theatre, error) {
	nodes, err := openCluster(ctx, c.On, k)
	if err != nil {
		return nil, err
	}
	t := &real{Cluster: nodes}
	t.pump.Go(func() { t.pumpErr = copyEvents(nodes.Events(), sink, watch) })
	return t, nil
}

// Close is that of the cluster; all that its nodes have reported is in the sink then.
func (t *real) Close(ctx context.Context) error {
	err := t.Cluster.Close(ctx)
	t.pump.Wait()
	return errors.Join(err, t.pumpErr)
}

// copyEvents records what the nodes report until the cluster is closed, and shows it to the nemesis.
func copyEvents(events <-chan control.Event, sink history.Sink, nodes *nemesis.Watch) error {
	var failed error
	for e := range events {
		if failed == nil { // read on, so that no node waits
			failed = sink.Append(&history.Event{Kind: history.KindNode, Node: schedule.NodeEvent(e)})
		}
		nodes.See(e)
	}
	return failed
}

func (t *real) waitFor(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	return cluster.WaitFor(ctx, limit, condition)
}

func (t *real) disturb(ctx context.Context, r *run, w workload.Config, sink *history.Writer) error {
	began := time.Now()
	r.begins(func() time.Duration { return time.Since(began) })
	stop := r.watch(ctx, sink)
	defer stop()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	faults := make(chan error, 1)
	go func() {
		err := r.faults(running, t.Cluster, sink)
		if err != nil {
			cancel() // without its faults the run is worth nothing
		}
		faults <- err
	}()
	_, err := workload.Run(running, w, t, sink)
	r.lasted = time.Since(began)
	if err != nil {
		cancel() // nor without its clients
	}
	// The last step is due before the workload ends. That a plan was broken off is known here.
	if failed := <-faults; failed != nil && (running.Err() == nil || !errors.Is(failed, running.Err())) {
		err = errors.Join(err, failed)
	}
	if err == nil {
		err = ctx.Err()
	}
	limit := closedWithin
	if r.config.Foreign != nil {
		limit = foreignHealsWithin // its brokers may take long to start
	}
	healing, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer done()
	return errors.Join(err, nemesis.Heal(healing, t.Cluster))
}

func (t *real) finalReads(ctx context.Context, w workload.Config, sink history.Sink) error {
	process := int64(0)
	if w.Stats != nil {
		process = w.Stats.NextProcess()
	}
	return workload.FinalReads(ctx, w, t, sink, process)
}

func (t *real) dump(ctx context.Context, w workload.Config, n int32, topic string, index int32) (*history.Replica, error) {
	return workload.Dump(ctx, w, t, n, topic, index)
}

// simulated is a cluster in virtual time.
type simulated struct{ *virtual.Cluster }

// settledEvery is how often a simulation looks whether what it waits for has happened.
const settledEvery = 20 * time.Millisecond

// simulate gives the clock of a simulation, and what opens it. Its nodes write into the sink themselves.
func simulate() (history.Clock, opened) {
	clock := &virtual.Clock{}
	return clock.Now, func(_ context.Context, c RunConfig, k cluster.Config, sink history.Sink, nodes *nemesis.Watch) (theatre, error) {
		v, err := virtual.Open(k, virtual.Options{Seed: c.Seed, Network: c.Network, Clock: clock, Sink: sink, Nodes: nodes})
		if err != nil {
			return nil, err
		}
		return simulated{v}, nil
	}
}

func networkOr(n virtual.Network) virtual.Network {
	if n == (virtual.Network{}) {
		return virtual.DefaultNetwork()
	}
	return n
}

func (t simulated) waitFor(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	return t.WaitFor(ctx, limit, settledEvery, condition)
}

func (t simulated) disturb(ctx context.Context, r *run, w workload.Config, sink *history.Writer) error {
	began := t.Now()
	r.begins(func() time.Duration { return t.Now() - began })
	var played nemesis.Plan
	err := t.Work(ctx, virtual.Workload{Config: w, Plan: r.config.Plan, Played: func(p nemesis.Plan) { played = p },
		Told: func(s nemesis.Step) {
			r.struck(s)
			r.tell("running")
		},
		Second: func(time.Duration) {
			_ = sink.Flush() // an error of the file comes back with the next append
			r.tell("running")
		}}, sink)
	r.lasted = t.Now() - began
	return errors.Join(err, r.keepPlayed(played), nemesis.HealInOrder(context.WithoutCancel(ctx), t.Cluster))
}

func (t simulated) finalReads(ctx context.Context, _ workload.Config, sink history.Sink) error {
	return t.FinalReads(ctx, sink)
}

func (t simulated) dump(ctx context.Context, _ workload.Config, n int32, topic string, index int32) (*history.Replica, error) {
	return t.Dump(ctx, n, topic, index)
}

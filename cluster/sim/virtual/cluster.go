package virtual

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/replica"
)

// Clock is virtual time in nanoseconds since the simulation began. A history's clock is its method Now.
type Clock struct{ now int64 }

// Now is the time.
func (c *Clock) Now() int64 { return c.now }

// Options are what a simulation needs beside a cluster's configuration.
type Options struct {
	// Seed decides everything that a real run leaves to chance: how long messages take, which of them are lost.
	Seed uint64
	// Network is how messages travel; the zero value is [DefaultNetwork].
	Network Network
	// Clock is moved by the cluster; nil: one of its own. Give one to stamp a history with.
	Clock *Clock
	// Sink gets the events of the nodes as they happen, if it is not nil.
	Sink history.Sink
	// Nodes is shown the events of the nodes, for a plan of faults by roles or states, if it is not nil.
	Nodes *nemesis.Watch
	// Truth keeps what only a simulation knows, for [Cluster.Truth]. It costs memory for every answer that a client gets.
	Truth bool
	// Traced is called after each event of the simulation with its number and the trace until then, if it is not nil: where two
	// simulations part is the first number at which their traces differ.
	Traced func(number int64, trace uint64)
}

// Cluster is a cluster in virtual time. It has the methods of a cluster.Cluster that faults and a look at it need, and phases of a run
// in place of connections: [Cluster.WaitFor], [Cluster.Work], [Cluster.FinalReads], [Cluster.Dump]. Nothing happens outside of them.
// It is not safe for concurrent use.
type Cluster struct {
	config  cluster.Config
	options Options
	clock   *Clock
	queue   queue
	wires   wires
	servers []server // brokers as configured, then the controller
	place   map[control.NodeID]int
	parts   []replica.Partition
	ruled   controller.Config
	clients
	out    []replica.Message
	counts Counts
	trace  uint64
	truth  *Truth
	failed error // of the sink or of a core: the simulation cannot go on
}

// Counts say how much happened.
type Counts struct {
	Events     int64 // of the simulation: messages that arrived, timers that fired
	Messages   int64 // sent
	Duplicates int64
	Reordered  int64
	Lost       int64 // over which a connection broke
	Held       int64 // by links that were cut
}

// Open starts a cluster at time 0: every process is up, and nothing has happened yet.
func Open(c cluster.Config, o Options) (*Cluster, error) {
	switch {
	case c.Hold:
		return nil, errors.New("a cluster in virtual time moves by itself: take cluster/sim's stage for one that does not")
	case len(c.Brokers) == 0:
		return nil, errors.New("brokers: none; at least one is needed")
	}
	if o.Network == (Network{}) {
		o.Network = DefaultNetwork()
	}
	if err := o.Network.Check(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = &Clock{}
	}
	k := &Cluster{config: c, options: o, clock: o.Clock, place: map[control.NodeID]int{}, trace: scramble(o.Seed)}
	for _, t := range c.Topics {
		for i := range t.Partitions {
			k.parts = append(k.parts, replica.Partition{Topic: t.Name, Index: int32(i)})
		}
	}
	if o.Truth {
		k.truth = newTruth(len(k.parts))
	}
	n := len(c.Brokers)
	k.wires = newWires(o.Network, o.Seed, n+2, len(k.parts))
	k.servers = make([]server, n+1)
	for i, id := range c.Brokers {
		k.place[id] = i
		k.servers[i].id = id
	}
	k.place[control.Controller] = n
	k.servers[n].id = control.Controller
	k.rule()
	if err := k.bootController(nil); err != nil {
		return nil, err
	}
	for i := range n {
		if _, err := k.bootBroker(i); err != nil {
			return nil, err
		}
	}
	return k, k.failed
}

// rule makes the controller's configuration.
func (k *Cluster) rule() {
	s := k.config.Settings
	k.ruled = controller.Config{Rules: k.config.Rules, Unclean: s.Unclean, SessionTimeout: replica.Time(s.SessionTimeout),
		PushInterval: replica.Time(s.RequestTimeout / 2)}
	for _, n := range k.config.Brokers {
		k.ruled.Brokers = append(k.ruled.Brokers, replica.ID(n))
	}
	for _, t := range k.config.Topics {
		for i, replicas := range t.Partitions {
			topic := controller.Topic{Partition: replica.Partition{Topic: t.Name, Index: int32(i)}, MinISR: s.MinISR}
			for _, n := range replicas {
				topic.Replicas = append(topic.Replicas, replica.ID(n))
			}
			k.ruled.Topics = append(k.ruled.Topics, topic)
		}
	}
}

// controllers is the controller's place, and clientsEnd that of all clients in the network.
func (k *Cluster) controllers() int { return len(k.servers) - 1 }
func (k *Cluster) clientsEnd() int  { return len(k.servers) }

// Now is how long the simulation has lasted.
func (k *Cluster) Now() time.Duration { return time.Duration(k.clock.now) }

// Counts say how much happened until now.
func (k *Cluster) Counts() Counts { return k.counts }

// Trace is a hash over everything that happened until now, each event chained to those before: two simulations with equal traces were
// the same, event by event.
func (k *Cluster) Trace() uint64 { return k.trace }

// Truth is what the simulation knows, nil if it was not to keep it.
func (k *Cluster) Truth() *Truth { return k.truth }

// Brokers lists the brokers' ids in order.
func (k *Cluster) Brokers() []int32 {
	ids := make([]int32, len(k.config.Brokers))
	for i, n := range k.config.Brokers {
		ids[i] = int32(n)
	}
	return ids
}

// at is a node's place.
func (k *Cluster) at(n control.NodeID) (int, error) {
	i, ok := k.place[n]
	if !ok {
		return 0, fmt.Errorf("there is no node %s", n)
	}
	return i, nil
}

// Start starts a node that is down, with what it finds on its disk; one that is up is left alone.
func (k *Cluster) Start(_ context.Context, n control.NodeID) ([]control.Event, error) {
	i, err := k.at(n)
	if err != nil || k.servers[i].up {
		return nil, err
	}
	if i == k.controllers() {
		return nil, k.bootController(k.servers[i].snapshot)
	}
	return k.bootBroker(i)
}

// Stop ends a node's process. For cluster.Power, cut says what survives of each log at the next start.
func (k *Cluster) Stop(_ context.Context, n control.NodeID, how cluster.How, cut map[string]schedule.Cut) (cluster.Evidence, error) {
	i, err := k.at(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	s := &k.servers[i]
	if how == cluster.Power && i != k.controllers() {
		s.powerFailed, s.cut = true, cut
	}
	if !s.up {
		return cluster.Measured("process", "already down"), nil
	}
	if how == cluster.Clean && s.broker != nil {
		if err := s.broker.Stop(); err != nil {
			return cluster.Evidence{}, err
		}
	}
	if err := k.end(i); err != nil {
		return cluster.Evidence{}, err
	}
	return cluster.Measured("process ended", string(how)), nil
}

// Pause freezes a node's process or lets it go on.
func (k *Cluster) Pause(_ context.Context, n control.NodeID, on bool) (cluster.Evidence, error) {
	i, err := k.at(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	s := &k.servers[i]
	switch {
	case !s.up && on:
		return cluster.Evidence{}, fmt.Errorf("%s is down: it cannot be paused", n)
	case !s.up || s.paused == on:
		return cluster.Evidence{Proven: true}, nil
	}
	s.paused = on
	if !on {
		k.resume(i)
	}
	return cluster.Measured("process", map[bool]string{true: "frozen", false: "goes on"}[on]), k.failed
}

// Links replaces all faults of the network; none heals. What comes to a cut link waits until it opens, as in the buffers of
// connections that stay open. The evidence is of the links that were cut until now.
func (k *Cluster) Links(_ context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	w := &k.wires
	next := make([]bool, len(w.cut))
	for _, l := range cut {
		if l.Kind != cluster.Drop {
			return cluster.Evidence{}, fmt.Errorf("link %s: a simulation cuts links and does nothing else to them: %w", l, cluster.ErrUnsupported)
		}
		from, err := k.endOf(l.From)
		if err != nil {
			return cluster.Evidence{}, err
		}
		to, err := k.endOf(l.To)
		if err != nil {
			return cluster.Evidence{}, err
		}
		next[w.way(from, to)] = true
	}
	e := cluster.Evidence{Proven: true}
	for from := range w.ends {
		for to := range w.ends {
			way := w.way(from, to)
			if w.cut[way] {
				e.Measured = append(e.Measured, history.Measurement{
					Name: fmt.Sprintf("messages held from %s to %s", k.endName(from), k.endName(to)), Value: fmt.Sprint(w.heldCount[way])})
			}
		}
	}
	if len(e.Measured) > 0 {
		e.Proven = false
		for way, was := range w.cut {
			e.Proven = e.Proven || was && w.heldCount[way] > 0
		}
	}
	for way, was := range w.cut {
		w.cut[way] = next[way]
		switch {
		case !was:
			w.heldCount[way] = 0
		case !next[way]:
			held := w.held[way]
			w.held[way], w.heldCount[way] = nil, 0
			for _, x := range held {
				k.travel(way/w.ends, way%w.ends, x)
			}
		}
	}
	return e, nil
}

func (k *Cluster) endOf(n control.NodeID) (int, error) {
	if n == cluster.ClientsID {
		return k.clientsEnd(), nil
	}
	return k.at(n)
}

func (k *Cluster) endName(end int) string {
	if end == k.clientsEnd() {
		return "clients"
	}
	return k.servers[end].id.String()
}

// Control gives a node a command: to look at it, to fence a broker, to transfer leadership.
func (k *Cluster) Control(_ context.Context, n control.NodeID, c control.Command) (control.Reply, error) {
	i, err := k.at(n)
	if err != nil {
		return control.Reply{}, err
	}
	s := &k.servers[i]
	switch {
	case !s.up:
		return control.Reply{}, fmt.Errorf("%s is down", n)
	case s.paused:
		return control.Reply{}, fmt.Errorf("%s is paused", n)
	case c.Do == control.Disk:
		return control.Reply{}, fmt.Errorf("%s: its disk does not break: %w", n, cluster.ErrUnsupported)
	case c.Do != control.Look && c.Do != control.Fence && c.Do != control.Transfer:
		return control.Reply{Error: fmt.Sprintf("%s: the node moves by itself", c.Do)}, nil
	}
	reply, out := s.host.Do(replica.Time(k.clock.now), c)
	for _, e := range reply.Events {
		k.record(e)
	}
	k.leave(i, out)
	k.arm(i)
	return reply, k.failed
}

// record writes down an event of a node.
func (k *Cluster) record(e control.Event) {
	if k.options.Nodes != nil {
		k.options.Nodes.See(e)
	}
	if k.options.Sink == nil || k.failed != nil {
		return
	}
	k.failed = k.options.Sink.Append(&history.Event{Kind: history.KindNode, Node: schedule.NodeEvent(e)})
}

// Close ends the simulation. Nothing is left behind: there are no processes, files or goroutines.
func (k *Cluster) Close(context.Context) error { return nil }

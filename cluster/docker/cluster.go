package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/replica"
)

// Cluster is a cluster of containers. It satisfies cluster.Cluster.
type Cluster struct {
	config  cluster.Config
	pool    *Pool
	owned   bool // the pool goes with the cluster
	number  int  // of the pool's clusters
	ids     []cluster.NodeID
	members map[cluster.NodeID]*member // complete from the start
	links   links

	mu     sync.Mutex
	closed bool
	failed []error // of what was removed beside

	events   chan control.Event
	stopped  chan struct{}  // closed by Close: events are no longer wanted
	outputs  sync.WaitGroup // of nodes
	removals sync.WaitGroup // of dead nodes' containers
}

// member is a node, whether its process runs or not.
type member struct {
	id      cluster.NodeID
	sandbox *sandboxContainer

	mu     sync.Mutex // one change at a time
	life   *life      // nil: down
	starts int32
	cut    map[string]schedule.Cut // of a power failure before the next start; nil: none
	// damaged is what was done to its files since it was stopped.
	damaged []node.DamageKind
}

var _ cluster.Cluster = (*Cluster)(nil)

// Open starts a controller and all brokers, in containers on a network of their own. It returns when every process is
// ready; they find each other by themselves. For several clusters one after the other a [Pool] is quicker.
func Open(ctx context.Context, c cluster.Config) (*Cluster, error) {
	p, err := NewPool(ctx, c.Run, c.Binary)
	if err != nil {
		return nil, err
	}
	k, err := p.Open(ctx, c)
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	k.owned = true
	return k, nil
}

func newCluster(p *Pool, c cluster.Config, number int) *Cluster {
	k := &Cluster{config: c, pool: p, number: number, ids: slices.Clone(c.Brokers), members: map[cluster.NodeID]*member{},
		events: make(chan control.Event, 1024), stopped: make(chan struct{})}
	slices.Sort(k.ids)
	for _, n := range append([]cluster.NodeID{control.Controller}, k.ids...) {
		k.members[n] = &member{id: n}
	}
	return k
}

// open starts the nodes, all at once: a broker that is faster than the controller asks again.
func (k *Cluster) open(ctx context.Context) error {
	for n, m := range k.members {
		m.sandbox = k.pool.sandbox(n)
	}
	return k.each(func(m *member) error {
		_, err := k.Start(ctx, m.id)
		return err
	})
}

// each does something with all nodes at once. The errors are in the order of the nodes.
func (k *Cluster) each(do func(*member) error) error {
	nodes := append([]cluster.NodeID{control.Controller}, k.ids...)
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = do(k.members[n]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Brokers lists the brokers' ids.
func (k *Cluster) Brokers() []int32 {
	ids := make([]int32, len(k.ids))
	for i, n := range k.ids {
		ids[i] = int32(n)
	}
	return ids
}

// Dial connects a client to a broker.
func (k *Cluster) Dial(ctx context.Context, to int32) (net.Conn, error) {
	m := k.members[cluster.NodeID(to)]
	if m == nil || to == int32(control.Controller) {
		return nil, fmt.Errorf("no broker %d", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp4", k.address(m, clientPort))
}

// Bootstrap lists the addresses at which clients on this machine reach the brokers.
func (k *Cluster) Bootstrap() []string {
	addresses := make([]string, len(k.ids))
	for i, n := range k.ids {
		addresses[i] = k.address(k.members[n], clientPort)
	}
	return addresses
}

// address is where this machine reaches a port of a node.
func (k *Cluster) address(m *member, port uint16) string {
	if k.pool.place.direct {
		return inside(m, port)
	}
	return m.sandbox.published[port].String()
}

// inside is where other nodes reach a port of a node.
func inside(m *member, port uint16) string { return netip.AddrPortFrom(m.sandbox.addr, port).String() }

// Events has what the nodes report.
func (k *Cluster) Events() <-chan control.Event { return k.events }

// tell waits until somebody takes the event, or nobody will.
func (k *Cluster) tell(e control.Event, givenUp <-chan struct{}) {
	if k.config.Hold {
		return // a stage has them from the replies
	}
	select {
	case k.events <- e:
	case <-k.stopped:
	case <-givenUp:
	}
}

func (k *Cluster) member(n cluster.NodeID) (*member, error) {
	m := k.members[n]
	if m == nil {
		return nil, fmt.Errorf("no node %s", n)
	}
	return m, nil
}

// Start starts a node that is down, also one that has ended by itself.
func (k *Cluster) Start(ctx context.Context, n cluster.NodeID) ([]control.Event, error) {
	m, err := k.member(n)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil {
		if !m.life.over() {
			return nil, nil
		}
		k.bury(ctx, m)
	}
	k.mu.Lock()
	closed := k.closed
	k.mu.Unlock()
	if closed {
		return nil, errors.New("the cluster is closed")
	}
	m.starts++
	if m.life, err = k.begin(ctx, m); err != nil {
		return nil, fmt.Errorf("starting %s: %w", nodeName(n), err)
	}
	m.cut, m.damaged = nil, nil
	return m.life.ready.Recovered, nil
}

// args is the command line of a node's next life.
func (k *Cluster) args(m *member) []string {
	listen, commands := inside(m, clientPort), inside(m, commandPort)
	if m.id == control.Controller {
		c := node.ControllerConfig{Listen: inside(m, controllerPort), Control: commands, Brokers: k.ids, Peers: k.peers(m), Dir: k.folder(),
			Hold: k.config.Hold, NoJournal: k.config.NoJournal, Rules: k.config.Rules, Topics: k.config.Topics, Settings: k.config.Settings}
		return append([]string{"controller"}, c.Args()...)
	}
	c := node.BrokerConfig{ID: m.id, Listen: listen, Control: commands, Advertise: k.address(m, clientPort),
		Controller: inside(k.members[control.Controller], controllerPort), Peers: k.peers(m), Dir: k.folder(), Hold: k.config.Hold, NoJournal: k.config.NoJournal,
		Rules: k.config.Rules, Topics: k.config.Topics, Settings: k.config.Settings, Start: m.starts, Damaged: m.damaged}
	if m.cut != nil {
		c.PowerCut = map[string]replica.LogCut{}
		for p, cut := range m.cut {
			c.PowerCut[p] = replica.LogCut{Keep: cut.Keep, Torn: cut.Torn}
		}
	}
	return append([]string{"node"}, c.Args(k.ids)...)
}

// peers is where a node reaches brokers: what they advertise is for clients, and the controller needs the address of one that
// it has fenced as well.
func (k *Cluster) peers(m *member) map[control.NodeID]string {
	peers := map[control.NodeID]string{}
	for _, n := range k.ids {
		if n != m.id {
			peers[n] = inside(k.members[n], clientPort)
		}
	}
	return peers
}

// stopWithin is how long a clean shutdown may take before the process is killed.
const stopWithin = 10 * time.Second

// Stop ends a node's process.
func (k *Cluster) Stop(ctx context.Context, n cluster.NodeID, how cluster.How, cut map[string]schedule.Cut) (cluster.Evidence, error) {
	m, err := k.member(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if how == cluster.Power {
		if m.cut = cut; m.cut == nil {
			m.cut = map[string]schedule.Cut{}
		}
	}
	l := m.life
	if l == nil {
		return cluster.Measured("process", "already down"), nil
	}
	var state nodeState
	if how == cluster.Clean {
		state, err = l.stop(ctx, stopWithin)
	} else {
		state, err = l.kill(ctx)
	}
	if err != nil {
		return cluster.Evidence{}, err
	}
	k.bury(ctx, m)
	if how == cluster.Clean && state.ExitCode != 0 {
		return cluster.Evidence{}, fmt.Errorf("stopping %s: it %s: %s", nodeName(n), state, lastLine(node.LogPath(dataDir(k.config.Dir, n))))
	}
	return k.gone(ctx, m, state), nil
}

// bury forgets a node's life that is over and removes its container, which nobody has to wait for.
func (k *Cluster) bury(ctx context.Context, m *member) {
	dead := m.life
	m.life = nil
	dead.hangUp()
	k.removals.Go(func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if err := dead.remove(ctx); err != nil {
			k.mu.Lock()
			k.failed = append(k.failed, err)
			k.mu.Unlock()
		}
	})
}

// refusedWithin bounds how long the address of a dead node may take to refuse a connection.
const refusedWithin = time.Second

// gone measures that a container has ended and, where that proves something, that nobody listens at its address. The
// port is the one for commands, since a cut link swallows connections to the others.
func (k *Cluster) gone(ctx context.Context, m *member, state nodeState) cluster.Evidence {
	e := cluster.Measured("container", state.String())
	e.Proven = !state.Running
	if !k.pool.place.direct {
		return e // the engine's proxy accepts connections for the dead too
	}
	ctx, cancel := context.WithTimeout(ctx, refusedWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", inside(m, commandPort))
	if err == nil {
		_ = conn.Close()
		e.Proven = false
		return e
	}
	e.Measured = append(e.Measured, history.Measurement{Name: "connect to its port", Value: err.Error()})
	return e
}

// Pause freezes a node's process or lets it go on.
func (k *Cluster) Pause(ctx context.Context, n cluster.NodeID, on bool) (cluster.Evidence, error) {
	m, err := k.member(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.over() {
		if on {
			return cluster.Evidence{}, fmt.Errorf("%s is down: it cannot be paused", nodeName(n))
		}
		return cluster.Evidence{Proven: true}, nil
	}
	state, err := m.life.pause(ctx, on)
	if err != nil {
		return cluster.Evidence{}, err
	}
	e := cluster.Measured("container", state.String())
	e.Proven = state.Running && state.Paused == on
	return e, nil
}

// Control gives a node a command.
func (k *Cluster) Control(ctx context.Context, n cluster.NodeID, c control.Command) (control.Reply, error) {
	m, err := k.member(n)
	if err != nil {
		return control.Reply{}, err
	}
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	if l == nil {
		return control.Reply{}, fmt.Errorf("%s is down", nodeName(n))
	}
	reply, err := l.do(ctx, c)
	if err != nil {
		if l.over() {
			err = fmt.Errorf("%w; it %s: %s", err, l.how(ctx), lastLine(node.LogPath(dataDir(k.config.Dir, n))))
		}
		err = fmt.Errorf("%s: %w", nodeName(n), err)
	}
	return reply, err
}

// Close ends and removes every node, and what the cluster does not share with others of its pool. The folder of the run
// stays.
func (k *Cluster) Close(ctx context.Context) error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.closed = true
	k.mu.Unlock()
	close(k.stopped)
	ctx, cancel := cleanup(ctx)
	defer cancel()
	err := k.each(func(m *member) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.life == nil {
			return nil
		}
		l := m.life
		m.life = nil
		l.hangUp()
		return l.remove(ctx)
	})
	k.removals.Wait()
	k.outputs.Wait()
	close(k.events)
	errs := append([]error{err}, k.failed...)
	if k.owned {
		return errors.Join(append(errs, k.pool.Close(ctx))...)
	}
	return errors.Join(append(errs, k.pool.release(ctx))...)
}

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/binary"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/replica"
)

// Cluster is a cluster of child processes. It satisfies cluster.Cluster.
type Cluster struct {
	config cluster.Config
	binary string
	ids    []cluster.NodeID // brokers, sorted
	links  map[cluster.Link]*link
	gates  map[cluster.Link]*gate
	ports  map[cluster.NodeID]string // without links: where each node listens

	nodes map[cluster.NodeID]*member

	mu     sync.Mutex
	faults []cluster.Link // of the network, in force
	closed bool
	close  sync.Once

	events  chan control.Event
	stopped chan struct{} // closed by Close: events are no longer wanted
	readers sync.WaitGroup
}

// member is a node, whether its process runs or not.
type member struct {
	mu     sync.Mutex // one change at a time
	child  *child     // nil: down
	starts int32
	cut    map[string]schedule.Cut // of a power failure before the next start; nil: none
	// damaged is what was done to its files since it was stopped.
	damaged []node.DamageKind
}

var _ cluster.Cluster = (*Cluster)(nil)

// Open starts a controller and all brokers. It returns when every process is ready; they find each other by themselves.
func Open(ctx context.Context, c cluster.Config) (*Cluster, error) {
	path, err := binary.Find(ctx, binary.Options{Path: c.Binary})
	if err != nil {
		return nil, err
	}
	k := &Cluster{config: c, binary: path, ids: slices.Clone(c.Brokers), links: map[cluster.Link]*link{}, gates: map[cluster.Link]*gate{},
		nodes: map[cluster.NodeID]*member{control.Controller: {}}, stopped: make(chan struct{})}
	slices.Sort(k.ids)
	// Nobody reads before Open returns: what every replica reports at its start has to fit.
	k.events = make(chan control.Event, roomForEvents+len(k.ids)*partitions(c.Topics))
	for _, n := range k.ids {
		k.nodes[n] = &member{}
	}
	if err := k.open(ctx); err != nil {
		return nil, errors.Join(err, k.Close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

const roomForEvents = 1024

func partitions(topics []node.Topic) int {
	n := 0
	for _, t := range topics {
		n += len(t.Partitions)
	}
	return n
}

func (k *Cluster) open(ctx context.Context) error {
	if err := k.wire(); err != nil {
		return err
	}
	if _, err := k.Start(ctx, control.Controller); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(k.ids))
	for i, n := range k.ids {
		wg.Go(func() { _, errs[i] = k.Start(ctx, n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// wire makes the links, or without them chooses ports that stay the nodes'.
func (k *Cluster) wire() error {
	if k.config.Direct {
		k.ports = map[cluster.NodeID]string{}
		for n := range k.nodes {
			l, err := net.Listen("tcp", anyPort)
			if err != nil {
				return err
			}
			defer l.Close() // not before all are chosen: a port that is free again is given out again
			k.ports[n] = l.Addr().String()
		}
		return nil
	}
	all := append([]cluster.NodeID{cluster.ClientsID, control.Controller}, k.ids...)
	for _, from := range all {
		for _, to := range all {
			k.gates[cluster.Link{From: from, To: to}] = newGate()
		}
	}
	for _, from := range all {
		for _, to := range all {
			if from == to || to == cluster.ClientsID || from == cluster.ClientsID && to == control.Controller {
				continue
			}
			l, err := newLink(k.gates[cluster.Link{From: from, To: to}], k.gates[cluster.Link{From: to, To: from}])
			if err != nil {
				return err
			}
			k.links[cluster.Link{From: from, To: to}] = l
		}
	}
	return nil
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
	if !slices.Contains(k.ids, cluster.NodeID(to)) {
		return nil, fmt.Errorf("no broker %d", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", k.address(cluster.ClientsID, cluster.NodeID(to)))
}

// address is where from reaches to.
func (k *Cluster) address(from, to cluster.NodeID) string {
	if k.ports != nil {
		return k.ports[to]
	}
	return k.links[cluster.Link{From: from, To: to}].address()
}

// Bootstrap lists the addresses at which clients reach the brokers.
func (k *Cluster) Bootstrap() []string {
	addresses := make([]string, len(k.ids))
	for i, n := range k.ids {
		addresses[i] = k.address(cluster.ClientsID, n)
	}
	return addresses
}

// Events has what the nodes report.
func (k *Cluster) Events() <-chan control.Event { return k.events }

func (k *Cluster) tell(e control.Event) {
	if k.config.Hold {
		return // a stage has them from the replies
	}
	select {
	case k.events <- e:
	case <-k.stopped:
	}
}

func (k *Cluster) member(n cluster.NodeID) (*member, error) {
	m := k.nodes[n]
	if m == nil {
		return nil, fmt.Errorf("no node %s", n)
	}
	return m, nil
}

// Start starts a node that is down.
func (k *Cluster) Start(ctx context.Context, n cluster.NodeID) ([]control.Event, error) {
	m, err := k.member(n)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.child != nil {
		return nil, k.alive(n, m)
	}
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.readers.Add(1)
	}
	k.mu.Unlock()
	if closed {
		return nil, errors.New("the cluster is closed")
	}
	m.starts++
	c, err := startChild(ctx, k.binary, dataDir(k.config.Dir, n), k.args(n, m), k.tell)
	if err != nil {
		k.readers.Done()
		return nil, fmt.Errorf("starting %s: %w", nodeName(n), err)
	}
	go func() {
		<-c.ended
		k.readers.Done()
	}()
	m.child, m.cut, m.damaged = c, nil, nil
	k.lead(n, c.ready.Listen)
	return c.ready.Recovered, nil
}

// lead has the links to a node lead to where it listens; "": nowhere.
func (k *Cluster) lead(n cluster.NodeID, address string) {
	for at, l := range k.links {
		if at.To == n {
			l.leadTo(address)
		}
	}
}

// alive says so if a process that nobody stopped has ended all the same, once: it is down from then on. A node that dies is
// nothing that a run can go on after as if it had been asked for.
func (k *Cluster) alive(n cluster.NodeID, m *member) error {
	if !m.child.hasEnded() {
		return nil
	}
	c := m.child
	m.child = nil
	c.kill()
	k.lead(n, "")
	return fmt.Errorf("%s has ended by itself: %s", nodeName(n), c.lastWords())
}

// anyPort is a port of the system's choice: the nodes, and the links in front of them, are reached on this machine only.
const anyPort = "127.0.0.1:0"

// args is the command line of a node.
func (k *Cluster) args(n cluster.NodeID, m *member) []string {
	peers := map[control.NodeID]string{}
	for _, to := range k.ids {
		if to != n {
			peers[to] = k.address(n, to)
		}
	}
	listen := anyPort
	if k.ports != nil {
		listen = k.ports[n]
	}
	dir := dataDir(k.config.Dir, n)
	if n == control.Controller {
		c := node.ControllerConfig{Listen: listen, Control: anyPort, Brokers: k.ids, Peers: peers, Dir: dir, Hold: k.config.Hold, NoJournal: k.config.NoJournal,
			Rules: k.config.Rules, Topics: k.config.Topics, Settings: k.config.Settings}
		return append([]string{"controller"}, c.Args()...)
	}
	c := node.BrokerConfig{ID: n, Listen: listen, Control: anyPort, Advertise: k.address(cluster.ClientsID, n),
		Controller: k.address(n, control.Controller), Peers: peers, Dir: dir, Hold: k.config.Hold, NoJournal: k.config.NoJournal,
		Rules: k.config.Rules, Topics: k.config.Topics, Settings: k.config.Settings, Start: m.starts, Damaged: m.damaged}
	if m.cut != nil {
		c.PowerCut = map[string]replica.LogCut{}
		for p, cut := range m.cut {
			c.PowerCut[p] = replica.LogCut{Keep: cut.Keep, Torn: cut.Torn}
		}
	}
	return append([]string{"node"}, c.Args(k.ids)...)
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
	c := m.child
	if c == nil {
		return cluster.Measured("process", "already down"), nil
	}
	if err := k.alive(n, m); err != nil {
		return cluster.Evidence{}, err
	}
	m.child = nil
	defer k.lead(n, "")
	if how == cluster.Clean {
		ctx, cancel := context.WithTimeout(ctx, stopWithin)
		defer cancel()
		if err := c.stop(ctx); err != nil {
			return cluster.Evidence{}, fmt.Errorf("stopping %s: %w", nodeName(n), err)
		}
	} else {
		c.kill()
	}
	return gone(ctx, c, how), nil
}

// refusedWithin is how long it may take to be refused by a port of this machine.
const refusedWithin = 2 * time.Second

// gone measures that a process has ended as it was to end, and that nobody listens where it did.
func gone(ctx context.Context, c *child, how cluster.How) cluster.Evidence {
	e := cluster.Measured("process ended", c.cmd.ProcessState.String())
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.ready.Listen)
	answer := "accepted"
	if err == nil {
		_ = conn.Close()
	} else {
		answer = err.Error()
	}
	e.Measured = append(e.Measured, history.Measurement{Name: "connect to its port", Value: answer})
	e.Proven = killed == (how != cluster.Clean) && errors.Is(err, syscall.ECONNREFUSED)
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
	if m.child == nil {
		if on {
			return cluster.Evidence{}, fmt.Errorf("%s is down: it cannot be paused", nodeName(n))
		}
		return cluster.Evidence{Proven: true}, nil
	}
	if err := k.alive(n, m); err != nil {
		return cluster.Evidence{}, err
	}
	return m.child.pause(ctx, on)
}

// Control gives a node a command.
func (k *Cluster) Control(ctx context.Context, n cluster.NodeID, c control.Command) (control.Reply, error) {
	m, err := k.member(n)
	if err != nil {
		return control.Reply{}, err
	}
	m.mu.Lock()
	child := m.child
	m.mu.Unlock()
	if child == nil {
		return control.Reply{}, fmt.Errorf("%s is down", nodeName(n))
	}
	reply, err := child.do(ctx, c)
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() == nil && child.isEnding():
		err = fmt.Errorf("%w; the process has ended: %s", err, child.lastWords())
	}
	return reply, fmt.Errorf("%s: %w", nodeName(n), err)
}

// Close ends every process and every link. The folder of the run stays.
func (k *Cluster) Close(context.Context) error {
	k.close.Do(k.end)
	return nil
}

func (k *Cluster) end() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	close(k.stopped)
	var wg sync.WaitGroup
	for _, m := range k.nodes {
		wg.Go(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.child != nil {
				m.child.kill()
				m.child = nil
			}
		})
	}
	wg.Wait()
	for _, l := range k.links {
		l.close()
	}
	k.readers.Wait()
	close(k.events)
}

package kafka

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/storage/memory"
)

// cluster is real replication cores over disks in memory behind real listeners on loopback: everything that real clients
// need, and no more. The test is its controller.
type cluster struct {
	t       testing.TB
	rules   rules.Set
	topics  []Topic
	brokers []*coreBroker
	pushes  map[replica.ID]*Conn
	acks    chan replica.Message
	version int64
	known   sync.Mutex // guards topics, which clients ask for
}

// coreBroker drives the cores of one broker. One goroutine owns them.
type coreBroker struct {
	Watchers
	*cluster
	self   replica.ID
	server *Server
	listen net.Listener
	in     chan coreMessage
	wg     sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc

	// The loop's own.
	began   time.Time
	cores   map[replica.Partition]*replica.Replica
	order   []replica.Partition
	conns   map[replica.Partition]map[replica.ID]*Conn
	replies map[int32]coreMessage
	tickets int32

	mu        sync.Mutex
	addresses []BrokerAddress
	producers int64
}

type coreMessage struct {
	m     replica.Message
	reply func(replica.Message)
}

// newCluster starts n brokers with a topic "orders" of some partitions on all of them, broker 1 leading every one.
func newCluster(t testing.TB, n int, partitions int32, set rules.Set) *cluster {
	c := &cluster{t: t, rules: set, pushes: map[replica.ID]*Conn{}, acks: make(chan replica.Message, 100)}
	all := make([]replica.ID, n)
	for i := range all {
		all[i] = replica.ID(i + 1)
	}
	topic := Topic{Name: "orders"}
	for i := range partitions {
		topic.Partitions = append(topic.Partitions, PartitionState{Index: i, Leader: 1, Replicas: all, ISR: all})
	}
	c.topics = []Topic{topic}
	for _, id := range all {
		c.brokers = append(c.brokers, c.start(id))
	}
	t.Cleanup(c.close)
	c.lead(1, 0)
	return c
}

func (c *cluster) start(id replica.ID) *coreBroker {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	b := &coreBroker{cluster: c, self: id, listen: l, in: make(chan coreMessage, 1024), began: time.Now(),
		cores: map[replica.Partition]*replica.Replica{}, conns: map[replica.Partition]map[replica.ID]*Conn{}, replies: map[int32]coreMessage{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	disk := memory.New()
	for _, t := range c.topics {
		for _, p := range t.Partitions {
			name := replica.Partition{Topic: t.Name, Index: p.Index}
			log, err := disk.Log(name)
			require.NoError(c.t, err)
			r, err := replica.Open(replica.Config{
				Self: id, Partition: name, Rules: c.rules, MinISR: min(2, len(p.Replicas)),
				FirstNumber: 1, FetchWait: milliseconds(500), Timeout: milliseconds(1000), Backoff: milliseconds(20),
			}, log)
			require.NoError(c.t, err)
			b.cores[name], b.order, b.conns[name] = r, append(b.order, name), map[replica.ID]*Conn{}
		}
	}
	b.server = NewBroker(id, b, Config{Log: discard()})
	b.wg.Go(func() { _ = b.server.Serve(l) })
	b.wg.Go(b.loop)
	c.pushes[id] = NewConn(ConnConfig{
		Self: replica.Controller, Log: discard(), Receive: func(m replica.Message) { c.acks <- m }, Brokers: c.addressesNow,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		},
	})
	return b
}

func (c *cluster) addressesNow() (out []BrokerAddress) {
	for _, b := range c.brokers {
		out = append(out, BrokerAddress{b.self, "127.0.0.1", int32(b.listen.Addr().(*net.TCPAddr).Port)})
	}
	return out
}

func (c *cluster) bootstrap() string { return c.brokers[0].listen.Addr().String() }

// lead makes a broker the leader of every partition and waits until all know it.
func (c *cluster) lead(leader replica.ID, epoch int32) {
	all := c.topics[0].Partitions[0].Replicas
	c.publish(leader, epoch, all)
	c.tell(all...)
}

// publish makes a broker the leader of every partition, in the eyes of clients that ask any broker for metadata.
func (c *cluster) publish(leader replica.ID, epoch int32, isr []replica.ID) {
	c.known.Lock()
	defer c.known.Unlock()
	for i, t := range c.topics {
		c.topics[i].Partitions = slices.Clone(t.Partitions)
		for j := range t.Partitions {
			p := &c.topics[i].Partitions[j]
			p.Leader, p.LeaderEpoch, p.ISR = leader, epoch, isr
		}
	}
}

// tell gives some brokers the controller's word of what was published and waits until they have it.
func (c *cluster) tell(brokers ...replica.ID) {
	c.version++
	sent := 0
	for _, t := range c.topics {
		for _, p := range t.Partitions {
			for _, to := range brokers {
				c.pushes[to].Send(replica.Message{
					From: replica.Controller, To: to, Partition: replica.Partition{Topic: t.Name, Index: p.Index},
					Number: int32(c.version)*1000 + p.Index,
					Body: &replica.LeaderAndIsr{Version: c.version, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.LeaderEpoch,
						Replicas: p.Replicas, ISR: p.ISR, BrokerEpoch: replica.NoBrokerEpoch},
				})
				sent++
			}
		}
	}
	for range sent {
		m := <-c.acks
		require.Equal(c.t, &replica.LeaderAndIsrAnswer{Version: c.version}, m.Body, m.String())
	}
}

func (c *cluster) close() {
	for _, k := range c.pushes {
		_ = k.Close()
	}
	for _, b := range c.brokers {
		b.stop()
		_ = b.server.Close()
		b.wg.Wait()
		for _, peers := range b.conns {
			for _, k := range peers {
				_ = k.Close()
			}
		}
	}
}

func (b *coreBroker) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case m := <-b.in:
			b.handle(m)
		case <-timer.C:
			for _, p := range b.order {
				if b.cores[p].Deadline() <= b.now() {
					b.handle(coreMessage{m: replica.Message{From: b.self, To: b.self, Partition: p, Body: &replica.Tick{}}})
				}
			}
		case <-b.ctx.Done():
			return
		}
		due := replica.Never
		for _, p := range b.order {
			due = min(due, b.cores[p].Deadline())
		}
		if due != replica.Never {
			timer.Reset(time.Duration(max(0, due-b.now())))
		}
	}
}

func (b *coreBroker) now() replica.Time { return replica.Time(time.Since(b.began)) }

func (b *coreBroker) handle(in coreMessage) {
	core := b.cores[in.m.Partition]
	if core == nil {
		answer, _ := replica.Refuse(in.m, replica.UnknownTopicOrPartition)
		in.reply(answer)
		return
	}
	if in.reply != nil {
		// Correlation ids of different connections are the same: the core's answers are told apart by tickets.
		b.tickets++
		b.replies[b.tickets] = in
		in.m.Number = b.tickets
	}
	for _, m := range core.Step(b.now(), in.m, nil) {
		_, event := m.Body.(*replica.Event)
		switch {
		case event:
			b.Changed(m.Partition)
		case strings.HasSuffix(string(m.Body.Kind()), " answer"):
			asked := b.replies[m.Number]
			delete(b.replies, m.Number)
			asked.reply(asked.m.Answer(m.Body))
		case m.To.IsBroker():
			b.conn(m.To, m.Partition).Send(m)
		}
	}
}

func (b *coreBroker) conn(to replica.ID, p replica.Partition) *Conn {
	if b.conns[p][to] == nil {
		b.conns[p][to] = NewConn(ConnConfig{
			Self: b.self, Rules: b.rules, Log: discard(), Timeout: 2 * time.Second,
			Receive: func(m replica.Message) { b.Deliver(m, nil) },
			Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", b.brokers[to-1].listen.Addr().String())
			},
		})
	}
	return b.conns[p][to]
}

func (b *coreBroker) Deliver(m replica.Message, reply func(replica.Message)) {
	select {
	case b.in <- coreMessage{m, reply}:
	case <-b.ctx.Done():
	}
}

func (b *coreBroker) Learn(_ int64, brokers []BrokerAddress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses = brokers
}

func (b *coreBroker) Topology() Topology {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known.Lock()
	defer b.known.Unlock()
	return Topology{Cluster: "test", Brokers: b.addresses, Topics: slices.Clone(b.topics)}
}

func (b *coreBroker) NewProducerID() (int64, int16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.producers++
	return int64(b.self)<<32 + b.producers, 0
}

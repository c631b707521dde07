package workload

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/node/kafka"
	"tidemark/node/replica"
)

// testCluster is brokers that speak Kafka's protocol by way of node/kafka over one log a partition in memory, as if replication
// took no time: what the leader appends is committed, and every broker has it. It never fails unless a test makes it.
type testCluster struct {
	mu        sync.Mutex
	topics    []kafka.Topic
	logs      map[replica.Partition]*testLog
	watchers  kafka.Watchers
	addresses map[int32]*net.TCPAddr
	servers   map[int32]*kafka.Server
	producers int64
	open      atomic.Int64 // connections, as the brokers see them

	// before, if set, may answer a request in the place of the log. It is called under the lock.
	before func(node int32, m replica.Message) replica.Body
	// after, if set, is called under the lock with the answer that the log gave, and may give another.
	after func(node int32, m replica.Message, answer replica.Body) replica.Body
}

// testLog is one partition.
type testLog struct {
	batches []replica.Batch
	state   *kafka.PartitionState
	epochs  []replica.EpochStart
	first   map[[2]int64]int64 // base offset by producer id and sequence number
	start   int64              // offset of the first record kept
}

func (l *testLog) end() int64 {
	if len(l.batches) == 0 {
		return l.start
	}
	return l.batches[len(l.batches)-1].End()
}

func newTestCluster(t testing.TB, brokers int, topics ...history.Topic) *testCluster {
	c := &testCluster{logs: map[replica.Partition]*testLog{}, addresses: map[int32]*net.TCPAddr{},
		servers: map[int32]*kafka.Server{}}
	var ids []replica.ID
	for i := range brokers {
		ids = append(ids, replica.ID(i+1))
	}
	for _, topic := range topics {
		kt := kafka.Topic{Name: topic.Name, Partitions: make([]kafka.PartitionState, topic.Partitions)}
		for i := range kt.Partitions {
			kt.Partitions[i] = kafka.PartitionState{Index: int32(i), Leader: ids[i%brokers], Replicas: ids, ISR: ids}
			c.logs[replica.Partition{Topic: topic.Name, Index: int32(i)}] = &testLog{state: &kt.Partitions[i],
				epochs: []replica.EpochStart{{}}, first: map[[2]int64]int64{}}
		}
		c.topics = append(c.topics, kt)
	}
	var serving sync.WaitGroup
	for _, id := range ids {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := kafka.NewBroker(id, &testBroker{c, id}, kafka.Config{Log: slog.New(slog.DiscardHandler)})
		c.addresses[int32(id)], c.servers[int32(id)] = l.Addr().(*net.TCPAddr), s
		serving.Go(func() { _ = s.Serve(&countingListener{l, &c.open}) })
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			_ = s.Close()
		}
		serving.Wait()
	})
	return c
}

var _ Dialer = (*testCluster)(nil)

func (c *testCluster) Brokers() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]int32, 0, len(c.addresses))
	for id := range c.addresses {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (c *testCluster) Dial(ctx context.Context, node int32) (net.Conn, error) {
	c.mu.Lock()
	address := c.addresses[node]
	c.mu.Unlock()
	if address == nil {
		return nil, errors.New("no such broker")
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
}

// drain waits until the brokers have dealt with everything that clients who are gone had sent.
func (c *testCluster) drain(t testing.TB) {
	require.Eventually(t, func() bool { return c.open.Load() == 0 }, soon, time.Millisecond)
}

// countingListener counts the connections that are open.
type countingListener struct {
	net.Listener
	open *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &countedConn{Conn: nc, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// lead makes a broker the leader of a partition, in a new epoch.
func (c *testCluster) lead(topic string, index, node int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[replica.Partition{Topic: topic, Index: index}]
	l.state.Leader = replica.ID(node)
	l.state.LeaderEpoch++
	l.epochs = append(l.epochs, replica.EpochStart{Epoch: l.state.LeaderEpoch, Start: l.end()})
}

// intercept sets before.
func (c *testCluster) intercept(before func(node int32, m replica.Message) replica.Body) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// dropped is what before gives for a request that gets no answer: the broker ends the connection.
type dropped struct{}

func (dropped) Kind() replica.Kind { return "nothing" }

// testBroker is one broker of the cluster.
type testBroker struct {
	*testCluster
	id replica.ID
}

var _ kafka.Broker = (*testBroker)(nil)

func (b *testBroker) Learn(int64, []kafka.BrokerAddress) {}

func (b *testBroker) NewProducerID() (int64, int16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.producers++
	return b.producers, 0
}

func (b *testBroker) Watch(ps []replica.Partition) (<-chan struct{}, func()) {
	return b.watchers.Watch(ps)
}

func (b *testBroker) Topology() kafka.Topology {
	b.mu.Lock()
	defer b.mu.Unlock()
	top := kafka.Topology{Cluster: "test"}
	for id, a := range b.addresses {
		top.Brokers = append(top.Brokers, kafka.BrokerAddress{ID: replica.ID(id), Host: a.IP.String(), Port: int32(a.Port)})
	}
	slices.SortFunc(top.Brokers, func(a, b kafka.BrokerAddress) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range b.topics {
		top.Topics = append(top.Topics, kafka.Topic{Name: t.Name, Partitions: slices.Clone(t.Partitions)})
	}
	return top
}

func (b *testBroker) Deliver(m replica.Message, reply func(replica.Message)) {
	answer, changed := b.serve(m)
	if _, ok := answer.(dropped); ok {
		answer = nil
	}
	reply(m.Answer(answer))
	if changed {
		b.watchers.Changed(m.Partition)
	}
}

func (b *testBroker) serve(m replica.Message) (answer replica.Body, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.before != nil {
		if answer := b.before(int32(b.id), m); answer != nil {
			return answer, false
		}
	}
	l := b.logs[m.Partition]
	if l == nil {
		refusal, _ := replica.Refuse(m, replica.UnknownTopicOrPartition)
		return refusal.Body, false
	}
	answer, changed = l.serve(m, l.state.Leader == b.id)
	if b.after != nil {
		answer = b.after(int32(b.id), m, answer)
	}
	return answer, changed
}

func (l *testLog) serve(m replica.Message, leads bool) (answer replica.Body, changed bool) {
	refusal, _ := replica.Refuse(m, replica.NotLeaderOrFollower)
	switch body := m.Body.(type) {
	case *replica.Produce:
		if !leads {
			return refusal.Body, false
		}
		return &replica.ProduceAnswer{Base: l.append(body.Batch)}, true
	case *replica.Fetch:
		switch {
		case !leads && !body.FromFollower && !body.Debug:
			return refusal.Body, false
		case body.LeaderEpoch != replica.NoEpoch && body.LeaderEpoch < l.state.LeaderEpoch:
			refusal, _ := replica.Refuse(m, replica.FencedLeaderEpoch)
			return refusal.Body, false
		case body.Offset < l.start || body.Offset > l.end():
			return &replica.FetchAnswer{Error: replica.OffsetOutOfRange, HighWatermark: l.end(), Start: l.start}, false
		}
		return &replica.FetchAnswer{HighWatermark: l.end(), Start: l.start, Batches: l.read(body.Offset, int(body.MaxBytes))}, false
	case *replica.ListOffsets:
		switch {
		case body.Timestamp == replica.LogEndOffset:
			return &replica.ListOffsetsAnswer{Offset: l.end()}, false
		case !leads:
			return refusal.Body, false
		case body.Timestamp == replica.EarliestOffset:
			return &replica.ListOffsetsAnswer{Offset: l.start}, false
		}
		return &replica.ListOffsetsAnswer{Offset: l.end(), LeaderEpoch: l.state.LeaderEpoch}, false
	case *replica.OffsetForLeaderEpoch:
		if !leads {
			return refusal.Body, false
		}
		answer := &replica.OffsetForLeaderEpochAnswer{Epoch: body.Epoch, End: l.end()}
		for _, e := range l.epochs {
			if e.Epoch > body.Epoch {
				answer.End = e.Start
				break
			}
		}
		return answer, false
	}
	return refusal.Body, false
}

// append appends a batch, but not one of an idempotent producer that is there already.
func (l *testLog) append(b replica.Batch) int64 {
	key := [2]int64{b.Producer, int64(b.ProducerEpoch)<<32 | int64(b.Sequence)}
	if base, again := l.first[key]; again && b.Producer != replica.NoProducer {
		return base
	}
	b.Base, b.Epoch = l.end(), l.state.LeaderEpoch
	l.first[key] = b.Base
	l.batches = append(l.batches, b)
	return b.Base
}

func (l *testLog) read(from int64, most int) []replica.Batch {
	i, _ := slices.BinarySearchFunc(l.batches, from, func(b replica.Batch, from int64) int { return cmp.Compare(b.End()-1, from) })
	n, size := i, 0
	for n < len(l.batches) && (n == i || size+len(l.batches[n].Data) <= most) {
		size += len(l.batches[n].Data)
		n++
	}
	return slices.Clone(l.batches[i:n])
}

// orders is the topic of most tests.
func orders(partitions int) history.Topic {
	return history.Topic{Name: "orders", Partitions: partitions, Replicas: 3}
}

// soon bounds the waits of tests for what should come at once.
const soon = 20 * time.Second

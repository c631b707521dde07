package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"tidemark/node/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delivery is a request that reached the stub, and the way back.
type delivery struct {
	m     replica.Message
	reply func(replica.Message)
}

func (d delivery) answer(b replica.Body) { d.reply(d.m.Answer(b)) }

// stub is a node whose cores are the test.
type stub struct {
	Watchers
	delivered chan delivery
	learnt    chan int64
}

func newStub() *stub {
	return &stub{delivered: make(chan delivery, 1000), learnt: make(chan int64, 10)}
}

func (s *stub) Deliver(m replica.Message, reply func(replica.Message)) {
	s.delivered <- delivery{m, reply}
}
func (s *stub) Learn(version int64, _ []BrokerAddress) { s.learnt <- version }
func (s *stub) Topology() Topology                     { return Topology{} }
func (s *stub) NewProducerID() (int64, int16)          { return 1, 0 }
func (s *stub) Topics() []string                       { return []string{"orders"} }

// pipes is a listener whose connections are net.Pipes, which have no buffers and no file descriptors, and which a
// testing/synctest bubble understands.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// logged collects what a server logs, for looking at when the server is closed.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// serving starts a server on pipes. end closes it and waits.
func serving(t testing.TB, make func(c Config) *Server, c Config) (l *pipes, log *logged, end func()) {
	log = &logged{}
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := make(c)
	l = newPipes()
	served := newPromise(func() error { return s.Serve(l) })
	return l, log, func() {
		require.NoError(t, s.Close())
		require.NoError(t, served())
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newPromise(f func() error) func() error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return func() error { return <-ch }
}

// client is Kafka's protocol by hand.
type client struct {
	t  testing.TB
	nc net.Conn
	id string
}

func (c client) send(req kmsg.Request, number int32) {
	_, err := c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.id)).AppendRequest(nil, req, number))
	require.NoError(c.t, err)
}

// receive reads the next response, which must be to a request like req, and returns its number.
func (c client) receive(req kmsg.Request) (int32, kmsg.Response) {
	frame, err := readFrame(c.nc, 1<<30)
	require.NoError(c.t, err)
	resp := req.ResponseKind()
	require.NoError(c.t, parseResponse(frame[4:], resp))
	return int32(binary.BigEndian.Uint32(frame)), resp
}

// closed waits until the server closes the connection without another response.
func (c client) closed() {
	n, err := io.Copy(io.Discard, c.nc)
	require.Zero(c.t, n, "a response where the connection should end")
	if err != nil {
		require.ErrorIs(c.t, err, io.ErrClosedPipe)
	}
}

func produceRequest(acks int16, p replica.Partition, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks = 9, acks
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: p.Topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: p.Index, Records: records}}}}
	return r
}

// fetchRequest asks for partitions 0 and up of orders, from offset 0 on.
func fetchRequest(version int16, replicaID int32, partitions int, minBytes, maxWait int32) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.ReplicaID, r.MinBytes, r.MaxWaitMillis, r.MaxBytes = version, replicaID, minBytes, maxWait, 1<<20
	t := kmsg.FetchRequestTopic{Topic: "orders"}
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = int32(i), 1<<20
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func orderOf(n int32) replica.Partition { return replica.Partition{Topic: "orders", Index: n} }

func numbered(m replica.Message) string {
	return fmt.Sprintf("%s %s#%d", m.From, m.Body.Kind(), m.Number)
}

package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/rules"
)

// ConnConfig is what a [Conn] needs.
type ConnConfig struct {
	Self replica.ID // the sender: a broker, or replica.Controller
	// Rules choose the versions of the requests.
	Rules rules.Set
	// Dial connects to the peer, wherever it is at that moment. It is called when there is something to send and no
	// connection, and must return when its context ends.
	Dial func(context.Context) (net.Conn, error)
	// Receive gets every answer, and for every request that will have none a replica.ConnectionLost in its place. It is
	// called from the Conn's goroutines, never from within Send; it must not block for long nor call Close.
	Receive func(replica.Message)
	// Brokers are the live brokers' addresses, which the controller's LeaderAndIsr carries; nil elsewhere.
	Brokers func() []BrokerAddress
	// Timeout is how long dialling, writing a request and waiting for its answer may take each. After it the connection
	// counts as broken, as with Kafka's request.timeout.ms. 0: no limit for answers and writes, 10 s for dialling.
	Timeout time.Duration
	// MaxAnswer is the largest response in bytes that is accepted. 0: 100 MiB.
	MaxAnswer int
	// MaxInFlight is how many requests may wait for their answers; the oldest is reported as lost when there are more. 0: 64.
	MaxInFlight int
	// Log gets the reasons for which connections end. nil: slog.Default().
	Log *slog.Logger
}

const dialTimeout = 10 * time.Second

// Conn sends one core's requests to one peer. It connects when there is something to send, and again after the connection
// broke, but sends no request twice: cores ask again. Answers may come in any order; they are matched by their number,
// which is the correlation id. A request with the number of one that still waits is that one again: there is one report
// for both.
type Conn struct {
	c        ConnConfig
	versions versions
	ctx      context.Context
	stop     context.CancelFunc
	wake     chan struct{} // something was queued
	wg       sync.WaitGroup

	mu     sync.Mutex
	queue  []replica.Message // not yet sent: only while a dial or a write blocks, which Timeout bounds
	closed bool
}

// NewConn starts a connection's goroutines; it does not connect yet. [Conn.Close] ends them.
func NewConn(c ConnConfig) *Conn {
	if c.MaxAnswer == 0 {
		c.MaxAnswer = 100 << 20
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 64
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	k := &Conn{c: c, versions: versionsOf(c.Rules), wake: make(chan struct{}, 1)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.wg.Go(k.run)
	return k
}

// Send queues a request; it does not block. Its answer, or its loss, goes to Receive. After Close it does nothing.
func (k *Conn) Send(m replica.Message) {
	k.mu.Lock()
	if !k.closed {
		k.queue = append(k.queue, m)
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Close breaks the connection and waits until nothing runs any more. What was queued or waits for an answer is reported
// as lost before it returns.
func (k *Conn) Close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.wg.Wait()
	return nil
}

// run sends what is queued, over one link after the other.
func (k *Conn) run() {
	var l *link
	defer func() {
		if l != nil {
			l.fail(net.ErrClosed)
		}
		k.lost(k.take())
	}()
	for {
		select {
		case <-k.wake:
		case <-k.ctx.Done():
			return
		}
		queued := k.take()
		for i, m := range queued {
			if l == nil || l.dead() {
				var err error
				if l, err = k.connect(); err != nil {
					k.c.Log.Debug("cannot connect", "peer", m.To, "error", err)
					k.lost(append(queued[i:], k.take()...))
					break
				}
			}
			l.send(m)
		}
	}
}

func (k *Conn) take() []replica.Message {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queue
	k.queue = nil
	return q
}

// lost reports requests that get no answer.
func (k *Conn) lost(requests []replica.Message) {
	for _, m := range requests {
		k.c.Receive(m.Answer(&replica.ConnectionLost{Request: m.Body.Kind()}))
	}
}

func (k *Conn) connect() (*link, error) {
	limit := k.c.Timeout
	if limit == 0 {
		limit = dialTimeout
	}
	ctx, cancel := context.WithTimeout(k.ctx, limit)
	defer cancel()
	nc, err := k.c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: k, nc: nc, log: k.c.Log.With("peer", address(nc))}
	stop := context.AfterFunc(k.ctx, func() { _ = nc.Close() })
	k.wg.Go(func() {
		defer stop()
		l.fail(l.read())
	})
	return l, nil
}

// link is one TCP connection of a Conn.
type link struct {
	*Conn
	nc  net.Conn
	log *slog.Logger

	mu      sync.Mutex
	waiting []request // oldest first; whoever takes one out reports it
	broken  bool
}

// request is one that waits for its answer.
type request struct {
	m    replica.Message
	resp kmsg.Response // to read into
	sent time.Time
}

func (l *link) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// send writes one request. The connection is broken when it cannot.
func (l *link) send(m replica.Message) {
	req, err := encodeRequest(m, l.versions, l.c.Brokers)
	if err != nil {
		l.log.Error("a request was not sent", "error", err)
		l.lost([]replica.Message{m})
		return
	}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID(l.c.Self))).AppendRequest(nil, req, m.Number)

	l.mu.Lock()
	if l.broken {
		l.mu.Unlock()
		l.lost([]replica.Message{m})
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w request) bool { return w.m.Number == m.Number })
	l.waiting = append(l.waiting, request{m, req.ResponseKind(), time.Now()})
	var givenUp []replica.Message
	if len(l.waiting) > l.c.MaxInFlight {
		givenUp = append(givenUp, l.waiting[0].m)
		l.waiting = l.waiting[1:]
	}
	l.setDeadline()
	l.mu.Unlock()

	l.lost(givenUp)
	if l.c.Timeout > 0 {
		_ = l.nc.SetWriteDeadline(time.Now().Add(l.c.Timeout))
	}
	if _, err := l.nc.Write(frame); err != nil {
		l.fail(err)
	}
}

// setDeadline is called under mu: the oldest request decides until when something must be read.
func (l *link) setDeadline() {
	if l.c.Timeout == 0 {
		return
	}
	var deadline time.Time
	if len(l.waiting) > 0 {
		deadline = l.waiting[0].sent.Add(l.c.Timeout)
	}
	_ = l.nc.SetReadDeadline(deadline)
}

// read passes on answers until the connection breaks.
func (l *link) read() error {
	r := bufio.NewReaderSize(l.nc, 32<<10)
	for {
		frame, err := readFrame(r, l.c.MaxAnswer)
		if err != nil {
			return err
		}
		if len(frame) < 4 {
			return fmt.Errorf("%w response of %d bytes", errMalformed, len(frame))
		}
		w, ok := l.answered(int32(binary.BigEndian.Uint32(frame)))
		if !ok {
			continue // to a request that was given up
		}
		err = parseResponse(frame[4:], w.resp)
		var body replica.Body
		if err == nil {
			body, err = decodeAnswer(w.resp)
		}
		if err != nil {
			l.lost([]replica.Message{w.m})
			return err
		}
		l.c.Receive(w.m.Answer(body))
	}
}

// answered takes out the request with that number.
func (l *link) answered(number int32) (request, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.waiting, func(w request) bool { return w.m.Number == number })
	if i < 0 {
		return request{}, false
	}
	w := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.setDeadline()
	return w, true
}

// fail breaks the connection and reports what waits for an answer. Only the first call does anything.
func (l *link) fail(reason error) {
	l.mu.Lock()
	if l.broken {
		l.mu.Unlock()
		return
	}
	l.broken = true
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	_ = l.nc.Close()

	level := slog.LevelDebug
	if errors.Is(reason, errMalformed) {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "connection lost", "reason", reason, "waiting", len(waiting))
	for _, w := range waiting {
		l.lost([]replica.Message{w.m})
	}
}

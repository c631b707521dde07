package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// errUnsupported ends a connection over an API or a version that the listener does not offer, as Kafka does.
var errUnsupported = errors.New("unsupported request")

// keepBuffer is the largest response buffer that is kept for the next response.
const keepBuffer = 1 << 20

// connection serves one connection. Its reader starts requests in the order in which they come; its writer finishes those
// of clients in the same order. A broker's or the controller's requests are finished each on its own.
//
// Memory is bounded on both sides of a client that sends and does not read: the reader stops when MaxInFlight requests
// wait, or when what they hold (their own bytes, and the answers that they ask for) reaches the budget.
type connection struct {
	server *Server
	nc     net.Conn
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	budget *semaphore.Weighted
	queue  chan started // for the writer

	writing sync.Mutex // one response at a time
	buffer  []byte     // under writing

	peers []peerRequest  // the reader's: requests of peers that may be open, oldest first
	wg    sync.WaitGroup // the writer and the open requests of peers
	once  sync.Once      // the first reason to end is the one that counts
}

// started is a request that waits for its answer.
type started struct {
	work
	header header
	holds  int64 // of the budget
}

// peerRequest is a peer's request that waits for its answer while its context lives.
type peerRequest struct {
	ctx    context.Context
	giveUp context.CancelFunc
}

func newConnection(s *Server, nc net.Conn) *connection {
	c := &connection{
		server: s, nc: nc,
		log:    s.config.Log.With("peer", address(nc)),
		budget: semaphore.NewWeighted(int64(s.config.MaxRequest + s.config.MaxFetch)),
		queue:  make(chan started, s.config.MaxInFlight),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

func address(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}

// run serves the connection until it ends, and leaves nothing running.
func (c *connection) run() {
	c.wg.Go(c.write)
	c.end(c.read())
	close(c.queue)
	c.wg.Wait()
}

// end closes the connection for a reason. It is logged, unless the other side just went away.
func (c *connection) end(err error) {
	c.once.Do(func() {
		level := slog.LevelWarn
		switch {
		case c.server.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
			errors.Is(err, io.ErrClosedPipe), errors.As(err, new(net.Error)):
			level = slog.LevelDebug
		case errors.Is(err, errNoAnswer):
			level = slog.LevelInfo
		}
		c.log.Log(context.Background(), level, "connection closed", "reason", err)
		c.cancel()
		_ = c.nc.Close()
	})
}

// read reads and starts requests until one ends the connection.
func (c *connection) read() error {
	r := bufio.NewReaderSize(c.nc, 32<<10)
	for {
		s, err := c.next(r)
		if err != nil {
			return err
		}
		if s.peer {
			c.finishPeer(s)
			continue
		}
		select {
		case c.queue <- s:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// next reads and starts one request.
func (c *connection) next(r io.Reader) (started, error) {
	size, err := readSize(r, c.server.config.MaxRequest)
	if err != nil {
		return started{}, err
	}
	if err := c.budget.Acquire(c.ctx, int64(size)); err != nil {
		return started{}, err
	}
	frame, err := readBody(r, size)
	if err != nil {
		return started{}, err
	}
	s := started{holds: int64(size)}
	var rest []byte
	if s.header, rest, err = parseHeader(frame); err != nil {
		return s, err
	}
	h, ok := c.server.handlers[s.header.key]
	switch {
	case ok && s.header.key == apiVersionsKey && s.header.version > h.max:
		// The body is of a version that cannot be read; the answer is of the oldest, and the client asks again (KIP-511).
		s.work = finished(unsupportedAPIVersions())
		return s, nil
	case !ok || s.header.version < h.min || s.header.version > h.max:
		return s, fmt.Errorf("%w: %s (key %d) is not offered here", errUnsupported, s.header, s.header.key)
	}
	req := h.empty()
	req.SetVersion(s.header.version)
	if err := parseBody(s.header, rest, req); err != nil {
		return s, err
	}
	if h.weight != nil {
		weight := int64(h.weight(req))
		if err := c.budget.Acquire(c.ctx, weight); err != nil {
			return s, err
		}
		s.holds += weight
	}
	s.work, err = h.start(s.header, req)
	return s, err
}

// write finishes clients' requests in order.
func (c *connection) write() {
	for s := range c.queue {
		if c.ctx.Err() == nil {
			c.finish(c.ctx, s)
		}
		c.budget.Release(s.holds)
	}
}

// finish waits for the answer to one request and sends it.
func (c *connection) finish(ctx context.Context, s started) {
	resp, err := s.work.finish(ctx)
	if err == nil && resp != nil {
		err = c.respond(s.header, resp)
	}
	switch {
	case err == nil, ctx.Err() != nil, s.peer && errors.Is(err, errNoAnswer):
	default:
		c.end(err)
	}
}

// respond writes one response. It blocks while the other side does not read.
func (c *connection) respond(h header, resp kmsg.Response) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.buffer = appendResponse(c.buffer[:0], h.correlation, resp)
	_, err := c.nc.Write(c.buffer)
	if cap(c.buffer) > keepBuffer {
		c.buffer = nil
	}
	return err
}

// finishPeer finishes a peer's request as soon as it is answered. A peer that has too many requests open has given up the
// oldest: cores ask anew when an answer does not come, and one answer a core is waited for.
func (c *connection) finishPeer(s started) {
	c.peers = slices.DeleteFunc(c.peers, func(p peerRequest) bool { return p.ctx.Err() != nil })
	if len(c.peers) >= c.server.config.MaxInFlight {
		c.peers[0].giveUp()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.peers = append(c.peers, peerRequest{ctx, cancel})
	c.wg.Go(func() {
		defer cancel()
		defer c.budget.Release(s.holds)
		c.finish(ctx, s)
	})
}

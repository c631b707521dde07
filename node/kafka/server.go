package kafka

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"tidemark/node/replica"
)

// Config bounds what one connection may ask for. Zero values stand for Kafka's defaults.
type Config struct {
	// Log gets the reasons for which connections end. nil: slog.Default().
	Log *slog.Logger
	// MaxRequest is socket.request.max.bytes: the largest request in bytes. 0: 100 MiB.
	MaxRequest int
	// MaxBatch is message.max.bytes: the largest record batch in bytes. 0: 1 MiB and 12 bytes.
	MaxBatch int
	// MaxFetch is fetch.max.bytes: the most bytes of records in one answer, however much the consumer asks for, a first
	// batch that is larger excepted. 0: 55 MiB.
	MaxFetch int
	// MaxInFlight is how many requests of a client's connection may wait for their answers before no more are read, and of
	// a node's before the oldest is given up. 0: 64, which Kafka's clients (5 in flight) never reach.
	MaxInFlight int
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&c.MaxRequest, 100 << 20}, {&c.MaxBatch, 1<<20 + 12}, {&c.MaxFetch, 55 << 20}, {&c.MaxInFlight, 64}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

// Server answers requests on a node's listeners. Make one with [NewBroker] or [NewController].
type Server struct {
	config   Config
	handlers map[int16]handler
	ctx      context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	closed  bool
	closing map[io.Closer]struct{} // listeners and connections
	running sync.WaitGroup
}

func newServer(c Config, handlers []handler) *Server {
	s := &Server{
		config:   c.withDefaults(),
		handlers: map[int16]handler{},
		closing:  map[io.Closer]struct{}{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, h := range append(handlers, apiVersions(handlers)) {
		s.handlers[h.key] = h
	}
	return s
}

// NewBroker makes the server of broker self's listener, for clients, other brokers and the controller alike.
func NewBroker(self replica.ID, b Broker, c Config) *Server {
	c = c.withDefaults()
	to := receiver{b, self}
	return newServer(c, []handler{
		produceHandler(to, c.MaxBatch),
		fetchHandler(to, b.Watch, c.MaxFetch),
		listOffsetsHandler(to),
		metadataHandler(self, b.Topology),
		leaderAndISRHandler(to, b.Learn),
		initProducerIDHandler(b.NewProducerID),
		offsetForLeaderEpochHandler(to),
	})
}

// NewController makes the server of the controller's listener, to which only brokers speak.
func NewController(k Controller, c Config) *Server {
	to := receiver{k, replica.Controller}
	return newServer(c, []handler{
		alterPartitionHandler(to, k.Topics),
		brokerRegistrationHandler(to),
		brokerHeartbeatHandler(to),
	})
}

// Serve accepts connections until [Server.Close], and returns nil then. It returns an error when the listener fails for
// another reason. It closes the listener, and may be called for several.
func (s *Server) Serve(l net.Listener) error {
	if !s.keep(l) {
		return l.Close()
	}
	defer s.running.Done()
	defer s.drop(l)
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			if !s.keep(nc) {
				_ = nc.Close()
				return nil
			}
			go s.serve(nc)
		case s.ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Out of file descriptors, most likely: connections that end give some back.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.config.Log.Warn("cannot accept a connection", "listener", l.Addr().String(), "error", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	}
}

func (s *Server) serve(nc net.Conn) {
	defer s.running.Done()
	defer s.drop(nc)
	newConnection(s, nc).run()
}

// Close ends every listener and connection and waits until nothing runs any more. Requests that wait for their answers
// get none.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.stop()
	for c := range s.closing {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// keep remembers what Close has to close; false if the server is closed already. Each keep is answered by drop and
// running.Done.
func (s *Server) keep(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closing[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) drop(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closing, c)
	_ = c.Close()
}

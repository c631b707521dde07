package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Server answers commands on a node's control listener.
type Server struct {
	listener net.Listener
	do       func(context.Context, Command) Reply
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Serve starts answering the commands of every connection to the listener with do, which is called from one goroutine a
// connection and has to return when its context ends.
func Serve(l net.Listener, do func(context.Context, Command) Reply) *Server {
	s := &Server{listener: l, do: do}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.running.Go(func() {
			defer c.Close()
			ended := context.AfterFunc(s.ctx, func() { _ = c.Close() })
			defer ended()
			s.serve(c)
		})
	}
}

func (s *Server) serve(c net.Conn) {
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	in.DisallowUnknownFields()
	for {
		var command Command
		err := in.Decode(&command)
		var reply Reply
		switch {
		case err == nil:
			reply = s.do(s.ctx, command)
		case isNetwork(err):
			return
		default:
			reply.Error = fmt.Sprintf("not a command: %v", err)
		}
		if out.Encode(reply) != nil || err != nil {
			return
		}
	}
}

func isNetwork(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return !errors.As(err, &syntax) && !errors.As(err, &kind)
}

// Close ends the listener and every connection and waits until nothing runs any more.
func (s *Server) Close() error {
	s.stop()
	err := s.listener.Close()
	s.running.Wait()
	return err
}

// Client gives commands to one node over one connection. It may be used from several goroutines, one command at a time.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// NewClient speaks over an open connection to a node's control listener.
func NewClient(conn net.Conn) *Client {
	return &Client{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
}

// Do gives a command and waits for its reply. When the context ends before, the connection is of no more use.
func (c *Client) Do(ctx context.Context, command Command) (Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer ended()
	var reply Reply
	err := c.out.Encode(command)
	if err == nil {
		err = c.in.Decode(&reply)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return reply, fmt.Errorf("control connection: %s: %w", command.Do, err)
	}
	return reply, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

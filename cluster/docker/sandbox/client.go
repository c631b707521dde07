package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrGone is wrapped by errors of a [Client] whose sandbox no longer answers, because its stream has ended. Its network
// namespace is gone with it, so the run cannot go on.
var ErrGone = errors.New("the sandbox is gone")

// Client asks a sandbox to change its rules. Its methods may be called from any number of goroutines; the sandbox
// answers one after the other.
type Client struct {
	stream io.ReadWriteCloser
	closed chan struct{} // closed when the reader has ended
	reason error         // why it ended; set before closed

	// Writing has a lock of its own: a write may have to wait until the sandbox gets rid of an answer, and reading that
	// takes the other one.
	writing sync.Mutex
	encoder *json.Encoder

	mu      sync.Mutex // guards what follows
	last    uint64
	waiting map[uint64]chan answer
}

// NewClient talks over stream to the [Serve] at its other end. [Client.Close] closes the stream.
func NewClient(stream io.ReadWriteCloser) *Client {
	c := &Client{
		stream:  stream,
		closed:  make(chan struct{}),
		encoder: json.NewEncoder(stream),
		waiting: map[uint64]chan answer{},
	}
	go c.read()
	return c
}

// Replace puts rules in force instead of all others; none heals everything. It returns what the rules that it replaced
// had dropped, in their order: at the end of a fault, the evidence that it took effect. Packets that were dropped within
// the change itself may be missing from it.
func (c *Client) Replace(ctx context.Context, rules []Rule) ([]Counter, error) {
	return c.do(ctx, request{Op: opReplace, Rules: rules})
}

// Count returns what the rules in force have dropped so far, in their order. A first answer to Count also says that the
// sandbox is up.
func (c *Client) Count(ctx context.Context) ([]Counter, error) {
	return c.do(ctx, request{Op: opCount})
}

// Close ends the stream, and with it the sandbox, and waits until nothing of the client runs any more.
func (c *Client) Close() error {
	err := c.stream.Close()
	<-c.closed
	return err
}

func (c *Client) do(ctx context.Context, r request) ([]Counter, error) {
	reply := make(chan answer, 1)
	c.mu.Lock()
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, r.ID)
		c.mu.Unlock()
	}()

	if err := c.send(r); err != nil {
		return nil, err
	}
	var a answer
	select {
	case a = <-reply:
	case <-c.closed:
		select {
		case a = <-reply: // the last thing that came
		default:
			return nil, c.gone()
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("sandbox: %s rules: %w", r.Op, ctx.Err())
	}
	if a.Error != "" {
		return nil, fmt.Errorf("sandbox: %s rules: %s", r.Op, a.Error)
	}
	return a.Counters, nil
}

func (c *Client) send(r request) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return c.gone()
	default:
	}
	if err := c.encoder.Encode(r); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

func (c *Client) read() {
	defer close(c.closed)
	for d := json.NewDecoder(c.stream); ; {
		var a answer
		if err := d.Decode(&a); err != nil {
			c.reason = err
			return
		}
		c.mu.Lock()
		if reply, ok := c.waiting[a.ID]; ok { // otherwise the one who asked has given up
			reply <- a
			delete(c.waiting, a.ID)
		}
		c.mu.Unlock()
	}
}

func (c *Client) gone() error {
	return fmt.Errorf("%w: %w", ErrGone, c.reason)
}

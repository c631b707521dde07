package process

import (
	"net"
	"sync"
)

// link carries connections from one side (a node, or all clients) to one node. What a side sends, the end of its connection
// included, passes the gate of its direction first.
type link struct {
	listener net.Listener
	there    *gate         // of whoever opens connections
	back     *gate         // of the node
	done     chan struct{} // closed by close
	wg       sync.WaitGroup

	mu      sync.Mutex
	backend string                // where the node listens now; "": it is down
	conns   map[net.Conn]struct{} // of both sides
	backs   map[net.Conn]struct{} // of the node's side
	closed  bool
}

// heldBytes is how much a cut link takes from a sender before that notices, like a socket's buffers.
const heldBytes = 64 << 10

func newLink(there, back *gate) (*link, error) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, there: there, back: back, done: make(chan struct{}), conns: map[net.Conn]struct{}{}, backs: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	return k, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// leadTo says where the node listens from now on. Its connections from before end; the other side hears of it through the gate.
func (l *link) leadTo(backend string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backend = backend
	for c := range l.backs {
		_ = c.Close()
	}
}

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.carry(c) })
	}
}

// carry carries one connection until both sides have ended it.
func (l *link) carry(front net.Conn) {
	if !l.keep(front, l.conns) {
		return
	}
	defer l.drop(front)
	l.mu.Lock()
	backend := l.backend
	l.mu.Unlock()
	back, err := dialNode(backend)
	if err != nil {
		// Nobody listens. While the link is cut either way, that is not heard either.
		_ = l.there.pass(1, l.done) && l.back.pass(1, l.done)
		return
	}
	if !l.keep(back, l.conns, l.backs) {
		return
	}
	defer l.drop(back)
	var both sync.WaitGroup
	both.Go(func() { l.back.copy(front, back, l.done) })
	l.there.copy(back, front, l.done)
	both.Wait()
}

func dialNode(address string) (net.Conn, error) {
	if address == "" {
		return nil, net.ErrClosed
	}
	return net.Dial("tcp", address)
}

// keep has a connection closed by those who go over the lists. It is false, and the connection closed, if the link is.
func (l *link) keep(c net.Conn, in ...map[net.Conn]struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	for _, list := range in {
		list[c] = struct{}{}
	}
	return true
}

func (l *link) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	delete(l.backs, c)
	_ = c.Close()
}

// close ends the link and every connection over it, whether it is cut or not.
func (l *link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	for c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

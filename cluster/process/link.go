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

// gate is the way from one node to another, on all connections between them: open, or cut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the way is open
	cut  bool
	held int64 // bytes that came while it was cut
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// set cuts or opens the way, and returns how many bytes it held while it was cut until now.
func (g *gate) set(cut bool) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.held
	switch {
	case cut && !g.cut:
		g.open = make(chan struct{})
		g.held, held = 0, 0
	case !cut && g.cut:
		close(g.open)
		g.held = 0
	}
	g.cut = cut
	return held
}

// pass counts bytes if the way is cut, and waits until it is open. It is false if done ended the wait.
func (g *gate) pass(n int, done <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	if g.cut {
		g.held += int64(n)
	}
	g.mu.Unlock()
	select {
	case <-open:
		return true
	case <-done:
		return false
	}
}

// copy carries bytes until the sender ends, and then its end: one more byte, as TCP counts it. A receiver that has ended
// takes nothing any more; the sender hears of that through the gate of the other direction.
func (g *gate) copy(to, from net.Conn, done <-chan struct{}) {
	buffer := make([]byte, heldBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !g.pass(n, done) {
				return
			}
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			if g.pass(1, done) {
				_ = to.Close()
			}
			return
		}
	}
}

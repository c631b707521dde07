package process

import (
	"net"
	"sync"
)

// link carries connections from one side (a node, or all clients) to one node.
type link struct {
	listener net.Listener
	mu       sync.Mutex
	backend  string // where the node listens now; "": it is down
	there    *gate  // bytes of whoever opens connections
	back     *gate  // bytes of the node
	conns    map[net.Conn]struct{}
	closed   bool
	wg       sync.WaitGroup
}

// heldBytes is how much a cut link takes from a sender before that notices, like a socket's buffers.
const heldBytes = 64 << 10

func newLink(there, back *gate) (*link, error) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, there: there, back: back, conns: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	return k, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// leadTo says where the node listens from now on. Connections to where it listened before end.
func (l *link) leadTo(backend string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backend = backend
	for c := range l.conns {
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

func (l *link) carry(front net.Conn) {
	defer front.Close()
	l.mu.Lock()
	backend := l.backend
	l.mu.Unlock()
	if backend == "" {
		return // nobody listens
	}
	back, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer back.Close()
	if !l.keep(front, back) {
		return
	}
	defer l.drop(front, back)
	done := make(chan struct{})
	l.wg.Go(func() {
		l.back.copy(front, back, done)
		_ = front.Close()
		_ = back.Close()
	})
	l.there.copy(back, front, done)
	close(done)
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return true
}

func (l *link) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
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

// hold counts bytes if the way is cut, and returns what is closed when it opens.
func (g *gate) hold(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		g.held += int64(n)
	}
	return g.open
}

// copy carries bytes until either side ends.
func (g *gate) copy(to, from net.Conn, done <-chan struct{}) {
	buffer := make([]byte, heldBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case <-g.hold(n):
			case <-done:
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

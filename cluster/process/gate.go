package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"tidemark/cluster"
)

// gate is the way from one node to another, on all connections between them: open, cut, or impaired.
type gate struct {
	mu     sync.Mutex
	open   chan struct{} // closed while the way is open
	faults map[cluster.LinkFault]cluster.Impair
	counts map[cluster.LinkFault]int64
	free   time.Time // rate: when what was sent so far has passed
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), faults: map[cluster.LinkFault]cluster.Impair{}, counts: map[cluster.LinkFault]int64{}}
	close(g.open)
	return g
}

// impair sets what is wrong with the way. What goes on as it was keeps its count.
func (g *gate) impair(faults []cluster.Impair) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.faults
	g.faults = map[cluster.LinkFault]cluster.Impair{}
	for _, f := range faults {
		g.faults[f.Kind] = f
	}
	for _, kind := range []cluster.LinkFault{cluster.Drop, cluster.Loss, cluster.Delay, cluster.Rate, cluster.Reset} {
		was, had := before[kind]
		if is, has := g.faults[kind]; had != has || was != is {
			g.counts[kind] = 0
		}
	}
	_, was := before[cluster.Drop]
	_, is := g.faults[cluster.Drop]
	switch {
	case is && !was:
		g.open = make(chan struct{})
	case !is && was:
		close(g.open)
	}
}

// measured is what a fault of the way met since it began, in words that begin with a count.
func (g *gate) measured(kind cluster.LinkFault) (name, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	value = fmt.Sprint(g.counts[kind])
	switch kind {
	case cluster.Loss:
		return "writes lost", value
	case cluster.Delay:
		return "bytes delayed", fmt.Sprintf("%s by %s", value, g.faults[kind].Delay)
	case cluster.Rate:
		return "bytes held to the rate", value
	case cluster.Reset:
		return "connections reset", value
	}
	return "bytes held", value
}

// pass counts bytes if the way is cut, and waits until it is open. It is false if done ended the wait.
func (g *gate) pass(n int, done <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	if _, cut := g.faults[cluster.Drop]; cut {
		g.counts[cluster.Drop] += int64(n)
	}
	g.mu.Unlock()
	select {
	case <-open:
		return true
	case <-done:
		return false
	}
}

// How long TCP waits before it sends again what was lost: the time doubles with each loss.
const (
	firstAgain = 200 * time.Millisecond
	lastAgain  = 1600 * time.Millisecond
)

// due is when n bytes that came at some time leave the gate, by delay, loss and rate; and whether they break their connection instead.
func (g *gate) due(n int, came time.Time) (at time.Time, reset bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at = came
	if len(g.faults) == 0 {
		return at, false
	}
	if _, on := g.faults[cluster.Reset]; on {
		g.counts[cluster.Reset]++
		return at, true
	}
	if f, on := g.faults[cluster.Delay]; on {
		g.counts[cluster.Delay] += int64(n)
		at = at.Add(f.Delay)
	}
	if f, on := g.faults[cluster.Loss]; on {
		for again := firstAgain; rand.IntN(100) < f.Percent; again = min(2*again, lastAgain) {
			g.counts[cluster.Loss]++
			at = at.Add(again)
		}
	}
	if f, on := g.faults[cluster.Rate]; on {
		g.counts[cluster.Rate] += int64(n)
		if g.free.After(at) {
			at = g.free
		}
		at = at.Add(time.Duration(float64(n) / float64(f.Rate) * float64(time.Second)))
		g.free = at
	}
	return at, false
}

// queues says whether bytes are to be taken while others before them still wait, as a network does that is slow.
func (g *gate) queues() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, late := g.faults[cluster.Delay]
	return late
}

// copy carries bytes until the sender ends, and then its end: one more byte, as TCP counts it. A receiver that has ended
// takes nothing any more; the sender hears of that through the gate of the other direction.
func (g *gate) copy(to, from net.Conn, done <-chan struct{}) {
	buffer := make([]byte, heldBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 && err == nil && g.queues() {
			g.queue(to, from, piece{data: append([]byte(nil), buffer[:n]...), came: time.Now()}, done)
			return
		}
		if !g.carry(to, from, piece{buffer[:n], time.Now(), err}, done) || err != nil {
			return
		}
	}
}

// piece is what came at one time, and the end of what the sender sends if err says so.
type piece struct {
	data []byte
	came time.Time
	err  error
}

// queued is how many pieces a slow way takes in before the sender notices.
const queued = 64

// queue is copy for a way that takes bytes while others before them still wait. A connection that was slow once stays with it.
func (g *gate) queue(to, from net.Conn, first piece, done <-chan struct{}) {
	pieces, over := make(chan piece, queued), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(pieces)
		for {
			buffer := make([]byte, heldBytes/queued)
			n, err := from.Read(buffer)
			select {
			case pieces <- piece{buffer[:n], time.Now(), err}:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer reader.Wait()
	defer close(over)
	p, ok := first, true
	for ok && g.carry(to, from, p, done) && p.err == nil {
		p, ok = <-pieces
	}
	if ok && p.err == nil {
		_ = from.Close() // what it sends has no way any more, and the reader has to end
	}
}

// carry lets one piece through when it is due. It is false if nothing follows: the connection was reset, or done ended the wait.
func (g *gate) carry(to, from net.Conn, p piece, done <-chan struct{}) bool {
	if n := len(p.data); n > 0 {
		if !g.pass(n, done) {
			return false
		}
		at, reset := g.due(n, p.came)
		if reset {
			breakOff(from)
			breakOff(to)
			return false
		}
		if !until(at, done) {
			return false
		}
		_, _ = to.Write(p.data)
	}
	if p.err != nil {
		if g.pass(1, done) {
			_ = to.Close()
		}
	}
	return true
}

// until waits for a time. It is false if done ended the wait.
func until(at time.Time, done <-chan struct{}) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

// breakOff ends a connection with TCP's reset, so that whoever reads or writes on the other side gets an error.
func breakOff(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

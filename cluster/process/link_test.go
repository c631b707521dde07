package process

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
)

// wire is a link with a client at one end and a node at the other.
type wire struct {
	*testing.T
	*link
	node net.Listener
}

func newWire(t *testing.T) *wire {
	l, err := newLink(newGate(), newGate())
	require.NoError(t, err)
	t.Cleanup(l.close)
	node, err := net.Listen("tcp", anyPort)
	require.NoError(t, err)
	t.Cleanup(func() { _ = node.Close() })
	l.leadTo(node.Addr().String())
	return &wire{t, l, node}
}

// connect opens a connection and gives both its ends.
func (w *wire) connect() (client, node net.Conn) {
	client = w.dial()
	require.NoError(w, w.node.(*net.TCPListener).SetDeadline(time.Now().Add(10*time.Second)))
	node, err := w.node.Accept()
	require.NoError(w, err)
	for _, c := range []net.Conn{client, node} {
		w.Cleanup(func() { _ = c.Close() })
		require.NoError(w, c.SetDeadline(time.Now().Add(10*time.Second)))
	}
	return client, node
}

func (w *wire) dial() net.Conn {
	c, err := net.Dial("tcp", w.address())
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, s string) {
	_, err := c.Write([]byte(s))
	require.NoError(t, err)
}

func receive(t *testing.T, c net.Conn, s string) {
	got := make([]byte, len(s))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, s, string(got))
}

// holds waits until a gate that is cut has held so many bytes.
func holds(t *testing.T, g *gate, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return g.set(true) >= n }, 10*time.Second, time.Millisecond)
	require.Equal(t, n, g.set(true))
}

// later reads a connection to its end and gives what came.
func later(c net.Conn) <-chan string {
	out := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(c)
		out <- string(all)
	}()
	return out
}

func nothingYet(t *testing.T, from <-chan string) {
	t.Helper()
	select {
	case s := <-from:
		require.FailNow(t, "the connection has ended", "after %q", s)
	default:
	}
}

func TestALinkHoldsWhatIsSentWhileItIsCutAndDeliversItInOrder(t *testing.T) {
	w := newWire(t)
	client, node := w.connect()
	send(t, client, "before ")
	receive(t, node, "before ")
	w.there.set(true)
	send(t, client, "meanwhile ")
	holds(t, w.there, 10)

	send(t, node, "the other way")
	receive(t, client, "the other way")

	assert.EqualValues(t, 10, w.there.set(false))
	send(t, client, "after")
	receive(t, node, "meanwhile after")
	assert.Zero(t, w.there.set(false), "nothing is held by a way that is open")
	w.there.set(true)
	assert.Zero(t, w.there.set(false), "each cut counts anew")
}

func TestTheEndOfAConnectionDoesNotPassALinkThatIsCut(t *testing.T) {
	t.Run("of a client's", func(t *testing.T) {
		w := newWire(t)
		client, node := w.connect()
		ended := later(node)
		w.there.set(true)
		require.NoError(t, client.Close())
		holds(t, w.there, 1)
		nothingYet(t, ended)
		w.there.set(false)
		assert.Empty(t, <-ended)
	})
	t.Run("of a dead node's", func(t *testing.T) {
		w := newWire(t)
		client, node := w.connect()
		ended := later(client)
		w.back.set(true)
		require.NoError(t, node.Close())
		w.leadTo("")
		holds(t, w.back, 1)
		nothingYet(t, ended)
		w.back.set(false)
		assert.Empty(t, <-ended)
	})
	t.Run("and what was sent before it comes first", func(t *testing.T) {
		w := newWire(t)
		client, node := w.connect()
		ended := later(node)
		w.there.set(true)
		send(t, client, "farewell")
		require.NoError(t, client.Close())
		holds(t, w.there, 8) // the end is behind it
		nothingYet(t, ended)
		w.there.set(false)
		assert.Equal(t, "farewell", <-ended)
	})
}

func TestAConnectionToADeadNodeIsSilentWhileTheLinkIsCut(t *testing.T) {
	for _, way := range []string{"there", "back"} {
		t.Run(way, func(t *testing.T) {
			w := newWire(t)
			w.leadTo("")
			g := w.there
			if way == "back" {
				g = w.back
			}
			g.set(true)
			ended := later(w.dial())
			holds(t, g, 1)
			nothingYet(t, ended)
			g.set(false)
			assert.Empty(t, <-ended)
		})
	}
}

func TestConnectionsEndWithTheNodeAndAreNotThoseOfTheNext(t *testing.T) {
	w := newWire(t)
	client, node := w.connect()
	ended := later(client)
	require.NoError(t, node.Close())
	assert.Empty(t, <-ended)

	w.leadTo("")
	assert.Empty(t, <-later(w.dial()))
	w.leadTo(w.node.Addr().String())
	client, node = w.connect()
	send(t, client, "hello")
	receive(t, node, "hello")
}

func TestALinkIsClosedEvenIfItIsCut(t *testing.T) {
	w := newWire(t)
	client, node := w.connect()
	w.there.set(true)
	w.back.set(true)
	send(t, client, "lost")
	send(t, node, "lost")
	holds(t, w.there, 4)
	holds(t, w.back, 4)
	w.close()
	w.close()
	assert.Empty(t, <-later(client))
	assert.Empty(t, <-later(node))
	_, err := net.Dial("tcp", w.address())
	assert.Error(t, err)
}

func TestWithoutLinksThereAreNoPartitions(t *testing.T) {
	k := &Cluster{ports: map[cluster.NodeID]string{1: "", 2: ""}}
	_, err := k.Links(t.Context(), []cluster.Link{{From: 1, To: 2}})
	require.ErrorIs(t, err, cluster.ErrUnsupported)
	_, err = k.Links(t.Context(), nil)
	require.NoError(t, err, "there is nothing to heal")
}

// set cuts or opens the way and leaves nothing else of it, and returns how many bytes it held while it was cut until now.
func (g *gate) set(cut bool) int64 {
	_, value := g.measured(cluster.Drop)
	var faults []cluster.Impair
	if cut {
		faults = []cluster.Impair{{}}
	}
	g.impair(faults)
	return cluster.Counted(history.Measurement{Value: value})
}

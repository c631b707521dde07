package sandbox

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inOwnNetwork runs a test in a network namespace of its own, in which a node lives at 127.0.0.1 and its peers at
// 127.0.0.2 and 127.0.0.3. Sockets belong to the namespace of the thread that makes them, so the test has a thread for
// itself; the thread is never unlocked, so it ends with the test's goroutine and takes the namespace with it.
func inOwnNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace of its own needs root; the tests in containers cover this as well")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		loopback, err := netlink.LinkByName("lo")
		if !assert.NoError(t, err) || !assert.NoError(t, netlink.LinkSetUp(loopback)) {
			return
		}
		test(t)
	}()
	<-done
}

// line is a TCP connection with both its ends at hand.
type line struct{ peer, node net.Conn }

func (l line) close() { l.peer.Close(); l.node.Close() }

// connect opens a connection from one address to a port on another.
func connect(t *testing.T, from, to string, port int) (peer, node net.Conn) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(to), Port: port})
	require.NoError(t, err)
	defer l.Close()
	opened, err := net.DialTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(from)}, l.Addr().(*net.TCPAddr))
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	return opened, accepted
}

// arrives writes a byte at one end and says whether it comes out at the other end in time. One that was cut off before
// may come first.
func arrives(t *testing.T, from, to net.Conn, within time.Duration) bool {
	t.Helper()
	_, err := from.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, to.SetReadDeadline(time.Now().Add(within)))
	_, err = to.Read(make([]byte, 16))
	if err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a cut connection is silent, not broken")
	}
	return err == nil
}

const (
	silent = 50 * time.Millisecond // long for loopback, short of the first retransmission at 200 ms
	soon   = 5 * time.Second
)

func TestACutStopsBytesOneWayOnConnectionsOfEitherSide(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		var toNode, toPeer line
		toNode.peer, toNode.node = connect(t, "127.0.0.2", "127.0.0.1", 9092) // the peer opened it
		toPeer.node, toPeer.peer = connect(t, "127.0.0.1", "127.0.0.2", 9093) // the node opened it
		defer toNode.close()
		defer toPeer.close()
		f := &netfilter{}
		peer := netip.MustParseAddr("127.0.0.2")

		_, err := f.replace([]Rule{{Peer: peer, Direction: In}})
		require.NoError(t, err)
		for _, l := range []line{toNode, toPeer} {
			assert.False(t, arrives(t, l.peer, l.node, silent), "from the peer nothing comes")
			assert.True(t, arrives(t, l.node, l.peer, soon), "to the peer everything goes")
		}
		dropped, err := f.replace([]Rule{{Peer: peer, Direction: Out}})
		require.NoError(t, err)
		require.Len(t, dropped, 1)
		assert.GreaterOrEqual(t, dropped[0].Packets, uint64(2), "a byte on either connection, at least")
		assert.Greater(t, dropped[0].Bytes, 40*dropped[0].Packets-1, "every packet has at least its headers")

		// The retransmitted bytes of the first cut may come through now; what counts is the other direction.
		for _, l := range []line{toNode, toPeer} {
			assert.False(t, arrives(t, l.node, l.peer, silent), "to the peer nothing goes")
		}
		_, err = f.replace(nil)
		require.NoError(t, err)
		for _, l := range []line{toNode, toPeer} {
			assert.True(t, arrives(t, l.node, l.peer, soon), "healed, the same connection goes on")
			assert.True(t, arrives(t, l.peer, l.node, soon))
		}
	})
}

func TestACutLeavesOtherPeersAndPortsAlone(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		var client, control, other line
		client.peer, client.node = connect(t, "127.0.0.2", "127.0.0.1", 9092)
		control.peer, control.node = connect(t, "127.0.0.2", "127.0.0.1", 9099)
		other.peer, other.node = connect(t, "127.0.0.3", "127.0.0.1", 9092)
		for _, l := range []line{client, control, other} {
			defer l.close()
		}
		f := &netfilter{}
		peer := netip.MustParseAddr("127.0.0.2")

		_, err := f.replace([]Rule{
			{Peer: peer, Direction: In, Ports: []uint16{7, 9092}},
			{Peer: peer, Direction: Out, Ports: []uint16{9092}},
		})
		require.NoError(t, err)
		assert.False(t, arrives(t, client.peer, client.node, silent))
		assert.False(t, arrives(t, client.node, client.peer, silent))
		assert.True(t, arrives(t, control.peer, control.node, soon), "another port of the same peer")
		assert.True(t, arrives(t, control.node, control.peer, soon))
		assert.True(t, arrives(t, other.peer, other.node, soon), "another peer at the same port")

		dropped, err := f.count()
		require.NoError(t, err)
		require.Len(t, dropped, 2)
		assert.Equal(t, In, dropped[0].Direction, "in the order of the rules")
		assert.Positive(t, dropped[0].Packets)
		assert.Positive(t, dropped[1].Packets)
	})
}

func TestRulesAreReplacedWhole(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		f := &netfilter{}
		rules := []Rule{
			{Peer: netip.MustParseAddr("127.0.0.2"), Direction: In},
			{Peer: netip.MustParseAddr("127.0.0.3"), Direction: Out, Ports: []uint16{1, 2, 3}},
		}
		for range 3 {
			_, err := f.replace(rules)
			require.NoError(t, err, "the same rules again are no mistake")
		}
		got, err := f.count()
		require.NoError(t, err)
		assert.Equal(t, []Counter{{Rule: rules[0]}, {Rule: rules[1]}}, got, "fresh rules have dropped nothing")

		for range 2 {
			_, err = f.replace(nil)
			require.NoError(t, err, "healing what is healthy is no mistake")
		}
		got, err = f.count()
		require.NoError(t, err)
		assert.Empty(t, got)
	})
}

func TestAPartIsLostAndArrivesWhenItIsSentAgain(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		var l line
		l.peer, l.node = connect(t, "127.0.0.2", "127.0.0.1", 9092)
		defer l.close()
		f := &netfilter{}
		_, err := f.replace([]Rule{{Peer: netip.MustParseAddr("127.0.0.2"), Direction: In, Percent: 40}})
		require.NoError(t, err)
		sent := uint64(0)
		for lost := uint64(0); lost == 0 || sent < 10; sent++ {
			require.True(t, arrives(t, l.peer, l.node, soon))
			got, err := f.count()
			require.NoError(t, err)
			require.Len(t, got, 1)
			lost = got[0].Packets
			require.Less(t, sent, uint64(200), "of so many packets none was lost")
		}
		got, err := f.replace(nil)
		require.NoError(t, err)
		assert.Less(t, got[0].Packets, 20*sent, "not everything is lost")
	})
}

func TestWhatIsAboveTheRateIsDropped(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		var l line
		l.peer, l.node = connect(t, "127.0.0.2", "127.0.0.1", 9092)
		defer l.close()
		f := &netfilter{}
		_, err := f.replace([]Rule{{Peer: netip.MustParseAddr("127.0.0.2"), Direction: In, Rate: 50_000}})
		require.NoError(t, err)
		require.True(t, arrives(t, l.peer, l.node, soon))
		got, err := f.count()
		require.NoError(t, err)
		require.Zero(t, got[0].Packets, "a byte is below every rate")

		go func() { _, _ = l.peer.Write(make([]byte, 4*burst)) }()
		// The rules are those of this thread's namespace: no other goroutine can wait for them.
		buffer := make([]byte, 16<<10)
		for began := time.Now(); got[0].Packets == 0; {
			require.Less(t, time.Since(began), soon)
			_ = l.node.SetReadDeadline(time.Now().Add(silent))
			_, _ = l.node.Read(buffer)
			got, err = f.count()
			require.NoError(t, err)
		}
		_, err = f.replace(nil)
		require.NoError(t, err)
	})
}

func TestAResetBreaksTheConnectionOfWhoeverSends(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		for _, d := range []Direction{In, Out} {
			var l, other line
			l.peer, l.node = connect(t, "127.0.0.2", "127.0.0.1", 9092)
			other.peer, other.node = connect(t, "127.0.0.2", "127.0.0.1", 9099)
			defer l.close()
			defer other.close()
			f := &netfilter{}
			_, err := f.replace([]Rule{{Peer: netip.MustParseAddr("127.0.0.2"), Direction: d, Ports: []uint16{9092}, Reset: true}})
			require.NoError(t, err)
			sender := l.peer
			if d == Out {
				sender = l.node
			}
			_, err = sender.Write([]byte{1})
			if err == nil { // the reset can be quicker than the call
				require.NoError(t, sender.SetReadDeadline(time.Now().Add(soon)))
				_, err = sender.Read(make([]byte, 1))
			}
			assert.ErrorIs(t, err, unix.ECONNRESET, d)
			assert.True(t, arrives(t, other.peer, other.node, soon), "another port")
			got, err := f.replace(nil)
			require.NoError(t, err)
			assert.Positive(t, got[0].Packets, d)
		}
	})
}

func BenchmarkReplace(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("a network namespace of its own needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			b.Errorf("unshare: %v", err)
			return
		}
		f := &netfilter{}
		rules := []Rule{
			{Peer: netip.MustParseAddr("127.0.0.2"), Direction: In},
			{Peer: netip.MustParseAddr("127.0.0.3"), Direction: In},
			{Peer: netip.MustParseAddr("127.0.0.4"), Direction: In},
		}
		for b.Loop() {
			if _, err := f.replace(rules); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	<-done
}

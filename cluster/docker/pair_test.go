package docker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster/docker/sandbox"
)

const (
	silent = 100 * time.Millisecond
	soon   = 10 * time.Second
)

// caller is a connection to an echoing node.
type caller struct {
	net.Conn
	answers *bufio.Reader
}

func newCaller(conn net.Conn) *caller { return &caller{Conn: conn, answers: bufio.NewReader(conn)} }

// asks sends a line and says whether the answer comes in time. A line whose answer did not come may be answered later.
func (c *caller) asks(t *testing.T, line string, within time.Duration) bool {
	t.Helper()
	_, err := fmt.Fprintln(c, line)
	require.NoError(t, err)
	return c.hears(t, line, within)
}

func (c *caller) hears(t *testing.T, line string, within time.Duration) bool {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	got, err := c.answers.ReadString('\n')
	if err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the connection must be silent, not broken")
		return false
	}
	require.Equal(t, line+"\n", got)
	return true
}

func onlyLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("containers' addresses can be reached directly on Linux only")
	}
}

func TestANodeIsKilledAndStartedAgainBehindItsSandbox(t *testing.T) {
	onlyLinux(t)
	f := newField(t)
	s := f.sandbox("broker-1")
	output := newOutput()
	n := f.echo("broker-1", s, output)
	first := newCaller(dial(t, s))
	defer first.Close()
	assert.True(t, first.asks(t, "before", soon))

	t.Log("a rule is in force while the node dies")
	gateway := sandbox.Rule{Peer: f.network.gateway, Direction: sandbox.In, Ports: []uint16{7}}
	_, err := s.rules.Replace(t.Context(), []sandbox.Rule{gateway})
	require.NoError(t, err)
	for range 2 { // killing what is dead is no mistake
		state, err := n.kill(t.Context())
		require.NoError(t, err)
		assert.False(t, state.Running)
		assert.Equal(t, "exited with code 137 (killed)", state.String())
		assert.WithinDuration(t, time.Now(), state.Since, time.Minute)
	}
	_, err = first.answers.ReadString('\n')
	assert.Error(t, err, "its connections died with it")

	t.Log("its next life is at the same address, and the rule is still there")
	again := newOutput()
	n = f.echo("broker-1", s, again)
	second := newCaller(dial(t, s))
	defer second.Close()
	assert.True(t, second.asks(t, "after", soon))
	dropped, err := s.rules.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []sandbox.Counter{{Rule: gateway}}, dropped)

	t.Log("asked to end, it ends by itself")
	state, err := n.stop(t.Context(), 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "exited with code 0", state.String())
	assert.Equal(t, "listening on :9092\ntold to end\n", again.String(), "its last words are not lost")
}

func TestAPublishedPortLeadsToTheNode(t *testing.T) {
	f := newField(t)
	s := f.sandbox("broker-1")
	f.echo("broker-1", s, newOutput())

	at := s.published[echoPort]
	assert.True(t, at.Addr().IsLoopback(), "%v must not be for other machines", at)
	conn, err := net.Dial("tcp4", at.String())
	require.NoError(t, err)
	c := newCaller(conn)
	defer c.Close()
	assert.True(t, c.asks(t, "hello", soon))
}

func TestAPausedNodeIsSilentAndThenGoesOn(t *testing.T) {
	onlyLinux(t)
	f := newField(t)
	s := f.sandbox("broker-1")
	output := newOutput()
	n := f.echo("broker-1", s, output)
	c := newCaller(dial(t, s))
	defer c.Close()

	for range 2 { // pausing what is paused is no mistake
		state, err := n.pause(t.Context(), true)
		require.NoError(t, err)
		assert.True(t, state.Paused)
	}
	assert.False(t, c.asks(t, "during", silent))
	_, err := s.rules.Count(t.Context())
	require.NoError(t, err, "the sandbox is not paused")

	for range 2 {
		state, err := n.pause(t.Context(), false)
		require.NoError(t, err)
		assert.False(t, state.Paused)
		assert.True(t, state.Running)
	}
	assert.True(t, c.hears(t, "during", soon), "the answer comes late, but it comes")

	t.Log("a paused node can be killed")
	_, err = n.pause(t.Context(), true)
	require.NoError(t, err)
	state, err := n.kill(t.Context())
	require.NoError(t, err)
	assert.Equal(t, killedCode, state.ExitCode)
	assert.False(t, state.Paused)
}

func TestACutIsSilentLeavesOthersAloneAndHeals(t *testing.T) {
	onlyLinux(t)
	f := newField(t)
	sandboxes := map[string]*sandboxContainer{}
	clients := map[string]*caller{}
	for _, name := range []string{"broker-1", "broker-2"} {
		output := newOutput()
		sandboxes[name] = f.sandbox(name)
		f.echo(name, sandboxes[name], output)
		clients[name] = newCaller(dial(t, sandboxes[name]))
		defer clients[name].Close()
		require.True(t, clients[name].asks(t, "before", soon))
	}
	one := sandboxes["broker-1"].rules

	for _, direction := range []sandbox.Direction{sandbox.In, sandbox.Out} {
		rule := sandbox.Rule{Peer: f.network.gateway, Direction: direction, Ports: []uint16{echoPort}}
		before, err := one.Replace(t.Context(), []sandbox.Rule{rule})
		require.NoError(t, err)
		assert.Empty(t, before)

		during := "during " + direction.String()
		assert.False(t, clients["broker-1"].asks(t, during, silent))
		assert.True(t, clients["broker-2"].asks(t, during, soon), "the rule is in one sandbox only")
		dropped, err := one.Replace(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, dropped, 1)
		assert.Equal(t, rule, dropped[0].Rule)
		assert.Positive(t, dropped[0].Packets, "evidence that it took effect")

		assert.True(t, clients["broker-1"].hears(t, during, soon), "the same connection goes on where it was")
		assert.True(t, clients["broker-1"].asks(t, "after", soon))
	}
}

func TestContainersEndWithTheHarness(t *testing.T) {
	f := newField(t)
	s := f.sandbox("broker-1")
	output := newOutput()
	n := f.echo("broker-1", s, output)

	// What the engine sees of a harness that is killed: its connections end.
	require.NoError(t, n.attached.conn.Close())
	require.NoError(t, s.rules.Close())

	for _, id := range []string{n.id, s.id} {
		dead, failed := f.c.ContainerWait(t.Context(), id, container.WaitConditionNotRunning)
		select {
		case end := <-dead:
			assert.Equal(t, int64(0), end.StatusCode, "it ended by itself")
		case err := <-failed:
			require.NoError(t, err)
		}
	}
}

func TestASandboxThatDoesNotAnswerIsAnErrorAndLeavesNothing(t *testing.T) {
	f := newField(t)
	_, err := startSandbox(t.Context(), f.c, sandboxConfig{
		run:     f.run,
		node:    "broker-1",
		image:   f.image,
		command: []string{"no-such-command"},
		network: f.network,
	})
	require.ErrorIs(t, err, sandbox.ErrGone)
	assert.ErrorContains(t, err, "start the sandbox of broker-1")
	assert.ErrorContains(t, err, "usage: node sandbox", "what it complained about")
	require.NoError(t, f.network.remove(t.Context(), f.c), "a network that something is connected to cannot be removed")
}

func TestRulesNeedTheCapabilityAndSaySo(t *testing.T) {
	f := newField(t)
	s := f.sandbox("broker-1")
	// A node has no capability at all, so it makes a sandbox that may not do what it should.
	answers, toUs := io.Pipe()
	n, err := startNode(t.Context(), f.c, f.node("broker-1", s, toUs, "sandbox"))
	require.NoError(t, err)
	powerless := sandbox.NewClient(&stream{attachment: n.attached, PipeReader: answers})
	t.Cleanup(func() {
		assert.NoError(t, powerless.Close())
		assert.NoError(t, n.remove(context.Background()))
	})

	_, err = powerless.Replace(t.Context(), []sandbox.Rule{{Peer: f.network.gateway, Direction: sandbox.In}})
	require.ErrorContains(t, err, "operation not permitted")
	assert.ErrorContains(t, err, "NET_ADMIN")
}

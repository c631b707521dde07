package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeFilter is a kernel in which every rule in force drops a packet of 100 bytes whenever it is asked.
type fakeFilter struct {
	inForce []Counter
	broken  error
}

func (f *fakeFilter) replace(rules []Rule) ([]Counter, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	before, err := f.count()
	f.inForce = nil
	for _, r := range rules {
		f.inForce = append(f.inForce, Counter{Rule: r})
	}
	return before, err
}

func (f *fakeFilter) count() ([]Counter, error) {
	for i := range f.inForce {
		f.inForce[i].Packets++
		f.inForce[i].Bytes += 100
	}
	return append([]Counter(nil), f.inForce...), f.broken
}

var (
	two      = netip.MustParseAddr("172.18.0.2")
	three    = netip.MustParseAddr("172.18.0.3")
	fromTwo  = Rule{Peer: two, Direction: In}
	toThree  = Rule{Peer: three, Direction: Out, Ports: []uint16{9092, 9093}}
	allRules = []Rule{fromTwo, toThree}
)

// served connects a client with a sandbox that has the given filter, and returns a function that waits for the
// sandbox's end.
func served(t *testing.T, f filter) (*Client, func() error) {
	t.Helper()
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(context.Background(), f, theirs, theirs)
		theirs.Close()
	}()
	c := NewClient(ours)
	t.Cleanup(func() { c.Close() })
	return c, func() error { return <-ended }
}

func TestReplacingRulesAnswersWithWhatTheOldOnesDropped(t *testing.T) {
	c, _ := served(t, &fakeFilter{})

	before, err := c.Replace(t.Context(), allRules)
	require.NoError(t, err)
	assert.Empty(t, before, "nothing was in force")

	during, err := c.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Counter{{fromTwo, 1, 100}, {toThree, 1, 100}}, during)

	after, err := c.Replace(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, []Counter{{fromTwo, 2, 200}, {toThree, 2, 200}}, after)

	healed, err := c.Count(t.Context())
	require.NoError(t, err)
	assert.Empty(t, healed)
}

func TestARuleThatMakesNoSenseChangesNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		rule Rule
		want string
	}{
		{"without a peer", Rule{Direction: In}, "invalid IP is not an IPv4 address"},
		{"with an IPv6 peer", Rule{Peer: netip.MustParseAddr("fe80::1"), Direction: In}, "fe80::1 is not an IPv4 address"},
		{"with all of a hundred", Rule{Peer: two, Direction: In, Percent: 100}, "want 1 to 99 percent"},
		{"with two ways to choose packets", Rule{Peer: two, Direction: In, Percent: 5, Reset: true}, "more than one of percent, rate and reset"},
		{"with port 0", Rule{Peer: two, Direction: Out, Ports: []uint16{9092, 0}}, "port 0 is no port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fakeFilter{inForce: []Counter{{Rule: fromTwo}}}
			c, _ := served(t, f)
			_, err := c.Replace(t.Context(), []Rule{toThree, test.rule})
			require.ErrorContains(t, err, test.want)
			assert.Equal(t, []Counter{{Rule: fromTwo}}, f.inForce)
		})
	}
	t.Run("without a direction", func(t *testing.T) {
		f := &fakeFilter{}
		a := handle(f, request{ID: 1, Op: opReplace, Rules: []Rule{{Peer: two}}})
		assert.Contains(t, a.Error, "direction is neither in nor out")
		assert.Empty(t, f.inForce)
	})
}

func TestWhatTheKernelRefusesReachesTheOneWhoAsked(t *testing.T) {
	f := &fakeFilter{broken: errors.New("operation not permitted")}
	c, _ := served(t, f)
	_, err := c.Replace(t.Context(), allRules)
	require.EqualError(t, err, "sandbox: replace rules: operation not permitted")

	f.broken = nil
	_, err = c.Replace(t.Context(), allRules)
	require.NoError(t, err, "a refusal is not the end")
}

func TestTheSandboxEndsWithItsStream(t *testing.T) {
	c, ended := served(t, &fakeFilter{})
	_, err := c.Count(t.Context())
	require.NoError(t, err)

	require.NoError(t, c.Close())
	assert.NoError(t, ended())
	_, err = c.Count(t.Context())
	assert.ErrorIs(t, err, ErrGone)
}

func TestTheSandboxEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, keepOpen := io.Pipe()
	defer keepOpen.Close()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, &fakeFilter{}, in, io.Discard) }()
	cancel()
	assert.NoError(t, <-ended)
}

func TestABrokenRequestEndsTheSandbox(t *testing.T) {
	err := serve(t.Context(), &fakeFilter{}, strings.NewReader(`{"id":1,"op":"replace","rules":[{"peer":"172.18.0.2","direction":"up"}]}`), io.Discard)
	assert.ErrorContains(t, err, `direction "up" is neither in nor out`)

	var out bytes.Buffer
	err = serve(t.Context(), &fakeFilter{}, strings.NewReader(`{"id":7,"op":"explode"}`), &out)
	require.NoError(t, err, "an unknown operation is only refused")
	assert.JSONEq(t, `{"id":7,"error":"operation \"explode\" is neither replace nor count"}`, out.String())
}

func TestManyAskAtOnceAndEachGetsItsOwnAnswer(t *testing.T) {
	c, _ := served(t, &fakeFilter{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				_, err := c.Replace(t.Context(), allRules)
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	got, err := c.Count(t.Context())
	require.NoError(t, err)
	assert.Len(t, got, 2)
}

func TestWhoGivesUpWaitingDoesNotSpoilTheNextAnswer(t *testing.T) {
	ours, theirs := net.Pipe()
	c := NewClient(ours)
	defer c.Close()
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		// A sandbox that answers the first request only after its client has gone.
		buf := make([]byte, 1<<10)
		_, _ = theirs.Read(buf)
		cancel()
		<-asked
		_, _ = theirs.Write([]byte(`{"id":1,"error":"too late"}`))
		_, _ = theirs.Read(buf)
		_, _ = theirs.Write([]byte(`{"id":2,"counters":[{"peer":"172.18.0.2","direction":"in","packets":3,"bytes":180}]}`))
	}()
	_, err := c.Replace(ctx, allRules)
	require.ErrorIs(t, err, context.Canceled)
	close(asked)

	got, err := c.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Counter{{fromTwo, 3, 180}}, got)
}

func TestASandboxThatDiesIsGone(t *testing.T) {
	ours, theirs := net.Pipe()
	c := NewClient(ours)
	defer c.Close()
	go func() {
		_, _ = theirs.Read(make([]byte, 1<<10))
		theirs.Close()
	}()
	_, err := c.Count(t.Context())
	require.ErrorIs(t, err, ErrGone)
	assert.ErrorIs(t, err, io.EOF)
}

func TestRulesInWords(t *testing.T) {
	assert.Equal(t, "in from 172.18.0.2", fromTwo.String())
	assert.Equal(t, "out to 172.18.0.3 ports 9092 9093", toThree.String())

	_, err := Direction(7).MarshalText()
	assert.ErrorContains(t, err, "direction 7")
	for _, d := range []Direction{In, Out} {
		text, err := d.MarshalText()
		require.NoError(t, err)
		var back Direction
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, d, back)
	}
}

// In a network that lives on, no rule outlives the sandbox, whatever ends it.
func TestAGuestTakesItsRulesAway(t *testing.T) {
	question := `{"id":1,"op":"replace","rules":[{"peer":"172.18.0.2","direction":"in"}]}` + "\n"
	for name, in := range map[string]io.Reader{
		"the stream ends":       strings.NewReader(question),
		"the stream breaks":     io.MultiReader(strings.NewReader(question), brokenReader{}),
		"what comes is no JSON": strings.NewReader(question + "hello"),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeFilter{}
			var out bytes.Buffer
			_ = serveGuest(t.Context(), f, in, &out)
			assert.Contains(t, out.String(), `"id":1`)
			assert.Empty(t, f.inForce)
		})
	}
	f := &fakeFilter{}
	require.NoError(t, serve(t.Context(), f, strings.NewReader(question), io.Discard))
	assert.Len(t, f.inForce, 1, "in a node's own network they stay, as long as that does")

	err := serveGuest(t.Context(), &fakeFilter{broken: errors.New("no netfilter")}, strings.NewReader(""), io.Discard)
	assert.EqualError(t, err, "sandbox: take the rules away: no netfilter")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

package foreign

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node/control"
)

func TestBrokersAreLearntFromOneAddress(t *testing.T) {
	k, theirs := fake(t, Config{})
	assert.Equal(t, []int32{0, 1, 2}, k.Brokers())
	assert.ElementsMatch(t, theirs.ListenAddrs(), k.Bootstrap())
	for _, id := range k.Brokers() {
		conn, err := k.Dial(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, k.Bootstrap()[id], conn.RemoteAddr().String())
		require.NoError(t, conn.Close())
	}
	_, err := k.Dial(t.Context(), 7)
	assert.EqualError(t, err, "there is no broker 7; there are [0 1 2]")
}

func TestAnAddressAtWhichNobodyAnswersIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Config{Bootstrap: []string{"127.0.0.1:1"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, tc := range []struct{ address, want string }{
		{"localhost", `bootstrap "localhost": want host:port`},
		{":9092", `bootstrap ":9092": want host:port`},
		{"kafka:", `bootstrap "kafka:": want host:port`},
	} {
		_, err := Open(t.Context(), Config{Bootstrap: []string{tc.address}})
		require.ErrorIs(t, err, ErrConfig)
		assert.ErrorContains(t, err, tc.want)
	}
	_, err = Open(t.Context(), Config{})
	require.ErrorIs(t, err, ErrConfig)
}

// Without hooks nothing can be done to it, and to heal it nothing has to be.
func TestWithoutHooksThereAreNoFaults(t *testing.T) {
	k, _ := fake(t, Config{})
	ctx := t.Context()
	assert.Equal(t, Abilities{}, k.Abilities())
	cut := []cluster.Link{{From: 0, To: 1}}
	for name, do := range map[string]func() error{
		"kill":             func() error { _, err := k.Stop(ctx, 0, cluster.Kill, nil); return err },
		"stop":             func() error { _, err := k.Stop(ctx, 0, cluster.Clean, nil); return err },
		"power":            func() error { _, err := k.Stop(ctx, 0, cluster.Power, nil); return err },
		"pause":            func() error { _, err := k.Pause(ctx, 1, true); return err },
		"cut":              func() error { _, err := k.Links(ctx, cut); return err },
		"can cut":          func() error { return k.CanCut(cut) },
		"command":          func() error { _, err := k.Control(ctx, 1, control.Command{Do: control.Look}); return err },
		"kill controller":  func() error { _, err := k.Stop(ctx, control.Controller, cluster.Kill, nil); return err },
		"pause controller": func() error { _, err := k.Pause(ctx, control.Controller, true); return err },
	} {
		assert.ErrorIs(t, do(), cluster.ErrUnsupported, name)
	}
	for name, do := range map[string]func() error{
		"start":             func() error { _, err := k.Start(ctx, 2); return err },
		"start controller":  func() error { _, err := k.Start(ctx, control.Controller); return err },
		"resume":            func() error { _, err := k.Pause(ctx, 2, false); return err },
		"resume controller": func() error { _, err := k.Pause(ctx, control.Controller, false); return err },
		"heal":              func() error { _, err := k.Links(ctx, nil); return err },
	} {
		assert.NoError(t, do(), name)
	}
	_, err := k.Start(ctx, 9)
	assert.EqualError(t, err, "there is no broker 9; there are [0 1 2]")
}

// deaf listens at an address. What connects is held, and not answered; or it is closed.
func deaf(t *testing.T, hold bool) broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var held []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			if held = append(held, conn); !hold {
				_ = conn.Close()
			}
		}
		for _, c := range held {
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return broker{1, "127.0.0.1", int32(l.Addr().(*net.TCPAddr).Port)}
}

func TestWhatABrokerDoesShowsWhetherItIsDownOrFrozen(t *testing.T) {
	k, _ := fake(t, Config{})
	alive, _ := k.broker(1)
	frozen, closing := deaf(t, true), deaf(t, false)
	gone := broker{1, "127.0.0.1", 1}
	for _, tc := range []struct {
		name         string
		b            broker
		down, paused string // "": not proven
	}{
		{"a frozen one", frozen, "", "no answer in 1s"},
		{"one behind a proxy that hangs up", closing, "connection closed", ""},
		{"one whose port is closed", gone, "connection refused", ""},
		{"one that is well", alive, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			defer cancel()
			down, paused := k.isDown(ctx, tc.b), k.isFrozen(t.Context(), tc.b)
			assert.Equal(t, tc.down != "", down.Proven)
			assert.Equal(t, tc.paused != "", paused.Proven)
			assert.Equal(t, tc.b.address(), down.Measured[0].Name)
			assert.NotEmpty(t, paused.Measured[0].Value)
			if tc.down != "" {
				assert.Equal(t, tc.down, down.Measured[0].Value)
			}
			if tc.paused != "" {
				assert.Equal(t, tc.paused, paused.Measured[0].Value)
			}
		})
	}
}

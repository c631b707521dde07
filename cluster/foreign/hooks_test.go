package foreign

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
)

func TestHooksThatLackTheirCounterpartAreRefused(t *testing.T) {
	for _, tc := range []struct {
		hooks Hooks
		want  string
	}{
		{Hooks{Kill: "k"}, `--on-kill "k" needs --on-start: what is killed has to come back`},
		{Hooks{Start: "s"}, "--on-start \"s\" needs --on-kill"},
		{Hooks{Pause: "p"}, "needs --on-resume"},
		{Hooks{Resume: "r"}, "needs --on-pause"},
		{Hooks{Partition: "c", CheckPartition: "x"}, "needs --on-heal"},
		{Hooks{Partition: "c", Heal: "h"}, "needs --check-partition"},
		{Hooks{Heal: "h"}, "needs --on-partition"},
		{Hooks{CheckKill: "x"}, "needs --on-kill"},
		{Hooks{CheckPause: "x"}, "needs --on-pause"},
		{Hooks{CheckPartition: "x"}, "needs --on-partition"},
		{Hooks{Timeout: -1}, "--hook-timeout -1ns: want more than nothing"},
	} {
		_, err := Open(t.Context(), Config{Bootstrap: []string{"127.0.0.1:1"}, Hooks: tc.hooks})
		require.ErrorIs(t, err, ErrConfig)
		assert.ErrorContains(t, err, tc.want)
	}
}

func TestAHookIsToldWhichBrokerItIsAndWhatItPrintsIsKept(t *testing.T) {
	dir := t.TempDir()
	k, _ := fake(t, Config{Hooks: Hooks{Kill: "echo {id} {host} {port} {peers}; echo at fault >&2", Start: "true",
		CheckKill: fmt.Sprintf("cd %s; echo x >> tries; test $(wc -l < tries) -ge 3 && echo third time; ", dir)}})
	var out bytes.Buffer
	k.KeepOutput(&out)
	b, err := k.broker(2)
	require.NoError(t, err)
	e, err := k.Stop(t.Context(), 2, cluster.Kill, nil)
	require.NoError(t, err)
	assert.Equal(t, cluster.Measured("check-kill", "third time"), e, "a check is tried until it shows the fault")
	assert.Contains(t, out.String(), fmt.Sprintf("\n2 127.0.0.1 %d 127.0.0.1 127.0.0.1\nat fault\n", b.port))
	assert.Equal(t, 2, strings.Count(out.String(), "exit status 1, after"), "%s", &out)
	assert.Equal(t, 2, strings.Count(out.String(), "exit status 0, after"))
}

func TestAFaultThatACheckDoesNotShowIsUnproven(t *testing.T) {
	k, _ := fake(t, Config{Hooks: Hooks{Pause: "true", Resume: "true", CheckPause: "echo still there; exit 7"}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // in place of the ten seconds
	defer cancel()
	h := k.pauses.(*hooks)
	b, _ := k.broker(0)
	e, err := h.shown(ctx, "check-pause", h.CheckPause, b)
	if err == nil { // the time was over between two tries, and not during one
		assert.False(t, e.Proven)
		assert.Equal(t, "exit code 7: still there", e.Measured[0].Value)
	} else {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestAHookThatFailsOrTakesTooLongIsAnErrorAndIsUndone(t *testing.T) {
	dir := t.TempDir()
	resumed := fmt.Sprintf("touch %s/resumed-{id}", dir)
	k, _ := fake(t, Config{Hooks: Hooks{Pause: "echo permission denied; exit 4", Resume: resumed, Kill: "sleep 600 & wait", Start: "true", Timeout: 100 * time.Millisecond}})
	_, err := k.Pause(t.Context(), 1, true)
	require.EqualError(t, err, `on-pause 1: "echo permission denied; exit 4": exit code 4: permission denied`)
	began := time.Now()
	_, err = k.Stop(t.Context(), 2, cluster.Kill, nil)
	require.ErrorContains(t, err, "it took longer than 100ms")
	assert.Less(t, time.Since(began), 5*time.Second, "its children are ended with it")

	for _, id := range []cluster.NodeID{0, 1} {
		_, err = k.Pause(t.Context(), id, false)
		require.NoError(t, err)
	}
	assert.FileExists(t, filepath.Join(dir, "resumed-1"))
	assert.NoFileExists(t, filepath.Join(dir, "resumed-0"), "nothing was done to it")
	_, err = k.Start(t.Context(), 2)
	require.NoError(t, err, "the fake broker lives on, and answers")
	require.NoError(t, os.Remove(filepath.Join(dir, "resumed-1")))
	_, err = k.Pause(t.Context(), 1, false)
	require.NoError(t, err)
	assert.NoFileExists(t, filepath.Join(dir, "resumed-1"), "healing twice does nothing")
}

// A broker that a hook starts goes on printing to where the hook's output goes, and nobody waits for it.
func TestAHookMayLeaveAProcessBehind(t *testing.T) {
	dir := t.TempDir()
	k, _ := fake(t, Config{Hooks: Hooks{Kill: "true", CheckKill: "true", Timeout: 20 * time.Second,
		Start: fmt.Sprintf("(while [ ! -e %[1]s/end ]; do echo alive; sleep 0.02; done; touch %[1]s/ended) & echo started", dir)}})
	_, err := k.Stop(t.Context(), 0, cluster.Kill, nil)
	require.NoError(t, err)
	began := time.Now()
	_, err = k.Start(t.Context(), 0)
	require.NoError(t, err)
	assert.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o644))
	require.NoError(t, cluster.WaitFor(t.Context(), 10*time.Second, func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "ended"))
		return err
	}), "it was not killed with the hook, and its printing did not end it")
}

func TestAHookCutsBrokersOffAndLetsThemBack(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut-{id}")
	k, _ := fake(t, Config{Hooks: Hooks{Partition: "touch " + cut, Heal: "rm " + cut, CheckPartition: "test -e " + cut + " && echo {id} is cut off"}})
	assert.Equal(t, Abilities{Partition: true}, k.Abilities())
	alone := func(n cluster.NodeID) (links []cluster.Link) {
		for _, o := range []cluster.NodeID{0, 1, 2} {
			if o != n {
				links = append(links, cluster.Link{From: n, To: o}, cluster.Link{From: o, To: n})
			}
		}
		return links
	}
	require.NoError(t, k.CanCut(alone(0)))
	e, err := k.Links(t.Context(), alone(0))
	require.NoError(t, err)
	assert.True(t, e.Proven)
	assert.Empty(t, e.Measured, "nothing was cut before")
	e, err = k.Links(t.Context(), append(alone(1), cluster.Link{From: 1, To: cluster.ClientsID})) // that one is the hook's to cut or not
	require.NoError(t, err)
	assert.Equal(t, cluster.Measured("check-partition", "0 is cut off"), e, "the evidence is of what ends")
	assert.NoFileExists(t, filepath.Join(dir, "cut-0"))
	assert.FileExists(t, filepath.Join(dir, "cut-1"))
	e, err = k.Links(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, "1 is cut off", e.Measured[0].Value)
	assert.NoFileExists(t, filepath.Join(dir, "cut-1"))

	for _, links := range [][]cluster.Link{{{From: 0, To: 1}}, {{From: 0, To: 1}, {From: 1, To: 0}}, {{From: 0, To: cluster.ClientsID}}} {
		assert.ErrorIs(t, k.CanCut(links), cluster.ErrUnsupported, "%v", links)
	}
}

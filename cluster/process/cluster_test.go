package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/cluster"
	"tidemark/cluster/clustertest"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(harnessIn); dir != "" {
		harness(dir)
	}
	if os.Getenv(waitIn) != "" {
		time.Sleep(time.Hour)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, c cluster.Config) cluster.Cluster {
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	return k
}

func TestProcessesAreACluster(t *testing.T) { clustertest.Run(t, open) }

const patience = 30 * time.Second

// config is a cluster of two brokers.
func config(t *testing.T) cluster.Config {
	brokers := []cluster.NodeID{1, 2}
	return cluster.Config{Run: "test", Dir: t.TempDir(), Brokers: brokers, Rules: rules.Of(rules.KIP320), Settings: node.Defaults(),
		Topics: []node.Topic{{Name: "orders", Partitions: [][]cluster.NodeID{brokers}}}}
}

// openTwo opens a cluster of two brokers and reads its events to their end.
func openTwo(t *testing.T, c cluster.Config) *Cluster {
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(context.Background())) })
	go func() {
		for range k.Events() {
		}
	}()
	return k
}

// pidOf is the process of a node, as its folder says.
func pidOf(t *testing.T, k *Cluster, n cluster.NodeID) int {
	pid, running := nodeOf(filepath.Join(dataDir(k.config.Dir, n), pidFile))
	require.True(t, running)
	return pid
}

func TestANodeThatEndsByItselfIsAnErrorOnceAndDownFromThenOn(t *testing.T) {
	for name, touch := range map[string]func(*Cluster) error{
		"when it is to be started": func(k *Cluster) error { _, err := k.Start(t.Context(), 2); return err },
		"when it is to be killed":  func(k *Cluster) error { _, err := k.Stop(t.Context(), 2, cluster.Kill, nil); return err },
		"when it is to be frozen":  func(k *Cluster) error { _, err := k.Pause(t.Context(), 2, true); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := openTwo(t, config(t))
			require.NoError(t, syscall.Kill(pidOf(t, k, 2), syscall.SIGABRT))
			<-k.nodes[2].child.ended

			_, err := k.Control(t.Context(), 2, control.Command{Do: control.Look})
			require.ErrorContains(t, err, "broker-2")
			require.ErrorContains(t, err, "the process has ended")
			err = touch(k)
			require.ErrorContains(t, err, "broker-2 has ended by itself")
			require.ErrorContains(t, err, "node.log", "it says where to read on")

			_, err = k.Control(t.Context(), 2, control.Command{Do: control.Look})
			require.ErrorContains(t, err, "broker-2 is down")
			_, err = k.Start(t.Context(), 2)
			require.NoError(t, err)
			_, err = k.Control(t.Context(), 2, control.Command{Do: control.Look})
			require.NoError(t, err)
		})
	}
}

func TestANodeThatCannotStartSaysWhyAndLeavesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *cluster.Config)
		want   string
	}{
		{"a binary that is none", func(t *testing.T, c *cluster.Config) { c.Binary = filepath.Join(t.TempDir(), "none") }, "no such file"},
		{"a binary of something else", func(t *testing.T, c *cluster.Config) {
			c.Binary = filepath.Join(t.TempDir(), "other")
			require.NoError(t, os.WriteFile(c.Binary, []byte("#!/bin/sh\necho I am no broker >&2\nexit 3\n"), 0o755))
		}, "exit status 3: I am no broker"},
		{"a folder that is a file", func(t *testing.T, c *cluster.Config) {
			c.Dir = filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(c.Dir, nil, 0o644))
		}, "not a directory"},
		{"a partition that no broker has", func(_ *testing.T, c *cluster.Config) {
			c.Topics[0].Partitions = [][]cluster.NodeID{{1, 7}}
		}, "replica 7 is not one of --brokers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := config(t)
			tc.change(t, &c)
			_, err := Open(t.Context(), c)
			require.ErrorContains(t, err, tc.want)
			assert.Empty(t, childrenIn(t, c.Dir))
		})
	}
}

func TestOpeningCanBeGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := config(t)
	c.Binary = filepath.Join(t.TempDir(), "slow")
	require.NoError(t, os.WriteFile(c.Binary, []byte("#!/bin/sh\necho started >&2\nexec sleep 1000 # "+c.Dir+"\n"), 0o755))
	failed := make(chan error, 1)
	go func() {
		_, err := Open(ctx, c)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		log, _ := os.ReadFile(node.LogPath(dataDir(c.Dir, control.Controller)))
		return strings.Contains(string(log), "started")
	}, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	assert.NoFileExists(t, filepath.Join(dataDir(c.Dir, control.Controller), pidFile), "the process is gone, and so is its file")
}

// childrenIn lists this process's children that are nodes of a run, as the system sees them.
func childrenIn(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	if len(lines) == 0 {
		t.Skip("no /proc here to see processes in")
	}
	for _, path := range lines {
		command, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(command), dir) {
			found = append(found, path+": "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

func TestNoProcessAndNoPortIsLeft(t *testing.T) {
	for _, direct := range []bool{false, true} {
		c := config(t)
		c.Direct = direct
		k := openTwo(t, c)
		assert.Len(t, childrenIn(t, c.Dir), 3)
		_, err := k.Pause(t.Context(), 1, true)
		require.NoError(t, err)
		require.NoError(t, k.Close(t.Context()))
		assert.Empty(t, childrenIn(t, c.Dir))
		for _, address := range k.Bootstrap() {
			assert.Error(t, reach(t, address))
		}
		pids, err := filepath.Glob(filepath.Join(c.Dir, "*", pidFile))
		require.NoError(t, err)
		assert.Empty(t, pids)
	}
}

func TestWithoutLinksAddressesStayTheSameOverRestarts(t *testing.T) {
	c := config(t)
	c.Direct = true
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	defer k.Close(t.Context())
	addresses := k.Bootstrap()
	_, err = k.Stop(t.Context(), 1, cluster.Kill, nil)
	require.NoError(t, err)
	require.Error(t, reach(t, addresses[0]))
	_, err = k.Start(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, reach(t, addresses[0]))
	require.Equal(t, addresses, k.Bootstrap())
	_, err = k.Links(t.Context(), []cluster.Link{{From: 1, To: 2}})
	require.ErrorIs(t, err, cluster.ErrUnsupported)

	// What a start found comes before what followed from it, for each of them.
	require.NoError(t, k.Close(t.Context()))
	var own []string
	for e := range k.Events() {
		if e.Node == 1 {
			own = append(own, e.What)
		}
	}
	require.NotEmpty(t, own)
	require.Equal(t, "recovered", own[0], "%v", own)
}

func reach(t *testing.T, address string) error {
	t.Helper()
	c, err := dialNode(address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func TestManyReplicasReportTheirStartBeforeAnybodyReads(t *testing.T) {
	c := config(t)
	c.Topics[0].Partitions = nil
	for range roomForEvents/2 + 1 { // on two brokers
		c.Topics[0].Partitions = append(c.Topics[0].Partitions, c.Brokers)
	}
	openTwo(t, c)
}

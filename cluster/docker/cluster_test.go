package docker

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/cluster/clustertest"
	"tidemark/cluster/docker/dockertest"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/rules"
)

// open opens a cluster of which nothing may be left after the test.
func open(t *testing.T, c cluster.Config) cluster.Cluster {
	engine := dockertest.Engine(t)
	t.Cleanup(func() { dockertest.NothingLeft(t, engine, c.Run) })
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	return k
}

func TestContainersAreACluster(t *testing.T) {
	dockertest.Engine(t)
	clustertest.Run(t, open)
}

// scenarios are a schedule without and one with power failures.
func scenarios(t *testing.T) []*schedule.File {
	var files []*schedule.File
	for _, name := range []string{"S1b", "S2b"} {
		f, err := schedule.Find(name)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

func TestContainersPlaySchedulesAsTheSimulationDoes(t *testing.T) {
	dockertest.Engine(t)
	clustertest.Schedules(t, open, scenarios(t), []rules.Protocol{rules.HW, rules.KIP320})
}

func TestClustersOfAPoolShareNothingButNetworkAndSandboxes(t *testing.T) {
	engine := dockertest.Engine(t)
	const run = "test-pool"
	p, err := NewPool(t.Context(), run, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close(t.Context()))
		require.NoError(t, p.Close(t.Context()), "twice is once")
		dockertest.NothingLeft(t, engine, run)
	})
	var before map[cluster.NodeID]*sandboxContainer
	for range 2 {
		t.Run("the same schedule", func(t *testing.T) {
			// That it begins with empty logs, the transcript shows.
			clustertest.Schedules(t, func(t *testing.T, c cluster.Config) cluster.Cluster {
				k, err := p.Open(t.Context(), c)
				require.NoError(t, err)
				_, err = p.Open(t.Context(), c)
				require.ErrorIs(t, err, ErrBusy)
				return k
			}, scenarios(t)[:1], []rules.Protocol{rules.KIP320})
		})
		if before != nil {
			assert.Equal(t, before, p.sandboxes)
		}
		before = p.sandboxes
	}
	assert.Len(t, before, 4)
}

func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	engine := dockertest.Engine(t)
	// Each interrupt comes at another point: before and while the network, the sandboxes and the nodes are made.
	for _, after := range []time.Duration{0, 20, 100, 300, 600, 1000} {
		c := cluster.Config{Run: fmt.Sprintf("test-%d-interrupted-%d", os.Getpid(), after), Dir: t.TempDir(), Brokers: []cluster.NodeID{1, 2},
			Rules: rules.Of(rules.KIP320), Settings: node.Defaults()}
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		k, err := Open(ctx, c)
		if err == nil {
			require.NoError(t, k.Close(ctx), "an interrupt does not keep a cluster from being closed")
		} else {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
		dockertest.NothingLeft(t, engine, c.Run)
	}
}

package docker

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/cluster/clustertest"
	"tidemark/cluster/docker/dockertest"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
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
		require.NoError(t, p.Close(context.Background()))
		require.NoError(t, p.Close(context.Background()), "twice is once")
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

// elsewhere is an engine that shares neither its bridges nor our files: ports are published, data is in volumes.
func elsewhere(context.Context, *client.Client) (place, error) { return place{}, nil }

func TestWithAnEngineElsewhereSchedulesPlayTheSame(t *testing.T) {
	engine := dockertest.Engine(t)
	const run = "test-elsewhere"
	p, err := newPool(t.Context(), run, "", elsewhere)
	require.NoError(t, err)
	volumes := map[string]string{} // by sandbox
	t.Cleanup(func() {
		require.NoError(t, p.Close(context.Background()))
		dockertest.NothingLeft(t, engine, run)
		for _, name := range volumes {
			_, err := engine.VolumeInspect(context.Background(), name)
			assert.True(t, errdefs.IsNotFound(err), "volume %s: %v", name, err)
		}
	})
	// The second schedule begins with empty logs, although the volumes are the same.
	for _, f := range scenarios(t) {
		t.Run(f.Name, func(t *testing.T) {
			clustertest.Schedules(t, func(t *testing.T, c cluster.Config) cluster.Cluster {
				k, err := p.Open(t.Context(), c)
				require.NoError(t, err)
				for _, address := range k.Bootstrap() {
					at, err := netip.ParseAddrPort(address)
					require.NoError(t, err)
					assert.True(t, at.Addr().IsLoopback(), "%s must not be for other machines", address)
				}
				for _, s := range p.sandboxes {
					info, err := engine.ContainerInspect(t.Context(), s.id)
					require.NoError(t, err)
					require.Len(t, info.Mounts, 1)
					volumes[s.id] = info.Mounts[0].Name
				}
				t.Cleanup(func() {
					files, err := filepath.Glob(filepath.Join(c.Dir, "*", "*"))
					require.NoError(t, err)
					for _, f := range files {
						assert.Equal(t, "node.log", filepath.Base(f))
					}
				})
				return k
			}, []*schedule.File{f}, []rules.Protocol{rules.KIP320})
		})
	}
}

// small is a cluster of one broker without topics.
func small(t *testing.T, run string) cluster.Config {
	return cluster.Config{Run: fmt.Sprintf("test-%d-%s", os.Getpid(), run), Dir: t.TempDir(), Brokers: []cluster.NodeID{1},
		Rules: rules.Of(rules.KIP320), Settings: node.Defaults()}
}

func TestANodeThatCannotStartSaysWhyAndLeavesNothing(t *testing.T) {
	engine := dockertest.Engine(t)
	c := small(t, "refused")
	c.Topics = []node.Topic{{Name: "orders", Partitions: [][]cluster.NodeID{{7}}}}
	_, err := Open(t.Context(), c)
	require.ErrorContains(t, err, "starting broker-1: it ended at once (exited with code 254)")
	assert.ErrorContains(t, err, "replica 7 is not one of --brokers [1]", "the last line of its log")
	dockertest.NothingLeft(t, engine, c.Run)

	c = small(t, "colon")
	c.Dir += ":"
	_, err = Open(t.Context(), c)
	require.ErrorContains(t, err, "the engine cannot mount a path with a colon")
	dockertest.NothingLeft(t, engine, c.Run)
}

func TestANodeThatEndsByItselfIsDown(t *testing.T) {
	engine := dockertest.Engine(t)
	c := small(t, "ended")
	k, ok := open(t, c).(*Cluster)
	require.True(t, ok)
	defer func() { require.NoError(t, k.Close(t.Context())) }()
	look := control.Command{Do: control.Look}
	_, err := k.Control(t.Context(), 1, look)
	require.NoError(t, err)

	dying := k.members[1].life
	require.NoError(t, engine.ContainerKill(t.Context(), dying.id, "KILL"))
	<-dying.ended()
	_, err = k.Control(t.Context(), 1, look)
	require.ErrorContains(t, err, "broker-1")
	assert.ErrorContains(t, err, "it exited with code 137 (killed)")
	_, err = k.Pause(t.Context(), 1, true)
	require.ErrorContains(t, err, "broker-1 is down")

	_, err = k.Start(t.Context(), 1)
	require.NoError(t, err)
	reply, err := k.Control(t.Context(), 1, look)
	require.NoError(t, err)
	assert.EqualValues(t, 1, reply.View.Node)
}

func TestACommandThatWasGivenUpDoesNotSpoilTheNext(t *testing.T) {
	k := open(t, small(t, "given-up"))
	defer func() { require.NoError(t, k.Close(t.Context())) }()
	_, err := k.Pause(t.Context(), 1, true)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = k.Control(ctx, 1, control.Command{Do: control.Look})
	require.ErrorIs(t, err, context.DeadlineExceeded, "a paused node does not answer")
	_, err = k.Pause(t.Context(), 1, false)
	require.NoError(t, err)
	_, err = k.Control(t.Context(), 1, control.Command{Do: control.Look})
	require.NoError(t, err)
}

func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	engine := dockertest.Engine(t)
	// Each interrupt comes at another point: before and while the network, the sandboxes and the nodes are made.
	for _, after := range []time.Duration{0, 20, 100, 300, 600, 1000} {
		c := small(t, fmt.Sprintf("interrupted-%d", after))
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

package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/sandbox"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/rules"
)

// BenchmarkPair measures what a fault costs, on a node that is up:
//
//	go test -run '^$' -bench Pair -benchtime 10x ./cluster/docker
func BenchmarkPair(b *testing.B) {
	f := newField(b)
	s := f.sandbox("broker-1")
	n := f.echo("broker-1", s, newOutput())

	b.Run("kill", func(b *testing.B) {
		for b.Loop() {
			_, err := n.kill(b.Context())
			require.NoError(b, err)
			b.StopTimer()
			n = f.echo("broker-1", s, newOutput())
			b.StartTimer()
		}
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			_, err := n.kill(b.Context())
			require.NoError(b, err)
			b.StartTimer()
			n = f.echo("broker-1", s, newOutput())
		}
	})
	b.Run("pause and resume", func(b *testing.B) {
		for b.Loop() {
			for _, on := range []bool{true, false} {
				_, err := n.pause(b.Context(), on)
				require.NoError(b, err)
			}
		}
	})
	b.Run("cut", func(b *testing.B) {
		rules := []sandbox.Rule{{Peer: f.network.gateway, Direction: sandbox.In}, {Peer: f.network.gateway, Direction: sandbox.Out}}
		for b.Loop() {
			_, err := s.rules.Replace(b.Context(), rules)
			require.NoError(b, err)
		}
	})
}

// BenchmarkPairs measures what a cluster costs before it does anything: a network and pairs of containers, all at once,
// made and removed.
func BenchmarkPairs(b *testing.B) {
	for _, nodes := range []int{1, 4} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			var up, down time.Duration
			for b.Loop() {
				f := newField(b)
				began := time.Now()
				sandboxes := make([]*sandboxContainer, nodes)
				all := make([]*nodeContainer, nodes)
				each(b, nodes, func(i int) {
					name := fmt.Sprintf("broker-%d", i+1)
					sandboxes[i] = f.sandbox(name)
					all[i] = f.echo(name, sandboxes[i], newOutput())
				})
				up += time.Since(began)
				began = time.Now()
				each(b, nodes, func(i int) { require.NoError(b, all[i].remove(b.Context())) })
				each(b, nodes, func(i int) { require.NoError(b, sandboxes[i].remove(b.Context(), f.c)) })
				require.NoError(b, f.network.remove(b.Context(), f.c))
				down += time.Since(began)
			}
			b.ReportMetric(up.Seconds()/float64(b.N), "s-up/op")
			b.ReportMetric(down.Seconds()/float64(b.N), "s-down/op")
		})
	}
}

// BenchmarkSchedule measures the parts of what "tidemark reproduce --on docker" does for each cell:
//
//	go test -run '^$' -bench Schedule -benchtime 5x ./cluster/docker
//
// The first schedule of a run also makes the pool, which is measured by itself.
func BenchmarkSchedule(b *testing.B) {
	c := dockertest.Engine(b)
	run := fmt.Sprintf("bench-%d", os.Getpid())
	began := time.Now()
	p, err := NewPool(b.Context(), run, "")
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, p.Close(context.Background()))
		dockertest.NothingLeft(b, c, run)
	})
	b.Logf("network and image: %.2f s", time.Since(began).Seconds())
	files, err := schedule.All()
	require.NoError(b, err)
	for _, f := range files {
		b.Run(f.Name, func(b *testing.B) {
			var spent [3]time.Duration
			for b.Loop() {
				began := time.Now()
				lap := func(i int) {
					spent[i] += time.Since(began)
					began = time.Now()
				}
				k, err := p.Open(b.Context(), cluster.Config{Dir: b.TempDir(), Brokers: f.Cluster.Replicas, Hold: true, Rules: f.Rules(rules.KIP320),
					Topics:   []node.Topic{{Name: "orders", Partitions: [][]cluster.NodeID{f.Cluster.Replicas}}},
					Settings: settings(f)})
				require.NoError(b, err)
				stage, err := cluster.NewStage(b.Context(), k)
				require.NoError(b, err)
				lap(0)
				played, err := schedule.Play(b.Context(), f, rules.KIP320, f.Rules(rules.KIP320), stage, &history.Memory{})
				require.NoError(b, err)
				require.Empty(b, played.Inconclusive)
				lap(1)
				require.NoError(b, stage.Close(b.Context()))
				lap(2)
			}
			for i, name := range []string{"s-open/op", "s-play/op", "s-close/op"} {
				b.ReportMetric(spent[i].Seconds()/float64(b.N), name)
			}
		})
	}
}

func settings(f *schedule.File) node.Settings {
	s := node.Defaults()
	s.MinISR, s.Unclean = f.Cluster.MinISR, f.Cluster.Unclean
	return s
}

// each does something for n nodes at once, and ends the benchmark when one of them has failed.
func each(b *testing.B, n int, do func(i int)) {
	b.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

package docker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/cluster/docker/sandbox"
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

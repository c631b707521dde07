package workload

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

// BenchmarkRun measures recorded operations a second: clients and three brokers over loopback in one process, with the history
// written as to a file. The brokers keep their logs in memory and replicate in no time, so that it shows what the clients cost.
// cpu-us/op is the processor time of both sides, which other work on the machine disturbs less.
//
//	go test -run '^$' -bench Run -benchtime 100000x ./workload
func BenchmarkRun(b *testing.B) {
	for _, clients := range []int{1, 10, 40, 100} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			cluster := newTestCluster(b, 3, orders(4))
			writer, err := history.NewWriter(io.Discard, history.Header{}, nil)
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			sink := sinkFunc(func(e *history.Event) error {
				err := writer.Append(e)
				if e.Seq >= int64(2*b.N) {
					cancel()
				}
				return err
			})
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			stats, err := Run(ctx, Config{Topics: []history.Topic{orders(4)}, Clients: clients, Seed: 1}, cluster, sink)
			b.StopTimer()
			cpu = cpuTime() - cpu
			require.NoError(b, err)
			totals := stats.Totals()
			require.Less(b, totals.Failed+totals.Unknown, int64(2*clients)+1)
			b.ReportMetric(float64(totals.Operations())/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(cpu.Microseconds())/float64(totals.Operations()), "cpu-us/op")
			b.ReportMetric(float64(totals.Values)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkGenerator measures the choice of an operation.
func BenchmarkGenerator(b *testing.B) {
	g, err := NewGenerator(Config{Topics: []history.Topic{orders(4)}}, 0)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		op := g.Next()
		g.Learn(op, Answer{Kind: history.OK, Offset: op.From + 1, HighWatermark: op.From + 5})
	}
}

// sinkFunc is a sink of one function.
type sinkFunc func(e *history.Event) error

func (f sinkFunc) Append(e *history.Event) error { return f(e) }

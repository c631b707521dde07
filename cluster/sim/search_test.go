package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

func TestASeedGivesTheSameSearchTwice(t *testing.T) {
	for _, s := range Severities() {
		search := Search{Cluster: threeBrokers(), Court: Court{Protocol: rules.KIP279, Rules: rules.Of(rules.KIP279)}, Severity: s, Seed: 5,
			Schedules: 200, KeepGoing: true}
		first, err := search.Run(context.Background())
		require.NoError(t, err)
		again, err := search.Run(context.Background())
		require.NoError(t, err)
		assert.Equal(t, first, again, "severity %s", s)

		search.Seed++
		other, err := search.Run(context.Background())
		require.NoError(t, err)
		assert.NotEqual(t, first.Trace, other.Trace, "severity %s", s)
	}
}

func BenchmarkRandomSchedules(b *testing.B) {
	for _, replicas := range []int{2, 3, 5} {
		b.Run(fmt.Sprintf("%d replicas", replicas), func(b *testing.B) {
			counts := &Counts{}
			begin, err := NewWorld(schedule.Cluster{Replicas: []control.NodeID{1, 2, 3, 4, 5}[:replicas], MinISR: 2}, rules.Of(rules.KIP320), nil, counts)
			require.NoError(b, err)
			b.ReportAllocs()
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
			var w World
			k := &walker{}
			before := processorTime()
			for i := range b.N {
				begin.CloneTo(&w)
				k.start(&w, streamOf(1, int64(i)), Failover.Faults())
				k.run(100)
				k.w.End()
				k.w.Judge()
			}
			took := processorTime() - before
			b.ReportMetric(float64(counts.Steps)/took.Seconds(), "steps/cpu-s")
			b.ReportMetric(float64(b.N)/took.Minutes(), "schedules/cpu-min")
		})
	}
}

func BenchmarkShrinking(b *testing.B) {
	court := Court{Protocol: rules.HW, Rules: rules.Of(rules.HW)}
	x, err := Search{Cluster: threeBrokers(), Court: court, Severity: Sane, Seed: 1}.Run(context.Background())
	require.NoError(b, err)
	require.Len(b, x.Finds, 1)
	before := processorTime()
	for range b.N {
		s, err := Shrink(context.Background(), court, x.Finds[0].File, x.Finds[0].Kinds)
		require.NoError(b, err)
		b.ReportMetric(float64(s.Tried), "tried/op")
		b.ReportMetric(float64(s.Played), "played/op")
		b.ReportMetric(float64(len(s.File.Steps)), "steps-left")
	}
	b.ReportMetric(1000*(processorTime()-before).Seconds()/float64(b.N), "cpu-ms/op")
}

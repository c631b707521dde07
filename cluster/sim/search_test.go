package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	counts := &Counts{}
	begin, err := NewWorld(threeBrokers(), rules.Of(rules.KIP320), nil, counts)
	require.NoError(b, err)
	b.ReportAllocs()
	for i := range b.N {
		k := newWalker(begin.Clone(), streamOf(1, int64(i)), Failover)
		k.run(100)
		k.w.End()
	}
	b.ReportMetric(float64(counts.Steps)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Minutes(), "schedules/min")
}

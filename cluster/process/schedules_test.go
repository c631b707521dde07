package process

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/cluster/clustertest"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func TestSchedulesGiveTheTranscriptsOfTheSimulation(t *testing.T) {
	all, err := schedule.All()
	require.NoError(t, err)
	scenarios := []string{"S1", "S1b", "S1c", "S2", "S2b"}
	isScenario := func(f *schedule.File) bool { return slices.Contains(scenarios, f.Name) }
	kip101 := slices.DeleteFunc(slices.Clone(all), func(f *schedule.File) bool { return !isScenario(f) })
	require.Len(t, kip101, len(scenarios))
	clustertest.Schedules(t, open, kip101, rules.Protocols())
	// What became of the protocol later is played where it ends: each schedule meets messages that the others do not.
	clustertest.Schedules(t, open, slices.DeleteFunc(slices.Clone(all), isScenario), []rules.Protocol{rules.KIP320})
}

package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
)

func TestFaultsAreNamedAndCombined(t *testing.T) {
	f, err := ParseFaults([]string{"power", "kill"})
	require.NoError(t, err)
	assert.Equal(t, FaultKill|FaultPower, f)
	assert.Equal(t, "kill,power", f.String())
	assert.Equal(t, "kill,isolate,lag,failover,zombies,power", Power.Faults().String(), "the ladder ends with everything")
	assert.Equal(t, "kill,isolate,lag", Sane.Faults().String())

	_, err = ParseFaults([]string{"kill", "gravity"})
	assert.EqualError(t, err, `fault "gravity": want some of kill, isolate, lag, failover, zombies, power`)
	_, err = ParseFaults(nil)
	assert.EqualError(t, err, "no faults: want some of kill, isolate, lag, failover, zombies, power")
}

func TestASearchDrawsTheFaultsThatItIsToldAndNoOthers(t *testing.T) {
	counts := func(f Faults) (drawn [ops]int) {
		s := Search{Cluster: threeBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}, Faults: f, Seed: 2, Schedules: 60}
		s.after = func(_ int64, _ *World, m move) { drawn[m.op]++ }
		_, err := s.Run(context.Background())
		require.NoError(t, err)
		return drawn
	}
	of := map[op]Faults{opKill: FaultKill, opIsolate: FaultIsolate, opTransfer: FaultFailover, opDeliver: FaultZombies, opPower: FaultPower}
	for _, only := range of {
		drawn := counts(only)
		for o, f := range of {
			if f == only {
				assert.NotZero(t, drawn[o], "%s with faults %s", opVerbs[o].verb, only)
			} else {
				assert.Zero(t, drawn[o], "%s with faults %s", opVerbs[o].verb, only)
			}
		}
	}
}

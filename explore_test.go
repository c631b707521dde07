package tidemark_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker/history"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func TestExploringFindsShrinksAndSaysWhatToExpect(t *testing.T) {
	told := 0
	x, err := tidemark.Explore(context.Background(), tidemark.ExploreConfig{Protocol: rules.HW, Replicas: 3, MinISR: 2, Schedules: 500, Seed: 1,
		Severity: sim.Sane, Found: func(tidemark.Found) { told++ }})
	require.NoError(t, err)
	require.Len(t, x.Found, 1)
	assert.Equal(t, 1, told)
	assert.False(t, x.Clean())
	f := x.Found[0].File
	assert.LessOrEqual(t, len(f.Steps), 15)
	assert.Equal(t, "violation", f.Expected(rules.HW, "").Verdict)
	assert.Equal(t, "consistent", f.Expected(rules.KIP101, "").Verdict)

	again, err := schedule.Parse("found.sched", f.String())
	require.NoError(t, err)
	r, err := tidemark.Replay(context.Background(), tidemark.ReplayConfig{File: again, Protocol: rules.HW, On: tidemark.OnSim, Root: t.TempDir()})
	require.NoError(t, err)
	assert.True(t, r.Cell.OK, r.Cell.Why)
	assert.True(t, r.Same, r.Differs)
	assert.True(t, r.Violation())

	why, p, err := tidemark.Explain(context.Background(), tidemark.ExplainConfig{File: again, Futures: 20})
	require.NoError(t, err)
	assert.Equal(t, rules.HW, p)
	assert.Contains(t, why.With(sim.Prevents), "truncation=kip101")
}

func TestExploringAScopeSaysWhetherItIsClean(t *testing.T) {
	c := tidemark.ExploreConfig{Protocol: rules.KIP320, Replicas: 2, MinISR: 2, Exhaustive: true,
		Scope: sim.Scope{Records: 1, Epochs: 2, Changes: 1, LeaveOut: []schedule.Verb{schedule.Lag}}}
	x, err := tidemark.Explore(context.Background(), c)
	require.NoError(t, err)
	assert.True(t, x.Clean())
	assert.Empty(t, x.Found)

	c.Scope.MaxStates = 100
	x, err = tidemark.Explore(context.Background(), c)
	require.NoError(t, err)
	assert.False(t, x.Clean(), "it was stopped")

	c.Scope.MaxStates, c.Scope.Crashes, c.Scope.Power, c.Budget = 0, 1, 1, history.BudgetMinISR
	x, err = tidemark.Explore(context.Background(), c)
	require.NoError(t, err)
	require.Len(t, x.Found, 1, "KIP-320 does not survive what KIP-966 promises to")
}

func TestExploringStopsWhenTimeIsOver(t *testing.T) {
	x, err := tidemark.Explore(context.Background(), tidemark.ExploreConfig{Protocol: rules.KIP966, Replicas: 3, MinISR: 2, Time: 50 * time.Millisecond,
		Severity: sim.Zombies})
	require.NoError(t, err)
	assert.True(t, x.Clean())
	assert.Equal(t, "time is over", x.Random.Stopped)
}

func TestSearchesThatCannotBeAreRefused(t *testing.T) {
	good := tidemark.ExploreConfig{Protocol: rules.HW, Replicas: 3, MinISR: 2, Schedules: 1}
	for want, spoil := range map[string]func(*tidemark.ExploreConfig){
		"9 replicas: want 1 to 5":         func(c *tidemark.ExploreConfig) { c.Replicas = 9 },
		"min.insync.replicas=4":           func(c *tidemark.ExploreConfig) { c.MinISR = 4 },
		`unknown rule "gravity"`:          func(c *tidemark.ExploreConfig) { c.Without = []string{"gravity"} },
		"impossible scope: 0 records":     func(c *tidemark.ExploreConfig) { c.Exhaustive = true },
		"unknown protocol \"kip1\": want": func(c *tidemark.ExploreConfig) { c.Protocol = "kip1" },
	} {
		c := good
		spoil(&c)
		_, err := tidemark.Explore(context.Background(), c)
		assert.ErrorContains(t, err, want)
	}
	_, err := tidemark.ParseBudget("many")
	assert.EqualError(t, err, `crash budget "many": want isr, min-isr or all`)
}

func TestWhatIsNoViolationIsNeitherShrunkNorExplained(t *testing.T) {
	f, err := schedule.Find("S1b")
	require.NoError(t, err)
	_, err = tidemark.Replay(context.Background(), tidemark.ReplayConfig{File: f, Protocol: rules.KIP101, On: tidemark.OnSim, Shrink: true, Root: t.TempDir()})
	assert.EqualError(t, err, "schedule S1b under kip101 in simulation: there is no violation to shrink")

	f, err = schedule.Find("S6b")
	require.NoError(t, err)
	_, _, err = tidemark.Explain(context.Background(), tidemark.ExplainConfig{File: f})
	assert.EqualError(t, err, "schedule S6b under any protocol: there is no violation to explain")
}

func TestAnInterruptedSearchKeepsWhatItSaw(t *testing.T) {
	for name, c := range map[string]tidemark.ExploreConfig{
		"random":     {Protocol: rules.KIP966, Replicas: 3, MinISR: 2, Severity: sim.Zombies},
		"exhaustive": {Protocol: rules.KIP966, Replicas: 3, MinISR: 2, Exhaustive: true, Scope: sim.Scope{Records: 2, Epochs: 3, Changes: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			looks := 0
			c.Progress = func(at *tidemark.Exploration) {
				if looks++; looks == 4 {
					cancel()
				}
			}
			x, err := tidemark.Explore(ctx, c)
			require.NoError(t, err)
			assert.False(t, x.Clean(), "it did not see all")
			if x.Random != nil {
				assert.Equal(t, sim.Interrupted, x.Random.Stopped)
				assert.Equal(t, int64(4*64), x.Random.Counts.Schedules)
				return
			}
			assert.Equal(t, sim.Interrupted, x.Exhaustive.Stopped)
			assert.Greater(t, x.Exhaustive.Expanded, 256)
			assert.Less(t, x.Exhaustive.Expanded, x.Exhaustive.States)
		})
	}
}

func TestWhatAnInterruptedSearchFoundIsGivenAsItWasFound(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x, err := tidemark.Explore(ctx, tidemark.ExploreConfig{Protocol: rules.HW, Replicas: 3, MinISR: 2, Seed: 1, Severity: sim.Sane, KeepGoing: true,
		Progress: func(at *tidemark.Exploration) {
			if len(at.Random.Finds) > 0 {
				cancel()
			}
		}})
	require.NoError(t, err)
	require.NotEmpty(t, x.Found)
	assert.Nil(t, x.Found[0].Shrunk)
	assert.Equal(t, x.Found[0].Find.File, x.Found[0].File)
	assert.Equal(t, sim.Interrupted, x.Random.Stopped)
}

func TestASearchThatIsRunTwiceComesToTheSame(t *testing.T) {
	x, err := tidemark.Explore(context.Background(), tidemark.ExploreConfig{Protocol: rules.KIP966, Replicas: 3, MinISR: 2, Schedules: 100, Seed: 1,
		Faults: sim.FaultKill | sim.FaultPower, Twice: true})
	require.NoError(t, err)
	assert.True(t, x.Clean())
	assert.NotZero(t, x.Random.Counts.PowerLosses)
}

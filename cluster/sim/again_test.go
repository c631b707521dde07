package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func searchTwice(t *testing.T, s Search) error {
	t.Helper()
	s.Recorded = true
	first, err := s.Run(context.Background())
	require.NoError(t, err)
	return s.Again(context.Background(), first)
}

// planted is a search in which something happens in one step of one schedule that no seed decides: the high watermark of broker 2
// is on its disk in some plays of the schedule and in others not.
func planted(at int64, step int, happens func(play int) bool) Search {
	plays, steps := 0, 0
	former := int64(-1)
	s := Search{Cluster: threeBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}, Severity: Failover, Seed: 3, Schedules: 40,
		KeepGoing: true}
	s.after = func(schedule int64, w *World, _ move) {
		if schedule != at {
			former = schedule
			return
		}
		if former != at || steps == stepsOfSchedule {
			plays, steps, former = plays+1, 0, at
		}
		if steps++; steps == step && happens(plays) {
			w.own(1).disk.CheckpointOne(w.c.topic.Partition, 99)
		}
	}
	return s
}

func TestWhatNoSeedDecidesIsBisectedToItsFirstStep(t *testing.T) {
	err := searchTwice(t, planted(17, 31, func(play int) bool { return play%2 == 0 }))
	var m *Mismatch
	require.ErrorAs(t, err, &m)
	assert.Equal(t, int64(17), m.Schedule)
	assert.Equal(t, 31, m.Step)
	assert.Equal(t, "broker 2", m.What)
	_, known := schedule.Parse("step.sched", "schedule step  The step\ncluster replicas=1,2,3 min.insync.replicas=2\n"+m.Moved+"\nexpect hw+ consistent\n")
	require.NoError(t, known, "the step is written as in schedules")
	assert.EqualError(t, err, "the search is not deterministic: two runs differ from step 31 of schedule 17 on ("+m.Moved+"), in the state of broker 2")
}

func TestWhatOutlivesAScheduleIsNamedByTheScheduleAlone(t *testing.T) {
	err := searchTwice(t, planted(17, 31, func(play int) bool { return play == 1 }))
	assert.EqualError(t, err, "the search is not deterministic: two runs differ from schedule 17 on, which comes to the same 64 times when it is played alone: "+
		"something outlives a schedule")
}

func TestAnInterruptedComparisonSaysHowFarItCame(t *testing.T) {
	s := planted(-1, 0, nil)
	s.Recorded = true
	first, err := s.Run(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = s.Again(ctx, first)
	assert.ErrorIs(t, err, context.Canceled)
	assert.EqualError(t, err, "comparing two runs: context canceled after 0 of 40 schedules, which are the same")
}

// TestEverySeedGivesTheSameSearchTwice runs the seeds of all other tests twice.
func TestEverySeedGivesTheSameSearchTwice(t *testing.T) {
	n := int64(12)
	if testing.Short() {
		n = 6
	}
	for _, p := range rules.Protocols() {
		for _, s := range Severities() {
			for _, seed := range []uint64{1, 5, 7, 11} {
				assert.NoError(t, searchTwice(t, Search{Cluster: threeBrokers(), Court: Court{Protocol: p, Rules: rules.Of(p)}, Severity: s, Seed: seed,
					Schedules: n, KeepGoing: true}), "%s, severity %s, seed %d", p, s, seed)
			}
		}
	}
}

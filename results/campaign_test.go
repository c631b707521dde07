package results

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func outcome(task string, status Status, day int) Outcome {
	o := Outcome{Task: task, Cell: "run --protocol kip320", Command: "run --protocol kip320 --seed " + task, Status: status,
		Began: time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC), Seconds: 2, Events: map[string]int64{"acked": 10}}
	if status == Violation {
		o.Fingerprint = "lost-acked under kip320"
		o.Findings = []Finding{{Anomaly: "lost-acked", Sentence: "offset 1 is gone.", Count: 1}}
	}
	return o
}

func caught() Outcome {
	o := outcome("control", Violation, 1)
	o.Control = true
	return o
}

func campaignOf(t *testing.T, root string, tasks int, outcomes ...Outcome) *Campaign {
	c, err := NewCampaign(root, Campaign{Name: "nightly", Tasks: tasks, Config: "name: nightly"})
	require.NoError(t, err)
	for _, o := range outcomes {
		require.NoError(t, c.Append(o))
	}
	return c
}

func TestWhatAKillCutOffIsNotThereAndSpoilsNothing(t *testing.T) {
	c := campaignOf(t, t.TempDir(), 3, outcome("1", Consistent, 1))
	path := filepath.Join(c.Path(), Outcomes)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, []byte(`{"task":"2","sta`)...), 0o644))

	again, err := OpenCampaign(c.Path())
	require.NoError(t, err)
	assert.Equal(t, c.Config, again.Config)
	require.NoError(t, again.Append(outcome("3", Allowed, 1)))
	outcomes, err := again.Outcomes()
	require.NoError(t, err)
	require.Len(t, outcomes, 2)
	assert.Equal(t, outcome("1", Consistent, 1), outcomes[0])
	assert.Equal(t, "3", outcomes[1].Task)

	_, err = OpenCampaign(t.TempDir())
	require.ErrorIs(t, err, ErrCampaign)
}

func TestACampaignIsGreenOnlyIfEverythingWasDecidedAndItsDefectWasCaught(t *testing.T) {
	missed := caught()
	missed.Status = Consistent
	known := outcome("2", Violation, 1)
	known.Known = "TICKET-7"
	for _, tc := range []struct {
		name     string
		tasks    int
		minimum  map[string]int64
		outcomes []Outcome
		status   Status
		why      []string
		code     int
	}{
		{"all is well", 2, map[string]int64{"acked": 10}, []Outcome{caught(), outcome("1", Consistent, 1)}, Consistent, nil, 0},
		{"something is allowed", 3, nil, []Outcome{caught(), outcome("1", Consistent, 1), outcome("2", Allowed, 1)}, Allowed, nil, 0},
		{"a violation outranks everything", 4, map[string]int64{"acked": 99}, []Outcome{missed, outcome("1", Violation, 1), outcome("2", Failed, 1)}, Violation,
			[]string{"1 violation"}, 1},
		{"a known violation is none", 3, nil, []Outcome{caught(), outcome("1", Consistent, 1), known}, Consistent, nil, 0},
		{"its defect was not caught", 2, nil, []Outcome{missed, outcome("1", Consistent, 1)}, Inconclusive, []string{"1 run with a defect not caught"}, 2},
		{"it had no defect", 1, nil, []Outcome{outcome("1", Consistent, 1)}, Inconclusive,
			[]string{"no run with a defect shows that defects are found here"}, 2},
		{"too little happened", 2, map[string]int64{"acked": 11}, []Outcome{caught(), outcome("1", Consistent, 1)}, Inconclusive,
			[]string{"10 acked, at least 11 are needed"}, 2},
		{"the harness failed and a run was not done", 4, nil, []Outcome{caught(), outcome("1", Consistent, 1), outcome("2", Failed, 1)}, Inconclusive,
			[]string{"the harness failed in 1 run", "1 run not done"}, 2},
		{"nothing but what is not supported", 2, nil, []Outcome{caught(), outcome("1", Unsupported, 1)}, Inconclusive, []string{"nothing was decided"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := campaignOf(t, t.TempDir(), tc.tasks, tc.outcomes...)
			c.Minimum = tc.minimum
			s, err := c.Summarize()
			require.NoError(t, err)
			assert.Equal(t, tc.status, s.Status)
			assert.Equal(t, tc.why, s.Why)
			assert.Equal(t, tc.code, s.ExitCode())
		})
	}
}

func TestFiftyFailuresOfOneKindAreOneEntryWithItsHistory(t *testing.T) {
	root := t.TempDir()
	campaignOf(t, root, 1, outcome("1", Violation, 2), outcome("2", Violation, 3))
	campaignOf(t, root, 1, outcome("1", Consistent, 4))
	require.NoError(t, os.Mkdir(filepath.Join(root, "20261129-101500-run-7f3a"), 0o755))
	c := campaignOf(t, root, 61, caught())
	for i := range 60 {
		status := Violation
		if i >= 50 {
			status = Consistent
		}
		require.NoError(t, c.Append(outcome(fmt.Sprint(i), status, 5)))
	}
	other := outcome("other", Failed, 6)
	other.Fingerprint = "harness: no such file"
	require.NoError(t, c.Append(other))
	s, err := c.Summarize()
	require.NoError(t, err)
	require.Len(t, s.Failures, 2)
	f := s.Failures[0]
	assert.Equal(t, "lost-acked under kip320", f.Fingerprint)
	assert.Equal(t, []int{50, 61, 2}, []int{f.Hits, f.Runs, f.Campaigns})
	assert.Equal(t, 2, f.First.Day())
	assert.Equal(t, 5, f.Last.Day())
	assert.Equal(t, "0", f.Example.Task)
	assert.Equal(t, "harness: no such file", s.Failures[1].Fingerprint)
	assert.Equal(t, int64(610), s.Events["acked"], "those of the defect do not count")
}

func TestShardsThatArePutTogetherAreTheWhole(t *testing.T) {
	root := t.TempDir()
	one, two := outcome("1", Consistent, 2), outcome("2", Violation, 1)
	two.Folder, two.Schedule = "runs/b", "found/b.sched"
	a := campaignOf(t, root, 2, caught(), one)
	b := campaignOf(t, root, 2, caught(), two)
	whole, err := Merge(root, []string{a.Path(), b.Path()})
	require.NoError(t, err)
	s, err := whole.Summarize()
	require.NoError(t, err)
	assert.Equal(t, 3, s.Tasks, "the control that both have counts once")
	assert.Zero(t, s.Missing)
	assert.Equal(t, Violation, s.Status)
	assert.Equal(t, []string{a.ID, b.ID}, s.Merged)
	assert.Equal(t, 1, s.Failures[0].Campaigns, "its parts are no campaigns beside it")
	last := s.Outcomes[len(s.Outcomes)-1]
	assert.Equal(t, "1", last.Task, "in the order of time")
	for _, o := range s.Outcomes {
		if o.Task == "2" {
			assert.Equal(t, filepath.Join(b.Path(), "runs", "b"), filepath.Join(whole.Path(), o.Folder))
			assert.Equal(t, filepath.Join(b.Path(), "found", "b.sched"), filepath.Join(whole.Path(), o.Schedule))
		}
	}

	different, err := NewCampaign(root, Campaign{Name: "gate"})
	require.NoError(t, err)
	_, err = Merge(root, []string{a.Path(), different.Path()})
	require.ErrorContains(t, err, "is of campaign gate, those before are of nightly")
	_, err = Merge(root, nil)
	require.Error(t, err)
}

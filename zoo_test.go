package tidemark_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// unscheduled are the defects that no schedule shows: schedules do not speak of idempotent producers.
var unscheduled = []string{"Z33"}

// zoo makes a part of the detection matrix.
func zoo(t *testing.T, c tidemark.ZooConfig) []tidemark.Detection {
	t.Helper()
	matrix, err := tidemark.Zoo(context.Background(), c)
	require.NoError(t, err)
	require.NotEmpty(t, matrix)
	for _, d := range matrix {
		for _, a := range d.Attempts {
			assert.Zero(t, a.Unconfirmed, "%s by %s: the checker did not see what went wrong", d.ID, a.Means)
			assert.NotZero(t, a.Runs, "%s by %s", d.ID, a.Means)
		}
	}
	return matrix
}

// told is what was found of a defect, and by what.
func told(d tidemark.Detection) string {
	var b strings.Builder
	for _, a := range d.Attempts {
		fmt.Fprintf(&b, "%s: found %t by %q: %v after %d, %.1f s\n", a.Means, a.Found, a.By, a.Anomalies, a.Runs, a.Seconds)
		if a.File != nil {
			b.WriteString(a.File.String())
		}
	}
	return b.String()
}

// Each defect is found by a schedule that is no violation without it, and the control, whose losses the configuration asks for,
// by none.
func TestEveryDefectIsFoundByASchedule(t *testing.T) {
	text, err := os.ReadFile("nemesis/README.md")
	require.NoError(t, err)
	for _, d := range zoo(t, tidemark.ZooConfig{Means: []tidemark.Means{tidemark.BySchedule}}) {
		a, _ := d.By(tidemark.BySchedule)
		row := fmt.Sprintf("\n| %s | %s | ", d.ID, d.Defect.Source)
		if a.Found {
			row += a.By + ": "
		}
		assert.Contains(t, string(text), row, "the table in nemesis/README.md is another")
		switch {
		case d.Control:
			assert.False(t, a.Found, "the control is flagged by %s: %v", a.By, a.Anomalies)
			assert.NotZero(t, a.Allowed, "nothing was lost, so that there was nothing to be flagged")
		case slices.Contains(unscheduled, d.ID):
			assert.False(t, a.Found, "%s is found after all, by %s: it is not unscheduled any more", d.ID, a.By)
		default:
			assert.True(t, a.Found, "%s: %s", d.ID, d.Defect.Says)
			assert.NotEmpty(t, a.Anomalies, d.ID)
		}
	}
}

// Without any defect the same schedules show nothing, in each of the sets of rules in which defects live.
func TestNoScheduleShowsADefectThatIsNotThere(t *testing.T) {
	var livesElsewhere []string
	var sets []rules.Set
	for _, d := range rules.Defects() {
		if sound, err := d.Sound(); d.Unseeded == "" && (d.Control || !slices.Contains(sets, sound)) {
			require.NoError(t, err)
			livesElsewhere, sets = append(livesElsewhere, d.ID), append(sets, sound)
		}
	}
	require.Len(t, livesElsewhere, 4)
	matrix := zoo(t, tidemark.ZooConfig{Defects: livesElsewhere, Means: []tidemark.Means{tidemark.BySchedule}, Without: true})
	for _, d := range matrix {
		assert.False(t, d.Found(), "%s: %s", d.ID, told(d))
	}
}

// The schedules of the zoo do what they say under every protocol, and with the defect whose name they have.
func TestTheZoosSchedulesDoWhatTheySay(t *testing.T) {
	files, err := schedule.Zoo()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		d, err := rules.FindDefect(f.Name)
		require.NoError(t, err)
		seeded := tidemark.Column{Protocol: d.Protocol, Change: d.Setting()}
		require.Equal(t, "violation", f.Expected(d.Protocol, d.Setting()).Verdict, f.Name)
		cells, err := tidemark.Reproduce(context.Background(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f},
			Columns: append(tidemark.Columns(rules.Protocols()...), seeded), On: tidemark.OnSim, Root: t.TempDir()})
		require.NoError(t, err)
		for _, c := range cells {
			assert.True(t, c.OK, "%s under %s: %s", c.Schedule, c.Protocol, c.Why)
		}
	}
}

// Random schedules and small scopes find what is easily found, and nothing when it is not there. (Under kip320 with zk registration random
// schedules find a loss that needs no defect, of a member of the ISR that loses its disk's cache within its session.)
func TestSearchesFindDefectsInSecondsAndNothingWithoutThem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of processor time")
	}
	random := tidemark.ZooConfig{Defects: []string{"Z1", "Z15", "Z21", "Z22", "Z24", "Z31", "Z32"}, Means: []tidemark.Means{tidemark.ByRandom}, Time: 2 * time.Second}
	scopes := tidemark.ZooConfig{Defects: []string{"Z1", "Z7", "Z8", "Z21"}, Means: []tidemark.Means{tidemark.ByExhaustion}, States: 4000}
	for _, c := range []tidemark.ZooConfig{random, scopes} {
		for _, d := range zoo(t, c) {
			assert.Equal(t, !d.Control, d.Found(), "%s: %s", d.ID, told(d))
		}
	}
	random.Defects, random.Without = []string{"Z1", "Z14"}, true
	scopes.Defects, scopes.Without = []string{"Z1"}, true
	for _, c := range []tidemark.ZooConfig{random, scopes} {
		for _, d := range zoo(t, c) {
			assert.False(t, d.Found(), "%s: %s", d.ID, told(d))
		}
	}
}

func TestAZooThatCannotBeIsRefused(t *testing.T) {
	for want, c := range map[string]tidemark.ZooConfig{
		`unknown defect "Z99"`:            {Defects: []string{"Z99"}},
		"defect Z34 is not seeded":        {Defects: []string{"Z34"}},
		`means "luck": want schedule`:     {Means: []tidemark.Means{"luck"}},
		"time -1s, states 0: want 0 or m": {Time: -time.Second},
	} {
		_, err := tidemark.Zoo(context.Background(), c)
		var config *tidemark.ConfigError
		require.ErrorAs(t, err, &config)
		assert.ErrorContains(t, err, want)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	matrix, err := tidemark.Zoo(done, tidemark.ZooConfig{})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, matrix)
}

// soundRuns is how many random schedules the checker judges with every rule in force, whether the truth has anything to say or not.
var soundRuns = flag.Int("sound-runs", 400, "random schedules with every rule in force that are judged; nightly 10000")

// The checker judges every schedule from its history, whatever the truth, which only a simulation knows, has to say of it.
func TestNothingIsFlaggedWithEveryRuleInForce(t *testing.T) {
	n := *soundRuns
	if testing.Short() {
		n /= 4
	}
	court := sim.Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}
	verdicts := map[checker.Verdict]int{}
	for i, severity := range sim.Severities() {
		files, err := sim.Search{Cluster: schedule.Cluster{Replicas: []control.NodeID{1, 2, 3}, MinISR: 2}, Court: court, Severity: severity,
			Seed: uint64(100 + i)}.Sample(n / len(sim.Severities()))
		require.NoError(t, err)
		for _, f := range files {
			r, err := court.Try(context.Background(), f)
			require.NoError(t, err)
			require.Empty(t, r.Played.Inconclusive, f)
			require.NotEqual(t, checker.Violation, r.Checked.Verdict, "%s\n%v", f, r.Checked.Findings)
			verdicts[r.Checked.Verdict]++
		}
	}
	assert.Greater(t, verdicts[checker.Consistent], n/4, "most runs end with everything there: %v", verdicts)
	t.Logf("%d schedules: %v", n, verdicts)
}

func TestTheReadmeOfTheZooNamesEveryDefect(t *testing.T) {
	text, err := os.ReadFile("nemesis/README.md")
	require.NoError(t, err)
	_, unseeded, found := strings.Cut(string(text), "\nNot seeded are ")
	require.True(t, found)
	unseeded, _, _ = strings.Cut(unseeded, "\n\n")
	for _, d := range rules.Defects() {
		if d.Unseeded != "" {
			assert.Regexp(t, `\b`+d.ID+`\b`, unseeded)
		}
	}
}

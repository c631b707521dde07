package sim

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// class is a fault of the protocol's history as a search has to find it: an anomaly that one change of the rules prevents.
type class struct {
	name     string
	protocol rules.Protocol
	budget   history.CrashBudget
	severity Severity
	seed     uint64
	within   int64 // schedules
	kind     checker.Anomaly
	prevent  string // the change
}

var classes = []class{
	{"kip101-scenario1", rules.HW, "", Sane, 1, 2000, checker.LostAcked, "truncation=kip101"},
	{"kip101-scenario2", rules.HW, "", Sane, 1, 2000, checker.Diverged, "truncation=kip101"},
	{"kip279", rules.KIP101, "", Failover, 1, 2000, checker.Diverged, "truncation=kip279"},
	{"kafka7128", rules.KIP279, "", Zombies, 1, 20_000, checker.LostAcked, "isr-from-epoch-start=on"},
	{"kip320", rules.KIP279, "", Zombies, 1, 20_000, checker.Diverged, "fetch-fencing=on"},
	{"kip966", rules.KIP320, history.BudgetMinISR, Power, 1, 500, checker.LostAcked, "elr=on"},
}

// first is the first schedule of a seed whose anomaly the change prevents.
func (c class) first(ctx context.Context, t testing.TB) *Find {
	court := Court{Protocol: c.protocol, Rules: rules.Of(c.protocol), Budget: c.budget}
	fixed := court
	var err error
	fixed.Rules, err = court.Rules.With(nil, []string{c.prevent})
	require.NoError(t, err)
	var found *Find
	x, err := Search{Cluster: threeBrokers(), Court: court, Severity: c.severity, Seed: c.seed, Schedules: c.within, KeepGoing: true,
		Wanted: func(f Find) bool {
			if !slices.Contains(f.Kinds, c.kind) {
				return false
			}
			r, err := fixed.Try(ctx, optional(f.File))
			require.NoError(t, err)
			if r.Violation() || r.Played.Inconclusive != "" {
				return false
			}
			found = &f
			return true
		}}.Run(ctx)
	require.NoError(t, err)
	require.NotNil(t, found, "in %d schedules: %+v", c.within, x)
	return found
}

func TestTheSearchFindsEachFaultOfTheProtocolsHistory(t *testing.T) {
	ctx := context.Background()
	for _, c := range classes {
		t.Run(c.name, func(t *testing.T) {
			find := c.first(ctx, t)
			find.Kinds = []checker.Anomaly{c.kind}
			court := Court{Protocol: c.protocol, Rules: rules.Of(c.protocol), Budget: c.budget}
			file, shrunk, err := find.Minimal(ctx, court)
			require.NoError(t, err)
			file.Name = c.name
			t.Logf("schedule %d, %d steps, shrunk to %d (%d tried, %d played)", find.Schedule, len(find.File.Steps), len(file.Steps), shrunk.Tried, shrunk.Played)
			golden(t, file)
		})
	}
}

// rebootScope is one in which a fetch from before a lossy reboot fits (KIP-903).
func rebootScope(t testing.TB) Scope {
	return Scope{Cluster: twoBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rulesWithout(t, rules.KIP966, "broker-epoch")}, Records: 1, Epochs: 2,
		Changes: 5, Crashes: 1, Power: 1, Late: true,
		LeaveOut: []schedule.Verb{schedule.Lag, schedule.Transfer, schedule.Unfence, schedule.Kill, schedule.Checkpoint, schedule.Flush}}
}

func TestTheExhaustiveSearchFindsAFetchFromBeforeAReboot(t *testing.T) {
	scope := rebootScope(t)
	c, err := scope.Run(context.Background())
	require.NoError(t, err)
	t.Logf("%d states", c.States)
	require.NotNil(t, c.Find, "%+v", c)
	file, _, err := c.Find.Minimal(context.Background(), scope.Court)
	require.NoError(t, err)
	file.Name = "kip903"
	golden(t, file)
}

// golden compares a found schedule with the one that is kept.
func golden(t *testing.T, f *schedule.File) {
	t.Helper()
	assert.LessOrEqual(t, len(f.Steps), 15, "a schedule that a person reads is short")
	path := filepath.Join("testdata", "found", f.Name+".sched")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(f.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), f.String())
}

func TestFoundSchedulesDoWhatTheySayUnderEveryProtocol(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "found", "*.sched"))
	require.NoError(t, err)
	require.Len(t, paths, len(classes)+1)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := schedule.Parse(path, string(text))
		require.NoError(t, err)
		courts := []Court{}
		for _, p := range rules.Protocols() {
			courts = append(courts, Court{Protocol: p, Rules: f.Rules(p)})
		}
		for _, e := range f.Expects {
			if e.Change != "" {
				set, err := f.Rules(e.Only.First).With(nil, []string{e.Change})
				require.NoError(t, err)
				courts = append(courts, Court{Protocol: e.Only.First, Rules: set})
			}
		}
		for _, c := range courts {
			r, err := c.Try(context.Background(), f)
			require.NoError(t, err)
			assert.Empty(t, c.Expects(f, r), "%s under %s", f.Name, c.Protocol)
		}
	}
}

func TestNothingIsFoundWithEveryRuleInForce(t *testing.T) {
	n := int64(100_000)
	if testing.Short() {
		n = 1000
	}
	for _, s := range Severities() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			x, err := Search{Cluster: threeBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}, Severity: s, Seed: 11,
				Schedules: n / int64(len(Severities())), KeepGoing: true}.Run(context.Background())
			require.NoError(t, err)
			assert.Zero(t, x.Violations, "%+v", x.Finds)
			assert.Zero(t, x.Unconfirmed)
			assert.NotZero(t, x.Counts.Acked)
			assert.NotZero(t, x.Counts.Truncations)
		})
	}
}

// TestEachRuleIsNeeded is the matrix of guards: everything on, one rule removed. Offset-not-available has nothing to do with the
// committed log: it keeps the latest offset from going back, which only the level monotonic end speaks of, and no search asks for
// latest offsets. Schedule S10 shows it.
func TestEachRuleIsNeeded(t *testing.T) {
	found := map[string]bool{"offset-not-available": true}
	for _, c := range []struct {
		rule     string
		severity Severity
		within   int64
	}{
		{"truncation", Failover, 100}, {"fetch-fencing", Zombies, 4000}, {"epoch-at-election", Zombies, 2000}, {"truncate-every-epoch", Zombies, 500},
		{"isr-from-epoch-start", Failover, 2000}, {"hw-needs-min-isr", Failover, 100}, {"elr", Power, 100}, {"broker-epoch", Power, 100},
	} {
		x, err := Search{Cluster: threeBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rulesWithout(t, rules.KIP966, c.rule)},
			Severity: c.severity, Seed: 1, Schedules: c.within}.Run(context.Background())
		require.NoError(t, err)
		assert.Len(t, x.Finds, 1, "without %s, severity %s", c.rule, c.severity)
		assert.Zero(t, x.Unconfirmed, c.rule)
		found[c.rule] = true
		if len(x.Finds) > 0 {
			t.Logf("without %s: severity %s, schedule %d", c.rule, c.severity, x.Finds[0].Schedule)
		}
	}
	for _, r := range rules.Rules() {
		assert.True(t, found[r.Name], "rule %s: no search shows that it is needed", r.Name)
	}
}

// TestASmallScopeIsCleanWithEveryRuleInForce looks at everything that two brokers can do with one record and a loss of power.
func TestASmallScopeIsCleanWithEveryRuleInForce(t *testing.T) {
	c, err := Scope{Cluster: twoBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}, Records: 1, Epochs: 2,
		Changes: 3, Crashes: 1, Power: 1, LeaveOut: []schedule.Verb{schedule.Lag, schedule.Checkpoint, schedule.Flush}}.Run(context.Background())
	require.NoError(t, err)
	t.Logf("%d states, depth %d, %d excused", c.States, c.Depth, c.Excused)
	assert.True(t, c.Complete, "%+v", c)
	assert.Zero(t, c.Unconfirmed)
	assert.Greater(t, c.States, 1000)
}

// BenchmarkFinding is how long it takes one core to find each class, the checker's confirmations included, shrinking not.
func BenchmarkFinding(b *testing.B) {
	measured := func(b *testing.B, find func() int64) {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
		before := processorTime()
		for range b.N {
			b.ReportMetric(float64(find()), "schedule")
		}
		b.ReportMetric((processorTime()-before).Seconds()/float64(b.N), "cpu-s/find")
	}
	ctx := context.Background()
	for _, c := range classes {
		b.Run(c.name, func(b *testing.B) {
			measured(b, func() int64 { return c.first(ctx, b).Schedule })
		})
	}
	b.Run("kip903 at random", func(b *testing.B) {
		measured(b, func() int64 {
			x, err := Search{Cluster: threeBrokers(), Court: rebootScope(b).Court, Severity: Power, Seed: 1}.Run(ctx)
			require.NoError(b, err)
			require.NotEmpty(b, x.Finds)
			return x.Finds[0].Schedule
		})
	})
	b.Run("kip903 exhaustively", func(b *testing.B) {
		measured(b, func() int64 {
			c, err := rebootScope(b).Run(ctx)
			require.NoError(b, err)
			require.NotNil(b, c.Find)
			return -1
		})
	})
}

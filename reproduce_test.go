package tidemark_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
	"tidemark/results"
)

// scenarios are KIP-101's.
func scenarios(t *testing.T) []*schedule.File {
	var files []*schedule.File
	for _, name := range schedule.KIP101() {
		f, err := schedule.Find(name)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

// wantTable is the table of the scenarios: what is observed, how porcupine judges, under each protocol.
var wantTable = map[string]map[rules.Protocol]string{
	"S1":  {"hw": "violation; Illegal", "kip101": "consistent; Ok", "kip279": "consistent; Ok", "kip320": "consistent; Ok", "kip966": "consistent because unclean-recovery; Ok"},
	"S1b": {"hw": "violation; Illegal", "kip101": "consistent; Ok", "kip279": "consistent; Ok", "kip320": "consistent; Ok", "kip966": "consistent; Ok"},
	"S1c": {"hw": "violation; Illegal", "kip101": "consistent; Ok", "kip279": "consistent; Ok", "kip320": "consistent; Ok", "kip966": "consistent; Ok"},
	"S2": {"hw": "violation; Illegal", "kip101": "allowed because crash-budget; Illegal", "kip279": "allowed because crash-budget; Illegal",
		"kip320": "allowed because crash-budget; Illegal", "kip966": "consistent because unclean-recovery; Ok"},
	"S2b": {"hw": "violation; Illegal", "kip101": "allowed because crash-budget; Illegal", "kip279": "allowed because crash-budget; Illegal",
		"kip320": "allowed because crash-budget; Illegal", "kip966": "consistent because unclean-recovery; Ok"},
}

// wantFindings are those of hw, and of the others where a loss is allowed.
var wantFindings = map[string][2]string{
	"S1":  {"lost-acked m1, read-then-lost m1", ""},
	"S1b": {"lost-acked m1, read-then-lost m1", ""},
	"S1c": {"diverged 1, lost-acked m1, reread-differs 1", ""},
	"S2":  {"diverged 1, lost-acked m1, reread-differs 1", "lost-acked m1, reread-differs 1"},
	"S2b": {"diverged 1, lost-acked m1, reread-differs 1", "lost-acked m1, reread-differs 1"},
}

// wantAsInTheTable compares a cell with the table, which does not come from the schedules' own expectations.
func wantAsInTheTable(t *testing.T, c tidemark.Cell, p rules.Protocol) {
	t.Helper()
	name := c.Schedule + " under " + c.Protocol
	assert.True(t, c.OK, "%s: %s", name, c.Why)
	assert.Empty(t, c.Why, name)
	assert.Equal(t, wantTable[c.Schedule][p], c.Observed+"; "+string(c.Porcupine), name)
	findings := wantFindings[c.Schedule][1]
	if p == rules.HW {
		findings = wantFindings[c.Schedule][0]
	}
	if strings.HasPrefix(c.Observed, "consistent") {
		findings = ""
	}
	assert.Equal(t, findings, strings.Join(c.Findings, ", "), name)
	assert.Positive(t, c.Seconds)
	for _, file := range []string{results.History, results.Result, results.Transcript, results.Schedule} {
		assert.FileExists(t, filepath.Join(c.Folder, file))
	}
	again, err := tidemark.Check(t.Context(), c.Folder, checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, asJSON(t, c.Checked), asJSON(t, again), "%s: judged again", name)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(data)
}

func TestScenariosComeToTheTableInSimulation(t *testing.T) {
	var done []string
	cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: scenarios(t), Columns: tidemark.Columns(rules.Protocols()...),
		On: tidemark.OnSim, Root: t.TempDir(), Done: func(c tidemark.Cell) { done = append(done, c.Schedule+" "+c.Protocol) }})
	require.NoError(t, err)
	require.Len(t, cells, 25)
	for i, c := range cells {
		require.Equal(t, c.Schedule+" "+c.Protocol, done[i], "each is told of in order")
		wantAsInTheTable(t, c, rules.Protocols()[i%5])
	}
}

func TestScenariosComeToTheTableOnProcesses(t *testing.T) {
	for _, f := range scenarios(t) {
		t.Run(f.Name, func(t *testing.T) {
			if testing.Short() && f.Name != "S1c" {
				t.Skip("one is enough when there is little time")
			}
			t.Parallel()
			columns := []rules.Protocol{rules.HW, rules.KIP101, rules.KIP320}
			cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f}, Columns: tidemark.Columns(columns...),
				On: tidemark.OnProcess, Root: t.TempDir()})
			require.NoError(t, err)
			require.Len(t, cells, 3)
			for i, c := range cells {
				wantAsInTheTable(t, c, columns[i])
				assert.DirExists(t, filepath.Join(c.Folder, results.Nodes, "broker-1"))
			}
		})
	}
}

func TestAProtocolThatRunsByTheRulesOfAnotherIsNotAsExpected(t *testing.T) {
	for _, swap := range []struct {
		column rules.Protocol
		rules  string
	}{{rules.KIP320, "truncation=hw"}, {rules.HW, "truncation=kip279"}} {
		for _, on := range []tidemark.Backend{tidemark.OnSim, tidemark.OnProcess} {
			files := scenarios(t)
			if on == tidemark.OnProcess {
				files = files[2:3] // S1c
			}
			cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: files, Columns: tidemark.Columns(swap.column),
				Rules: []string{swap.rules}, On: on, Root: t.TempDir()})
			require.NoError(t, err)
			for _, c := range cells {
				assert.False(t, c.OK, "%s under %s with %s on %s", c.Schedule, swap.column, swap.rules, on)
				assert.Contains(t, c.Why, "expected ", c.Schedule)
			}
		}
	}
}

func TestPlayingAgainGivesFoldersOfTheirOwn(t *testing.T) {
	f, err := schedule.Find("S1b")
	require.NoError(t, err)
	root := t.TempDir()
	cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f}, Columns: tidemark.Columns(rules.HW),
		On: tidemark.OnSim, Root: root, Repeat: 3})
	require.NoError(t, err)
	folders := map[string]bool{}
	for _, c := range cells {
		folders[c.Folder] = true
		text, err := os.ReadFile(filepath.Join(c.Folder, results.Schedule))
		require.NoError(t, err)
		parsed, err := schedule.Parse("kept", string(text))
		require.NoError(t, err, "what is kept can be played again")
		assert.Equal(t, f.String(), parsed.String())
		assert.Equal(t, cells[0].Played.Transcript, c.Played.Transcript)
	}
	assert.Len(t, folders, 3)
}

func TestWhatCannotBeReproducedIsRefusedBeforeAnythingStarts(t *testing.T) {
	s1, err := schedule.Find("S1")
	require.NoError(t, err)
	outside := *s1
	outside.Name = "../S1"
	for _, tc := range []struct {
		name   string
		config tidemark.ReproduceConfig
		want   string
	}{
		{"a schedule twice", tidemark.ReproduceConfig{Schedules: []*schedule.File{s1, s1}, Columns: tidemark.Columns(rules.HW)}, "schedule S1 is given twice"},
		{"a column twice", tidemark.ReproduceConfig{Schedules: []*schedule.File{s1}, Columns: tidemark.Columns(rules.HW, rules.HW)}, "column hw is given twice"},
		{"a name that leads elsewhere", tidemark.ReproduceConfig{Schedules: []*schedule.File{&outside}, Columns: tidemark.Columns(rules.HW)}, `schedule "../S1"`},
		{"a rule that is none", tidemark.ReproduceConfig{Schedules: []*schedule.File{s1}, Columns: tidemark.Columns(rules.HW), Rules: []string{"fence=on"}}, "S1 under hw: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.config.On, tc.config.Root = tidemark.OnSim, filepath.Join(t.TempDir(), "runs")
			_, err := tidemark.Reproduce(t.Context(), tc.config)
			var config *tidemark.ConfigError
			require.ErrorAs(t, err, &config)
			require.ErrorContains(t, err, tc.want)
			assert.NoDirExists(t, tc.config.Root)
		})
	}
}

// unplayable has a step in it that cannot happen: nobody leads when the value is to be produced.
const unplayable = `schedule X1  A step that cannot happen
cluster replicas=1,2 min.insync.replicas=2
produce m0
settle
kill 1 2
fence 1
fence 2
produce m1
expect hw+ consistent
`

func TestAStepThatCannotHappenIsInconclusiveAndShowsEveryNode(t *testing.T) {
	f, err := schedule.Parse("x1.sched", unplayable)
	require.NoError(t, err)
	for _, on := range []tidemark.Backend{tidemark.OnSim, tidemark.OnProcess} {
		cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f}, Columns: tidemark.Columns(rules.KIP320),
			On: on, Root: t.TempDir()})
		require.NoError(t, err)
		c := cells[0]
		assert.False(t, c.OK)
		assert.Equal(t, "inconclusive because unplayable", c.Observed)
		assert.Contains(t, c.Why, "line 8, produce m1: impossible: ", on)
		for _, view := range []string{"controller: leader none", "broker 1x", "broker 2x"} {
			assert.Contains(t, c.Why, view, on)
		}
	}
}

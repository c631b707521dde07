package tidemark

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
	"tidemark/results"
)

// small is a campaign of simulations alone.
const small = `
name: small
parallel: 1
parts:
  - schedules: [S1, S1b]
    on: [sim]
    protocol: [hw, kip320]
  - explore: 300
    protocol: [kip320]
    severity: [failover, power]
    seeds: 3
minimum:
  schedules: 1800
  elections: 10
`

func parsed(t *testing.T, text string) *CampaignConfig {
	t.Helper()
	c, err := ParseCampaign("small.yaml", text)
	require.NoError(t, err)
	return c
}

func TestACampaignRunsEverythingAndKeepsWhatCameOfIt(t *testing.T) {
	var done []string
	s, err := Campaign(t.Context(), parsed(t, small), CampaignOptions{Root: t.TempDir(), Done: func(o results.Outcome) { done = append(done, o.Command) }})
	require.NoError(t, err)
	assert.Equal(t, results.Consistent, s.Status, "%v", s.Why)
	assert.Equal(t, []string{
		"explore --protocol kip966 --rule defect=Z21 --severity failover --replicas 3 --min-isr 2 --schedules 20000 --keep-going --seed 1",
		"reproduce S1 S1b --on sim --protocol hw",
		"reproduce S1 S1b --on sim --protocol kip320",
		"explore --protocol kip320 --severity failover --replicas 3 --min-isr 2 --schedules 300 --keep-going --seed 1",
		"explore --protocol kip320 --severity power --replicas 3 --min-isr 2 --schedules 300 --keep-going --seed 1",
		"explore --protocol kip320 --severity failover --replicas 3 --min-isr 2 --schedules 300 --keep-going --seed 2",
	}, done[:6], "the control, then the first seed of every cell, then the second")
	assert.Len(t, done, 9)
	assert.Equal(t, []int{1, 1}, []int{s.Controls, s.Caught})
	assert.GreaterOrEqual(t, s.Events["schedules"], int64(1800))
	for _, name := range []string{results.Index, "index.html", "junit.xml", results.Outcomes, results.CampaignMeta} {
		assert.FileExists(t, filepath.Join(s.Path(), name))
	}
	control := s.Outcomes[0]
	text, err := os.ReadFile(filepath.Join(s.Path(), control.Schedule))
	require.NoError(t, err)
	assert.Contains(t, string(text), "expect", "what is found comes as a schedule that can be played")
}

func TestACampaignWithADefectFailsWithItsSentenceAndIsKnownIfTheProjectKnowsIt(t *testing.T) {
	text := `
name: broken
parts:
  - explore: 400
    protocol: [kip320]
    rule: [truncation=hw]
`
	s, err := Campaign(t.Context(), parsed(t, text), CampaignOptions{Root: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, results.Violation, s.Status)
	assert.Equal(t, 1, s.ExitCode())
	require.Len(t, s.Failures, 1)
	f := s.Failures[0]
	assert.Contains(t, f.Fingerprint, "lost-acked by truncation-to-high-watermark")
	assert.True(t, strings.HasSuffix(f.Fingerprint, "under kip320 rule truncation=hw"), f.Fingerprint)
	assert.Contains(t, f.Example.Findings[0].Sentence, "orders-0")

	s, err = Campaign(t.Context(), parsed(t, text+fmt.Sprintf("known:\n  - fingerprint: %q\n    note: TICKET-7\n", f.Fingerprint)), CampaignOptions{Root: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, results.Consistent, s.Status, "%v", s.Why)
	assert.Equal(t, "TICKET-7", s.Failures[0].Known)
}

func TestACampaignThatWasKilledGoesOnWithWhatIsLeft(t *testing.T) {
	root := t.TempDir()
	ctx, kill := context.WithCancel(t.Context())
	n := 0
	s, err := Campaign(ctx, parsed(t, small), CampaignOptions{Root: root, Done: func(results.Outcome) {
		if n++; n == 4 {
			kill()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, results.Inconclusive, s.Status)
	assert.Equal(t, 5, s.Missing)

	stored, err := results.OpenCampaign(s.Path())
	require.NoError(t, err)
	again := parsed(t, stored.Config)
	assert.Equal(t, parsed(t, small).String(), again.String())
	s, err = Campaign(t.Context(), again, CampaignOptions{Resume: s.Path(), Done: func(results.Outcome) { n++ }})
	require.NoError(t, err)
	assert.Equal(t, results.Consistent, s.Status, "%v", s.Why)
	assert.Equal(t, 9, n, "nothing is run twice")
}

func TestABudgetAndTheFirstViolationEndACampaign(t *testing.T) {
	c := parsed(t, small)
	c.Runs = 3
	s, err := Campaign(t.Context(), c, CampaignOptions{Root: t.TempDir()})
	require.NoError(t, err)
	assert.Len(t, s.Outcomes, 3)
	assert.Contains(t, s.Why, "6 runs not done")

	c = parsed(t, small)
	c.Time = time.Nanosecond
	s, err = Campaign(t.Context(), c, CampaignOptions{Root: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, 9, s.Missing)

	c = parsed(t, small)
	c.StopOnFirst, c.Parts[1].Rules = true, []string{"truncation=hw"}
	c.Parts[1].Explore = 400
	s, err = Campaign(t.Context(), c, CampaignOptions{Root: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, results.Violation, s.Status)
	assert.Len(t, s.Outcomes, 4, "the control, which is no reason to end, two of schedules, and the violation")
}

func TestWhatFailsInARunEndsOnlyThatRun(t *testing.T) {
	c := parsed(t, strings.Replace(small, "on: [sim]", "on: [sim, process]", 1))
	s, err := Campaign(t.Context(), c, CampaignOptions{Root: t.TempDir(), Binary: filepath.Join(t.TempDir(), "nothing")})
	require.NoError(t, err)
	assert.Equal(t, 2, s.Counts[results.Failed])
	assert.Equal(t, 8, s.Counts[results.Consistent])
	assert.Equal(t, results.Inconclusive, s.Status)
	require.Len(t, s.Failures, 1, "they fail in the same way")
	assert.Contains(t, s.Failures[0].Fingerprint, "harness: ")

	k := &campaign{known: map[string]string{}}
	o := k.do(t.Context(), &task{id: "1", work: work{run: &RunConfig{}}}) // nothing to keep it in: a fault of the program
	assert.Equal(t, results.Failed, o.Status)
	assert.Contains(t, o.Error, "panic: ")
}

func TestShardsAreDisjointAndTogetherTheWholeAndEachHasTheControl(t *testing.T) {
	root := t.TempDir()
	var folders []string
	times := map[string]int{}
	var shards [][]results.Outcome
	for i := range 3 {
		s, err := Campaign(t.Context(), parsed(t, small), CampaignOptions{Root: root, Shard: i + 1, Shards: 3})
		require.NoError(t, err)
		folders, shards = append(folders, s.Path()), append(shards, s.Outcomes)
		assert.Equal(t, 1, s.Controls)
		for _, o := range s.Outcomes {
			times[o.Task]++
		}
	}
	whole, err := Campaign(t.Context(), parsed(t, small), CampaignOptions{Root: root})
	require.NoError(t, err)
	for _, o := range whole.Outcomes {
		want := 1
		if o.Control {
			want = 3
		}
		assert.Equal(t, want, times[o.Task], o.Command)
	}
	assert.Len(t, times, 9)
	merged, err := results.Merge(root, folders)
	require.NoError(t, err)
	s, err := merged.Summarize()
	require.NoError(t, err)
	assert.Equal(t, results.Consistent, s.Status, "%v", s.Why)
	assert.Len(t, s.Outcomes, 9)

	// A shard that goes on runs nothing of the others.
	c := parsed(t, small)
	c.Runs = 1
	first, err := Campaign(t.Context(), c, CampaignOptions{Root: root, Shard: 2, Shards: 3})
	require.NoError(t, err)
	again, err := Campaign(t.Context(), parsed(t, small), CampaignOptions{Resume: first.Path()})
	require.NoError(t, err)
	require.Len(t, again.Outcomes, first.Tasks)
	for _, o := range again.Outcomes {
		assert.True(t, o.Control || slices.ContainsFunc(shards[1], func(x results.Outcome) bool { return x.Task == o.Task }), o.Command)
	}

	_, err = Campaign(t.Context(), parsed(t, small), CampaignOptions{Root: root, Shard: 4, Shards: 3})
	var wrong *ConfigError
	require.ErrorAs(t, err, &wrong)
}

func TestACampaignThatSaysSomethingWrongIsRefusedWithThePlace(t *testing.T) {
	const head = "name: x\nparts:\n"
	for text, want := range map[string]string{
		"parts: []":                                                 `name "": want a word`,
		"name: x":                                                   "parts: there are none",
		"name: x\nparst: []":                                        "small.yaml: not a campaign: [2:1] unknown field \"parst\"",
		head + "  - run: 5s\n    explore: 5":                        "part 1: want one of schedules, explore, run and zoo",
		head + "  - run: soon":                                      `invalid duration "soon"`,
		head + "  - schedules: [S99]":                               "S99",
		head + "  - run: 20s\n    protocol: [kip999]":               "kip999",
		head + "  - run: 20s\n    on: [moon]":                       "moon",
		head + "  - run: 20s\n    faults: [flood]":                  "flood",
		head + "  - run: 1s\n    faults: [kill]":                    "too short for faults",
		head + "  - explore: 10\n    severity: [worse]":             "worse",
		head + "  - explore: 10\n    faults: [kill]":                "faults, clients, rate, acks, topic, brokers and config belong to run",
		head + "  - run: 20s\n    severity: [power]":                "severity, replicas and min-isr belong to explore",
		head + "  - explore: 10\n    on: [docker]":                  "searches are in simulation",
		head + "  - schedules: [S1]\n    seeds: 4":                  "are the same for every seed",
		head + "  - run: 20s\n    without: [nothing]":               "nothing",
		head + "  - explore: 10\n  - explore: 10":                   "is there twice",
		head + "  - explore: 10\nminimum: {joy: 1}":                 `minimum: "joy": there are acked, elections`,
		head + "  - explore: 10\nknown: [{note: TICKET-7}]":         "has no fingerprint",
		head + "  - explore: 10\ncontrol: [{explore: 10, run: 5s}]": "control 1: want one of",
	} {
		_, err := ParseCampaign("small.yaml", text)
		require.ErrorIs(t, err, ErrCampaign, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestEveryPresetIsACampaign(t *testing.T) {
	assert.Equal(t, []string{"gate", "nightly", "zoo"}, Presets())
	for _, name := range Presets() {
		c, err := Preset(name)
		require.NoError(t, err)
		assert.Equal(t, name, c.Name)
		assert.Equal(t, name == "zoo", len(c.Minimum) == 0, "the zoo's runs are what they are")
		tasks, err := c.tasks()
		require.NoError(t, err)
		assert.Greater(t, len(tasks), 5)
	}
	_, err := Preset("weekly")
	require.ErrorContains(t, err, "there are gate, nightly, zoo")
}

// Failures that differ in numbers alone are of one kind.
func TestAFingerprintHasNothingOfASingleRun(t *testing.T) {
	one := results.Outcome{Status: results.Violation, Cell: "run --protocol kip320 --without elr --on docker", Seed: 1, Findings: []results.Finding{
		{Anomaly: "read-then-lost"}, {Anomaly: "lost-acked", Cause: "power-loss", Sentence: "offset 7"}}}
	other := one
	other.Cell, other.Seed, other.Findings = "run --protocol kip320 --without elr --on process", 2, []results.Finding{one.Findings[1], one.Findings[0]}
	assert.Equal(t, "lost-acked by power-loss, read-then-lost under kip320 without elr", fingerprint(&one))
	assert.Equal(t, fingerprint(&one), fingerprint(&other))
	other.Cell = strings.Replace(one.Cell, "kip320", string(rules.KIP966), 1)
	assert.NotEqual(t, fingerprint(&one), fingerprint(&other))
	assert.Equal(t, "harness: port N is taken by N", fingerprint(&results.Outcome{Status: results.Failed, Error: "port 4711 is taken by 99\nmore"}))
	assert.Empty(t, fingerprint(&results.Outcome{Status: results.Consistent}))
}

// What a green is worth is told from the bug zoo: what was played and searched, against what it takes to find each defect.
func TestACampaignSaysWhichKnownDefectsItWouldHaveFound(t *testing.T) {
	rows, err := storedMatrix()
	require.NoError(t, err)
	require.Greater(t, len(rows), 20)
	told := func(cells ...string) string {
		s := &results.Summary{}
		for _, cell := range cells {
			s.Outcomes = append(s.Outcomes, results.Outcome{Cell: cell, Status: results.Consistent, Events: map[string]int64{"schedules": 1000}})
		}
		text, err := power(s)
		require.NoError(t, err)
		return text
	}
	assert.Empty(t, told())
	assert.Empty(t, told("run --protocol kip320 --on docker"), "free runs were not measured")
	assert.Contains(t, told("reproduce S1 --protocol kip101"), "find 1 of ")
	few, many := told("explore --protocol kip966 --severity sane"), told("reproduce S1 S1b S3 S3b S4 S5 S6 S7 S8 S9 S10 --protocol kip966", "explore --protocol kip966 --severity sane")
	var a, b, of int
	_, err = fmt.Sscanf(few, "these schedules and searches find %d of %d", &a, &of)
	require.NoError(t, err)
	_, err = fmt.Sscanf(many, "these schedules and searches find %d of %d", &b, &of)
	require.NoError(t, err)
	assert.Greater(t, a, 2)
	assert.Greater(t, b, a)
	assert.Contains(t, many, "Z33", "what nothing finds is named")
	assert.NotContains(t, told("explore --protocol hw --severity sane"), "Z7", "hw has no ELR that could be missing")
}

// Every defect is a run of the zoo's campaign, and the control must not be flagged.
func TestTheZooIsACampaign(t *testing.T) {
	c := parsed(t, "name: zoo\nparts: [{zoo: 1ms}]")
	tasks, err := c.tasks()
	require.NoError(t, err)
	all := len(tasks)
	assert.Greater(t, all, 20)
	k := &campaign{known: map[string]string{}}
	for _, task := range tasks {
		switch {
		case strings.Contains(task.command, "--defect Z21 "), strings.Contains(task.command, "--defect Z32 "):
			task.work.zoo.Means = []Means{BySchedule}
			o := k.do(t.Context(), task)
			assert.Equal(t, results.Consistent, o.Status, "%s: %v", task.command, o)
		}
	}
	o := results.Outcome{}
	k.zoo(&Detection{ID: "Z32", Control: true, Attempts: []Attempt{{Means: ByRandom, Found: true, By: "power"}}}, &o)
	assert.Equal(t, results.Violation, o.Status)
	assert.Equal(t, "false-alarm", o.Findings[0].Anomaly)
	o = results.Outcome{}
	k.zoo(&Detection{ID: "Z33", Attempts: []Attempt{{Means: ByRandom}}}, &o)
	assert.Equal(t, results.Inconclusive, o.Status)
	assert.Equal(t, []string{"Z33: no means found it"}, o.Reasons)
}

// A violation of a free run is taken to the search, once for all runs under the same rules, however many fail.
func TestAViolationComesWithTheShortestScheduleOfItsKind(t *testing.T) {
	c := parsed(t, `
name: broken
parallel: 2
parts:
  - run: 3s
    on: [sim]
    protocol: [kip966]
    rule: ["defect=Z15"]
    faults: [none]
    rate: 300
    seeds: 2
`)
	stored, err := results.NewCampaign(t.TempDir(), results.Campaign{Name: "broken"})
	require.NoError(t, err)
	k := &campaign{config: c, stored: stored, known: map[string]string{}, likes: map[string]*like{"kip966 rule defect=Z15": {}}}
	tasks, err := c.tasks()
	require.NoError(t, err)
	l := k.likes["kip966 rule defect=Z15"]
	l.once.Do(func() { // as the search does, with less time
		x, err := Explore(t.Context(), ExploreConfig{Protocol: rules.KIP966, Rules: []string{"defect=Z15"}, Replicas: 3, MinISR: 2, Seed: 1, Schedules: 200, KeepGoing: true})
		require.NoError(t, err)
		l.found = x.Found
	})
	for _, task := range tasks[1:] {
		o := k.do(t.Context(), task)
		assert.Equal(t, results.Violation, o.Status, "%s %v", o.Error, o.Reasons)
		assert.Contains(t, o.Explained, "needs defect=Z15")
		assert.FileExists(t, filepath.Join(stored.Path(), o.Schedule))
		assert.FileExists(t, filepath.Join(stored.Path(), o.Folder, results.History))
	}
	assert.Len(t, k.likes, 1)
}

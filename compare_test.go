package tidemark

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func TestACellIsAsExpectedOnlyIfEverythingAgrees(t *testing.T) {
	violation := schedule.Expect{Verdict: "violation", Findings: []string{"diverged 1", "lost-acked m1"}}
	pass := schedule.Expect{Verdict: "consistent"}
	allowed := schedule.Expect{Verdict: "allowed", Because: "crash-budget", Findings: []string{"lost-acked m1"}}
	lost := checker.Finding{Anomaly: checker.LostAcked, Values: []string{"m1"}, Offset: 1}
	diverged := checker.Finding{Anomaly: checker.Diverged, Offset: 1}
	for _, tc := range []struct {
		name   string
		want   schedule.Expect
		found  checker.Result
		played schedule.Result
		why    string
	}{
		{name: "a violation with its findings, and porcupine agrees", want: violation,
			found: checker.Result{Verdict: checker.Violation, Findings: []checker.Finding{lost, diverged}, Porcupine: checker.Illegal}},
		{name: "a pass, and porcupine agrees", want: pass, found: checker.Result{Verdict: checker.Consistent, Porcupine: checker.Ok}},
		{name: "a finding is missing", want: violation, why: "expected findings diverged 1, lost-acked m1, observed diverged 1",
			found: checker.Result{Verdict: checker.Violation, Findings: []checker.Finding{diverged}, Porcupine: checker.Ok}},
		{name: "a finding is too many", want: allowed, why: "expected findings lost-acked m1, observed diverged 1, lost-acked m1",
			found: checker.Result{Verdict: checker.Allowed, Reasons: []checker.Reason{checker.BecauseCrashBudget}, Findings: []checker.Finding{diverged, lost}, Porcupine: checker.Illegal}},
		{name: "another verdict", want: pass, why: "expected consistent, observed inconclusive because too-little",
			found: checker.Result{Verdict: checker.Inconclusive, Reasons: []checker.Reason{checker.BecauseTooLittle}, Porcupine: checker.Ok}},
		{name: "another reason", want: allowed, why: "expected allowed because crash-budget, observed allowed because min-isr",
			found: checker.Result{Verdict: checker.Allowed, Reasons: []checker.Reason{checker.BecauseMinISR}, Findings: []checker.Finding{lost}, Porcupine: checker.Illegal}},
		{name: "porcupine accepts a loss", want: violation, why: "porcupine says Ok",
			found: checker.Result{Verdict: checker.Violation, Findings: []checker.Finding{lost, diverged}, Porcupine: checker.Ok}},
		{name: "porcupine does not judge a loss that is allowed", want: allowed, why: "porcupine says NotRun",
			found: checker.Result{Verdict: checker.Allowed, Reasons: []checker.Reason{checker.BecauseCrashBudget}, Findings: []checker.Finding{lost}, Porcupine: checker.NotRun}},
		{name: "porcupine rejects a pass", want: pass, why: "porcupine says Illegal", found: checker.Result{Verdict: checker.Consistent, Porcupine: checker.Illegal}},
		{name: "porcupine did not judge a pass", want: pass, why: "porcupine says NotRun", found: checker.Result{Verdict: checker.Consistent, Porcupine: checker.NotRun}},
		{name: "a step could not happen", want: pass, played: schedule.Result{Inconclusive: "line 3: impossible"}, why: "line 3: impossible",
			found: checker.Result{Verdict: checker.Consistent, Porcupine: checker.Ok}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Cell{Checked: &tc.found, Played: &tc.played}
			c.compare(tc.want)
			assert.Equal(t, tc.why, c.Why)
			assert.Equal(t, tc.why == "", c.OK)
		})
	}
}

func TestARepetitionHasToGiveTheTranscriptOfTheFirstTime(t *testing.T) {
	cell := func(protocol, transcript string) *Cell {
		return &Cell{Schedule: "S1", Protocol: protocol, OK: true, Played: &schedule.Result{Transcript: transcript}}
	}
	firsts := map[string]*schedule.Result{}
	for _, c := range []*Cell{cell("hw", "kill 1\nhw 1"), cell("kip101", "kill 1\nhw 2"), cell("hw", "kill 1\nhw 1")} {
		c.repeats(firsts)
		assert.True(t, c.OK, "what is the same, or of another cell, is good: %s", c.Why)
	}
	other := cell("hw", "kill 1\nhw 3")
	other.repeats(firsts)
	assert.False(t, other.OK)
	assert.Equal(t, "the transcript is not that of the first time: line 2\n  the first time: hw 1\n  this time:      hw 3", other.Why)
}

func TestAHarnessThatFailsEndsAllThatPlayAtATimeAndKeepsWhatWasDone(t *testing.T) {
	f, err := schedule.Find("S1")
	assert.NoError(t, err)
	cells, err := Reproduce(t.Context(), ReproduceConfig{Schedules: []*schedule.File{f}, Columns: Columns(rules.Protocols()...), On: OnProcess,
		Repeat: 3, Parallel: 3, Root: t.TempDir(), Binary: "/does/not/exist"})
	assert.ErrorContains(t, err, "/does/not/exist")
	assert.Empty(t, cells)
}

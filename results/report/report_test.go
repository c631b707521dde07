package report_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/results"
	"tidemark/results/report"
)

const sentence = "offset 1 of orders-0 (<m1> | 50%) was acked: and is gone."

// summary has one run of each kind, and kinds more kinds of failure.
func summary(t *testing.T, kinds int) *results.Summary {
	t.Helper()
	c, err := results.NewCampaign(t.TempDir(), results.Campaign{Name: "night_ly", Tasks: 7, Began: time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC)})
	require.NoError(t, err)
	add := func(command string, status results.Status, change func(*results.Outcome)) {
		o := results.Outcome{Task: command, Command: command, Cell: strings.Fields(command)[0], Status: status, Seconds: 1.5, Began: c.Began,
			Events: map[string]int64{"isr_changes": 2}}
		if change != nil {
			change(&o)
		}
		require.NoError(t, c.Append(o))
	}
	violation := func(o *results.Outcome) {
		o.Findings = []results.Finding{{Anomaly: "lost-acked", Cause: "power-loss", Sentence: sentence, Count: 3}}
		o.Fingerprint, o.Folder, o.Schedule, o.Explained = "lost-acked by power-loss under kip320", "runs/x", "found/x.sched", "needs elr absent"
	}
	add("run --seed 1", results.Consistent, nil)
	add("run --seed 2", results.Violation, violation)
	add("run --seed 3", results.Violation, func(o *results.Outcome) { violation(o); o.Fingerprint, o.Known = "old", "TICKET-7" })
	add("run --seed 4", results.Inconclusive, func(o *results.Outcome) { o.Reasons = []string{"too-little: 0 reads"} })
	add("run --seed 5", results.Failed, func(o *results.Outcome) { o.Error = "no engine\nstack" })
	add("run --seed 6", results.Unsupported, nil)
	add("explore --seed 1", results.Violation, func(o *results.Outcome) { o.Control = true })
	add("explore --seed 2", results.Consistent, func(o *results.Outcome) { o.Control = true })
	for i := range kinds {
		add(fmt.Sprintf("run%d --seed 1", i), results.Violation, func(o *results.Outcome) { violation(o); o.Fingerprint = fmt.Sprint("kind ", i) })
	}
	s, err := c.Summarize()
	require.NoError(t, err)
	return s
}

func TestJUnitTellsFailuresErrorsAndWhatWasSkipped(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, report.JUnit(&b, summary(t, 0)))
	var suites junit.Testsuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &suites))
	require.Len(t, suites.Suites, 1)
	suite := suites.Suites[0]
	assert.Equal(t, []int{8, 1, 3, 2}, []int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped})
	by := map[string]junit.Testcase{}
	for _, c := range suite.Testcases {
		by[c.Name] = c
	}
	assert.Equal(t, sentence, by["run --seed 2"].Failure.Message)
	assert.Contains(t, by["run --seed 2"].Failure.Data, "again: tidemark run --seed 2")
	assert.Contains(t, by["run --seed 2"].Failure.Data, "needs elr absent")
	assert.Equal(t, "known: TICKET-7", by["run --seed 3"].Skipped.Message)
	assert.Equal(t, "too-little: 0 reads", by["run --seed 4"].Error.Message)
	assert.Equal(t, "no engine", by["run --seed 5"].Error.Message)
	assert.NotNil(t, by["run --seed 6"].Skipped)
	assert.Nil(t, by["explore --seed 1"].Failure, "a defect that was caught is what is wanted")
	assert.Contains(t, by["explore --seed 2"].Error.Message, "was not caught")
}

func TestACampaignThatIsNotGreenIsAnErrorForJUnitAlsoIfEveryRunPassed(t *testing.T) {
	c, err := results.NewCampaign(t.TempDir(), results.Campaign{Name: "gate", Tasks: 1})
	require.NoError(t, err)
	require.NoError(t, c.Append(results.Outcome{Task: "1", Command: "run", Cell: "run", Status: results.Consistent}))
	s, err := c.Summarize()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, report.JUnit(&b, s))
	assert.Contains(t, b.String(), "no run with a defect shows that defects are found here")
}

func TestTextHasEachKindOfFailureOnceWithTheLineThatRepeatsIt(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, report.Text(&b, summary(t, 0)))
	text := b.String()
	assert.Contains(t, text, "campaign night_ly: violation because 1 violation\n")
	assert.Contains(t, text, "lost-acked by power-loss under kip320, 1 of 6 runs\n   "+sentence+"\n   needs elr absent\n   shortest schedule: found/x.sched\n"+
		"   again: tidemark run --seed 2\n")
	assert.Contains(t, text, "old, 1 of 6 runs, known: TICKET-7")
	assert.Contains(t, text, "events: 12 isr changes\ndefects planted: 2, caught: 1\n")
}

func TestAPageEscapesWhatItShows(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, report.Page(&b, summary(t, 0)))
	page := b.String()
	assert.NotContains(t, page, "<m1>")
	assert.Contains(t, page, "&lt;m1&gt;")
	assert.Contains(t, page, `<a href="found/x.sched">`)
	assert.Contains(t, page, "tidemark run --seed 2")
}

func TestGitHubGetsNoMoreThanItTakes(t *testing.T) {
	few, many := summary(t, 0), summary(t, 300)
	var b bytes.Buffer
	require.NoError(t, report.GitHubSummary(&b, few))
	assert.Contains(t, b.String(), `(&lt;m1> \| 50%)`)
	assert.Contains(t, b.String(), `night\_ly`)
	b.Reset()
	for i := range many.Failures {
		many.Failures[i].Example.Findings[0].Sentence = strings.Repeat("long ", 1000)
	}
	require.NoError(t, report.GitHubSummary(&b, many))
	assert.LessOrEqual(t, b.Len(), 1<<20)
	assert.True(t, strings.HasSuffix(b.String(), "|\n"), "it ends with a whole row")

	b.Reset()
	require.NoError(t, report.GitHubAnnotations(&b, few))
	assert.Contains(t, b.String(), "::error title=lost-acked by power-loss under kip320 (1 of 6 runs)::offset 1 of orders-0 (<m1> | 50%25) was acked: and is gone.%0Aagain: tidemark run --seed 2\n")
	assert.Contains(t, b.String(), "::warning title=old (1 of 6 runs)%2C known%3A TICKET-7")
	b.Reset()
	require.NoError(t, report.GitHubAnnotations(&b, many))
	assert.Equal(t, 10, strings.Count(b.String(), "::error "))
}

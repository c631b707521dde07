package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"tidemark/results"
)

// JUnit writes a campaign as JUnit XML, which nearly every CI reads: a run is a test case. A violation is a failure with its sentence; an
// inconclusive run, and one in which the harness failed, is an error, since nothing is known; one with a fault that the backend does not have is
// skipped. A violation that the project knows is skipped, too, and says so. A run with a defect fails if the defect was not found.
func JUnit(w io.Writer, s *results.Summary) error {
	suite := junit.Testsuite{Name: "tidemark campaign " + s.Name, Time: seconds(s.Seconds)}
	suite.SetTimestamp(s.Began.UTC().Truncate(time.Second))
	suite.AddProperty("campaign", s.ID)
	suite.AddProperty("verdict", string(s.Status))
	for _, why := range s.Why {
		suite.AddProperty("why", why)
	}
	for _, o := range s.Outcomes {
		suite.AddTestcase(testcase(s, &o))
	}
	if s.Status == results.Inconclusive {
		suite.AddTestcase(junit.Testcase{Name: "enough happened to decide", Classname: s.Name, Time: seconds(0),
			Error: &junit.Result{Message: strings.Join(s.Why, "; "), Type: string(s.Status)}})
	}
	var all junit.Testsuites
	all.AddSuite(suite)
	return all.WriteXML(w)
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

func testcase(s *results.Summary, o *results.Outcome) junit.Testcase {
	c := junit.Testcase{Name: o.Command, Classname: s.Name, Time: seconds(o.Seconds)}
	caught := o.Status == results.Violation
	result := &junit.Result{Message: headline(o), Type: string(o.Status), Data: details(s, o)}
	switch {
	case o.Control && caught:
		c.SystemOut = &junit.Output{Data: "a run with a defect, which was caught\n" + details(s, o)}
	case o.Control:
		result.Message = "a run with a defect that was not caught: " + result.Message
		c.Error = result
	case o.Status == results.Violation && o.Known != "":
		result.Message = "known: " + o.Known
		c.Skipped = result
	case o.Status == results.Violation:
		c.Failure = result
	case o.Status == results.Unsupported:
		c.Skipped = result
	case o.Status == results.Inconclusive, o.Status == results.Failed:
		c.Error = result
	}
	return c
}

// headline is an outcome in a line.
func headline(o *results.Outcome) string {
	switch {
	case len(o.Findings) > 0:
		return o.Findings[0].Sentence
	case o.Error != "":
		return firstLine(o.Error)
	case len(o.Reasons) > 0:
		return strings.Join(o.Reasons, "; ")
	}
	return string(o.Status)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// details are all that is worth reading of a failure.
func details(s *results.Summary, o *results.Outcome) string {
	var b strings.Builder
	for _, f := range o.Findings {
		fmt.Fprintf(&b, "%s (%d): %s\n", f.Anomaly, f.Count, f.Sentence)
	}
	for _, r := range o.Reasons {
		fmt.Fprintln(&b, r)
	}
	if o.Error != "" {
		fmt.Fprintln(&b, o.Error)
	}
	if o.Explained != "" {
		fmt.Fprintln(&b, o.Explained)
	}
	if o.Schedule != "" {
		fmt.Fprintf(&b, "shortest schedule: %s\n", filepath.Join(s.Path(), o.Schedule))
	}
	if o.Folder != "" {
		fmt.Fprintf(&b, "kept in: %s\n", filepath.Join(s.Path(), o.Folder))
	}
	fmt.Fprintf(&b, "again: tidemark %s\n", o.Command)
	return b.String()
}

package report

import (
	"fmt"
	"io"
	"strings"

	"tidemark/results"
)

// Limits of GitHub Actions: a step's summary has at most 1 MiB, of which some is left to other commands of the step, and a step shows at most ten
// annotations of each kind.
const (
	maxSummary     = 1000 << 10
	maxAnnotations = 10
)

// GitHubSummary writes a campaign as Markdown for the file that GITHUB_STEP_SUMMARY names, within GitHub's limit.
func GitHubSummary(w io.Writer, s *results.Summary) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## Tidemark campaign %s: %s\n\n", markdown(s.Name), markdown(verdict(s)))
	if len(s.Failures) > 0 {
		b.WriteString("| failure | runs | what happened | again |\n|---|---|---|---|\n")
		for _, f := range s.Failures {
			fmt.Fprintf(&b, "| %s%s | %d of %d%s | %s | `tidemark %s` |\n", markdown(f.Fingerprint), markdown(known(&f)), f.Hits, f.Runs, markdown(seen(s, &f)),
				markdown(headline(&f.Example)), strings.ReplaceAll(f.Example.Command, "|", "\\|"))
		}
		b.WriteByte('\n')
	}
	b.WriteString("| cell | runs | consistent | allowed | violation | inconclusive | failed | unsupported |\n|---|---|---|---|---|---|---|---|\n")
	end := fmt.Sprintf("\nEvents: %s. Defects planted: %d, caught: %d. %s\n", events(s), s.Controls, s.Caught, markdown(s.Power))
	const more = "| ... | | | | | | | |\n"
	for _, c := range cells(s) {
		row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d |\n", markdown(c.name), c.runs, c.counts[results.Consistent], c.counts[results.Allowed],
			c.counts[results.Violation], c.counts[results.Inconclusive], c.counts[results.Failed], c.counts[results.Unsupported])
		if b.Len()+len(row)+len(more)+len(end) > maxSummary {
			b.WriteString(more)
			break
		}
		b.WriteString(row)
	}
	b.WriteString(end)
	text := b.String()
	if len(text) > maxSummary { // thousands of kinds of failure
		text = text[:strings.LastIndexByte(text[:maxSummary], '\n')+1]
	}
	_, err := io.WriteString(w, text)
	return err
}

// markdown keeps a text from being taken for Markdown or HTML within a row of a table.
func markdown(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`").Replace(s)
}

// GitHubAnnotations writes workflow commands that GitHub shows beside the run: an error for each kind of violation that is not known, a warning
// for all else that keeps the campaign from being green, ten of each at most.
func GitHubAnnotations(w io.Writer, s *results.Summary) error {
	var b strings.Builder
	errors, warnings := 0, 0
	say := func(kind string, n *int, title, text string) {
		if *n++; *n <= maxAnnotations {
			fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, property(title), data(text))
		}
	}
	for _, f := range s.Failures {
		text := fmt.Sprintf("%s\nagain: tidemark %s", headline(&f.Example), f.Example.Command)
		title := fmt.Sprintf("%s (%d of %d runs)", f.Fingerprint, f.Hits, f.Runs)
		if f.Known == "" && f.Example.Status == results.Violation {
			say("error", &errors, title, text)
		} else {
			say("warning", &warnings, title+known(&f), text)
		}
	}
	if s.Status == results.Inconclusive {
		say("warning", &warnings, "inconclusive", strings.Join(s.Why, "; "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// data and property escape a workflow command's text and title as GitHub wants it.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

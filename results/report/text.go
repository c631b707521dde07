package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidemark/results"
)

// Text writes a campaign for people at a terminal: the verdict, each kind of failure once, and what happened.
func Text(w io.Writer, s *results.Summary) error {
	var b strings.Builder
	fmt.Fprintf(&b, "campaign %s: %s\n", s.Name, verdict(s))
	for i, f := range s.Failures {
		o := &f.Example
		fmt.Fprintf(&b, "\n%d. %s, %d of %d runs%s%s\n", i+1, f.Fingerprint, f.Hits, f.Runs, known(&f), seen(s, &f))
		fmt.Fprintf(&b, "   %s\n", headline(o))
		if o.Explained != "" {
			fmt.Fprintf(&b, "   %s\n", firstLine(o.Explained))
		}
		if o.Schedule != "" {
			fmt.Fprintf(&b, "   shortest schedule: %s\n", o.Schedule)
		}
		fmt.Fprintf(&b, "   again: tidemark %s\n", o.Command)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "cell\truns\tconsistent\tallowed\tviolation\tinconclusive\tfailed\tunsupported\tseconds a run")
	for _, c := range cells(s) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\n", c.name, c.runs, c.counts[results.Consistent], c.counts[results.Allowed], c.counts[results.Violation],
			c.counts[results.Inconclusive], c.counts[results.Failed], c.counts[results.Unsupported], c.seconds/float64(c.runs))
	}
	_ = t.Flush() // a strings.Builder never fails
	fmt.Fprintf(&b, "\nevents: %s\n", events(s))
	fmt.Fprintf(&b, "defects planted: %d, caught: %d\n", s.Controls, s.Caught)
	if s.Power != "" {
		fmt.Fprintf(&b, "power: %s\n", s.Power)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict is the campaign's status with what keeps it from being better.
func verdict(s *results.Summary) string {
	v := string(s.Status)
	if len(s.Why) > 0 {
		v += " because " + strings.Join(s.Why, "; ")
	}
	return v
}

func known(f *results.Failure) string {
	if f.Known == "" {
		return ""
	}
	return ", known: " + f.Known
}

// seen says when a failure was seen, if it was not in this campaign alone.
func seen(s *results.Summary, f *results.Failure) string {
	if f.Campaigns < 2 {
		return ""
	}
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	return fmt.Sprintf(", in %d campaigns from %s to %s", f.Campaigns, day(f.First), day(f.Last))
}

func events(s *results.Summary) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(s.Events)) {
		words = append(words, fmt.Sprintf("%d %s", s.Events[name], strings.ReplaceAll(name, "_", " ")))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// cell is the runs that differ in their seeds alone.
type cell struct {
	name    string
	runs    int
	counts  map[results.Status]int
	seconds float64
}

// cells are in the order in which they first ended, those with a defect last.
func cells(s *results.Summary) []*cell {
	var order []*cell
	by := map[string]*cell{}
	for _, control := range []bool{false, true} {
		for _, o := range s.Outcomes {
			if o.Control != control {
				continue
			}
			name := o.Cell
			if control {
				name += " (with a defect)"
			}
			c := by[name]
			if c == nil {
				c = &cell{name: name, counts: map[results.Status]int{}}
				by[name] = c
				order = append(order, c)
			}
			c.runs++
			c.counts[o.Status]++
			c.seconds += o.Seconds
		}
	}
	return order
}

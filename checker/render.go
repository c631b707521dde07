package checker

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// maxRendered bounds the sentences of a plain-text report for each anomaly; JSON has all.
const maxRendered = 10

// Shorts are the findings in the form of schedules, each once, sorted: "diverged 1", "lost-acked m1".
func (r *Result) Shorts() []string {
	s := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		s[i] = f.Short()
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// Level is the weakest of the partitions' levels, [Linearizable] if there are none.
func (r *Result) Level() Level {
	l := Linearizable
	for _, p := range r.Partitions {
		l = min(l, p.Level)
	}
	return l
}

// Summary is the verdict with its reasons in one line: "allowed because crash-budget: lost-acked m1, reread-differs 1".
func (r *Result) Summary() string {
	s := string(r.Verdict)
	if len(r.Reasons) > 0 {
		reasons := make([]string, len(r.Reasons))
		for i, x := range r.Reasons {
			reasons[i] = string(x)
		}
		s += " because " + strings.Join(reasons, ", ")
	}
	shorts := r.Shorts()
	const most = 8
	if n := len(shorts); n > most {
		shorts = append(shorts[:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(shorts) > 0 {
		s += ": " + strings.Join(shorts, ", ")
	}
	return s
}

// WriteText writes the report for people. The same result always gives the same text.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.Summary())
	if r.Torn {
		fmt.Fprintln(&b, "the history breaks off; it was judged up to its last whole line")
	}
	for _, d := range r.Details {
		fmt.Fprintf(&b, "- %s\n", d)
	}
	r.writeFindings(&b)
	if len(r.Observations) > 0 {
		fmt.Fprintln(&b, "\nobserved, not judged:")
		for _, o := range r.Observations {
			times := "once"
			if o.Count > 1 {
				times = fmt.Sprintf("%d times, first", o.Count)
			}
			fmt.Fprintf(&b, "- %s on %s, %s: %s\n", o.Anomaly, o.Partition, times, strings.TrimSuffix(o.First, "."))
		}
	}
	b.WriteByte('\n')
	r.writePartitions(&b)
	r.writeEvidence(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) writeFindings(b *strings.Builder) {
	if len(r.Findings) == 0 {
		return
	}
	b.WriteByte('\n')
	type group struct {
		partition string
		anomaly   Anomaly
	}
	// Findings that tell the same story, as a loss and the loss of what was read, share a paragraph.
	var order []string
	names, written, left := map[string][]string{}, map[group]int{}, map[group]int{}
	for _, f := range r.Findings {
		g := group{f.Partition, f.Anomaly}
		if names[f.Sentence] == nil && written[g] == maxRendered {
			left[g]++
			continue
		}
		written[g]++
		if names[f.Sentence] == nil {
			order = append(order, f.Sentence)
		}
		names[f.Sentence] = append(names[f.Sentence], f.Short())
	}
	for _, sentence := range order {
		fmt.Fprintf(b, "%s: %s\n", strings.Join(names[sentence], ", "), sentence)
	}
	for _, f := range r.Findings {
		if g := (group{f.Partition, f.Anomaly}); left[g] > 0 {
			fmt.Fprintf(b, "... and %d more of %s on %s\n", left[g], f.Anomaly, f.Partition)
			left[g] = 0
		}
	}
}

func (r *Result) writePartitions(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "partition\toperations\tend\tlevel\tporcupine\tcertificate")
	for _, p := range r.Partitions {
		end := "not read"
		if p.End >= 0 {
			end = fmt.Sprint(p.End)
		}
		heard := string(p.Porcupine)
		if p.PorcupineWhy != "" {
			heard += " (" + p.PorcupineWhy + ")"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", p.Name, p.Operations, end, p.Level, heard, r.certificate(&p))
	}
	// A strings.Builder never fails.
	_ = t.Flush()
	c := r.Contract
	fmt.Fprintf(b, "contract: bar %s, acks=%s, min.insync.replicas=%d, unclean.leader.election.enable=%t, crash budget %s", c.Bar, c.Acks,
		c.MinISR, c.Unclean, c.CrashBudget)
	if c.Protocol != "" {
		fmt.Fprintf(b, ", protocol %s", c.Protocol)
	}
	b.WriteByte('\n')
}

// certificate says who else confirmed what was decided of a partition.
func (r *Result) certificate(p *Partition) string {
	var by []string
	if p.Replayed {
		by = append(by, "order replayed")
	}
	cut := 0
	for i := range r.Slices {
		if r.Slices[i].Partition == p.Name {
			cut++
		}
	}
	switch cut {
	case 0:
	case 1:
		by = append(by, "1 slice")
	default:
		by = append(by, fmt.Sprintf("%d slices", cut))
	}
	if len(by) == 0 {
		return "-"
	}
	return strings.Join(by, ", ")
}

func (r *Result) writeEvidence(b *strings.Builder) {
	e := r.Evidence
	fmt.Fprintf(b, "evidence: %d acked produces, %d reads, %d final reads, %d of unknown outcome, %d failed, %d leader changes, %d truncations",
		e.Acked, e.Reads, e.FinalReads, e.Unknown, e.Failed, e.LeaderChanges, e.Truncations)
	if e.PowerLosses > 0 {
		fmt.Fprintf(b, ", %d power losses (%d bytes)", e.PowerLosses, e.BytesLost)
	}
	b.WriteByte('\n')
	if len(e.Faults) == 0 {
		return
	}
	fs := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		fs[i] = fmt.Sprintf("%d %s (%d proven)", f.Count, f.Verb, f.Proven)
	}
	fmt.Fprintf(b, "faults: %s\n", strings.Join(fs, ", "))
}

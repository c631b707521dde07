package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/checker"
	"tidemark/cluster"
	"tidemark/cluster/sim"
	"tidemark/results"
)

// failed notes an error of the harness, or that the backend does not have what was asked for.
func failed(o *results.Outcome, err error) {
	o.Status, o.Error = results.Failed, err.Error()
	o.Fingerprint = "harness: " + digitless(o.Error)
	var cell *CellError
	if errors.As(err, &cell) {
		o.Fingerprint = "harness: " + digitless(cell.Err.Error())
	}
	if errors.Is(err, cluster.ErrUnsupported) {
		o.Status, o.Fingerprint = results.Unsupported, ""
	}
}

// reproduce plays schedules. What is expected is consistent, whatever the verdict on each is: under hw a schedule of KIP-101 has to lose records.
func (k *campaign) reproduce(ctx context.Context, c ReproduceConfig, o *results.Outcome) error {
	c.Root, c.Binary = k.stored.Runs(), k.options.Binary
	cells, err := Reproduce(ctx, c)
	o.Status = results.Consistent
	for _, cell := range cells {
		o.Working += cell.Seconds
		o.Folder = k.stored.Relative(filepath.Dir(cell.Folder))
		addEvents(o, &cell.Checked.Evidence)
		if cell.OK {
			continue
		}
		about := fmt.Sprintf("%s under %s: %s", cell.Schedule, cell.Protocol, cell.Why)
		o.Reasons = append(o.Reasons, about)
		if cell.Checked.Verdict == checker.Violation {
			o.Status = results.Violation
			addFindings(o, cell.Checked.Findings)
		} else if o.Status == results.Consistent {
			o.Status = results.Inconclusive
		}
	}
	return err
}

// explore searches in simulation.
func (k *campaign) explore(ctx context.Context, c ExploreConfig, o *results.Outcome) error {
	court, err := c.Court()
	if err != nil {
		return err
	}
	x, err := Explore(ctx, c)
	if x == nil {
		return err
	}
	o.Working = x.Took.Seconds()
	if r := x.Random; r != nil {
		for event, n := range map[string]int64{"schedules": r.Counts.Schedules, "elections": r.Counts.Elections, "isr_changes": r.Counts.ISRChanges,
			"truncations": r.Counts.Truncations, "acked": r.Counts.Acked, "unknown": r.Counts.Unknown, "power_losses": r.Counts.PowerLosses,
			"faults": r.Counts.Crashes} {
			o.Events[event] += n
		}
	}
	o.Status = results.Consistent
	for i := range x.Found {
		f := &x.Found[i]
		o.Status = results.Violation
		ruling, err := court.Try(ctx, f.File)
		if err != nil {
			return err
		}
		addFindings(o, ruling.Checked.Findings)
		if o.Schedule == "" {
			if o.Schedule, err = k.keepSchedule(o.Task, f.File.String()); err != nil {
				return err
			}
		}
	}
	if err == nil && !x.Clean() && len(x.Found) == 0 {
		o.Status = results.Inconclusive
	}
	return err
}

func (k *campaign) keepSchedule(name, text string) (string, error) {
	folder := results.Folder{Path: k.stored.Path()}
	sub, err := folder.Sub("found")
	if err != nil {
		return "", err
	}
	file := strings.ReplaceAll(name, " ", "-") + ".sched"
	return k.stored.Relative(sub.File(file)), sub.WriteText(file, text)
}

// run makes a free run. A violation is taken to the search: the same anomaly under the same rules, in a few steps, says more than a history of
// thousands of operations.
func (k *campaign) run(ctx context.Context, c RunConfig, o *results.Outcome) error {
	c.Root, c.Binary = k.stored.Runs(), k.options.Binary
	r, err := Run(ctx, c)
	if r != nil {
		o.Folder, o.Working = k.stored.Relative(r.Folder), r.Lasted.Seconds()
	}
	if err != nil {
		return err
	}
	o.Status = results.Status(r.Checked.Verdict)
	o.Reasons = append(o.Reasons, r.Checked.Details...)
	addEvents(o, &r.Checked.Evidence)
	addFindings(o, r.Checked.Findings)
	if o.Status == results.Violation && ctx.Err() == nil {
		if err := k.simulate(ctx, c, r.Checked, o); err != nil {
			o.Explained = fmt.Sprintf("the search in simulation failed: %v", err)
		}
	}
	if o.Status == results.Consistent {
		return prune(r.Folder)
	}
	return nil
}

// prune removes what only a failed run is kept for: the disks of its nodes.
func prune(folder string) error { return os.RemoveAll(filepath.Join(folder, results.Nodes)) }

// simulateFor is how long the search may look for the anomaly of a run.
const simulateFor = 20 * time.Second

// like is what the search in simulation found under a set of rules. It is looked for once a campaign, however many runs fail under them.
type like struct {
	once  sync.Once
	found []Found
	err   error
}

// simulate looks for an anomaly of a run in simulation, shrunk, and explains it.
func (k *campaign) simulate(ctx context.Context, c RunConfig, checked *checker.Result, o *results.Outcome) error {
	c, _, err := c.withDefaults()
	if err != nil {
		return err
	}
	k.mu.Lock()
	under := rulesOf(o.Cell)
	l := k.likes[under]
	if l == nil {
		l = &like{}
		k.likes[under] = l
	}
	k.mu.Unlock()
	l.once.Do(func() {
		for _, severity := range []sim.Severity{sim.Failover, sim.Power} {
			var x *Exploration
			x, l.err = Explore(ctx, ExploreConfig{Protocol: c.Protocol, Without: c.Without, Rules: c.Rules, Replicas: 3, MinISR: 2, Severity: severity, Seed: 1,
				Time: simulateFor / 2, KeepGoing: true})
			if l.err != nil {
				return
			}
			l.found = append(l.found, x.Found...)
		}
	})
	if l.err != nil {
		return l.err
	}
	for i := range l.found {
		f := &l.found[i]
		if !slices.ContainsFunc(checked.Findings, func(y checker.Finding) bool { return y.Because == "" && slices.Contains(f.Kinds, y.Anomaly) }) {
			continue
		}
		if o.Schedule, err = k.keepSchedule(o.Task, f.File.String()); err != nil {
			return err
		}
		explained, _, err := Explain(ctx, ExplainConfig{File: f.File, Protocol: c.Protocol, Without: c.Without, Rules: c.Rules})
		if err == nil {
			o.Explained = strings.Join(explained.Text(f.File), "; ")
		}
		return err
	}
	o.Explained = fmt.Sprintf("%s of search in simulation did not find the like", simulateFor)
	return nil
}

// addFindings adds the anomalies that nothing excuses, the first of each kind with its sentence.
func addFindings(o *results.Outcome, findings []checker.Finding) {
	for _, f := range findings {
		if f.Because != "" {
			continue
		}
		i := slices.IndexFunc(o.Findings, func(g results.Finding) bool { return g.Anomaly == string(f.Anomaly) && g.Cause == string(f.Cause) })
		if i < 0 {
			i = len(o.Findings)
			o.Findings = append(o.Findings, results.Finding{Anomaly: string(f.Anomaly), Cause: string(f.Cause), Sentence: f.Sentence})
		}
		o.Findings[i].Count++
	}
}

func addEvents(o *results.Outcome, e *checker.Evidence) {
	faults := 0
	for _, f := range e.Faults {
		faults += f.Proven
	}
	for event, n := range map[string]int{"acked": e.Acked, "reads": e.Reads + e.FinalReads, "unknown": e.Unknown, "elections": e.LeaderChanges,
		"isr_changes": e.ISRChanges, "truncations": e.Truncations, "power_losses": e.PowerLosses, "faults": faults} {
		o.Events[event] += int64(n)
	}
}

// fingerprint says what kind of failure an outcome is: the anomalies with their causes, and the rules under which they came. Runs that fail in the same
// way have the same one, whatever their seeds, backends and workloads are.
func fingerprint(o *results.Outcome) string {
	switch o.Status {
	case results.Violation:
		var kinds []string
		for _, f := range o.Findings {
			kind := f.Anomaly
			if f.Cause != "" {
				kind += " by " + f.Cause
			}
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		if len(kinds) == 0 {
			kinds = []string{"not as expected"}
		}
		return strings.Join(slices.Compact(kinds), ", ") + " under " + rulesOf(o.Cell)
	case results.Failed:
		return "harness: " + digitless(o.Error)
	case results.Inconclusive:
		if len(o.Reasons) > 0 {
			return "inconclusive: " + digitless(o.Reasons[0])
		}
		return "inconclusive"
	}
	return ""
}

// rulesOf are the words of a command that choose the rules.
func rulesOf(command string) string {
	var chosen []string
	words := strings.Fields(command)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "--protocol":
			chosen = append(chosen, words[i+1])
		case "--without", "--rule", "--defect":
			chosen = append(chosen, strings.TrimPrefix(words[i], "--")+" "+words[i+1])
		}
	}
	return strings.Join(chosen, " ")
}

// digitless is a message's first line without what differs from run to run: numbers.
func digitless(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	var b strings.Builder
	number := false
	for _, r := range line {
		if r >= '0' && r <= '9' {
			if !number {
				b.WriteByte('N')
			}
			number = true
			continue
		}
		number = false
		b.WriteRune(r)
	}
	return b.String()
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// Explanation says why a schedule goes wrong: by which rule that is missing, and from where on nothing helps any more.
type Explanation struct {
	Kinds   []checker.Anomaly // as it is
	Toggles []Toggle          // each rule changed alone, in the registry's order
	Chances []Chance          // after each step, beginning with none; nil if a world cannot take every step
	// Inevitable is the number of steps, from 1, after which every future ends badly; 0 if there is none such.
	Inevitable int
	Futures    int // random futures of each prefix
}

// ErrNoViolation says that a schedule breaks no promise, so that there is nothing to shrink or to explain.
var ErrNoViolation = errors.New("there is no violation")

// Toggle is what comes of the schedule when one rule is another.
type Toggle struct {
	Change string // "fetch-fencing=on"
	Was    string // "fetch-fencing=off"
	Effect Effect
	Kinds  []checker.Anomaly // that are there then
	Why    string            // why nothing can be said
}

// Effect is what a change of one rule does to a violation.
type Effect string

// The effects.
const (
	Prevents   Effect = "prevents"   // no violation
	Unaffected Effect = "unaffected" // the same kinds of anomaly, or more
	Alters     Effect = "alters"     // a violation of another kind
	Unknown    Effect = "unknown"    // the change makes no sense, or the schedule cannot happen
)

// Chance is how likely what was lost is lost after a part of the schedule.
type Chance struct {
	Steps  int
	Lost   int // of the futures
	Future int // how many were tried
}

// Explain plays a violating schedule with each rule changed, and its beginnings with so many random futures each.
func Explain(ctx context.Context, c Court, f *schedule.File, futures int, seed uint64) (*Explanation, error) {
	r, err := c.Try(ctx, f)
	if err != nil {
		return nil, err
	}
	if !r.Violation() {
		what := string(r.Checked.Verdict)
		if r.Played.Inconclusive != "" {
			what = "inconclusive: " + r.Played.Inconclusive
		}
		return nil, fmt.Errorf("schedule %s under %s is %s: %w to explain", f.Name, c.Protocol, what, ErrNoViolation)
	}
	x := &Explanation{Kinds: r.Kinds(), Futures: futures}
	for _, change := range changes(c.Rules) {
		t, err := c.toggle(ctx, f, x.Kinds, change)
		if err != nil {
			return nil, err
		}
		x.Toggles = append(x.Toggles, t)
	}
	return x, x.beginnings(ctx, c, f, seed)
}

// changes lists what every rule of a set could be instead.
func changes(set rules.Set) [][2]string {
	var all [][2]string
	for _, is := range set.Settings() {
		name, value, _ := strings.Cut(is, "=")
		var others []string
		switch {
		case name == "truncation":
			for t := rules.ToHighWatermark; t <= rules.OnFetch; t++ {
				others = append(others, t.String())
			}
		case name == "defect":
			others = []string{"none"}
		case name == "registration":
			others = []string{rules.KRaft.String(), rules.ZK.String()}
		default:
			others = []string{"on", "off"}
		}
		for _, o := range others {
			if o != value {
				all = append(all, [2]string{is, name + "=" + o})
			}
		}
	}
	return all
}

// toggle plays what is possible of the schedule with one rule changed.
func (c Court) toggle(ctx context.Context, f *schedule.File, kinds []checker.Anomaly, change [2]string) (Toggle, error) {
	t := Toggle{Was: change[0], Change: change[1]}
	set, err := c.Rules.With(nil, []string{change[1]})
	if err != nil {
		t.Effect, t.Why = Unknown, err.Error()
		return t, nil
	}
	with := c
	with.Rules = set
	r, err := with.Try(ctx, optional(f))
	if err != nil {
		return t, err
	}
	t.Kinds = r.Kinds()
	switch {
	case r.Played.Inconclusive != "":
		t.Effect, t.Why = Unknown, r.Played.Inconclusive
	case !r.Violation() && r.Checked.Verdict == checker.Inconclusive:
		t.Effect, t.Why = Unknown, strings.Join(r.Checked.Details, "; ")
	case !r.Violation():
		t.Effect = Prevents
	case contains(t.Kinds, kinds):
		t.Effect = Unaffected
	default:
		t.Effect = Alters
	}
	return t, nil
}

func contains(all, some []checker.Anomaly) bool {
	return !slices.ContainsFunc(some, func(k checker.Anomaly) bool { return !slices.Contains(all, k) })
}

// optional is the schedule with no step that has to be possible. Premises are left out: they are about the rules as they were.
func optional(f *schedule.File) *schedule.File {
	c := clone(f)
	c.Steps = slices.DeleteFunc(c.Steps, func(s schedule.Step) bool { return s.Verb == schedule.Require })
	for i := range c.Steps {
		c.Steps[i].Optional = true
	}
	return c
}

// futureSteps is how much happens in a random future before everything comes back.
const futureSteps = 12

// beginnings plays each beginning of the schedule and then random futures, in which nothing worse happens than sane brokers
// and controllers do, and counts in how many of them what the schedule loses is lost.
func (x *Explanation) beginnings(ctx context.Context, c Court, f *schedule.File, seed uint64) error {
	if slices.ContainsFunc(f.Steps, func(s schedule.Step) bool {
		return s.Verb == schedule.Pause || s.Verb == schedule.Resume || s.Verb == schedule.Fail
	}) {
		return nil
	}
	begin, err := NewWorld(f.Cluster, c.Rules, Manual(f.Steps), nil)
	if err != nil {
		return err
	}
	whole := begin.Clone()
	for _, s := range f.Steps {
		if s.Only.Contains(c.Protocol) {
			whole.Apply(s)
		}
	}
	if !whole.End() || whole.Judge() == 0 {
		return nil
	}
	lost, differ := whole.lost(), whole.Judge()&Differing != 0
	at := begin.Clone()
	for steps := 0; steps <= len(f.Steps); steps++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if steps > 0 {
			if s := f.Steps[steps-1]; s.Only.Contains(c.Protocol) {
				at.Apply(s)
			}
		}
		chance := Chance{Steps: steps, Future: x.Futures}
		for n := range x.Futures {
			r := streamOf(seed, int64(n))
			k := newWalker(at.Clone(), r, Sane.Faults())
			k.run(n % (futureSteps + 1))
			if k.w.End() && k.w.leader >= 0 && k.w.repeats(lost, differ) {
				chance.Lost++
			}
		}
		x.Chances = append(x.Chances, chance)
	}
	for i := len(x.Chances) - 1; i > 0 && x.Chances[i].Lost == x.Futures; i-- {
		x.Inevitable = i
	}
	return nil
}

// lost are the records that are gone from the leader's log.
func (w *World) lost() []known {
	if w.leader < 0 {
		return nil
	}
	var lost []known
	log, end := w.batches(w.leader), w.nodes[w.leader].core.HighWatermark()
	for _, of := range [][]known{w.truth.acked, w.truth.exposed} {
		for _, k := range of {
			if !k.in(log, end) && !slices.Contains(lost, k) {
				lost = append(lost, k)
			}
		}
	}
	return lost
}

// repeats says whether the world lost one of these records, which somebody knew of in it too, or differs as it did.
func (w *World) repeats(lost []known, differ bool) bool {
	if differ && w.Judge()&Differing != 0 {
		return true
	}
	return slices.ContainsFunc(w.lost(), func(k known) bool { return slices.Contains(lost, k) })
}

// With lists the changes that have an effect, as settings.
func (x *Explanation) With(e Effect) []string {
	var all []string
	for _, t := range x.Toggles {
		if t.Effect == e {
			all = append(all, t.Change)
		}
	}
	return all
}

// Text is the explanation in words, a line each. Rules that the schedule needs as they are come first.
func (x *Explanation) Text(f *schedule.File) []string {
	lines := []string{"has " + strings.ReplaceAll(kindsName(x.Kinds), "+", ", ")}
	var needs, prevented, unaffected, other []string
	for _, t := range x.Toggles {
		name, _, _ := strings.Cut(t.Change, "=")
		switch t.Effect {
		case Prevents:
			if rule, on := strings.CutSuffix(t.Change, "=on"); on {
				prevented = append(prevented, rule)
			} else {
				prevented = append(prevented, t.Change)
			}
			if !x.some(Unaffected, t.Was) && !slices.Contains(needs, t.Was) {
				needs = append(needs, t.Was)
			}
		case Unaffected:
			if x.some(Prevents, t.Was) || x.some(Alters, t.Was) {
				name = t.Change // it depends
			}
			if !slices.Contains(unaffected, name) {
				unaffected = append(unaffected, name)
			}
		case Alters:
			other = append(other, fmt.Sprintf("with %s it has %s instead", t.Change, strings.ReplaceAll(kindsName(t.Kinds), "+", ", ")))
		default:
			other = append(other, fmt.Sprintf("with %s nothing can be said: %s", t.Change, firstLine(t.Why)))
		}
	}
	for _, l := range []struct {
		what  string
		words []string
	}{{"needs", needs}, {"prevented by", prevented}, {"unaffected by", unaffected}} {
		if len(l.words) > 0 {
			lines = append(lines, l.what+" "+strings.Join(l.words, ", "))
		}
	}
	lines = append(lines, other...)
	switch {
	case x.Inevitable > 0:
		lines = append(lines, fmt.Sprintf("inevitable from step %d on: %s (in all of %d random futures)", x.Inevitable, f.Steps[x.Inevitable-1], x.Futures))
	case x.Chances != nil:
		lines = append(lines, fmt.Sprintf("never inevitable: after the last step it happens in %d of %d random futures", x.Chances[len(x.Chances)-1].Lost,
			x.Futures))
	}
	return lines
}

// some says whether some change of the setting has the effect.
func (x *Explanation) some(e Effect, was string) bool {
	return slices.ContainsFunc(x.Toggles, func(t Toggle) bool { return t.Was == was && t.Effect == e })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// Change is the one rule in which the court's rules differ from its protocol's, as "name=value"; "" if none does. It is not
// ok if several do: a schedule cannot say what it expects then.
func (c Court) Change(f *schedule.File) (change string, ok bool) {
	own := f.Rules(c.Protocol)
	if seeded := c.Rules.Defects(); len(seeded) > 0 {
		with, err := own.With(nil, []string{seeded[0].Setting()})
		return seeded[0].Setting(), err == nil && with == c.Rules
	}
	was := own.Settings()
	for i, is := range c.Rules.Settings() {
		if is == was[i] {
			continue
		}
		if change != "" {
			return "", false
		}
		change = is
	}
	return change, true
}

// Annotate makes a found schedule one that a person can read and anybody can run: a comment above each step says what happens
// in it, and it says what is to be expected under every protocol, because it was played under each. Steps that are impossible
// under another protocol become optional.
func Annotate(ctx context.Context, c Court, f *schedule.File) (*schedule.File, error) {
	f = clone(f)
	f.Cluster.Registration = c.Rules.Registration
	mine, err := c.Try(ctx, f)
	if err != nil {
		return nil, err
	}
	if mine.Played.Inconclusive != "" {
		return nil, fmt.Errorf("schedule %s under %s: %s", f.Name, c.Protocol, mine.Played.Inconclusive)
	}
	rulings := make([]*Ruling, len(rules.Protocols()))
	for i := 0; i < len(rulings); {
		p := rules.Protocols()[i]
		r, err := Court{Protocol: p, Rules: f.Rules(p)}.Try(ctx, f)
		if err != nil {
			return nil, err
		}
		if at := r.Played.Impossible; at >= 0 {
			f.Steps[at].Optional = true
			i = 0 // those before it are as they were, but the file is another
			continue
		}
		if r.Played.Inconclusive != "" {
			return nil, fmt.Errorf("schedule %s under %s: %s", f.Name, p, r.Played.Inconclusive)
		}
		rulings[i] = r
		i++
	}
	f.Expects = expects(rulings)
	change, sayable := c.Change(f)
	if change != "" {
		own, err := Court{Protocol: c.Protocol, Rules: c.Rules}.Try(ctx, f) // by the contract that everybody judges by
		if err != nil {
			return nil, err
		}
		e := own.expect()
		e.Only, e.Change = schedule.Range{First: c.Protocol, Last: c.Protocol}, change
		f.Expects = append(f.Expects, e)
	}
	comment(f, mine)
	if !sayable {
		f.Steps[0].Comment = append([]string{fmt.Sprintf("Found under %s with %s.", c.Protocol, strings.Join(c.Rules.Settings(), ", "))},
			f.Steps[0].Comment...)
	}
	return f, nil
}

// expect is what the ruling says, as a schedule expects it.
func (r *Ruling) expect() schedule.Expect {
	e := schedule.Expect{Verdict: string(r.Checked.Verdict), Findings: r.Checked.Shorts()}
	slices.Sort(e.Findings)
	reasons := make([]string, len(r.Checked.Reasons))
	for i, reason := range r.Checked.Reasons {
		reasons[i] = string(reason)
	}
	e.Because = strings.Join(reasons, ", ")
	return e
}

// expects are the expectations of all protocols, neighbours that agree in one line.
func expects(rulings []*Ruling) []schedule.Expect {
	var all []schedule.Expect
	for i, r := range rulings {
		p := rules.Protocols()[i]
		e := r.expect()
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.Verdict == e.Verdict && last.Because == e.Because && slices.Equal(last.Findings, e.Findings) {
				last.Only.Last = p
				continue
			}
		}
		e.Only = schedule.Range{First: p, Last: p}
		all = append(all, e)
	}
	return all
}

// comment tells above each step what happens in it, and above the last what happens when everything comes back.
func comment(f *schedule.File, r *Ruling) {
	var values []string
	for _, s := range f.Steps {
		values = append(values, s.Value)
	}
	for i := range f.Steps {
		if i < len(r.Played.Told) {
			f.Steps[i].Comment = sentences(r.Played.Told[i], values)
		}
	}
	last := &f.Steps[len(f.Steps)-1]
	if end := sentences(r.Played.Told[len(r.Played.Told)-1], values); len(end) > 0 {
		last.Comment = append(last.Comment, "In the end, when everything comes back:")
		last.Comment = append(last.Comment, end...)
	}
}

// sentences are the lines of a story, broken at the width of a page. A value keeps its name at the beginning of a sentence.
func sentences(story, values []string) []string {
	const width = 120
	var lines []string
	for _, s := range story {
		if word, _, _ := strings.Cut(s, " "); !slices.Contains(values, word) {
			s = strings.ToUpper(s[:1]) + s[1:]
		}
		s += "."
		for len(s) > width {
			at := cmp.Or(max(0, strings.LastIndexByte(s[:width], ' ')), width)
			lines = append(lines, s[:at])
			s = strings.TrimSpace(s[at:])
		}
		lines = append(lines, s)
	}
	return lines
}

// Expects says in what the ruling differs from what the schedule expects of the court's protocol and rules; "" if in nothing.
func (c Court) Expects(f *schedule.File, r *Ruling) string {
	change, _ := c.Change(f)
	want, is := f.Expected(c.Protocol, change), r.expect()
	switch {
	case r.Played.Inconclusive != "":
		return r.Played.Inconclusive
	case want.Verdict != is.Verdict || want.Because != is.Because || !slices.Equal(want.Findings, is.Findings):
		want.Only, is.Only = schedule.Range{}, schedule.Range{}
		want.Change, is.Change = "", ""
		return fmt.Sprintf("%s, and it is%s", want, strings.TrimPrefix(is.String(), "expect"))
	}
	return ""
}

// describe is the title of a found schedule.
func describe(c Court, kinds []checker.Anomaly) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return fmt.Sprintf("%s under %s, found by search", strings.Join(words, ", "), c.Protocol)
}

// Minimal is a find as it is reported: shrunk, commented, with its expectations.
func (f Find) Minimal(ctx context.Context, c Court) (*schedule.File, *Shrunk, error) {
	s, err := Shrink(ctx, c, f.File, f.Kinds)
	if err != nil {
		return nil, nil, err
	}
	file := clone(s.File)
	change, _ := c.Change(file)
	file.Name = string(c.Protocol) + "-" + strings.ReplaceAll(f.Name(), "+", "-")
	file.Title = describe(c, f.Kinds)
	if rule, off := strings.CutSuffix(change, "=off"); off {
		file.Name = string(c.Protocol) + "-without-" + rule + "-" + strings.ReplaceAll(f.Name(), "+", "-")
		file.Title += " without " + rule
	}
	file, err = Annotate(ctx, c, file)
	return file, s, err
}

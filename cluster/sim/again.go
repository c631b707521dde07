package sim

import (
	"context"
	"fmt"
	"sort"
)

// Mismatch is the error of a search that came to something else when it was run again: of whatever it says nothing is certain
// until the cause is gone. A seed that is the same search for ever is what stored schedules, golden files and shrinking rest on.
type Mismatch struct {
	Schedule int64 // number of the first random schedule that differs
	// Step is the number of its first step after which the two differ, from 1; one more than there are steps is the end, in which
	// everything comes back. 0: the schedule came to the same every time that it was played anew.
	Step  int
	Moved string // the step, as a schedule writes it
	What  string // whose state differs after it
}

func (m *Mismatch) Error() string {
	if m.Step == 0 {
		return fmt.Sprintf("the search is not deterministic: two runs differ from schedule %d on, which comes to the same %d times when it is played alone: "+
			"something outlives a schedule", m.Schedule, repeats)
	}
	return fmt.Sprintf("the search is not deterministic: two runs differ from step %d of schedule %d on (%s), in the state of %s", m.Step, m.Schedule, m.Moved, m.What)
}

// repeats is how often a schedule that differed is played anew until it differs again.
const repeats = 64

// Again runs a search that was [Search.Recorded] once more, as far as it came, and compares the chained hashes. Two runs that
// differ give a [Mismatch], bisected to the first schedule and the first step that differ.
func (s Search) Again(ctx context.Context, first *Explored) error {
	s.Recorded, s.Progress = true, nil
	s.Schedules = first.Counts.Schedules
	second, err := s.Run(ctx)
	if err != nil {
		return err
	}
	if at := parting(first.trail, second.trail); at >= 0 {
		return s.pin(int64(at))
	}
	if ctx.Err() != nil && len(second.trail) < len(first.trail) {
		return fmt.Errorf("comparing two runs: %w after %d of %d schedules, which are the same", ctx.Err(), len(second.trail), len(first.trail))
	}
	if len(second.trail) != len(first.trail) {
		return &Mismatch{Schedule: int64(min(len(first.trail), len(second.trail)))}
	}
	return nil
}

// parting is the first place in which two chains differ within their common length, -1 if there is none. What follows a difference
// in a chain differs too, so it is found by bisection.
func parting(a, b []Key) int {
	n := min(len(a), len(b))
	at := sort.Search(n, func(i int) bool { return a[i] != b[i] })
	if at == n {
		return -1
	}
	return at
}

// trail is what happened in one schedule.
type trail struct {
	steps []string
	chain []Key
	parts [][]Key
}

func (t *trail) add(w *World, m *move) {
	parts := w.parts()
	last := Key{}
	if n := len(t.chain); n > 0 {
		last = t.chain[n-1]
	}
	step := "the end, in which everything comes back"
	if m != nil {
		step = w.taken(*m)
		last = last.with(Key{}.mix([]byte{byte(m.op), m.at, m.arg}))
	}
	for _, k := range parts {
		last = last.with(k)
	}
	t.steps, t.chain, t.parts = append(t.steps, step), append(t.chain, last), append(t.parts, parts)
}

// pin plays a schedule again and again until two plays of it differ, and finds the first step after which they do.
func (s Search) pin(i int64) error {
	p, err := s.player(nil)
	if err != nil {
		return err
	}
	var first *trail
	for range repeats {
		t := &trail{}
		after := s.after
		p.s.after = func(n int64, w *World, m move) {
			if after != nil {
				after(n, w, m)
			}
			t.add(w, &m)
		}
		p.play(i)
		t.add(p.k.w, nil)
		if first == nil {
			first = t
			continue
		}
		at := parting(first.chain, t.chain)
		switch {
		case at >= 0:
			return &Mismatch{Schedule: i, Step: at + 1, Moved: t.steps[at], What: p.k.w.differing(first.parts[at], t.parts[at])}
		case len(first.chain) != len(t.chain):
			at = min(len(first.chain), len(t.chain))
			return &Mismatch{Schedule: i, Step: at + 1, Moved: "one of them ended", What: "the search"}
		}
	}
	return &Mismatch{Schedule: i}
}

// parts are hashes of the controller, of what is between the nodes, and of each broker.
func (w *World) parts() []Key {
	keys := []Key{w.ruleKey(), Key{}.mix(w.appendBetween(nil))}
	for i := range w.nodes {
		keys = append(keys, w.nodeKey(i))
	}
	return keys
}

// differing names the first part in which two states differ.
func (w *World) differing(a, b []Key) string {
	for at := range a {
		switch {
		case a[at] == b[at]:
		case at == 0:
			return "the controller"
		case at == 1:
			return "what is on its way or known to clients"
		default:
			return fmt.Sprintf("broker %d", w.c.ids[at-2])
		}
	}
	return "the search, which chose another step"
}

// taken is a move that was taken last, as a schedule writes it.
func (w *World) taken(m move) string {
	s := w.step(m)
	if m.op == opProduce {
		s.Value = w.truth.values[len(w.truth.values)-1]
	}
	return s.String()
}

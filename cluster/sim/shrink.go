package sim

import (
	"context"
	"fmt"
	"slices"

	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

// Shrunk is what shrinking came to.
type Shrunk struct {
	File *schedule.File
	// Tried are the schedules that were looked at, Played those of them that the truth let through to the checker.
	Tried, Played int
}

// Shrink makes a violating schedule as short as it gets while it has the same kinds of anomaly: steps first, by delta debugging
// (Zeller and Hildebrandt, 2002), then single steps and pairs, then brokers, leader epochs, the severity of faults (a loss of power
// becomes a kill, a kill an isolation, that nothing), the cuts of what is left, and whatever reads better.
//
// Premises, and steps that are not for the court's protocol, are left out from the start.
// Steps that are impossible without those taken out are left out with them, so every outcome plays as it is written. The truth
// of a [World] turns most candidates down in microseconds; what it lets through is played on a [Stage] and judged by its
// history, as everything that this package reports.
func Shrink(ctx context.Context, c Court, f *schedule.File, kinds []checker.Anomaly) (*Shrunk, error) {
	s := &shrinker{ctx: ctx, court: c, kinds: kinds, begins: map[string]*World{}, file: clone(f)}
	if !s.accept(plain(f, c)) {
		if s.err != nil {
			return nil, s.err
		}
		return nil, fmt.Errorf("schedule %s: it does not have the anomalies %s under %s", f.Name, kindsName(kinds), c.Protocol)
	}
	for s.progress(s.dropBrokers) || s.progress(s.dropChunks) || s.progress(s.dropPairs) || s.progress(s.dropEpochs) ||
		s.progress(s.soften) || s.progress(s.simplify) || s.progress(s.join) {
		if s.err != nil || ctx.Err() != nil {
			break
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	s.rename()
	return &Shrunk{s.file, s.tried, s.played}, ctx.Err()
}

type shrinker struct {
	ctx           context.Context
	court         Court
	kinds         []checker.Anomaly
	begins        map[string]*World
	file          *schedule.File // the smallest so far
	tried, played int
	err           error
}

// progress says whether a pass changed the file.
func (s *shrinker) progress(pass func()) bool {
	before := s.file
	pass()
	return s.file != before && s.err == nil
}

func clone(f *schedule.File) *schedule.File {
	c := *f
	c.Steps = slices.Clone(f.Steps)
	c.Expects = nil
	for i := range c.Steps {
		c.Steps[i].Comment, c.Steps[i].Line = nil, 0
	}
	return &c
}

// plain is what the schedule does under the court's protocol, every step on its own.
func plain(f *schedule.File, court Court) *schedule.File {
	c := clone(f)
	var steps []schedule.Step
	for _, s := range c.Steps {
		if s.Verb == schedule.Require || !s.Only.Contains(court.Protocol) {
			continue
		}
		s.Only, s.Optional = schedule.Range{}, false
		steps = append(steps, s)
	}
	c.Steps = steps
	return c
}

// accept makes the candidate the new file if it still has the anomalies.
func (s *shrinker) accept(f *schedule.File) bool {
	if s.err != nil || len(f.Steps) == 0 {
		return false
	}
	s.tried++
	if modelled(f) && !s.plausible(f) {
		return false
	}
	s.played++
	r, err := s.court.Try(s.ctx, f)
	if err != nil {
		s.err = err
		return false
	}
	if !r.Violation() {
		return false
	}
	found := r.Kinds()
	for _, k := range s.kinds {
		if !slices.Contains(found, k) {
			return false
		}
	}
	s.file = f
	return true
}

// modelled says whether a world can take every step.
func modelled(f *schedule.File) bool {
	return !slices.ContainsFunc(f.Steps, func(s schedule.Step) bool {
		return s.Verb == schedule.Pause || s.Verb == schedule.Resume || s.Verb == schedule.Fail
	})
}

// plausible asks the truth, and leaves the impossible steps out of the candidate.
func (s *shrinker) plausible(f *schedule.File) bool {
	w, err := s.begin(f)
	if err != nil {
		return false // it is not a cluster that can begin
	}
	possible := f.Steps[:0]
	for _, step := range f.Steps {
		if w.Apply(step) {
			possible = append(possible, step)
		}
	}
	f.Steps = possible
	if !slices.Equal(Manual(f.Steps), w.c.manual) {
		return s.plausible(f) // another way of delivering messages
	}
	if !w.End() {
		return false
	}
	return suspicious(w.Judge(), s.kinds)
}

// suspicious says whether the truth allows for the kinds of anomaly.
func suspicious(is Suspicion, kinds []checker.Anomaly) bool {
	for _, k := range kinds {
		switch {
		case k == checker.Diverged && is&Differing == 0:
			return false
		case k == checker.LostAcked && is&LostAcked == 0:
			return false
		}
	}
	return is != 0
}

// begin is a world in which the schedule can begin.
func (s *shrinker) begin(f *schedule.File) (*World, error) {
	manual := Manual(f.Steps)
	key := fmt.Sprint(f.Cluster, manual)
	if s.begins[key] == nil {
		w, err := NewWorld(f.Cluster, s.court.Rules, manual, nil)
		if err != nil {
			return nil, err
		}
		s.begins[key] = w
	}
	return s.begins[key].Clone(), nil
}

// without tries the file without the steps at those places.
func (s *shrinker) without(from, to int) bool {
	c := clone(s.file)
	c.Steps = slices.Delete(c.Steps, from, to)
	return s.accept(c)
}

// dropChunks is delta debugging: ever smaller pieces are taken out, from the end first, where more is due to what came before.
func (s *shrinker) dropChunks() {
	for size := max(1, len(s.file.Steps)/2); size > 0; size /= 2 {
		for to := len(s.file.Steps); to > 0; to -= size {
			to = min(to, len(s.file.Steps))
			s.without(max(0, to-size), to)
		}
	}
}

// dropPairs takes out two steps that only make sense together, such as isolate and heal.
func (s *shrinker) dropPairs() {
	for i := 0; i < len(s.file.Steps); i++ {
		for j := i + 1; j < len(s.file.Steps); j++ {
			c := clone(s.file)
			c.Steps = slices.Delete(slices.Delete(c.Steps, j, j+1), i, i+1)
			if s.accept(c) {
				return // single steps again
			}
		}
	}
}

// simplify tries what is milder or shorter to read in place of each step.
func (s *shrinker) simplify() {
	for i := 0; i < len(s.file.Steps); i++ {
		for _, simpler := range milder(s.file.Steps[i]) {
			c := clone(s.file)
			c.Steps[i] = simpler
			if s.accept(c) {
				break
			}
		}
		for n := runOf(s.file.Steps[i:]); n > 1; n-- {
			c := clone(s.file)
			c.Steps = slices.Replace(c.Steps, i, i+n, schedule.Step{Verb: schedule.Settle})
			if s.accept(c) {
				break
			}
		}
	}
}

// runOf is how many steps at the beginning are replication and nothing else.
func runOf(steps []schedule.Step) int {
	for i, s := range steps {
		switch s.Verb {
		case schedule.Fetch, schedule.Learn, schedule.Truncate, schedule.Settle:
		default:
			return i
		}
	}
	return len(steps)
}

// join writes equal steps of different brokers that follow each other as one.
func (s *shrinker) join() {
	for i := 0; i+1 < len(s.file.Steps); i++ {
		a, b := s.file.Steps[i], s.file.Steps[i+1]
		switch a.Verb {
		case schedule.Learn, schedule.Flush, schedule.Checkpoint, schedule.Kill, schedule.PowerFail, schedule.Start, schedule.Isolate, schedule.Heal:
		default:
			continue
		}
		if a.Verb != b.Verb || a.Cut != b.Cut || len(a.Nodes) == 0 || len(b.Nodes) == 0 ||
			slices.ContainsFunc(b.Nodes, func(n control.NodeID) bool { return slices.Contains(a.Nodes, n) }) {
			continue
		}
		c := clone(s.file)
		c.Steps[i].Nodes = slices.Concat(a.Nodes, b.Nodes)
		c.Steps = slices.Delete(c.Steps, i+1, i+2)
		if s.accept(c) {
			i--
		}
	}
}

// rename numbers the values from m0 on.
func (s *shrinker) rename() {
	c := clone(s.file)
	n := 0
	for i := range c.Steps {
		if c.Steps[i].Verb == schedule.Produce {
			c.Steps[i].Value = fmt.Sprintf("m%d", n)
			n++
		}
	}
	s.accept(c)
}

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// Search is a search by random schedules.
type Search struct {
	Cluster  schedule.Cluster
	Court    Court
	Severity Severity
	Faults   Faults // in place of those of the severity, if there are any
	Seed     uint64
	// Schedules is how many are played; 0 is until the context is done.
	Schedules int64
	// Steps of each schedule, 0 is 50. The end, in which everything comes back, is not among them.
	Steps int
	// KeepGoing goes on after a violation, and looks for further kinds of anomaly.
	KeepGoing bool
	// Recorded chains the hash of the state after every step, and keeps the chain's end after each schedule, 16 bytes, so that
	// [Search.Again] can compare.
	Recorded bool
	// Progress is called now and then, if it is not nil.
	Progress func(*Explored)
	// Wanted, if it is not nil, ends the search at the first find that it is true for; others are counted, and every one is confirmed.
	Wanted func(Find) bool

	after func(schedule int64, w *World, m move) // is called after every step, if it is not nil
}

// Find is a violation that was found by search and confirmed by the checker, which knows only the history.
type Find struct {
	Kinds    []checker.Anomaly // that break the contract, sorted
	Schedule int64             // number of the random schedule, from 0; -1 if it was not one
	File     *schedule.File    // as it was found
}

// Name is the kinds in one word, "diverged+lost-acked".
func (f Find) Name() string { return kindsName(f.Kinds) }

func kindsName(kinds []checker.Anomaly) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, "+")
}

// Explored is what a search by random schedules came to.
type Explored struct {
	Counts Counts
	Finds  []Find // the first of each set of kinds, in the order in which they were found
	// Suspects are schedules at whose end the truth differs from what replicas and consumers have. Excused are those among them
	// whose contract permits it, Violations all others. Without KeepGoing there is at most one violation.
	Suspects, Excused, Violations int64
	// Unconfirmed are suspects that the checker found nothing wrong with. There should be none.
	Unconfirmed int64
	// Trace is a hash of every move and every outcome, chained: the same for the same search on every machine.
	Trace Key
	// Stopped is why it ended before its schedules were played: a violation, or the context's end; "" if it did not.
	Stopped string

	trail []Key // the chain after each schedule, if it is recorded
}

// stepsOfSchedule is how long a random schedule is unless something else is asked for: longer ones find more each, but fewer
// of them can be played, and shrinking takes longer.
const stepsOfSchedule = 50

// confirmed is how many suspects of one kind a search has the checker confirm; it believes the truth for the others.
const confirmed = 20

// Run plays random schedules. An error is the harness's.
func (s Search) Run(ctx context.Context) (*Explored, error) {
	x := &Explored{}
	p, err := s.player(&x.Counts)
	if err != nil {
		return nil, err
	}
	k := &p.k
	looked := map[Suspicion]int{}
	for i := int64(0); s.Schedules == 0 || i < s.Schedules; i++ {
		if i%64 == 0 {
			if ctx.Err() != nil {
				x.Stopped = stopped(ctx)
				return x, nil
			}
			if s.Progress != nil {
				s.Progress(x)
			}
		}
		begin, suspicion := p.play(i)
		x.Counts.Schedules++
		x.Trace = k.trace(x.Trace, suspicion)
		if s.Recorded {
			p.chain = p.chain.with(x.Trace)
			x.trail = append(x.trail, p.chain)
		}
		if suspicion == 0 {
			continue
		}
		x.Suspects++
		if k.w.excused(suspicion, s.Court) {
			x.Excused++
			continue
		}
		if looked[suspicion]++; looked[suspicion] > confirmed && s.Wanted == nil {
			x.Violations++
			continue
		}
		find, ruling, err := s.Court.confirm(ctx, begin, k.moves)
		switch {
		case err != nil:
			return x, fmt.Errorf("schedule %d of seed %d: %w", i, s.Seed, err)
		case find == nil && ruling == checker.Allowed:
			x.Excused++
			continue
		case find == nil:
			x.Unconfirmed++
			continue
		}
		x.Violations++
		find.Schedule = i
		if !slices.ContainsFunc(x.Finds, func(f Find) bool { return f.Name() == find.Name() }) {
			x.Finds = append(x.Finds, *find)
		}
		if s.Wanted == nil && !s.KeepGoing || s.Wanted != nil && s.Wanted(*find) {
			x.Stopped = "a violation was found"
			return x, nil
		}
	}
	return x, nil
}

// stopped is why a search ends with its context.
func stopped(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimeOver
	}
	return Interrupted
}

// Why a search ends with its context.
const (
	TimeOver    = "time is over"
	Interrupted = "interrupted"
)

// player plays the schedules of a search, one after the other.
type player struct {
	s      Search
	begins []*World
	w      World
	k      walker
	chain  Key // of all steps, if it is recorded
}

func (s Search) player(count *Counts) (*player, error) {
	p := &player{s: s}
	w, err := NewWorld(s.Cluster, s.Court.Rules, nil, count)
	if err != nil {
		return nil, err
	}
	p.begins = append(p.begins, w)
	if s.faults().Has(FaultZombies) {
		// In every other schedule fetches are delivered by hand, so that they can be late.
		w, err := NewWorld(s.Cluster, s.Court.Rules, []replica.Kind{replica.KindFetch}, count)
		if err != nil {
			return nil, err
		}
		p.begins = append(p.begins, w)
	}
	return p, nil
}

func (s Search) faults() Faults { return cmp.Or(s.Faults, s.Severity.Faults()) }

// play plays a schedule to its end. It returns the world in which it began and what the truth says of the one in which it ended,
// which is the walker's.
func (p *player) play(i int64) (*World, Suspicion) {
	k := &p.k
	if p.s.after != nil || p.s.Recorded {
		k.after = func(m move) {
			if p.s.after != nil {
				p.s.after(i, k.w, m)
			}
			if p.s.Recorded {
				p.chain = p.chain.with(k.w.Key())
			}
		}
	}
	begin := p.begins[i%int64(len(p.begins))]
	begin.CloneTo(&p.w)
	k.start(&p.w, streamOf(p.s.Seed, i), p.s.faults())
	k.run(cmp.Or(p.s.Steps, stepsOfSchedule))
	if k.manual && !slices.ContainsFunc(k.moves, func(m move) bool { return m.op == opDeliver }) {
		// As a schedule it would be one that delivers no fetch by hand.
		begin = p.begins[0]
		k.replay(begin.Clone())
	}
	if !k.w.End() {
		return begin, 0
	}
	return begin, k.w.Judge()
}

// Sample is the first n schedules of the search, whatever they come to: for judging the judge.
func (s Search) Sample(n int) ([]*schedule.File, error) {
	p, err := s.player(&Counts{})
	if err != nil {
		return nil, err
	}
	var files []*schedule.File
	for i := int64(0); len(files) < n; i++ {
		begin, _ := p.play(i)
		f := begin.Clone().schedule(fmt.Sprintf("sample-%d", i), fmt.Sprintf("random schedule %d of seed %d", i, s.Seed), p.k.moves)
		if len(f.Steps) > 0 {
			files = append(files, f)
		}
	}
	return files, nil
}

// replay takes the same moves on another world.
func (k *walker) replay(w *World) {
	k.w = w
	taken := k.moves[:0]
	for _, m := range k.moves {
		if w.try(m) {
			taken = append(taken, m)
		}
	}
	k.moves = taken
}

// trace chains what the schedule was and what it came to.
func (k *walker) trace(t Key, s Suspicion) Key {
	b := make([]byte, 0, 3*len(k.moves)+1)
	for _, m := range k.moves {
		b = append(b, byte(m.op), m.at, m.arg)
	}
	return t.with(Key{}.mix(append(b, byte(s)))).with(k.w.Key())
}

// budget is how many power failures the contract survives.
func (c Court) budget() history.CrashBudget {
	switch {
	case c.Budget != "":
		return c.Budget
	case c.Protocol == rules.KIP966:
		return history.BudgetMinISR
	}
	return history.BudgetISR
}

// excused says at once what the checker would say at length: that the contract does not promise to prevent it. It is sure of
// nothing else, and excuses no divergence.
func (w *World) excused(s Suspicion, c Court) bool {
	if s&Differing != 0 {
		return false
	}
	lossy := bits.OnesCount32(uint32(w.truth.lossy))
	switch c.budget() {
	case history.BudgetISR:
		// The checker would look at who led or counted without what it had lost; after a power failure that took a committed
		// record, somebody nearly always did.
		return lossy > 0
	case history.BudgetMinISR:
		return lossy >= min(w.c.cluster.MinISR, len(w.nodes)) || w.unclean
	}
	return w.unclean
}

// confirm makes a schedule of the moves, and has it played and judged by its history. Without a violation there is no find.
func (c Court) confirm(ctx context.Context, begin *World, moves []move) (*Find, checker.Verdict, error) {
	f := begin.Clone().schedule("found", "found by search under "+string(c.Protocol), moves)
	r, err := c.Try(ctx, f)
	if err != nil {
		return nil, "", err
	}
	if !r.Violation() {
		return nil, r.Checked.Verdict, nil
	}
	return &Find{Kinds: r.Kinds(), Schedule: -1, File: f}, r.Checked.Verdict, nil
}

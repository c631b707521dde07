package checker

import (
	"context"
	"slices"
	"time"

	"tidemark/checker/history"
)

// Slice is a rejection cut down to what a person can read: a few operations that contradict each other whatever the rest of the history
// may hold, as porcupine judged them anew.
//
// A log cannot simply be cut: without the other produces no offset would be the right one. So the slice's model lets others append
// in between, at any offset that an operation outside the slice may have filled, and gives them whatever values are read there. What
// explains the whole history then explains the slice too, so that a slice that cannot be explained proves the rejection; and it is no
// matter what else was said.
type Slice struct {
	Partition string `json:"partition"`
	// Finding is the anomaly that it shows, in the form of schedules.
	Finding string `json:"finding"`
	// Level is the level that cannot hold.
	Level Level `json:"level"`
	// Operations are those of the slice in the order of their calls.
	Operations []Witness `json:"operations"`
	// Core are the operations, by the numbers of their calls, that alone contradict each other; the others are there to show what
	// happened around them.
	Core []int64 `json:"core"`
	// Holes are the offsets that no operation outside the slice can have filled, where that is the point.
	Holes []int64 `json:"holes,omitempty"`
	// Porcupine is Illegal.
	Porcupine Outcome `json:"porcupine"`

	cut *cutting
}

const (
	// maxSlice is the number of operations that porcupine judges in no time and that a person can look through.
	maxSlice = 30
	// maxSlices bounds, for each partition, how many findings get a slice.
	maxSlices = 8
	// sliceTimeout is many times what a slice needs.
	sliceTimeout = 5 * time.Second
)

// slice cuts a rejection at a level down to the operations that prove it. The outcome is Illegal if there is a slice, NotRun if so few
// operations cannot prove it (a hole that hundreds of produces of unknown outcome might have filled takes them all), and Ok if porcupine
// does not see what the exact check saw: one of them is wrong.
func (p *partition) slice(ctx context.Context, c *clue, level Level) (*Slice, Outcome) {
	closed := p.closed(c)
	core := p.around(c)
	for wider := false; ; wider = true {
		if len(core) > maxSlice || len(closed) > maxSlice || ctx.Err() != nil {
			return nil, NotRun
		}
		heard := p.cut(core, level, closed).judge()
		if heard == Illegal {
			break
		}
		if wider || heard == NotRun {
			if c.anomaly == Hole {
				heard = NotRun
			}
			return nil, heard
		}
		core = p.widen(c, core)
	}
	// Each operation without which it stays a contradiction goes.
	for i := 0; i < len(core); {
		if without := slices.Delete(slices.Clone(core), i, i+1); p.cut(without, level, closed).judge() == Illegal {
			core = without
		} else {
			i++
		}
	}
	s := &Slice{Partition: p.name, Level: level, Holes: closed, Porcupine: Illegal}
	for _, id := range core {
		s.Core = append(s.Core, p.callSeq(p.ops.at(id)))
	}
	shown := p.context(c, core)
	s.cut = p.cut(shown, level, closed)
	if s.cut.judge() != Illegal {
		shown = core
		s.cut = p.cut(core, level, closed)
	}
	for _, id := range shown {
		s.Operations = append(s.Operations, p.witness(id))
	}
	return s, Illegal
}

// cutSlices cuts a slice of the first findings of each kind, and of the observations that decide which level is the strongest.
func (j *judge) cutSlices(ctx context.Context, p *partition, clues []clue) error {
	n, cut := 0, map[Anomaly]int{}
	for i := range clues {
		c := &clues[i]
		// Epochs of records are no part of the model, and one slice of what is only observed is enough.
		if c.anomaly == EpochRegression || n == maxSlices || cut[c.anomaly] > 0 && (c.breaks > j.bar || cut[c.anomaly] > maxSlices/4) {
			continue
		}
		cut[c.anomaly]++
		n++
		level := max(c.breaks, CommittedLog)
		s, heard := p.slice(ctx, c, level)
		if heard == Ok {
			return &DisagreementError{Partition: p.name, Level: level, Porcupine: true, By: "porcupine, on a slice around its witness", p: p}
		}
		if s == nil {
			continue
		}
		f := Finding{Anomaly: c.anomaly, Offset: c.offset}
		for _, v := range c.values {
			f.Values = append(f.Values, p.text(v))
		}
		s.Finding = f.Short()
		j.res.Slices = append(j.res.Slices, *s)
	}
	return nil
}

func ordered(ids []int32) []int32 {
	ids = slices.DeleteFunc(ids, func(id int32) bool { return id == none })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// around are the operations that a clue rests on, with those that produced its values, saw them, or were seen to end the log.
func (p *partition) around(c *clue) []int32 {
	ids := slices.Clone(c.ops)
	if c.prover != none {
		ids = append(ids, c.prover)
	}
	for i, v := range c.values {
		if i < maxSlice/4 {
			ids = append(ids, p.values.at(v).op, p.readAt(v, c.offset), p.values.at(v).seenBy)
		}
	}
	if c.lost != none {
		ids = append(ids, p.values.at(c.lost).op, p.lastFinal)
		if w := p.finalAt(c.offset); w != none {
			ids = append(ids, p.readAt(w, c.offset), p.values.at(w).op)
		}
	}
	if c.anomaly == Hole && len(c.ops) > 0 {
		if first := p.hasty(c); first != none {
			ids = append(append(ids, first), p.spares(p.ops.at(first).ret())...)
			// No batch that fills a hole may reach across a final end.
			ids = append(ids, p.finals...)
		}
	}
	return ordered(p.witnessed(ids))
}

// witnessed adds to produces of unknown outcome who saw them: without that nobody knows where they are.
func (p *partition) witnessed(ids []int32) []int32 {
	for _, id := range slices.Clone(ids) {
		if id == none || p.ops.at(id).kind() != history.Produce || p.ops.at(id).out() == happened {
			continue
		}
		o := p.ops.at(id)
		for v := o.first; v < o.first+min(o.count, maxSlice/4); v++ {
			ids = append(ids, p.values.at(v).seenBy)
		}
	}
	return ids
}

// widen adds all who claim the clue's offset.
func (p *partition) widen(c *clue, ids []int32) []int32 {
	ids = slices.Clone(ids)
	claimed := slices.Clone(p.conflicts[c.offset])
	if v := p.slots.get(c.offset); v != none {
		claimed = append(claimed, v)
	}
	for i, v := range claimed {
		if i < maxSlice/4 {
			ids = append(ids, p.values.at(v).op, p.readAt(v, c.offset), p.values.at(v).seenBy)
		}
	}
	ids = append(ids, p.lastFinal)
	return ordered(p.witnessed(ids))
}

// context adds operations that produced or read the neighbours of a clue's offset, up to the size of a slice.
func (p *partition) context(c *clue, core []int32) []int32 {
	ids := slices.Clone(core)
	for _, d := range []int64{-1, 0, 1, -2, 2} {
		v := p.slots.get(c.offset + d)
		if c.offset+d < 0 || v == none {
			continue
		}
		for _, id := range []int32{p.values.at(v).op, p.values.at(v).read} {
			if id != none && len(ids) < maxSlice/2 && !slices.Contains(ids, id) && p.ops.at(id).count <= maxSlice {
				ids = append(ids, id)
			}
		}
	}
	return ordered(ids)
}

// reach is the log length of which a hole is a part. Where an offset has no value at all, all holes count: there are more of them than
// produces to fill them. Where it was filled too late, those up to it.
func (p *partition) reach(c *clue) int64 {
	if c.breaks <= Agreement {
		return p.longest()
	}
	return c.offset + 1
}

// hasty is the first operation that saw the log reach so far.
func (p *partition) hasty(c *clue) int32 {
	length := p.reach(c)
	for _, id := range p.returned.all() {
		if p.proves(p.ops.at(id)) >= length {
			return id
		}
	}
	return none
}

// spares are the produces of unknown outcome, seen by nobody, that were called by a moment.
func (p *partition) spares(by int64) []int32 {
	var ids []int32
	for id := range p.ops.len() {
		if o := p.ops.at(id); o.kind() == history.Produce && (o.out() == open || o.out() == unknown) && o.call() <= by && !p.seenAny(o) {
			if ids = append(ids, int32(id)); len(ids) > maxSlice {
				break
			}
		}
	}
	return ids
}

// closed are the offsets up to a hole that nobody is known to have filled.
func (p *partition) closed(c *clue) []int64 {
	if c.anomaly != Hole || len(c.ops) == 0 || p.ops.at(c.ops[0]).bad() == emptyBelowHW {
		return nil
	}
	var holes []int64
	for h := range p.slots.unfilled(p.reach(c), p.assigned) {
		if holes = append(holes, h); len(holes) > maxSlice {
			break
		}
	}
	return holes
}

// assigned reports whether a value was put where it is to fill a hole, and not because anybody saw it there.
func (p *partition) assigned(v int32) bool {
	return p.values.at(v).op != none && p.ops.at(p.values.at(v).op).assigned()
}

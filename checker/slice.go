package checker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

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

// Draw writes an HTML page, which needs no network, of the operations as intervals, with what porcupine could put in order of them.
func (s *Slice) Draw(w io.Writer) error {
	if s.cut == nil {
		return fmt.Errorf("checker: slice of %s was read from a file and has no operations to draw", s.Finding)
	}
	m := s.cut.model()
	_, info := porcupine.CheckOperationsVerbose(m, s.cut.feed(), sliceTimeout)
	var notes []porcupine.Annotation
	for _, o := range s.cut.ops {
		if slices.Contains(s.Core, o.seq) && o.out != failed {
			notes = append(notes, porcupine.Annotation{Tag: fmt.Sprintf("contradiction %d", len(notes)+1), Start: o.call, End: s.cut.end(o),
				Description: o.text, Details: s.Finding, BackgroundColor: "#f4c7c3"})
		}
	}
	info.AddAnnotations(notes)
	return porcupine.Visualize(m, info, w)
}

// DrawSlices draws all slices into a folder, which is made, a page each, and returns the names of the files.
func (r *Result) DrawSlices(dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("draw slices: %w", err)
	}
	for i := range r.Slices {
		s := &r.Slices[i]
		var page bytes.Buffer
		if err := s.Draw(&page); err != nil {
			return files, err
		}
		name := fmt.Sprintf("%02d-%s-%s.html", i+1, s.Partition, strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '.' {
				return c
			}
			return '_'
		}, s.Finding))
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[i], page.Bytes(), 0o644); err != nil {
			return files, fmt.Errorf("draw slices: %w", err)
		}
	}
	return files, nil
}

// cutting is a slice as its model needs it.
type cutting struct {
	ops []sliced
	// owned are the offsets that only an operation of the slice may fill, and holes those that nobody else can.
	owned, holes map[int64]bool
	// made are the values that operations of the slice produce, and unmade those that nobody can have.
	made, unmade map[int32]bool
	// unclaimed reports whether nobody is known to have filled an offset.
	unclaimed func(offset int64) bool
	text      func(v int32) string
}

// sliced is one operation of a slice.
type sliced struct {
	id     int32
	lane   int
	kind   history.OpType
	out    outcome
	at, hw int64
	// values are those produced, or read from at on.
	values    []int32
	exact     bool
	gaps      bool
	call, ret int64
	// seq is the history's number of the call.
	seq  int64
	text string
}

// cut makes the slice of these operations. Of the partition it uses what operations said, which of them produced a value and, for holes, which
// offsets nobody claimed; nothing of what sweep found.
func (p *partition) cut(ids []int32, level Level, closed []int64) *cutting {
	c := &cutting{owned: map[int64]bool{}, holes: map[int64]bool{}, made: map[int32]bool{}, unmade: map[int32]bool{},
		unclaimed: func(offset int64) bool { v := p.slots.get(offset); return v == none || p.assigned(v) },
		text:      func(v int32) string { return p.text(v) }}
	for _, h := range closed {
		c.holes[h] = true
	}
	lanes := map[int64]int{}
	for _, id := range ids {
		o := p.ops.at(id)
		_, breaks := p.allows(o)
		s := sliced{id: id, kind: o.kind(), out: o.out(), at: o.offset, hw: p.hw(o), exact: breaks <= level, gaps: o.bad() == notDense, call: o.call(), ret: o.ret(),
			seq: p.callSeq(o), text: p.witness(id).Operation}
		if _, ok := lanes[p.processOf(o)]; !ok {
			lanes[p.processOf(o)] = len(lanes)
		}
		s.lane = lanes[p.processOf(o)]
		switch {
		case o.kind() == history.Produce:
			if o.out() != happened {
				s.at = none
			}
			for v := o.first; v < o.first+o.count; v++ {
				s.values = append(s.values, v)
				if o.out() == failed {
					c.unmade[v] = true
				} else {
					c.made[v] = true
				}
			}
		case o.out() != happened:
			continue
		case o.kind() == history.Fetch:
			s.values = p.records(o, nil)
			for _, v := range s.values {
				if p.values.at(v).op == none {
					c.unmade[v] = true
				}
			}
		}
		c.ops = append(c.ops, s)
	}
	// A produce of unknown outcome is where a fetch of the slice saw one of its values.
	for i := range c.ops {
		if o := &c.ops[i]; o.kind == history.Produce && o.out != failed {
			if o.out != happened {
				o.at = c.seenAt(o.values)
			}
			for j := range o.values {
				if o.at != none {
					c.owned[o.at+int64(j)] = true
				}
			}
		}
	}
	return c
}

// seenAt is where the first of the values must be, by the first fetch that shows any of them, or none.
func (c *cutting) seenAt(values []int32) int64 {
	for _, o := range c.ops {
		if o.kind != history.Fetch || o.gaps {
			continue
		}
		for j, v := range o.values {
			if i := slices.Index(values, v); i >= 0 {
				return o.at + int64(j) - int64(i)
			}
		}
	}
	return none
}

// end is where an operation ends in porcupine's time.
func (c *cutting) end(o sliced) int64 {
	if o.out == happened {
		return o.ret
	}
	last := int64(0)
	for _, x := range c.ops {
		last = max(last, x.call)
		if x.ret != never {
			last = max(last, x.ret)
		}
	}
	return last + 1
}

func (c *cutting) feed() []porcupine.Operation {
	var fed []porcupine.Operation
	for i := range c.ops {
		if o := &c.ops[i]; o.out != failed {
			fed = append(fed, porcupine.Operation{ClientId: o.lane, Input: o, Call: o.call, Return: c.end(*o)})
		}
	}
	return fed
}

// sparse is a log of which the slice knows some records: its length as far as it must be, and where which values are.
type sparse struct {
	n  int64
	at []placed32
}

type placed32 struct {
	offset int64
	value  int32
}

func (s sparse) equal(t sparse) bool { return s.n == t.n && slices.Equal(s.at, t.at) }

// grow lets others append up to a length; false if there is an offset that no other can have filled.
func (s sparse) grow(c *cutting, to int64) (sparse, bool) {
	for o := range c.owned {
		if o >= s.n && o < to {
			return s, false
		}
	}
	for o := range c.holes {
		if o >= s.n && o < to {
			return s, false
		}
	}
	s.n = max(s.n, to)
	return s, true
}

// put says that a value is at an offset below the length; false if another is, or it is elsewhere.
func (s sparse) put(offset int64, v int32) (sparse, bool) {
	i := 0
	for _, x := range s.at {
		if (x.offset == offset) != (x.value == v) {
			return s, false
		}
		if x.offset == offset {
			return s, true
		}
		if x.offset < offset {
			i++
		}
	}
	s.at = slices.Insert(slices.Clone(s.at), i, placed32{offset, v})
	return s, true
}

// add appends values at an offset.
func (s sparse) add(c *cutting, at int64, values []int32) (sparse, bool) {
	ok := at >= s.n
	if ok {
		s, ok = s.grow(c, at)
	}
	for i := 0; ok && i < len(values); i++ {
		s, ok = s.put(at+int64(i), values[i])
	}
	s.n = max(s.n, at+int64(len(values)))
	return s, ok
}

func (c *cutting) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{sparse{}} },
		Step:  func(state, input, _ any) []any { return c.step(state.(sparse), input.(*sliced)) },
		Equal: func(a, b any) bool { return a.(sparse).equal(b.(sparse)) },
		Hash: func(state any) uint64 {
			s := state.(sparse)
			h := mix(uint64(s.n), 0)
			for _, x := range s.at {
				h = mix(h^uint64(x.offset), x.value)
			}
			return h
		},
		DescribeOperation: func(input, _ any) string { return input.(*sliced).text },
		DescribeState: func(state any) string {
			s := state.(sparse)
			text := fmt.Sprintf("log of %d", s.n)
			for _, x := range s.at {
				text += fmt.Sprintf(", %s at %d", c.text(x.value), x.offset)
			}
			return text
		},
	}
	return m.ToModel()
}

// step gives the logs that an operation of the slice may leave behind.
func (c *cutting) step(s sparse, o *sliced) []any {
	if o.kind == history.Produce {
		return c.produce(s, o)
	}
	shown := o.at
	if o.kind == history.Fetch {
		shown = o.hw
		if end := o.at + int64(len(o.values)); o.gaps || len(o.values) > 0 && end > o.hw || len(o.values) == 0 && o.at < o.hw {
			return nil
		}
	}
	if o.exact && s.n > shown {
		return nil
	}
	s, ok := s.grow(c, shown)
	for i := 0; ok && o.kind == history.Fetch && i < len(o.values); i++ {
		v, placed := o.values[i], len(s.at)
		s, ok = s.put(o.at+int64(i), v)
		// A value that is not there yet is one that others appended, and they cannot have appended these.
		ok = ok && (len(s.at) == placed || !c.made[v] && !c.unmade[v])
	}
	if !ok {
		return nil
	}
	return []any{s}
}

func (c *cutting) produce(s sparse, o *sliced) []any {
	var after []any
	if o.out != happened {
		// It may never have happened.
		after = append(after, s)
	}
	at := o.at
	if o.out != happened && at == none {
		// Nobody saw it: all that is of interest is whether it fills the next hole.
		at = math.MaxInt64
		for h := range c.holes {
			if h >= s.n {
				at = min(at, h)
			}
		}
		for i := range o.values {
			if at == math.MaxInt64 || !c.unclaimed(at+int64(i)) {
				return after
			}
		}
	}
	if at < 0 {
		return after
	}
	if t, ok := s.add(c, at, o.values); ok {
		after = append(after, t)
	}
	return after
}

// judge has porcupine judge the slice.
func (c *cutting) judge() Outcome {
	switch porcupine.CheckOperationsTimeout(c.model(), c.feed(), sliceTimeout) {
	case porcupine.Illegal:
		return Illegal
	case porcupine.Ok:
		return Ok
	}
	return NotRun
}

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

package checker

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"tidemark/checker/history"
)

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

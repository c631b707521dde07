package checker

import (
	"slices"
	"sort"

	"tidemark/checker/history"
)

// resolved is what step 1 of the exact check found: why the answers cannot be put into one log.
type resolved struct {
	// phantoms are values that were read and cannot have been.
	phantoms []int32
	// torn are produces whose values were seen, but not next to each other.
	torn []int32
	// malformed are fetches whose answer contradicts itself.
	malformed []int32
	// hole is the lowest offset that was proved to exist and can have no value, or none.
	hole int64
	// short: some offsets below the longest log that was proved have no known value.
	short bool
	// limit says that the search for values of the holes was given up.
	limit bool
	// agrees: none of all that, and no offset has two values and no value two offsets.
	agrees bool
}

// resolve is step 1: it gives unknown produces the offset at which their values were seen, fills holes with those that nobody saw,
// and collects what cannot be one log.
func (p *partition) resolve() resolved {
	r := resolved{hole: none}
	for i := range p.ops.len() {
		o := p.ops.at(i)
		switch {
		case o.kind() == history.Produce && (o.out() == open || o.out() == unknown):
			if !p.locate(int32(i)) {
				r.torn = append(r.torn, int32(i))
			}
		case o.kind() == history.Fetch && o.bad() != wellFormed:
			r.malformed = append(r.malformed, int32(i))
		}
	}
	for i := range p.values.len() {
		if p.phantom(int32(i)) {
			r.phantoms = append(r.phantoms, int32(i))
		}
	}
	r.agrees = len(r.phantoms) == 0 && len(r.torn) == 0 && len(r.malformed) == 0 && len(p.conflicts) == 0 && len(p.moves) == 0
	end := p.longest()
	if missing := end - p.slots.below(end); missing > 0 {
		r.short = true
		r.hole, r.limit = p.fill(end, missing)
		r.agrees = r.agrees && r.hole == none
	}
	return r
}

func (p *partition) phantom(v int32) bool {
	val := p.values.at(v)
	if val.seenBy == none {
		return false
	}
	return val.op == none || p.ops.at(val.op).out() == failed || p.ops.at(val.seenBy).ret() < p.ops.at(val.op).call()
}

// locate finds out from its seen values where a produce of unknown outcome is, if it was seen, and claims the places of the others. It
// reports false if they are not neighbours.
func (p *partition) locate(id int32) bool {
	o := p.ops.at(id)
	first := int32(none)
	for v := o.first; v < o.first+o.count; v++ {
		if val := p.values.at(v); val.seenBy != none && (first == none || p.ops.at(val.seenBy).ret() < p.ops.at(p.values.at(first).seenBy).ret()) {
			first = v
		}
	}
	if first == none {
		return true
	}
	o.offset = p.values.at(first).offset - int64(p.pos(first))
	if o.offset < 0 {
		o.offset = none
		return false
	}
	neighbours := true
	for v := o.first; v < o.first+o.count; v++ {
		val, at := p.values.at(v), o.offset+int64(p.pos(v))
		if val.offset == none {
			val.offset = at
			p.claim(v, at)
		}
		neighbours = neighbours && val.offset == at
	}
	return neighbours
}

// fill gives holes below end to produces of unknown outcome that nobody saw. It returns the lowest hole that cannot be filled, or none,
// and whether it gave up.
func (p *partition) fill(end, missing int64) (hole int64, limit bool) {
	var spares []int32
	capacity, single := int64(0), true
	for i := range p.ops.len() {
		o := p.ops.at(i)
		if o.kind() == history.Produce && (o.out() == open || o.out() == unknown) && o.offset == none && !p.seenAny(o) {
			spares = append(spares, int32(i))
			capacity += int64(o.count)
			single = single && o.count == 1
		}
	}
	var holes []int64
	for h := range p.slots.holes(end) {
		if capacity < missing {
			return h, false
		}
		holes = append(holes, h)
	}
	if single {
		// The lowest hole takes the spare that was called first. If any other assignment stands the test of time, so does this one:
		// a lower offset must be filled no later than a higher one.
		for i, h := range holes {
			p.assign(spares[i], h)
		}
		return none, false
	}
	t := tiling{p: p, end: end, spares: map[int32][]int32{}, steps: maxTilingSteps}
	return t.run(spares, holes)
}

func (p *partition) seenAny(o *op) bool {
	for v := o.first; v < o.first+o.count; v++ {
		if p.values.at(v).seenBy != none {
			return true
		}
	}
	return false
}

func (p *partition) assign(id int32, offset int64) {
	o := p.ops.at(id)
	o.offset = offset
	o.setBad(guessed)
	for i := range o.count {
		p.values.at(o.first + i).offset = offset + int64(i)
		p.claim(o.first+i, offset+int64(i))
	}
}

// maxTilingSteps bounds the search for batches that fill holes exactly, which is a packing problem.
const maxTilingSteps = 100_000

// tiling searches for batches of unknown outcome that together fill holes of the log. It looks for one that holds at level
// committed log; that it might break a higher level which another would keep is not followed up.
type tiling struct {
	p   *partition
	end int64
	// spares are the batches by size, in the order of calls. Of one size the earliest call goes first, for the reason that fill gives.
	spares map[int32][]int32
	sizes  []int32
	// deadlines are the proved lengths and when they were first proved; both rise.
	deadlines []deadline
	// exact are ends that must not lie within a batch.
	exact []int64
	holes []int64
	steps int
	taken []placed
}

type deadline struct{ proved, ret int64 }

type placed struct {
	op     int32
	offset int64
}

func (t *tiling) run(spares []int32, holes []int64) (hole int64, limit bool) {
	for _, id := range spares {
		n := t.p.ops.at(id).count
		if t.spares[n] == nil {
			t.sizes = append(t.sizes, n)
		}
		t.spares[n] = append(t.spares[n], id)
	}
	slices.Sort(t.sizes)
	t.holes = holes
	for _, r := range t.p.returned.all() {
		o := t.p.ops.at(r)
		if n := t.p.proves(o); len(t.deadlines) == 0 || n > t.deadlines[len(t.deadlines)-1].proved {
			t.deadlines = append(t.deadlines, deadline{n, o.ret()})
		}
		if end, breaks := t.p.allows(o); o.kind() != history.Produce && breaks == CommittedLog {
			t.exact = append(t.exact, end)
		}
	}
	slices.Sort(t.exact)
	if t.place(0) {
		for _, x := range t.taken {
			t.p.assign(x.op, x.offset)
		}
		return none, false
	}
	if t.steps <= 0 {
		return none, true
	}
	return holes[0], false
}

// place fills holes from the i-th on.
func (t *tiling) place(i int) bool {
	if i == len(t.holes) {
		return true
	}
	at := t.holes[i]
	by := t.deadlines[sort.Search(len(t.deadlines), func(j int) bool { return t.deadlines[j].proved > at })].ret
	for _, n := range t.sizes {
		t.steps--
		if t.steps <= 0 {
			return false
		}
		rest := t.spares[n]
		if len(rest) == 0 || t.p.ops.at(rest[0]).call() > by || !t.fits(at, int64(n)) {
			continue
		}
		t.spares[n] = rest[1:]
		t.taken = append(t.taken, placed{rest[0], at})
		next := i
		for next < len(t.holes) && t.holes[next] < at+int64(n) {
			next++
		}
		if t.place(next) {
			return true
		}
		t.spares[n] = rest
		t.taken = t.taken[:len(t.taken)-1]
	}
	return false
}

func (t *tiling) fits(at, n int64) bool {
	for o := at; o < at+n; o++ {
		if t.p.slots.get(o) != none {
			return false
		}
	}
	i := sort.Search(len(t.exact), func(j int) bool { return t.exact[j] > at })
	return i == len(t.exact) || t.exact[i] >= at+n
}

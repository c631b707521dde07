package checker

import (
	"slices"

	"tidemark/checker/history"
)

func (p *partition) fetched(id int32, rs []history.Record) {
	o := p.ops.at(id)
	if o.final() {
		p.finals = append(p.finals, id)
	}
	o.first, o.count = p.seen.len(), int32(len(rs))
	bad, regressed, listed := wellFormed, false, false
	for i := range rs {
		r := &rs[i]
		v := p.valueOf(r)
		p.observe(v, r, id)
		if r.Offset != o.offset+int64(i) {
			bad = notDense
		}
		// Nearly all answers are what the slots say: then there is no need to list them.
		if !listed && (bad == notDense || p.slots.get(r.Offset) != v) {
			listed = true
			for j := range i {
				*p.seen.push() = p.slots.get(o.offset + int64(j))
			}
		}
		if listed {
			*p.seen.push() = v
		}
		if i > 0 && !regressed && r.Epoch != history.Unknown && r.Epoch < rs[i-1].Epoch {
			regressed = true
			p.regressed = append(p.regressed, offsetOp{r.Offset, id})
		}
	}
	if listed {
		o.how |= listedBit
	}
	switch end := o.offset + int64(o.count); {
	case bad != wellFormed:
	case o.count > 0 && end > p.hw(o):
		bad = beyondHW
	case o.count == 0 && o.offset < p.hw(o):
		bad = emptyBelowHW
	}
	o.setBad(bad)
}

func (p *partition) observe(v int32, r *history.Record, id int32) {
	val := p.values.at(v)
	if val.seenBy == none {
		val.seenBy = id
	}
	if val.offset == none {
		val.offset = r.Offset
		p.claim(v, r.Offset)
	}
	if val.epoch == history.Unknown {
		val.epoch = r.Epoch
	}
	read, final := &val.read, &val.final
	if val.offset != r.Offset {
		m := p.moved(v, r.Offset)
		read, final = &m.read, &m.final
		if p.ops.at(id).final() {
			p.elsewhere[v] = true
		}
	}
	if !p.ops.at(id).final() {
		final = read
	}
	if *final == none {
		*final = id
	}
}

func (p *partition) claimAcked(v int32, offset int64, id int32) {
	val := p.values.at(v)
	if val.offset == none {
		val.offset = offset
		p.claim(v, offset)
	}
	if val.offset != offset {
		p.moved(v, offset).acked = id
	}
}

// moved returns the claim of a value at another offset than its first.
func (p *partition) moved(v int32, offset int64) *move {
	k := moveKey{v, offset}
	i, ok := p.moveAt[k]
	if !ok {
		i = int32(len(p.moves))
		p.moveAt[k] = i
		p.moves = append(p.moves, move{value: v, offset: offset, acked: none, read: none, final: none})
		p.claim(v, offset)
	}
	return &p.moves[i]
}

// claim notes that a value is said to be at an offset, and a conflict if another is.
func (p *partition) claim(v int32, offset int64) {
	w := p.slots.get(offset)
	switch {
	case w == none:
		p.slots.set(offset, v)
	case w != v:
		vs := p.conflicts[offset]
		if vs == nil {
			vs = []int32{w}
		}
		if !slices.Contains(vs, v) {
			vs = append(vs, v)
		}
		p.conflicts[offset] = vs
	}
}

// readAt returns the first operation, ordinary or final, that read a value at an offset, or none.
func (p *partition) readAt(v int32, offset int64) int32 {
	read, final := p.values.at(v).read, p.values.at(v).final
	if p.values.at(v).offset != offset {
		i, ok := p.moveAt[moveKey{v, offset}]
		if !ok {
			return none
		}
		read, final = p.moves[i].read, p.moves[i].final
	}
	if read == none || final != none && p.ops.at(final).ret() < p.ops.at(read).ret() {
		return final
	}
	return read
}

// finalAt returns the value that a final read saw at an offset, or none.
func (p *partition) finalAt(offset int64) int32 {
	candidates := p.conflicts[offset]
	if candidates == nil {
		if v := p.slots.get(offset); v != none {
			candidates = []int32{v}
		}
	}
	for _, v := range candidates {
		if p.values.at(v).offset == offset && p.values.at(v).final != none {
			return v
		}
		if i, ok := p.moveAt[moveKey{v, offset}]; ok && p.moves[i].final != none {
			return v
		}
	}
	return none
}

// inFinal reports whether a final read saw the value, at any offset.
func (p *partition) inFinal(v int32) bool {
	return p.values.at(v).final != none || len(p.elsewhere) > 0 && p.elsewhere[v]
}

// acked returns the produce that was acknowledged with this value, or none.
func (p *partition) acked(v int32) int32 {
	if id := p.values.at(v).op; id != none && p.ops.at(id).out() == happened {
		return id
	}
	return none
}

package checker

import (
	"math"
	"slices"

	"tidemark/checker/history"
)

const (
	// none is a value, an operation or an offset that is not there.
	none = -1
	// never is the return of an operation that did not return, and stays concurrent with everything after its call.
	never = math.MaxInt64
)

type outcome uint8

const (
	open     outcome = iota // the run ended first: as unknown
	happened                // ok
	failed                  // certainly did not happen
	unknown                 // info
)

// malformed says what is wrong with the answer of one fetch, taken by itself; of a produce it only says that it is guessed.
type malformed uint8

const (
	wellFormed   malformed = iota
	notDense               // records are not consecutive from the offset asked for
	beyondHW               // a record at or above the high watermark of the same answer
	emptyBelowHW           // nothing at an offset below the high watermark of the same answer
	guessed                // the offset of a produce is not known from an answer: it is one that may fill a hole
)

// value is one value of the partition and where it was seen.
type value struct {
	// op produced it; none: nobody did.
	op    int32
	epoch int32
	// offset is where it was first claimed to be, by an acknowledgement or an answer.
	offset int64
	// seenBy is the first operation that observed it anywhere; read the first ordinary fetch and final the first final one that
	// observed it at offset.
	seenBy, read, final int32
	text                textRef
}

// pos is a value's place in its batch: values of a batch are neighbours.
func (p *partition) pos(v int32) int32 { return v - p.ops.at(p.values.at(v).op).first }

// text is the value itself.
func (p *partition) text(v int32) string { return p.arena.get(p.values.at(v).text) }

// move is a claim of a value at another offset than its first.
type move struct {
	value  int32
	offset int64
	// acked, read and final are the operations that claim it, or none.
	acked, read, final int32
}

// partition is everything that one partition's operations say, in a form that grows with operations and not with offsets.
type partition struct {
	name   string
	labels *labels
	ops    column[op]
	// returned are the operations with an answer, in the order of their returns; ops is in the order of calls.
	returned column[int32]
	values   column[value]
	arena    texts
	ids      index
	// seen are the values of fetched records, one fetch after the other, where they are not what the slots say.
	seen  column[int32]
	slots slots
	// conflicts are the offsets that were claimed for more than one value, with all of those.
	conflicts map[int64][]int32
	moves     []move
	moveAt    map[moveKey]int32
	// elsewhere are the values that a final read saw at another offset than their first.
	elsewhere map[int32]bool
	// regressed are the fetches in which the epoch goes down, with the offset.
	regressed []offsetOp
	// finals are the final fetches, lastFinal the last of them, and end, if ended, its high watermark: where the log ends.
	finals    []int32
	lastFinal int32
	end       int64
	ended     bool

	settled  *history.Settled
	replicas []*history.Replica
}

type moveKey struct {
	value  int32
	offset int64
}

type offsetOp struct {
	offset int64
	op     int32
}

func newPartition(name string, l *labels) *partition {
	return &partition{name: name, labels: l, conflicts: map[int64][]int32{}, moveAt: map[moveKey]int32{},
		elsewhere: map[int32]bool{}}
}

// invoke adds an operation. It returns the value that was produced before, if any: values must be unique.
func (p *partition) invoke(e *history.Event) (id int32, twice string, unique bool) {
	q := &e.Op
	id = p.ops.len()
	o := op{called: uint32(e.Seq), callTime: e.Time, returned: unanswered, process: p.labels.narrow(e.Process), what: uint8(q.Type), offset: none,
		node: unknownNode}
	o.setFinal(q.Final)
	switch q.Type {
	case history.Produce:
		o.first, o.count, o.node = p.values.len(), int32(len(q.Values)), uint16(q.Acks)
		// Values that were observed before are moved to the end, so that a batch's values are neighbours.
		for _, text := range q.Values {
			old, at := p.find(text)
			if old == none {
				p.addValue(text, id, at)
				continue
			}
			if p.values.at(old).op != none {
				return 0, text, false
			}
			v := p.values.push()
			*v = *p.values.at(old)
			v.op = id
			p.ids.set(at, p.values.len()-1)
			p.rename(old, p.values.len()-1)
		}
	case history.Fetch:
		o.offset = q.From
	}
	*p.ops.push() = o
	return id, "", true
}

// rename gives a value that was observed before its produce was called (a phantom, so this is rare) a new number.
func (p *partition) rename(old, id int32) {
	v := p.values.at(old)
	if v.offset != none && p.slots.get(v.offset) == old {
		p.slots.at(v.offset)[v.offset&(pageSize-1)] = id + 1
	}
	for i := range p.moves {
		if m := &p.moves[i]; m.value == old {
			if p.slots.get(m.offset) == old {
				p.slots.at(m.offset)[m.offset&(pageSize-1)] = id + 1
			}
			m.value = id
			delete(p.moveAt, moveKey{old, m.offset})
			p.moveAt[moveKey{id, m.offset}] = int32(i)
		}
	}
	for _, vs := range p.conflicts {
		for i := range vs {
			if vs[i] == old {
				vs[i] = id
			}
		}
	}
	for i := range p.seen.len() {
		if v := p.seen.at(i); *v == old {
			*v = id
		}
	}
	if p.elsewhere[old] {
		delete(p.elsewhere, old)
		p.elsewhere[id] = true
	}
	// The old number stays as a value of nobody, seen by nobody.
	*v = nobodys
	v.text = p.values.at(id).text
}

// ret adds the answer of an operation, which came from a node.
func (p *partition) ret(id int32, e *history.Event, node uint16) {
	o := p.ops.at(id)
	o.took = uint32(min((e.Time-o.callTime)/1000, math.MaxUint32))
	switch e.Kind {
	case history.Fail:
		o.setOut(failed)
		o.returned = uint32(e.Seq)
		return
	case history.Info:
		o.setOut(unknown)
		return
	}
	if o.kind() == history.Produce && e.Op.Offset == history.Unknown {
		// An answer without an offset (acks=0, a duplicate sequence) says nothing of where the record is, or whether.
		o.setOut(unknown)
		return
	}
	o.setOut(happened)
	o.returned = uint32(e.Seq)
	o.setFinal(o.final() || e.Op.Final)
	*p.returned.push() = id
	switch o.kind() {
	case history.Produce:
		o.offset = e.Op.Offset
		for i := range o.count {
			p.claimAcked(o.first+i, o.offset+int64(i), id)
		}
	case history.End:
		o.offset, o.node = e.Op.Offset, node
	case history.Fetch:
		o.node = node
		p.setHW(o, e.Op.HighWatermark)
		p.fetched(id, e.Op.Records)
	}
}

// settle decides whether the final reads can be taken for the end of the log. A partition that did not come to rest may hold
// committed records above the high watermark that its leader still knows; then they are ordinary reads.
func (p *partition) settle() {
	p.lastFinal = none
	lastCall := int64(0)
	for _, id := range p.finals {
		lastCall = max(lastCall, p.ops.at(id).call())
	}
	// Of the final reads that no other follows, the one that saw most is the end.
	for _, id := range p.finals {
		if o := p.ops.at(id); o.ret() >= lastCall && (p.lastFinal == none || p.hw(o) > p.hw(p.ops.at(p.lastFinal))) {
			p.lastFinal = id
		}
	}
	if p.lastFinal == none {
		return
	}
	p.end, p.ended = p.hw(p.ops.at(p.lastFinal)), true
	if p.settled == nil || p.settled.OK {
		return
	}
	if slices.ContainsFunc(p.replicas, func(r *history.Replica) bool { return r.LEO > p.end }) {
		p.demote()
	}
}

// demote makes ordinary reads of the final ones.
func (p *partition) demote() {
	for i := range p.ops.len() {
		p.ops.at(i).setFinal(false)
	}
	merge := func(read, final *int32) {
		if *final != none && (*read == none || p.ops.at(*final).ret() < p.ops.at(*read).ret()) {
			*read = *final
		}
		*final = none
	}
	for i := range p.values.len() {
		merge(&p.values.at(i).read, &p.values.at(i).final)
	}
	for i := range p.moves {
		merge(&p.moves[i].read, &p.moves[i].final)
	}
	clear(p.elsewhere)
	p.finals, p.lastFinal, p.end, p.ended = nil, none, 0, false
}

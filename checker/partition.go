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

// malformed says what is wrong with the answer of one fetch, taken by itself.
type malformed uint8

const (
	wellFormed   malformed = iota
	notDense               // records are not consecutive from the offset asked for
	beyondHW               // a record at or above the high watermark of the same answer
	emptyBelowHW           // nothing at an offset below the high watermark of the same answer
)

// op is one operation of a partition, without the values it wrote or read.
type op struct {
	// call and ret order operations: the sequence numbers of its events. ret is never if it has no answer.
	call, ret         int64
	callTime, retTime int64
	process           int64
	// offset is where a produce's first value is, or none; the answer of an end; what a fetch asked for.
	offset int64
	hw     int64
	node   int32
	// first and count are a produce's values, or a fetch's records in partition.seen.
	first, count int32
	kind         history.OpType
	out          outcome
	acks         int8
	bad          malformed
	final        bool
	// assigned says that offset is not known from an answer: the operation is one that may fill a hole.
	assigned bool
}

// proves is the log length that the operation proves at its return (atLeast of the specification).
func (o *op) proves() int64 {
	switch {
	case o.out != happened:
		return 0
	case o.kind == history.Produce:
		return o.offset + int64(o.count)
	case o.kind == history.End:
		return o.offset
	}
	if o.count > 0 {
		return max(o.hw, o.offset+int64(o.count))
	}
	return o.hw
}

// allows is the log length that the operation allows at its call (atMost) and the level that is broken if the log was longer.
func (o *op) allows() (int64, Level) {
	switch {
	case o.kind == history.Produce:
		if o.out == failed || o.offset == none {
			return math.MaxInt64, Broken
		}
		return o.offset, CommittedLog
	case o.out != happened:
		return math.MaxInt64, Broken
	case o.kind == history.End && o.final:
		return o.offset, CommittedLog
	case o.kind == history.End:
		return o.offset, MonotonicEnd
	case o.final:
		return o.hw, CommittedLog
	}
	return o.hw, Linearizable
}

// value is one value of the partition and where it was seen.
type value struct {
	text string
	// op produced it as the pos-th of its batch; none: nobody did.
	op, pos int32
	epoch   int32
	// offset is where it was first claimed to be, by an acknowledgement or an answer.
	offset int64
	// seenBy is the first operation that observed it anywhere; read the first ordinary fetch and final the first final one that
	// observed it at offset.
	seenBy, read, final int32
	// movedFinal says that a final read saw it at another offset.
	movedFinal bool
}

// move is a claim of a value at another offset than its first.
type move struct {
	value  int32
	offset int64
	// acked, read and final are the operations that claim it, or none.
	acked, read, final int32
}

// partition is everything that one partition's operations say, in a form that grows with operations and not with offsets.
type partition struct {
	name string
	ops  []op
	// returned are the operations with an answer, in the order of their returns; ops is in the order of calls.
	returned []int32
	values   []value
	ids      map[string]int32
	// seen are the values of all fetched records, one fetch after the other.
	seen  []int32
	slots slots
	// conflicts are the offsets that were claimed for more than one value, with all of those.
	conflicts map[int64][]int32
	moves     []move
	moveAt    map[moveKey]int32
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

func newPartition(name string) *partition {
	return &partition{name: name, ids: map[string]int32{}, conflicts: map[int64][]int32{}, moveAt: map[moveKey]int32{}}
}

// invoke adds an operation. It returns the value that was produced before, if any: values must be unique.
func (p *partition) invoke(e *history.Event) (id int32, twice string, unique bool) {
	q := &e.Op
	id = int32(len(p.ops))
	o := op{call: e.Seq, callTime: e.Time, ret: never, process: e.Process, kind: q.Type, final: q.Final, node: q.Node, offset: none}
	switch q.Type {
	case history.Produce:
		o.first, o.count, o.acks = int32(len(p.values)), int32(len(q.Values)), int8(q.Acks)
		// Values that were observed before are moved to the end, so that a batch's values are neighbours.
		for i, text := range q.Values {
			v := value{text: text, op: id, pos: int32(i), epoch: history.Unknown, offset: none, seenBy: none, read: none, final: none}
			if old, ok := p.ids[text]; ok {
				if p.values[old].op != none {
					return 0, text, false
				}
				v = p.values[old]
				v.op, v.pos = id, int32(i)
				p.rename(old, int32(len(p.values)))
			}
			p.ids[text] = int32(len(p.values))
			p.values = append(p.values, v)
		}
	case history.Fetch:
		o.offset = q.From
	}
	p.ops = append(p.ops, o)
	return id, "", true
}

// rename gives a value that was observed before its produce was called (a phantom, so this is rare) a new number.
func (p *partition) rename(old, id int32) {
	v := &p.values[old]
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
	for i := range p.seen {
		if p.seen[i] == old {
			p.seen[i] = id
		}
	}
	// The old number stays as a value of nobody, seen by nobody.
	*v = value{op: none, epoch: history.Unknown, offset: none, seenBy: none, read: none, final: none}
}

// ret adds the answer of an operation.
func (p *partition) ret(id int32, e *history.Event) {
	o := &p.ops[id]
	o.retTime = e.Time
	switch e.Kind {
	case history.Fail:
		o.out, o.ret = failed, e.Seq
		return
	case history.Info:
		o.out = unknown
		return
	}
	if o.kind == history.Produce && e.Op.Offset == history.Unknown {
		// An answer without an offset (acks=0, a duplicate sequence) says nothing of where the record is, or whether.
		o.out = unknown
		return
	}
	o.out, o.ret = happened, e.Seq
	o.final = o.final || e.Op.Final
	p.returned = append(p.returned, id)
	switch o.kind {
	case history.Produce:
		o.offset = e.Op.Offset
		for i := range o.count {
			p.claimAcked(o.first+i, o.offset+int64(i), id)
		}
	case history.End:
		o.offset, o.node = e.Op.Offset, e.Op.Node
	case history.Fetch:
		o.hw, o.node = e.Op.HighWatermark, e.Op.Node
		p.fetched(id, e.Op.Records)
	}
}

// settle decides whether the final reads can be taken for the end of the log. A partition that did not come to rest may hold
// committed records above the high watermark that its leader still knows; then they are ordinary reads.
func (p *partition) settle() {
	p.lastFinal = none
	lastCall := int64(0)
	for _, id := range p.finals {
		lastCall = max(lastCall, p.ops[id].call)
	}
	// Of the final reads that no other follows, the one that saw most is the end.
	for _, id := range p.finals {
		if o := &p.ops[id]; o.ret >= lastCall && (p.lastFinal == none || o.hw > p.ops[p.lastFinal].hw) {
			p.lastFinal = id
		}
	}
	if p.lastFinal == none {
		return
	}
	p.end, p.ended = p.ops[p.lastFinal].hw, true
	if p.settled == nil || p.settled.OK {
		return
	}
	if slices.ContainsFunc(p.replicas, func(r *history.Replica) bool { return r.LEO > p.end }) {
		p.demote()
	}
}

// demote makes ordinary reads of the final ones.
func (p *partition) demote() {
	for i := range p.ops {
		p.ops[i].final = false
	}
	merge := func(read, final *int32) {
		if *final != none && (*read == none || p.ops[*final].ret < p.ops[*read].ret) {
			*read = *final
		}
		*final = none
	}
	for i := range p.values {
		merge(&p.values[i].read, &p.values[i].final)
		p.values[i].movedFinal = false
	}
	for i := range p.moves {
		merge(&p.moves[i].read, &p.moves[i].final)
	}
	p.finals, p.lastFinal, p.end, p.ended = nil, none, 0, false
}

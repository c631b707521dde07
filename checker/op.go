package checker

import (
	"math"
	"slices"

	"tidemark/checker/history"
)

// op is one operation of a partition, without the values it wrote or read. There are as many as a history has lines, half of them: it
// is 48 bytes long and is to stay so. What does not fit is kept in [labels].
type op struct {
	// offset is where a produce's first value is, or none; the answer of an end; what a fetch asked for.
	offset int64
	// callTime is in nanoseconds.
	callTime int64
	// called and returned are the numbers of its events, unanswered if there is none.
	called, returned uint32
	// process is narrowed.
	process uint32
	// ahead is how far a fetch's high watermark is behind the offset that it asked for, or the place of the high watermark among the wide ones.
	ahead int32
	// took is in microseconds, which is enough for people.
	took uint32
	// first and count are a produce's values, or a fetch's records: in partition.seen if they are listed, else those of the slots.
	first, count int32
	// node is who answered, narrowed; of a produce, for which nobody is named, the acks that it asked for.
	node uint16
	// what has kind and final, how all else.
	what, how uint8
}

// unanswered is the return of an operation without an answer.
const unanswered = math.MaxUint32

// The bits of op.what and op.how.
const (
	kindBits  = 3
	finalBit  = 1 << 2
	outBits   = 3
	badShift  = 2
	badBits   = 7
	wideBit   = 1 << 5
	listedBit = 1 << 6
)

func (o *op) kind() history.OpType { return history.OpType(o.what & kindBits) }
func (o *op) final() bool          { return o.what&finalBit != 0 }
func (o *op) out() outcome         { return outcome(o.how & outBits) }
func (o *op) bad() malformed       { return malformed(o.how >> badShift & badBits) }
func (o *op) listed() bool         { return o.how&listedBit != 0 }

func (o *op) setFinal(on bool) {
	o.what &^= finalBit
	if on {
		o.what |= finalBit
	}
}

func (o *op) setOut(x outcome)   { o.how = o.how&^outBits | uint8(x) }
func (o *op) setBad(x malformed) { o.how = o.how&^(badBits<<badShift) | uint8(x)<<badShift }

// call and ret order operations: the numbers of their events. An operation that did not return, or with an outcome that nobody knows, stays
// concurrent with everything after its call.
func (o *op) call() int64 { return int64(o.called) }

// ret is the number of the return, or never.
func (o *op) ret() int64 {
	if o.returned == unanswered {
		return never
	}
	return int64(o.returned)
}

func (o *op) retTime() int64 { return o.callTime + int64(o.took)*1000 }

func (o *op) acks() int8 { return int8(o.node) }

// assigned says that a produce is where it is only because it may fill a hole.
func (o *op) assigned() bool { return o.bad() == guessed }

// proves is the log length that the operation proves at its return (atLeast of the specification).
func (p *partition) proves(o *op) int64 {
	switch {
	case o.out() != happened:
		return 0
	case o.kind() == history.Produce:
		return o.offset + int64(o.count)
	case o.kind() == history.End:
		return o.offset
	}
	if o.count > 0 {
		return max(p.hw(o), o.offset+int64(o.count))
	}
	return p.hw(o)
}

// allows is the log length that the operation allows at its call (atMost) and the level that is broken if the log was longer.
func (p *partition) allows(o *op) (int64, Level) {
	switch {
	case o.kind() == history.Produce:
		if o.out() == failed || o.offset == none {
			return math.MaxInt64, Broken
		}
		return o.offset, CommittedLog
	case o.out() != happened:
		return math.MaxInt64, Broken
	case o.kind() == history.End && o.final():
		return o.offset, CommittedLog
	case o.kind() == history.End:
		return o.offset, MonotonicEnd
	case o.final():
		return p.hw(o), CommittedLog
	}
	return p.hw(o), Linearizable
}

// hw is the high watermark in the answer of a fetch.
func (p *partition) hw(o *op) int64 {
	if o.how&wideBit != 0 {
		return p.labels.wide[o.ahead]
	}
	return o.offset + int64(o.ahead)
}

func (p *partition) setHW(o *op, hw int64) {
	if ahead := hw - o.offset; int64(int32(ahead)) == ahead {
		o.ahead = int32(ahead)
		return
	}
	o.ahead = int32(len(p.labels.wide))
	o.how |= wideBit
	p.labels.wide = append(p.labels.wide, hw)
}

// records appends the values of a fetch's records.
func (p *partition) records(o *op, to []int32) []int32 {
	for i := range o.count {
		to = append(to, p.record(o, i))
	}
	return to
}

// record is the value of a fetch's i-th record.
func (p *partition) record(o *op, i int32) int32 {
	if o.listed() {
		return *p.seen.at(o.first + i)
	}
	return p.slots.get(o.offset + int64(i))
}

// processOf and nodeOf are for people.
func (p *partition) processOf(o *op) int64 { return p.labels.widened(o.process) }
func (p *partition) nodeOf(o *op) int32    { return p.labels.nodes.widened(o.node) }

// callSeq and retSeq are the numbers by which a history has the events of an operation; 0: it has no answer.
func (p *partition) callSeq(o *op) int64 { return p.labels.seq(o.called) }
func (p *partition) retSeq(o *op) int64 {
	if o.returned == unanswered {
		return 0
	}
	return p.labels.seq(o.returned)
}

// labels are the numbers that operations of one history bear for people, where they do not fit into an op. Within the check events are numbered
// one by one, whatever numbers the history gives them.
type labels struct {
	// runs say where the history's own numbers do not go on one by one.
	runs []seqRun
	// wide are high watermarks and process numbers.
	wide    []int64
	process map[int64]uint32
	nodes   nodeLabels
}

type seqRun struct {
	from uint32
	seq  int64
}

// number files the history's number of the next event, which has the given place.
func (l *labels) number(place uint32, seq int64) {
	if n := len(l.runs); n == 0 || l.seq(place) != seq {
		l.runs = append(l.runs, seqRun{place, seq})
	}
}

// seq is the history's number of an event.
func (l *labels) seq(place uint32) int64 {
	if len(l.runs) == 0 {
		return int64(place)
	}
	r := l.runs[len(l.runs)-1]
	if place < r.from {
		i, found := slices.BinarySearchFunc(l.runs, place, func(r seqRun, at uint32) int { return int(r.from) - int(at) })
		if !found {
			i--
		}
		r = l.runs[i]
	}
	return r.seq + int64(place-r.from)
}

// narrowBit marks a narrowed number that is a place.
const narrowBit = 1 << 31

// narrow makes 32 bits of a process number.
func (l *labels) narrow(n int64) uint32 {
	if n >= 0 && n < narrowBit {
		return uint32(n)
	}
	at, known := l.process[n]
	if !known {
		at = narrowBit | uint32(len(l.wide))
		l.wide = append(l.wide, n)
		if l.process == nil {
			l.process = map[int64]uint32{}
		}
		l.process[n] = at
	}
	return at
}

func (l *labels) widened(n uint32) int64 {
	if n&narrowBit == 0 {
		return int64(n)
	}
	return l.wide[n&^narrowBit]
}

// nodeLabels are the ids of brokers that are not small.
type nodeLabels struct {
	wide []int32
}

const (
	// nodeBit marks a place among the wide ones, unknownNode is [history.Unknown].
	nodeBit     = 1 << 15
	unknownNode = math.MaxUint16
	// mostNodes are how many ids that are not small there may be.
	mostNodes = nodeBit - 1
)

// narrow makes 16 bits of a broker's id; false: there are too many.
func (l *nodeLabels) narrow(n int32) (uint16, bool) {
	switch {
	case n == history.Unknown:
		return unknownNode, true
	case n >= 0 && n < nodeBit:
		return uint16(n), true
	}
	i := slices.Index(l.wide, n)
	if i < 0 {
		if i = len(l.wide); i == mostNodes {
			return 0, false
		}
		l.wide = append(l.wide, n)
	}
	return nodeBit | uint16(i), true
}

func (l *nodeLabels) widened(n uint16) int32 {
	switch {
	case n == unknownNode:
		return history.Unknown
	case n&nodeBit == 0:
		return int32(n)
	}
	return l.wide[n&^nodeBit]
}

package checker

import (
	"math"

	"tidemark/checker/history"
)

// late is an operation that allows a shorter log than had been proved before it was called: two operations that no order can
// reconcile.
type late struct {
	op int32
	// prover is the operation that proved the longest log before.
	prover int32
	proved int64
	// acker is the acknowledged produce of a surviving value that reaches highest before, if that is above what is allowed, or none.
	acker  int32
	breaks Level
}

// swept is what the sweep over one partition found.
type swept struct {
	late []late
	// torn are operations that show an end within a batch, where an end must be exact.
	torn []tornEnd
	// proved is the longest log that any operation proved.
	proved int64
}

type tornEnd struct {
	op     int32
	breaks Level
}

// sweep is step 3 of the exact check: in the order of time, calls before returns at equal times, it keeps the longest log proved so
// far and compares it with what each operation allows at its call. It goes on after the first contradiction, so that one pass
// decides all levels and finds every anomaly.
//
// survives tells of a produce whether its values are in the final log; where there is none, all count.
func (p *partition) sweep(survives func(op int32) bool) swept {
	var s swept
	prover, acker := int32(none), int32(none)
	ackedTo := int64(0)
	next := int32(0)
	for id := range p.ops.len() {
		o := p.ops.at(id)
		for ; next < p.returned.len() && p.ops.at(*p.returned.at(next)).ret() < o.call(); next++ {
			r := *p.returned.at(next)
			n := p.proves(p.ops.at(r))
			if n > s.proved {
				s.proved, prover = n, r
			}
			if p.ops.at(r).kind() == history.Produce && n > ackedTo && survives(r) {
				ackedTo, acker = n, r
			}
		}
		allowed, breaks := p.allows(o)
		if s.proved > allowed {
			a := acker
			if ackedTo-1 <= allowed {
				// Not above it: at the same offset they contradict each other, but not in their order.
				a = none
			}
			s.late = append(s.late, late{int32(id), prover, s.proved, a, breaks})
		}
		if allowed != math.MaxInt64 && o.kind() != history.Produce && p.withinBatch(allowed) {
			s.torn = append(s.torn, tornEnd{int32(id), breaks})
		}
	}
	s.proved = p.longest()
	return s
}

// longest is the longest log that any operation proved.
func (p *partition) longest() int64 {
	n := int64(0)
	for _, r := range p.returned.all() {
		n = max(n, p.proves(p.ops.at(r)))
	}
	return n
}

// withinBatch reports whether a log that ends there would hold a part of one produce only. A batch is appended at once, so no
// exact end can be there.
func (p *partition) withinBatch(end int64) bool {
	a, b := p.slots.get(end-1), p.slots.get(end)
	return a != none && b != none && p.values.at(a).op != none && p.values.at(a).op == p.values.at(b).op && p.pos(a)+1 == p.pos(b)
}

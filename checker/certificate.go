package checker

import (
	"math"

	"tidemark/checker/history"
	"tidemark/checker/replay"
)

// certify makes the order by which the theorem explains an accepted history, and has the kernel replay it. The kernel is given what the
// operations say and nothing that resolve made of it: a produce of unknown outcome has no offset there, and no value has.
func (p *partition) certify(level Level) error {
	return replay.Replay(testimony{p, level}, p.order(level), level >= CommittedLog)
}

// order puts the operations of a history that holds a level into the order of the theorem's proof: offset k is appended at t(k), the
// latest call of any operation that allows at most k, and each answer stands at its call, or where the log gets as long as it says, if
// that is later. Both t and the calls rise, so that two passes and a counting sort do.
func (p *partition) order(level Level) []int32 {
	// at is, for a produce, its place among the appends; for an answer, how many appends come before it.
	at := make([]int32, int(p.ops.len()))
	appends := make([]int32, 0, p.values.len())
	for offset := int64(0); ; {
		v := p.slots.get(offset)
		if v == none || p.values.at(v).op == none {
			break
		}
		id := p.values.at(v).op
		at[id] = int32(len(appends))
		appends = append(appends, id)
		offset += int64(p.ops.at(id).count) - int64(p.pos(v))
	}
	before := func(length int64) int32 {
		if length <= 0 {
			return 0
		}
		if v := p.slots.get(length - 1); v != none && p.values.at(v).op != none {
			return min(at[p.values.at(v).op]+1, int32(len(appends)))
		}
		return int32(len(appends))
	}
	times := make([]uint32, len(appends)+1)
	for i, id := range appends {
		times[i] = p.ops.at(id).called
	}
	for id := range p.ops.len() {
		if o := p.ops.at(id); o.kind() != history.Produce && o.out() == happened {
			if allowed, breaks := p.allows(o); breaks <= level {
				i := before(allowed)
				times[i] = max(times[i], o.called)
			}
		}
	}
	for i := 1; i < len(times); i++ {
		times[i] = max(times[i], times[i-1])
	}
	counts := make([]int32, len(appends)+2)
	called := 0
	for id := range p.ops.len() {
		o := p.ops.at(id)
		if o.kind() == history.Produce || o.out() != happened {
			continue
		}
		for level >= CommittedLog && called < len(appends) && times[called] < o.called {
			called++
		}
		at[id] = max(before(p.proves(o)), int32(called))
		counts[at[id]+1]++
	}
	// Gap i is behind i appends, and its first place is i plus the answers in the gaps before it.
	for i := range appends {
		counts[i+1] += counts[i] + 1
	}
	order := make([]int32, counts[len(appends)]+counts[len(appends)+1])
	for i, id := range appends {
		order[counts[i+1]-1] = id
	}
	for id := range p.ops.len() {
		if o := p.ops.at(id); o.kind() != history.Produce && o.out() == happened {
			order[counts[at[id]]] = int32(id)
			counts[at[id]]++
		}
	}
	return order
}

// testimony is what the operations of a partition say, as the kernel wants it.
type testimony struct {
	p     *partition
	level Level
}

// Len is the number of operations.
func (t testimony) Len() int { return int(t.p.ops.len()) }

var kernelKinds = [...]replay.Kind{history.Produce: replay.Produce, history.Fetch: replay.Fetch, history.End: replay.End}

// At translates one operation.
func (t testimony) At(i int32, k *replay.Operation) {
	o := t.p.ops.at(i)
	*k = replay.Operation{Kind: kernelKinds[o.kind()], Call: o.call(), Return: o.ret(), Offset: o.offset, HW: t.p.hw(o), Gaps: o.bad() == notDense,
		Values: k.Values[:0]}
	switch o.out() {
	case happened:
		k.Outcome = replay.Happened
	case failed:
		k.Outcome = replay.Failed
	default:
		k.Outcome, k.Return = replay.Unknown, math.MaxInt64
	}
	switch o.kind() {
	case history.Produce:
		if o.out() != happened {
			k.Offset = history.Unknown
		}
		for v := o.first; v < o.first+o.count; v++ {
			k.Values = append(k.Values, v)
		}
	case history.Fetch:
		k.Exact = o.final() && t.level >= CommittedLog || t.level >= Linearizable
		k.Values = t.p.records(o, k.Values)
	case history.End:
		k.Exact = o.final() && t.level >= CommittedLog || t.level >= MonotonicEnd
	}
}

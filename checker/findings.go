package checker

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"tidemark/checker/history"
)

// clue is an anomaly before the contract and the words are added: what, where, and which operations prove it.
type clue struct {
	anomaly Anomaly
	offset  int64
	values  []int32
	ops     []int32
	breaks  Level
	// lost is the value whose loss this is, or that another replaced; none if nothing was lost.
	lost int32
	// proved is the longest log known before, and prover the operation that proved it, for a log that got shorter with no lost value to
	// show for it: what was lost nobody had seen. Else prover is none.
	proved int64
	prover int32
	// within: an end was said to lie within the batch.
	within bool
}

// clueAt is an anomaly that breaks agreement and in which nothing was lost.
func clueAt(a Anomaly, offset int64, ops ...int32) clue {
	return clue{anomaly: a, offset: offset, ops: ops, breaks: Agreement, lost: none, prover: none}
}

// of says which values a clue is about.
func (c clue) of(values ...int32) clue {
	c.values = values
	return c
}

// namer turns what resolve and sweep found in one partition into named anomalies, so that each thing that went wrong has at least one
// name, and what merely follows from it has none of its own.
type namer struct {
	p     *partition
	r     resolved
	s     swept
	clues []clue
	// gone are the offsets of lost or replaced values, sorted, to which regressions are put down.
	gone []int64
	// contradicted are the values of anomalies that break agreement: why an offset has two of them is then told.
	contradicted map[int32]bool
}

func (p *partition) clues(r resolved, s swept) []clue {
	n := &namer{p: p, r: r, s: s, contradicted: map[int32]bool{}}
	n.answers()
	n.values()
	n.offsets()
	slices.Sort(n.gone)
	n.orders()
	slices.SortStableFunc(n.clues, func(a, b clue) int {
		return cmp.Or(cmp.Compare(a.anomaly, b.anomaly), cmp.Compare(a.offset, b.offset))
	})
	return n.clues
}

func (n *namer) add(c clue) {
	c.ops = slices.DeleteFunc(c.ops, func(id int32) bool { return id == none })
	slices.Sort(c.ops)
	c.ops = slices.Compact(c.ops)
	n.clues = append(n.clues, c)
	if c.breaks <= Agreement {
		for _, v := range c.values {
			n.contradicted[v] = true
		}
	}
	switch c.anomaly {
	case LostAcked, ReadThenLost, UncommittedRead, RereadDiffers:
		n.gone = append(n.gone, c.offset)
	}
}

// answers names what is wrong with single answers.
func (n *namer) answers() {
	p := n.p
	for _, id := range n.r.malformed {
		o := p.ops.at(id)
		c := clueAt("", o.offset, id)
		switch o.bad() {
		case notDense:
			c.anomaly = NonmonotonicFetch
		case emptyBelowHW:
			c.anomaly = Hole
		case beyondHW:
			c.anomaly = UncommittedRead
			c.offset = max(p.hw(o), o.offset)
			c.values = []int32{p.record(o, int32(c.offset-o.offset))}
		}
		n.add(c)
	}
	for _, x := range p.regressed {
		n.add(clueAt(EpochRegression, x.offset, x.op))
	}
	if n.r.hole != none {
		prover := int32(none)
		for _, id := range p.returned.all() {
			if p.proves(p.ops.at(id)) > n.r.hole {
				prover = id
				break
			}
		}
		n.add(clueAt(Hole, n.r.hole, prover))
	}
}

// values names what happened to each value.
func (n *namer) values() {
	p := n.p
	for _, v := range n.r.phantoms {
		val := p.values.at(v)
		n.add(clueAt(Phantom, val.offset, val.op, val.seenBy).of(v))
	}
	for _, m := range p.moves {
		val := p.values.at(m.value)
		n.add(clueAt(Duplicate, m.offset, val.op, p.readAt(m.value, val.offset), p.readAt(m.value, m.offset), m.acked).of(m.value))
	}
	for _, id := range n.r.torn {
		n.torn(id)
	}
	// cut are the batches within which the final log ends.
	cut := map[int32]bool{}
	for _, x := range n.s.torn {
		end, _ := p.allows(p.ops.at(x.op))
		v := p.slots.get(end)
		if x.breaks == CommittedLog {
			cut[p.values.at(v).op] = true
		}
		c := clueAt(TornBatch, end, p.values.at(v).op, x.op).of(v)
		c.breaks, c.within = x.breaks, true
		n.add(c)
	}
	if !n.p.ended {
		return
	}
	for i := range p.ops.len() {
		if o := p.ops.at(i); o.kind() == history.Produce && o.count > 1 && o.offset != none && !o.assigned() && !cut[int32(i)] {
			n.halfLost(int32(i))
		}
	}
	for i := range p.values.len() {
		n.lost(int32(i))
	}
}

func (n *namer) torn(id int32) {
	o := n.p.ops.at(id)
	c := clueAt(TornBatch, none, id)
	for v := o.first; v < o.first+o.count; v++ {
		if val := n.p.values.at(v); val.seenBy != none {
			if len(c.values) == 0 {
				c.offset = val.offset
			}
			c.values = append(c.values, v)
			c.ops = append(c.ops, val.seenBy)
		}
	}
	n.add(c)
}

// halfLost names a batch of which the final log has a part.
func (n *namer) halfLost(id int32) {
	o := n.p.ops.at(id)
	var in, out []int32
	for v := o.first; v < o.first+o.count; v++ {
		switch {
		case n.p.inFinal(v):
			in = append(in, v)
		case n.absent(v):
			out = append(out, v)
		}
	}
	if len(in) == 0 || len(out) == 0 {
		return
	}
	c := clueAt(TornBatch, n.p.values.at(out[0]).offset, id, n.p.values.at(in[0]).seenBy).of(out...)
	c.breaks = n.lossBreaks(out[0])
	n.add(c)
}

// absent reports whether the final log certainly lacks a value: it ends below the value's offset, or has another there.
func (n *namer) absent(v int32) bool {
	val := n.p.values.at(v)
	if val.offset == none || n.p.inFinal(v) {
		return false
	}
	if val.offset >= n.p.end {
		return true
	}
	w := n.p.finalAt(val.offset)
	return w != none && w != v
}

// lossBreaks: a tail that is gone contradicts what was proved; a value that was replaced contradicts even the one log.
func (n *namer) lossBreaks(v int32) Level {
	if offset := n.p.values.at(v).offset; offset < n.p.end || n.p.conflicts[offset] != nil {
		return Agreement
	}
	return CommittedLog
}

func (n *namer) lost(v int32) {
	p := n.p
	val := p.values.at(v)
	if !n.absent(v) || p.phantom(v) {
		return
	}
	ack := p.acked(v)
	c := clueAt("", val.offset).of(v)
	c.breaks, c.lost = n.lossBreaks(v), v
	if ack != none {
		c.anomaly, c.ops = LostAcked, []int32{ack, val.read, p.lastFinal}
		n.add(c)
	}
	if val.read == none || n.reread(val.offset) {
		return
	}
	c.anomaly, c.ops = UncommittedRead, []int32{val.op, val.read, p.lastFinal}
	if ack != none {
		c.anomaly = ReadThenLost
	}
	n.add(c)
}

// reread reports whether two values were read at the offset.
func (n *namer) reread(offset int64) bool { return len(n.readers(offset)) > 1 }

// readers are the values that were read at an offset, in the order of their first reads.
func (n *namer) readers(offset int64) []int32 {
	var vs []int32
	for _, v := range n.p.conflicts[offset] {
		if n.p.readAt(v, offset) != none {
			vs = append(vs, v)
		}
	}
	slices.SortFunc(vs, func(a, b int32) int {
		return cmp.Compare(n.p.ops.at(n.p.readAt(a, offset)).ret(), n.p.ops.at(n.p.readAt(b, offset)).ret())
	})
	return vs
}

// offsets names the offsets that had two values.
func (n *namer) offsets() {
	p := n.p
	at := make([]int64, 0, len(p.conflicts))
	for offset := range p.conflicts {
		at = append(at, offset)
	}
	slices.Sort(at)
	for _, offset := range at {
		vs := n.readers(offset)
		if len(vs) < 2 {
			// Two claims, not both of them reads: named already, if one of the values was lost, moved, torn or phantom.
			vs = p.conflicts[offset]
			if slices.ContainsFunc(vs, func(v int32) bool { return n.contradicted[v] }) {
				continue
			}
		}
		c := clueAt(RereadDiffers, offset).of(vs...)
		for _, v := range vs {
			c.ops = append(c.ops, p.readAt(v, offset))
			if p.values.at(v).offset == offset && p.readAt(v, offset) == none {
				c.ops = append(c.ops, p.values.at(v).op)
			}
			if c.lost == none && n.p.ended && p.finalAt(offset) != v {
				c.lost = v
			}
		}
		if c.lost == none {
			c.lost = vs[0]
		}
		n.add(c)
	}
}

// explained reports whether a log that was proved to reach proved and is allowed only allowed lost something in between that has a
// name.
func (n *namer) explained(allowed, proved int64) bool {
	i := sort.Search(len(n.gone), func(j int) bool { return n.gone[j] >= allowed })
	return i < len(n.gone) && n.gone[i] < proved
}

// orders names the contradictions of the sweep that do not follow from a loss.
func (n *namer) orders() {
	p := n.p
	var regressed []clue
	for _, l := range n.s.late {
		o := p.ops.at(l.op)
		allowed, _ := p.allows(o)
		c := clueAt("", allowed, l.op, l.prover)
		c.breaks, c.proved, c.prover = l.breaks, l.proved, l.prover
		switch {
		case o.kind() == history.Produce && o.assigned():
			c.anomaly, c.offset, c.breaks, c.prover = Hole, o.offset, CommittedLog, none
		case o.kind() == history.Produce:
			c.anomaly, c.values = OrderInversion, []int32{o.first}
			inverted := l.acker != none && p.survives(l.op)
			if !inverted && n.explained(allowed, l.proved) || n.anyPhantom(o) {
				continue
			}
			if inverted {
				c.ops[1], c.prover = l.acker, none
			}
		case l.breaks == CommittedLog && n.explained(allowed, l.proved):
			continue
		case l.breaks == CommittedLog, l.breaks == MonotonicEnd:
			c.anomaly = EndRegression
			if l.breaks == CommittedLog {
				regressed = append(regressed, c)
				continue
			}
		default:
			c.anomaly = StaleRead
		}
		n.add(c)
	}
	// The final reads of one log end at the same place: one finding.
	slices.SortStableFunc(regressed, func(a, b clue) int { return cmp.Compare(a.offset, b.offset) })
	for i, c := range regressed {
		if i == 0 || regressed[i-1].offset != c.offset {
			n.add(c)
		}
	}
}

// anyPhantom reports whether a produce's values were seen before it was called: then that it is too late is no news.
func (n *namer) anyPhantom(o *op) bool {
	for v := o.first; v < o.first+o.count; v++ {
		if n.p.phantom(v) {
			return true
		}
	}
	return false
}

// survives reports whether the final log has a produce's first value; if there is no final log it counts as surviving.
func (p *partition) survives(id int32) bool {
	if !p.ended {
		return true
	}
	v := p.ops.at(id).first
	return p.inFinal(v) || p.values.at(v).offset < p.end && p.finalAt(p.values.at(v).offset) == none
}

// witness shows an operation.
func (p *partition) witness(id int32) Witness {
	o := p.ops.at(id)
	w := Witness{Process: p.processOf(o), Call: p.callSeq(o), Return: p.retSeq(o)}
	var q, a string
	switch o.kind() {
	case history.Produce:
		q = "produce " + p.texts(o.first, o.count)
		a = fmt.Sprint(o.offset)
	case history.End:
		q, a = "end", fmt.Sprint(o.offset)
	case history.Fetch:
		q = fmt.Sprintf("fetch from %d", o.offset)
		if o.final() {
			q = "final " + q
		}
		vs := make([]string, 0, 3)
		for i, v := range p.records(o, nil) {
			if i == 3 {
				vs = append(vs, fmt.Sprintf("... %d records", o.count))
				break
			}
			vs = append(vs, p.text(v))
		}
		a = fmt.Sprintf("%v, hw %d", vs, p.hw(o))
	}
	switch o.out() {
	case happened:
	case failed:
		a = "failed"
	default:
		a = "unknown"
	}
	w.Operation = q + " -> " + a
	return w
}

func (p *partition) texts(first, count int32) string {
	s := p.text(first)
	if count > 1 {
		s = fmt.Sprintf("%s..%s", s, p.text(first+count-1))
	}
	return s
}

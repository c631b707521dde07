package checker

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/checker/history"
)

// maxTold bounds, for each anomaly of a partition, how many findings are told with all that the nodes did: nobody reads the
// ten-thousandth story.
const maxTold = 100

// teller puts clues into words. Operations and node events are joined by partition, leader epoch and offset, never by time.
type teller struct {
	p      *partition
	x      *nodeIndex
	faults []*fault
}

func seconds(ns int64) string { return fmt.Sprintf("%.3f s", float64(ns)/1e9) }

// sentence tells one clue; short leaves out what the nodes did.
func (t *teller) sentence(c *clue, e excuse, short bool) string {
	s := t.story(c, short)
	if e.because != "" {
		s += fmt.Sprintf("; allowed because %s: %s", e.because, e.detail)
	}
	return s + "."
}

func (t *teller) story(c *clue, short bool) string {
	p := t.p
	at := fmt.Sprintf("offset %d of %s", c.offset, p.name)
	var text string
	if len(c.values) > 0 {
		text = p.text(c.values[0])
	}
	switch c.anomaly {
	case LostAcked, ReadThenLost:
		return t.lossStory(c, short)
	case UncommittedRead:
		if c.lost == none {
			o := p.ops.at(c.ops[0])
			return fmt.Sprintf("%s (%s) was returned to process %d at %s by broker %d in an answer whose high watermark was %d", at, text,
				p.processOf(o), seconds(o.retTime()), p.nodeOf(o), p.hw(o))
		}
		return t.lossStory(c, short)
	case RereadDiffers:
		return t.rereadStory(c, short)
	case Phantom:
		return t.phantomStory(c)
	case Duplicate:
		return fmt.Sprintf("%s of %s has two offsets, %d%s and %d%s", text, p.name, p.values.at(c.values[0]).offset,
			t.claimed(c.values[0], p.values.at(c.values[0]).offset), c.offset, t.claimed(c.values[0], c.offset))
	case OrderInversion:
		return t.inversionStory(c)
	case TornBatch:
		o := p.ops.at(c.ops[0])
		if c.within {
			return fmt.Sprintf("the log of %s was said to end at %d, within the batch %s that process %d produced at once at %s", p.name, c.offset,
				p.texts(o.first, o.count), p.processOf(o), seconds(o.callTime))
		}
		return fmt.Sprintf("the batch %s that process %d produced at once at %s is not whole in %s: %s", p.texts(o.first, o.count), p.processOf(o),
			seconds(o.callTime), p.name, t.parts(o))
	case NonmonotonicFetch:
		o := p.ops.at(c.ops[0])
		return fmt.Sprintf("process %d asked %s for records from %d on and at %s got some that are not consecutive from there: %s", p.processOf(o), p.name,
			o.offset, seconds(o.retTime()), p.witness(c.ops[0]).Operation)
	case EpochRegression:
		o := p.ops.at(c.ops[0])
		return fmt.Sprintf("in the answer that process %d got at %s the record at %s has a lower leader epoch than the one before it", p.processOf(o),
			seconds(o.retTime()), at)
	case Hole:
		return t.holeStory(c)
	case EndRegression, StaleRead:
		return t.regressionStory(c, short)
	}
	return at
}

// claimed says who knows that a value is at an offset.
func (t *teller) claimed(v int32, offset int64) string {
	p := t.p
	if r := p.readAt(v, offset); r != none {
		return fmt.Sprintf(" (read by process %d at %s)", p.processOf(p.ops.at(r)), seconds(p.ops.at(r).retTime()))
	}
	if a := p.acked(v); a != none && p.ops.at(a).offset+int64(p.pos(v)) == offset {
		return fmt.Sprintf(" (acked to process %d at %s)", p.processOf(p.ops.at(a)), seconds(p.ops.at(a).retTime()))
	}
	return ""
}

// produced says how a value came to its offset: acked, or of unknown outcome, with the ISR if a node told.
func (t *teller) produced(v int32) string {
	p := t.p
	if a := p.acked(v); a != none {
		s := fmt.Sprintf("was acked to process %d at %s", p.processOf(p.ops.at(a)), seconds(p.ops.at(a).retTime()))
		if isr := t.ackISR(v); isr != "" {
			s += " (ISR " + isr + ")"
		}
		return s
	}
	if id := p.values.at(v).op; id != none {
		return fmt.Sprintf("was produced by process %d at %s without a known outcome", p.processOf(p.ops.at(id)), seconds(p.ops.at(id).callTime))
	}
	return "was produced by nobody"
}

func (t *teller) ackISR(v int32) string {
	l := t.p.lossOf(v)
	as := t.x.acksOf(l.offset, l.epoch, l.others)
	if len(as) == 0 || slices.ContainsFunc(as, func(a ackSpan) bool { return !slices.Equal(a.isr, as[0].isr) }) {
		return ""
	}
	return ids(as[0].isr)
}

func ids(ns []int32) string {
	s := make([]string, len(ns))
	for i, n := range ns {
		s[i] = fmt.Sprint(n)
	}
	return strings.Join(s, ",")
}

func (t *teller) readBy(v int32, offset int64) string {
	r := t.p.readAt(v, offset)
	if r == none {
		return ""
	}
	return fmt.Sprintf("read by process %d at %s", t.p.ops.at(r).process, seconds(t.p.ops.at(r).retTime()))
}

func (t *teller) lossStory(c *clue, short bool) string {
	p, v := t.p, c.values[0]
	s := fmt.Sprintf("offset %d of %s (%s) %s", c.offset, p.name, p.text(v), t.produced(v))
	if r := t.readBy(v, c.offset); r != "" {
		s += " and " + r
	}
	if !short {
		if did := t.deeds(v); did != "" {
			s += "; " + did
			return s + ", and " + t.whereNow(v)
		}
	}
	return s + "; " + t.whereNow(v)
}

func (t *teller) rereadStory(c *clue, short bool) string {
	p := t.p
	var reads []string
	for _, v := range c.values {
		how := t.readBy(v, c.offset)
		if how == "" {
			how = strings.TrimPrefix(t.produced(v), "was ")
		}
		reads = append(reads, fmt.Sprintf("%s (%s)", p.text(v), how))
	}
	s := fmt.Sprintf("offset %d of %s had two values: %s", c.offset, p.name, strings.Join(reads, ", then "))
	if len(c.values) > 2 {
		s = strings.Replace(s, "two values", fmt.Sprint(len(c.values), " values"), 1)
	}
	if !short && c.lost != none {
		if did := t.deeds(c.lost); did != "" {
			s += "; " + did
		}
	}
	return s
}

func (t *teller) phantomStory(c *clue) string {
	p, v := t.p, c.values[0]
	val := p.values.at(v)
	by := p.ops.at(val.seenBy)
	s := fmt.Sprintf("%s was read at offset %d of %s by process %d at %s", p.text(v), val.offset, p.name, p.processOf(by), seconds(by.retTime()))
	switch {
	case val.op == none:
		return s + ", and nobody produced it"
	case p.ops.at(val.op).out() == failed:
		return fmt.Sprintf("%s, and its produce by process %d had certainly failed at %s", s, p.processOf(p.ops.at(val.op)), seconds(p.ops.at(val.op).retTime()))
	}
	return fmt.Sprintf("%s, before process %d called its produce at %s", s, p.processOf(p.ops.at(val.op)), seconds(p.ops.at(val.op).callTime))
}

func (t *teller) inversionStory(c *clue) string {
	p := t.p
	o := p.ops.at(c.ops[len(c.ops)-1])
	first := p.ops.at(c.ops[0])
	s := fmt.Sprintf("%s was produced to %s by process %d at %s and got offset %d, ", p.texts(o.first, o.count), p.name, p.processOf(o),
		seconds(o.callTime), o.offset)
	if len(c.ops) == 1 {
		return s + "below an end that had been proved before"
	}
	if first.kind() == history.Produce {
		return s + fmt.Sprintf("below offset %d of %s, which had been acked to process %d before, at %s", first.offset+int64(first.count)-1,
			p.text(first.first+first.count-1), p.processOf(first), seconds(first.retTime()))
	}
	return s + fmt.Sprintf("although process %d had seen a log of %d records before, at %s", p.processOf(first), p.proves(first), seconds(first.retTime()))
}

func (t *teller) parts(o *op) string {
	var in, out []string
	for v := o.first; v < o.first+o.count; v++ {
		val, text := t.p.values.at(v), t.p.text(v)
		switch {
		case t.p.inFinal(v) || !t.p.ended && val.seenBy != none:
			in = append(in, fmt.Sprintf("%s is at %d", text, val.offset))
		case val.offset == none:
			out = append(out, text+" is nowhere")
		default:
			out = append(out, fmt.Sprintf("%s is not at %d", text, val.offset))
		}
	}
	const most = 6
	all := append(in, out...)
	if len(all) > most {
		all = append(all[:most], "...")
	}
	return strings.Join(all, ", ")
}

func (t *teller) holeStory(c *clue) string {
	p := t.p
	if len(c.ops) == 0 {
		return fmt.Sprintf("offset %d of %s has no value that anybody can have produced", c.offset, p.name)
	}
	o := p.ops.at(c.ops[0])
	if o.kind() == history.Fetch && o.bad() == emptyBelowHW {
		return fmt.Sprintf("process %d asked broker %d for offset %d of %s and at %s got nothing, in an answer whose high watermark was %d",
			p.processOf(o), p.nodeOf(o), c.offset, p.name, seconds(o.retTime()), p.hw(o))
	}
	return fmt.Sprintf("process %d saw a log of %d records in %s at %s, but nobody can have produced the one at offset %d", p.processOf(o), p.proves(o),
		p.name, seconds(o.retTime()), c.offset)
}

func (t *teller) regressionStory(c *clue, short bool) string {
	p := t.p
	// The two operations in order of their calls: who proved the end, and who was told less. They may overlap no more than a call.
	prover, late := p.ops.at(c.ops[0]), p.ops.at(c.ops[len(c.ops)-1])
	what := "was told an end of"
	if late.final() {
		what = "found at the end of the run a log of"
	}
	s := fmt.Sprintf("process %d %s %d for %s at %s, after an end of %d had been proved to process %d at %s", p.processOf(late), what, c.offset,
		p.name, seconds(late.retTime()), c.proved, p.processOf(prover), seconds(prover.retTime()))
	if p.nodeOf(late) != history.Unknown && !late.final() {
		s += fmt.Sprintf(" (broker %d answered)", p.nodeOf(late))
	}
	if !short && late.final() {
		if did := t.cuts(c.offset, history.Unknown); did != "" {
			s += "; " + did
		}
	}
	return s
}

// whereNow tells where a lost record still is.
func (t *teller) whereNow(v int32) string {
	p := t.p
	val := p.values.at(v)
	var on []int32
	for _, r := range p.replicas {
		if x := entryAt(r, val.offset); x != nil && x.Value == p.text(v) {
			on = append(on, r.Node)
		}
	}
	s := "the final log ends at " + fmt.Sprint(p.end)
	if w := p.finalAt(val.offset); w != none {
		s = fmt.Sprintf("offset %d now holds %s", val.offset, p.text(w))
		if p.values.at(w).epoch != history.Unknown {
			s += fmt.Sprintf(" (epoch %d)", p.values.at(w).epoch)
		}
	}
	switch {
	case len(p.replicas) == 0:
		return s
	case len(on) > 0:
		return fmt.Sprintf("%s and the record is only on %s", s, brokers(on))
	case p.finalAt(val.offset) != none:
		return s + " and the record is on no replica"
	}
	return "the record is on no replica"
}

// diverged tells a divergence.
func (t *teller) diverged(d *divergence) string {
	var sides []string
	for _, s := range d.sides {
		what := "nothing"
		if s.record != nil {
			what = fmt.Sprintf("%s (epoch %d)", s.record.Value, s.record.Epoch)
		}
		sides = append(sides, fmt.Sprintf("%s on %s", what, brokers(s.nodes)))
	}
	where := fmt.Sprintf("offset %d", d.from)
	if d.to-d.from > 1 {
		where = fmt.Sprintf("offsets %d to %d", d.from, d.to-1)
	}
	s := fmt.Sprintf("at %s of %s, below every replica's high watermark (the lowest is %d), the replicas differ: %s", where, t.p.name, d.hw,
		strings.Join(sides, ", "))
	if d.to-d.from > 1 {
		s += fmt.Sprintf(" at %d", d.from)
	}
	return s
}

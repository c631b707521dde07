package checker

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/checker/history"
)

// loss is a record that is gone, as the contract looks at it.
type loss struct {
	partition string
	offset    int64
	epoch     int32
	// acks is what its produce asked for, -1 if nobody knows who produced it.
	acks int8
	// since is the sequence number of the call of the operation that shows that the record was there: its produce, or who saw the log
	// reach beyond it. What is known to be older did not lose it.
	since int64
	// others are epochs under which other values were at the offset.
	others []int32
}

// excuse is why the contract does not promise to prevent a loss; the zero value: it does.
type excuse struct {
	because Reason
	detail  string
}

// court decides from the node events what the contract does not promise.
type court struct {
	in       *intake
	contract history.Contract
}

// excuseFor returns why a loss is allowed, if it is. A clause must be shown to apply: what the node events do not tell excuses nothing.
func (c *court) excuseFor(l loss) excuse {
	if l.acks != -1 {
		return excuse{BecauseAcks, fmt.Sprintf("it was produced with acks=%d", l.acks)}
	}
	if c.contract.Acks != "all" {
		return excuse{BecauseAcks, "the run promises acks=" + c.contract.Acks}
	}
	x := c.in.index(l.partition)
	unclean := c.uncleanSince(x, l)
	if unclean != nil && c.contract.Unclean {
		return excuse{BecauseUncleanElection, fmt.Sprintf("broker %d was elected from outside the ISR in epoch %d", unclean.leader,
			unclean.epoch)}
	}
	if e := c.lostByPower(x, l); e.because != "" {
		return e
	}
	if unclean != nil {
		return excuse{BecauseUncleanRecovery, fmt.Sprintf("the controller reported that it elected broker %d in epoch %d without a "+
			"guarantee (%s)", unclean.leader, unclean.epoch, unclean.why)}
	}
	return excuse{}
}

// uncleanSince is the first unclean election that came after the record was written. If its epoch is not known it is one of those in
// which its offset was acknowledged; and an election that was reported before the record is known to have been there is no cause.
func (c *court) uncleanSince(x *nodeIndex, l loss) *decision {
	epoch := l.epoch
	if epoch == history.Unknown {
		for _, a := range x.acksOf(l.offset, l.epoch, l.others) {
			epoch = max(epoch, a.epoch)
		}
	}
	return x.uncleanAfter(epoch, l.since)
}

// lostByPower looks for an excuse in power failures. If several acknowledgements may be the record's, each must give one.
func (c *court) lostByPower(x *nodeIndex, l loss) excuse {
	acks := x.acksOf(l.offset, l.epoch, l.others)
	if len(acks) == 0 && l.epoch != history.Unknown {
		if isr, partitionEpoch := x.isrIn(l.epoch); isr != nil {
			acks = []ackSpan{{epoch: l.epoch, partitionEpoch: partitionEpoch, from: l.offset, to: l.offset + 1, isr: isr}}
		}
	}
	var e excuse
	for _, a := range acks {
		if e = c.lostAs(x, l, a); e.because == "" {
			return excuse{}
		}
	}
	return e
}

// lostAs is lostByPower for one acknowledgement. Suspects are the members of its ISR, and those who joined the ISR later, with the record,
// and lost it then.
func (c *court) lostAs(x *nodeIndex, l loss, a ackSpan) excuse {
	minISR := effectiveMinISR(c.contract, c.in.header.Topics, l.partition)
	if len(a.isr) < minISR {
		// An acknowledgement below min.insync.replicas is itself a broken promise.
		return excuse{}
	}
	var lossy, led []int32
	for _, b := range x.brokers() {
		for _, pl := range x.powerLosses(b, l.offset) {
			if !slices.Contains(a.isr, b) && !c.in.joinedAfter(x, a, pl) || !x.streams[b].held(pl.index, l.offset, a.epoch) ||
				c.in.beforeAck(l.partition, pl, l.since, a.partitionEpoch) {
				continue
			}
			lossy = append(lossy, b)
			if x.ledWithout(pl, l.offset, a.epoch, a.partitionEpoch) {
				led = append(led, b)
			}
		}
	}
	slices.Sort(lossy)
	lossy = slices.Compact(lossy)
	slices.Sort(led)
	led = slices.Compact(led)
	switch {
	case len(a.isr) == 1 && slices.Contains(lossy, a.isr[0]):
		return excuse{BecauseMinISR, fmt.Sprintf("broker %d held it alone, as min.insync.replicas=%d permits, and lost it in a power failure",
			a.isr[0], minISR)}
	case c.contract.CrashBudget == history.BudgetISR && len(led) > 0:
		return excuse{BecauseCrashBudget, fmt.Sprintf("%s lost it in a power failure and led, or counted in the ISR, before having fetched "+
			"it again", brokers(led))}
	case c.contract.CrashBudget == history.BudgetMinISR && len(lossy) >= minISR:
		return excuse{BecauseCrashBudget, fmt.Sprintf("%s lost it in power failures, and the protocol promises to survive %d", brokers(lossy),
			minISR-1)}
	}
	return excuse{}
}

func brokers(ids []int32) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = fmt.Sprint(id)
	}
	switch n := len(s); n {
	case 0:
		return "no broker"
	case 1:
		return "broker " + s[0]
	default:
		return "brokers " + strings.Join(s[:n-1], ", ") + " and " + s[n-1]
	}
}

// lossOf is the record of a value that was lost.
func (p *partition) lossOf(v int32) loss {
	val := p.values.at(v)
	l := loss{partition: p.name, offset: val.offset, epoch: p.epochOf(v), others: p.otherEpochs(v), acks: -1}
	if val.op != none {
		l.acks, l.since = p.ops.at(val.op).acks(), p.ops.at(val.op).call()
	}
	return l
}

// lossAt is the record that must have been at an offset, because an operation saw the log reach beyond it, though nobody saw its value.
func (p *partition) lossAt(offset int64, prover int32) loss {
	l := loss{partition: p.name, offset: offset, epoch: history.Unknown, acks: -1, since: p.ops.at(prover).call()}
	if v := p.slots.get(offset); v != none && p.values.at(v).epoch != history.Unknown {
		l.others = []int32{p.values.at(v).epoch}
	}
	return l
}

// epochOf is the leader epoch of a value's record, from a read or from a replica that still has it.
func (p *partition) epochOf(v int32) int32 {
	val := p.values.at(v)
	if val.epoch != history.Unknown {
		return val.epoch
	}
	for _, r := range p.replicas {
		if x := entryAt(r, val.offset); x != nil && x.Value == p.text(v) {
			return x.Epoch
		}
	}
	return history.Unknown
}

// otherEpochs are the epochs of the other values at a value's offset.
func (p *partition) otherEpochs(v int32) []int32 {
	val := p.values.at(v)
	var es []int32
	for _, w := range p.conflicts[val.offset] {
		if e := p.values.at(w).epoch; w != v && e != history.Unknown {
			es = append(es, e)
		}
	}
	for _, r := range p.replicas {
		if x := entryAt(r, val.offset); x != nil && x.Value != p.text(v) {
			es = append(es, x.Epoch)
		}
	}
	if w := p.slots.get(val.offset); w != none && w != v && p.values.at(w).epoch != history.Unknown {
		es = append(es, p.values.at(w).epoch)
	}
	return es
}

// entryAt returns a replica's record at an offset, or nil.
func entryAt(r *history.Replica, offset int64) *history.Record {
	i, ok := slices.BinarySearchFunc(r.Entries, offset, func(x history.Record, o int64) int {
		switch {
		case x.Offset < o:
			return -1
		case x.Offset > o:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &r.Entries[i]
}

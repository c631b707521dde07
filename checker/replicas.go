package checker

import (
	"fmt"
	"slices"

	"tidemark/checker/history"
)

// divergence is a run of offsets below the lowest high watermark at which replicas differ.
type divergence struct {
	from, to int64
	// sides say which replicas hold what at from.
	sides []side
	hw    int64
}

type side struct {
	nodes []int32
	// record is nil where the replicas have none.
	record *history.Record
}

// diverged compares the replicas below the lowest of their high watermarks: there every record is committed, so all must have the same.
// In a partition that did not come to rest a replica outside the ISR may still have to cut its log: then only the ISR is compared.
func (p *partition) diverged(x *nodeIndex) []divergence {
	replicas := p.replicas
	if isr := x.lastISR(); p.settled != nil && !p.settled.OK && isr != nil {
		replicas = slices.DeleteFunc(slices.Clone(replicas), func(r *history.Replica) bool { return !slices.Contains(isr, r.Node) })
	}
	if len(replicas) < 2 {
		return nil
	}
	hw, start := replicas[0].HW, int64(0)
	for _, r := range replicas {
		hw = min(hw, r.HW)
		if len(r.Entries) > 0 {
			// A log may begin above 0; what one replica has deleted is not compared.
			start = max(start, r.Entries[0].Offset)
		}
	}
	var ds []divergence
	at := make([]int, len(replicas))
	for {
		// The next offset that any replica has.
		offset := hw
		for i, r := range replicas {
			for at[i] < len(r.Entries) && r.Entries[at[i]].Offset < start {
				at[i]++
			}
			if at[i] < len(r.Entries) {
				offset = min(offset, r.Entries[at[i]].Offset)
			}
		}
		if offset >= hw {
			return ds
		}
		start = offset + 1
		if agree(replicas, offset, at) {
			continue
		}
		if n := len(ds); n > 0 && ds[n-1].to == offset {
			ds[n-1].to++
			continue
		}
		ds = append(ds, divergence{from: offset, to: offset + 1, sides: sides(replicas, offset), hw: hw})
	}
}

// agree reports whether all replicas, each standing at its entry at, have the same record at an offset.
func agree(replicas []*history.Replica, offset int64, at []int) bool {
	var first *history.Record
	for i, r := range replicas {
		var x *history.Record
		if at[i] < len(r.Entries) && r.Entries[at[i]].Offset == offset {
			x = &r.Entries[at[i]]
		}
		if i == 0 {
			first = x
		} else if !sameRecord(first, x) {
			return false
		}
	}
	return true
}

func sameRecord(a, b *history.Record) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func sides(replicas []*history.Replica, offset int64) []side {
	var ss []side
	for _, r := range replicas {
		x := entryAt(r, offset)
		i := slices.IndexFunc(ss, func(s side) bool { return sameRecord(s.record, x) })
		if i < 0 {
			i = len(ss)
			ss = append(ss, side{record: x})
		}
		ss[i].nodes = append(ss[i].nodes, r.Node)
	}
	return ss
}

// observe collects what only node events and replicas show.
func (in *intake) observe(p *partition) []Observation {
	var os observations
	x := in.index(p.name)
	for _, b := range x.brokers() {
		s := x.streams[b]
		for i := range s.deeds {
			d := &s.deeds[i]
			switch {
			case d.What == history.Truncated && d.To < d.From && d.To < d.HW:
				os.add(TruncatedBelowHW, p.name, fmt.Sprintf("broker %d cut its log from %d to %d, below its high watermark %d, at %s", b, d.From,
					d.To, d.HW, seconds(d.time)))
			case d.What == history.HW && !afterCut(s, i):
				os.add(HWRegression, p.name, fmt.Sprintf("the high watermark of broker %d fell from %d to %d in epoch %d at %s", b, d.From,
					d.To, d.Epoch, seconds(d.time)))
			}
		}
	}
	p.incomplete(x, &os)
	p.reused(&os)
	for _, r := range p.replicas {
		if what := cacheBroken(r); what != "" {
			os.add(EpochCacheBroken, p.name, fmt.Sprintf("the leader epoch cache of broker %d %s", r.Node, what))
		}
	}
	return os
}

// afterCut reports whether the fall of the high watermark is that of the truncation, restart or power failure just before it.
func afterCut(s *stream, i int) bool {
	if i == 0 {
		return false
	}
	switch s.deeds[i-1].What {
	case history.Truncated, history.PowerLoss, history.Recovered, history.RoleChanged:
		return true
	}
	return false
}

// reused finds two records that have both offset and epoch in common: then no epoch rule can tell them apart.
func (p *partition) reused(os *observations) {
	for i, r := range p.replicas {
		for _, x := range r.Entries {
			for _, q := range p.replicas[:i] {
				if y := entryAt(q, x.Offset); y != nil && y.Epoch == x.Epoch && y.Value != x.Value {
					os.add(OffsetEpochReused, p.name, fmt.Sprintf("epoch %d, offset %d is %s on broker %d and %s on broker %d", x.Epoch, x.Offset,
						y.Value, q.Node, x.Value, r.Node))
				}
			}
		}
	}
}

// incomplete finds members of the ISR that lack committed records: who may be elected must have them. If nobody told the ISR of a partition
// that came to rest, all replicas are in it.
func (p *partition) incomplete(x *nodeIndex, os *observations) {
	isr := x.lastISR()
	member := func(r *history.Replica) bool {
		return slices.Contains(isr, r.Node) || isr == nil && p.settled != nil && p.settled.OK
	}
	committed, by := int64(0), "clients were told that the log ends at"
	if p.ended {
		committed = p.end
	}
	for _, r := range p.replicas {
		if member(r) && r.HW > committed {
			committed, by = r.HW, fmt.Sprintf("broker %d has the high watermark", r.Node)
		}
	}
	for _, r := range p.replicas {
		if member(r) && r.LEO < committed {
			os.add(CandidateIncomplete, p.name, fmt.Sprintf("broker %d is in the ISR and its log ends at %d, though %s %d", r.Node, r.LEO, by,
				committed))
		}
	}
}

// cacheBroken says what is wrong with a replica's leader epoch cache: it must rise, stay within the log (the epoch of a leader that has
// not written begins at its end), and give each record its epoch. A replica without a cache is one of a protocol that has none.
func cacheBroken(r *history.Replica) string {
	for i, e := range r.Epochs {
		switch {
		case e.Start > r.LEO:
			return fmt.Sprintf("has epoch %d begin at %d, beyond the log's end %d", e.Epoch, e.Start, r.LEO)
		case i > 0 && (e.Epoch <= r.Epochs[i-1].Epoch || e.Start < r.Epochs[i-1].Start):
			return fmt.Sprintf("goes back: epoch %d at %d follows epoch %d at %d", e.Epoch, e.Start, r.Epochs[i-1].Epoch, r.Epochs[i-1].Start)
		}
	}
	if len(r.Epochs) == 0 {
		return ""
	}
	i := -1
	for _, x := range r.Entries {
		for i+1 < len(r.Epochs) && r.Epochs[i+1].Start <= x.Offset {
			i++
		}
		if i < 0 || r.Epochs[i].Epoch != x.Epoch {
			return fmt.Sprintf("gives offset %d another epoch than its record", x.Offset)
		}
	}
	return ""
}

type observations []Observation

func (os *observations) add(a Anomaly, partition, text string) {
	for i := range *os {
		if o := &(*os)[i]; o.Anomaly == a && o.Partition == partition {
			o.Count++
			return
		}
	}
	*os = append(*os, Observation{Anomaly: a, Partition: partition, Count: 1, First: text})
}

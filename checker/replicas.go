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
	p.reused(&os)
	for _, r := range p.replicas {
		if offset, ok := cacheBroken(r); ok {
			os.add(EpochCacheBroken, p.name, fmt.Sprintf("the leader epoch cache of broker %d gives offset %d another epoch than its record",
				r.Node, offset))
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

// cacheBroken returns the first offset whose record's epoch is not the one that the replica's leader epoch cache implies.
func cacheBroken(r *history.Replica) (int64, bool) {
	if len(r.Epochs) == 0 {
		return 0, false
	}
	i := -1
	for _, x := range r.Entries {
		for i+1 < len(r.Epochs) && r.Epochs[i+1].Start <= x.Offset {
			i++
		}
		if i < 0 || r.Epochs[i].Epoch != x.Epoch {
			return x.Offset, true
		}
	}
	return 0, false
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

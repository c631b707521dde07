package memory

import (
	"encoding/binary"
	"slices"

	"tidemark/node/replica"
)

// AppendState appends a canonical form of the disk: equal bytes mean that the disks behave alike from now on, whatever
// cut a power failure makes. It does not depend on the order in which logs were opened; untouched logs do not show, and
// neither does how many power failures there were, because logs from before them are of no use any more.
func (d *Disk) AppendState(out []byte) []byte {
	if len(d.logs) == 1 && !d.logs[0].untouched() {
		return d.appendMarker(d.logs[0].append(binary.AppendUvarint(out, 1)))
	}
	places := make([]int, 0, len(d.logs))
	for i := range d.logs {
		if !d.logs[i].untouched() {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int { return Compare(d.logs[a].name, d.logs[b].name) })

	out = binary.AppendUvarint(out, uint64(len(places)))
	for _, i := range places {
		out = d.logs[i].append(out)
	}
	return d.appendMarker(out)
}

func (d *Disk) appendMarker(out []byte) []byte {
	if d.marker {
		return binary.AppendVarint(append(out, 1), d.stopped)
	}
	return append(out, 0)
}

func (s *state) untouched() bool {
	return s.start == 0 && s.hw == 0 && len(s.batches) == 0 && len(s.unsynced) == 0 && len(s.epochs) == 0
}

func (s *state) append(out []byte) []byte {
	out = appendBytes(out, s.name.Topic)
	out = binary.AppendVarint(out, int64(s.name.Index))
	out = binary.AppendVarint(out, s.hw)
	out = binary.AppendUvarint(out, uint64(len(s.epochs)))
	for _, e := range s.epochs {
		out = binary.AppendVarint(out, int64(e.Epoch))
		out = binary.AppendVarint(out, e.Start)
	}
	out = binary.AppendVarint(out, s.start)
	out = appendBatches(out, s.batches)
	out = binary.AppendUvarint(out, uint64(len(s.unsynced)))
	for _, op := range s.unsynced {
		// What undoes it: an append by dropping the last batch, so there is no more to say.
		out = append(out, byte(op.Kind))
		if op.Kind != Append {
			out = binary.AppendVarint(out, op.start)
			out = appendBatches(out, op.before[op.kept:])
		}
	}
	return out
}

func appendBatches(out []byte, batches []replica.Batch) []byte {
	out = binary.AppendUvarint(out, uint64(len(batches)))
	for _, b := range batches {
		out = binary.AppendVarint(out, b.Base)
		out = binary.AppendVarint(out, int64(b.Count))
		out = binary.AppendVarint(out, int64(b.Epoch))
		out = binary.AppendVarint(out, b.Producer)
		out = binary.AppendVarint(out, int64(b.ProducerEpoch))
		out = binary.AppendVarint(out, int64(b.Sequence))
		out = appendBytes(out, b.Data)
	}
	return out
}

func appendBytes[B string | []byte](out []byte, b B) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

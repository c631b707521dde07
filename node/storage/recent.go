package storage

import (
	"cmp"
	"slices"

	"tidemark/node/replica"
)

// recent keeps the newest batches of a log in memory, because that is where followers and most consumers read. Its
// batches are without gaps up to the log's end.
type recent struct {
	batches []replica.Batch
	first   int // those before it were dropped
	bytes   int
}

// add takes a batch that was appended, and drops the oldest ones while there are more than limit bytes.
func (r *recent) add(b replica.Batch, limit int) {
	r.batches = append(r.batches, b)
	r.bytes += len(b.Data)
	for r.first < len(r.batches) && r.bytes > limit {
		r.bytes -= len(r.batches[r.first].Data)
		r.batches[r.first] = replica.Batch{} // let go of the bytes
		r.first++
	}
	if r.first > len(r.batches)/2 {
		r.batches, r.first = append(r.batches[:0], r.batches[r.first:]...), 0
	}
}

// truncate drops what reaches beyond the log's new end.
func (r *recent) truncate(end int64) {
	n := len(r.batches)
	for n > r.first && r.batches[n-1].End() > end {
		n--
		r.bytes -= len(r.batches[n].Data)
	}
	clear(r.batches[n:])
	r.batches = r.batches[:n]
}

// read is nil if the batch that contains the offset is not here. The list is the reader's own.
func (r *recent) read(from int64, maxBytes int) []replica.Batch {
	held := r.batches[r.first:]
	if len(held) == 0 || from < held[0].Base {
		return nil
	}
	first, _ := slices.BinarySearchFunc(held, from+1, func(b replica.Batch, end int64) int {
		return cmp.Compare(b.End(), end)
	})
	last, bytes := first, 0
	for ; last < len(held); last++ {
		bytes += len(held[last].Data)
		if last > first && bytes > maxBytes {
			break
		}
	}
	return slices.Clone(held[first:last])
}

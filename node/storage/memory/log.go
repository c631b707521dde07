package memory

import (
	"cmp"
	"fmt"
	"slices"

	"tidemark/node/replica"
)

// log is an open log. It finds its state by place, because the disk's list of logs moves when it grows.
type log struct {
	disk  *Disk
	at    int
	power int
}

var _ replica.Log = (*log)(nil)

// state is nil after a power failure.
func (l *log) state() *state {
	if l.power != l.disk.power {
		return nil
	}
	return &l.disk.logs[l.at]
}

// stale names the log and the call that came too late.
func (l *log) stale(call string) error {
	return fmt.Errorf("%s %s: %w; open it again", call, l.disk.logs[l.at].name, ErrStale)
}

// Start is the log start offset, -1 if the log is stale.
func (l *log) Start() int64 {
	if s := l.state(); s != nil {
		return s.start
	}
	return replica.NoOffset
}

// End is the log end offset, -1 if the log is stale.
func (l *log) End() int64 {
	if s := l.state(); s != nil {
		return s.end()
	}
	return replica.NoOffset
}

// Append adds the batch. Its Data is kept as it is, not copied.
func (l *log) Append(b replica.Batch) error {
	s := l.state()
	switch {
	case s == nil:
		return l.stale("append to")
	case b.Base != s.end():
		return fmt.Errorf("append to %s: batch has base offset %d, want the log end offset %d", s.name, b.Base, s.end())
	case b.Count < 1:
		return fmt.Errorf("append to %s: batch at %d takes %d offsets, want at least one", s.name, b.Base, b.Count)
	}
	s.did(Operation{Kind: Append, Bytes: len(b.Data)}, len(s.batches))
	s.batches = append(s.batches, b)
	return nil
}

// TruncateTo removes the batches that reach beyond offset. Below the log's start it is a [log.Reset], as in Kafka.
func (l *log) TruncateTo(offset int64) error {
	s := l.state()
	switch {
	case s == nil:
		return l.stale("truncate")
	case offset >= s.end():
		return nil
	case offset < s.start:
		return l.Reset(offset)
	}
	// The first batch that ends beyond offset; one that ends at it stays.
	kept, _ := slices.BinarySearchFunc(s.batches, offset+1, func(b replica.Batch, end int64) int {
		return cmp.Compare(b.End(), end)
	})
	s.did(Operation{Kind: Truncate}, kept)
	s.batches = s.batches[:kept:kept] // no room behind: what was there is still someone's
	return nil
}

// Reset drops everything and goes on at offset.
func (l *log) Reset(offset int64) error {
	s := l.state()
	switch {
	case s == nil:
		return l.stale("reset")
	case offset < 0:
		return fmt.Errorf("reset %s: offset %d is negative", s.name, offset)
	}
	s.did(Operation{Kind: Reset}, 0)
	s.start, s.batches = offset, nil
	return nil
}

// Read returns a part of the log's own list: the caller must not change it, and it does not change later.
func (l *log) Read(from int64, maxBytes int) ([]replica.Batch, error) {
	s := l.state()
	switch {
	case s == nil:
		return nil, l.stale("read")
	case from < s.start || from > s.end():
		return nil, fmt.Errorf("read %s: offset %d is outside of the log, [%d, %d]", s.name, from, s.start, s.end())
	}
	first, _ := slices.BinarySearchFunc(s.batches, from+1, func(b replica.Batch, end int64) int {
		return cmp.Compare(b.End(), end)
	})
	last, bytes := first, 0
	for ; last < len(s.batches); last++ {
		bytes += len(s.batches[last].Data)
		if last > first && bytes > maxBytes {
			break
		}
	}
	return s.batches[first:last:last], nil
}

// Epochs is the epoch checkpoint, nil if the log is stale.
func (l *log) Epochs() []replica.EpochStart {
	if s := l.state(); s != nil {
		return s.epochs
	}
	return nil
}

// SetEpochs replaces the epoch checkpoint, durably at once.
func (l *log) SetEpochs(epochs []replica.EpochStart) error {
	s := l.state()
	if s == nil {
		return l.stale("set epochs of")
	}
	s.epochs = slices.Clone(epochs)
	return nil
}

// HighWatermark is the checkpointed high watermark, 0 if the log is stale.
func (l *log) HighWatermark() int64 {
	if s := l.state(); s != nil {
		return s.hw
	}
	return 0
}

// did remembers an operation that is about to leave kept of the batches.
func (s *state) did(op Operation, kept int) {
	s.unsynced = append(s.unsynced, operation{op, s.start, s.batches, kept})
}

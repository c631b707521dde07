package storage

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// ErrStale is the error of a log that was opened before a power failure, before Close, or before its partition was
// opened again after a failure. Open it again.
var ErrStale = memory.ErrStale

// ErrFailed is the error of every call on a log after a write went wrong: what is in its files then is not certain, and
// going on could leave a gap (KAFKA-10778). Opening the log again recovers it.
var ErrFailed = errors.New("log failed")

// log is an open log. Its methods may be called by one goroutine at a time; the mutex is for [Files.Flush], which
// another goroutine calls, and is never held during an fsync.
type log struct {
	fs      fileSystem
	options Options
	name    replica.Partition
	dir     string
	offsets *offsets

	flushing sync.Mutex // held by the flush that is under way
	mu       sync.Mutex // guards what follows
	segments []*segment // in order, never empty; the last is the active one
	removed  []removal  // segments that come back if the power fails now
	journal  *journal
	renamed  bool // names in the folder changed since the last fsync of it began
	epochs   []replica.EpochStart
	recent   recent
	broken   error // why the log is of no use any more: wraps ErrStale or ErrFailed
	recovery Recovery
}

var _ replica.Log = (*log)(nil)

// removal is a segment that operation number seq removed.
type removal struct {
	*segment // its file is nil if an earlier process removed it
	seq      uint64
}

func (r removal) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// usable is the error of the call, named by its verb, if the log is of no use any more.
func (l *log) usable(call string) error {
	if l.broken != nil {
		return fmt.Errorf("%s %s: %w; open it again", call, l.name, l.broken)
	}
	return nil
}

func (l *log) works() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken == nil
}

// fail takes the log out of use after a write that may have happened or not.
func (l *log) fail(call string, cause error) error {
	err := fmt.Errorf("%s %s: %w", call, l.name, cause)
	if l.broken == nil {
		l.broken = fmt.Errorf("%w earlier: %w", ErrFailed, err)
	}
	return err
}

// retire makes the log stale and closes its files.
func (l *log) retire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.broken, ErrStale) {
		return nil
	}
	l.broken = ErrStale
	return l.closeFiles()
}

func (l *log) closeFiles() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.file.Close())
	}
	for _, r := range l.removed {
		errs = append(errs, r.close())
	}
	if l.journal != nil {
		errs = append(errs, l.journal.file.Close())
	}
	// After a failure a file may be in two lists.
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, os.ErrClosed) })...)
}

func (l *log) active() *segment { return l.segments[len(l.segments)-1] }
func (l *log) end() int64       { return l.active().end() }

// Start is the log start offset: the name of the first segment.
func (l *log) Start() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.broken, ErrStale) {
		return replica.NoOffset
	}
	return l.segments[0].base
}

// End is the log end offset.
func (l *log) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.broken, ErrStale) {
		return replica.NoOffset
	}
	return l.end()
}

// Append writes the batch, with its base offset and leader epoch in the bytes, to the end of the active segment. It
// does not verify the CRC: [Split] did when the batch came in.
func (l *log) Append(b replica.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("append to"); err != nil {
		return err
	}
	if err := l.acceptable(b); err != nil {
		return fmt.Errorf("append to %s: %w", l.name, err)
	}
	head := prefix(b)
	b.Data = slices.Concat(head[:], b.Data[patched:])

	active, size := l.active(), int64(len(b.Data))
	created := active.size > 0 && active.size+size > l.options.SegmentBytes
	op := record{kind: memory.Append, segment: active.base, at: active.size, length: size}
	if created {
		op.segment, op.at, op.created = b.Base, 0, true
	}
	if err := l.journal.write(op); err != nil {
		return l.fail("append to", err)
	}
	if created {
		if err := l.begin(b.Base); err != nil {
			return l.fail("append to", err)
		}
		active = l.active()
	}
	active.dirty = true
	if _, err := active.file.WriteAt(b.Data, active.size); err != nil {
		return l.fail("append to", err)
	}
	active.index = append(active.index, newEntry(b, active.size, len(b.Data)))
	active.size += size
	l.recent.add(b, l.options.CacheBytes)
	return nil
}

// acceptable says what is wrong with a batch to append.
func (l *log) acceptable(b replica.Batch) error {
	if b.Base != l.end() {
		return fmt.Errorf("batch has base offset %d, want the log end offset %d", b.Base, l.end())
	}
	stored, err := Header(b.Data)
	switch {
	case err != nil:
		return err
	case len(stored.Data) != len(b.Data):
		return fmt.Errorf("%w: batch at offset %d has %d bytes and %d more behind it",
			ErrCorrupt, b.Base, len(stored.Data), len(b.Data)-len(stored.Data))
	}
	// The log keeps only the bytes: what stands beside them must be in them, base offset and epoch excepted.
	for _, f := range []struct {
		name          string
		field, inData int64
	}{
		{"record count", int64(b.Count), int64(stored.Count)},
		{"producer id", b.Producer, stored.Producer},
		{"producer epoch", int64(b.ProducerEpoch), int64(stored.ProducerEpoch)},
		{"sequence", int64(b.Sequence), int64(stored.Sequence)},
	} {
		if f.field != f.inData {
			return fmt.Errorf("%w: batch at offset %d has %s %d in its bytes, %d beside them",
				ErrCorrupt, b.Base, f.name, f.inData, f.field)
		}
	}
	return nil
}

// begin makes a new active segment.
func (l *log) begin(base int64) error {
	f, err := l.fs.open(segmentPath(l.dir, base), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	l.segments = append(l.segments, &segment{base: base, file: f, dirty: true})
	l.renamed = true
	return nil
}

// find is the place of the segment that contains the offset, which must be in [start, end).
func (l *log) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.segments, offset+1, func(s *segment, end int64) int { return cmp.Compare(s.end(), end) })
	return i
}

// Read returns whole batches from the one that contains the offset on. Nothing changes their bytes later.
func (l *log) Read(from int64, maxBytes int) ([]replica.Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("read"); err != nil {
		return nil, err
	}
	start, end := l.segments[0].base, l.end()
	if from < start || from > end {
		return nil, fmt.Errorf("read %s: offset %d is outside of the log, [%d, %d]", l.name, from, start, end)
	}
	if from == end {
		return nil, nil
	}
	if batches := l.recent.read(from, maxBytes); batches != nil {
		return batches, nil
	}
	var batches []replica.Batch
	for i, bytes := l.find(from), 0; i < len(l.segments); i++ {
		s := l.segments[i]
		first := s.find(from)
		last := first
		for ; last < len(s.index); last++ {
			bytes += int(s.index[last].size)
			if bytes > maxBytes && (last > first || len(batches) > 0) {
				break
			}
		}
		if last > first {
			var err error
			if batches, err = s.read(first, last, batches); err != nil {
				return nil, fmt.Errorf("read %s: %w", l.name, err)
			}
		}
		if last < len(s.index) {
			break
		}
		from = s.end()
	}
	return batches, nil
}

// Epochs is the content of the epoch checkpoint.
func (l *log) Epochs() []replica.EpochStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.broken, ErrStale) {
		return nil
	}
	return l.epochs
}

// SetEpochs replaces the epoch checkpoint and waits for the disk.
func (l *log) SetEpochs(epochs []replica.EpochStart) error {
	l.mu.Lock()
	err := l.usable("set epochs of")
	l.mu.Unlock() // only the owner is here, and the fsync is not to hold up a flush
	if err != nil {
		return err
	}
	err = writeEpochs(l.fs, l.dir, epochs)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.fail("set epochs of", err)
	}
	if err := l.usable("set epochs of"); err != nil {
		return err
	}
	l.epochs = slices.Clone(epochs)
	return nil
}

// HighWatermark is the high watermark as last checkpointed.
func (l *log) HighWatermark() int64 {
	l.mu.Lock()
	stale := errors.Is(l.broken, ErrStale)
	l.mu.Unlock()
	if stale {
		return 0
	}
	return l.offsets.get(l.name)
}

package storage

import (
	"fmt"
	"path/filepath"
	"slices"

	"tidemark/node/storage/memory"
)

// TruncateTo removes the batches that reach beyond offset. Below the log's start it is a [log.Reset], as in Kafka.
func (l *log) TruncateTo(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("truncate"); err != nil {
		return err
	}
	if offset >= l.end() {
		return nil
	}
	if offset < l.segments[0].base {
		return l.reset("truncate", offset)
	}
	// What stays of the log ends in segment i, before batch k of it. A segment of which nothing stays goes, unless it
	// is the first, whose name is the log start offset.
	i := l.find(offset)
	k := l.segments[i].find(offset)
	keep := l.segments[i]
	at := int64(keep.index[k].at)
	if k == 0 && i > 0 {
		i--
		keep = l.segments[i]
		at, k = keep.size, len(keep.index)
	}
	op := record{kind: memory.Truncate, segment: keep.base, at: at, tail: make([]byte, keep.size-at)}
	if len(op.tail) > 0 {
		if _, err := keep.file.ReadAt(op.tail, at); err != nil {
			return l.fail("truncate", err)
		}
	}
	op.offset = keep.base
	if k > 0 {
		op.offset = keep.index[k-1].end()
	}
	gone := l.segments[i+1:]
	op.removed = bases(gone)
	seq := l.journal.next()
	if err := l.journal.write(op); err != nil {
		return l.fail("truncate", err)
	}
	if err := l.remove(gone, seq); err != nil {
		return l.fail("truncate", err)
	}
	l.segments = l.segments[:i+1]
	keep.dirty = true
	if err := keep.file.Truncate(at); err != nil {
		return l.fail("truncate", err)
	}
	keep.index, keep.size = keep.index[:k], at
	l.recent.truncate(op.offset)
	return nil
}

// Reset drops everything and goes on at offset.
func (l *log) Reset(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("reset"); err != nil {
		return err
	}
	return l.reset("reset", offset)
}

func (l *log) reset(call string, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%s %s: offset %d is negative", call, l.name, offset)
	}
	seq := l.journal.next()
	op := record{kind: memory.Reset, segment: offset, offset: offset, removed: bases(l.segments)}
	if err := l.journal.write(op); err != nil {
		return l.fail(call, err)
	}
	if err := l.remove(l.segments, seq); err != nil {
		return l.fail(call, err)
	}
	kept := l.segments
	l.segments = nil
	if err := l.begin(offset); err != nil {
		l.segments = kept[:1] // the log failed; something must say where it starts
		return l.fail(call, err)
	}
	l.recent = recent{}
	return nil
}

// remove puts segments out of the way, newest first, until a flush.
func (l *log) remove(gone []*segment, seq uint64) error {
	for _, s := range slices.Backward(gone) {
		err := l.fs.rename(segmentPath(l.dir, s.base), filepath.Join(l.dir, removedName(s.base, seq)))
		if err != nil {
			return err
		}
		l.renamed = true
	}
	for _, s := range gone {
		l.removed = append(l.removed, removal{s, seq})
	}
	return nil
}

func bases(segments []*segment) []int64 {
	var all []int64
	for _, s := range segments {
		all = append(all, s.base)
	}
	return all
}

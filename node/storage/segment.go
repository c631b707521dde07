package storage

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tidemark/node/replica"
)

// segment is one file of a log: batches one after the other, the first of which has the offset in the file's name.
type segment struct {
	base  int64
	file  file
	size  int64
	index []entry // every batch of the file, so that no read has to look for one
	dirty bool    // changed since the last fsync began
}

// entry is a batch without its bytes: 40 bytes of memory for each batch on the disk.
type entry struct {
	base          int64
	producer      int64
	at, size      uint32 // where in the file
	count         int32
	epoch         int32
	sequence      int32
	producerEpoch int16
}

func newEntry(b replica.Batch, at int64, size int) entry {
	return entry{
		base: b.Base, producer: b.Producer, at: uint32(at), size: uint32(size),
		count: b.Count, epoch: b.Epoch, sequence: b.Sequence, producerEpoch: b.ProducerEpoch,
	}
}

func (e entry) end() int64 { return e.base + int64(e.count) }

func (e entry) batch(data []byte) replica.Batch {
	return replica.Batch{
		Base: e.base, Count: e.count, Epoch: e.epoch,
		Producer: e.producer, ProducerEpoch: e.producerEpoch, Sequence: e.sequence, Data: data,
	}
}

// end is the offset after the last batch.
func (s *segment) end() int64 {
	if n := len(s.index); n > 0 {
		return s.index[n-1].end()
	}
	return s.base
}

// find is the place in the index of the batch that contains the offset.
func (s *segment) find(offset int64) int {
	k, _ := slices.BinarySearchFunc(s.index, offset+1, func(e entry, end int64) int { return cmp.Compare(e.end(), end) })
	return k
}

// read appends the batches [from, to) of the index to out; one read of the file serves them all.
func (s *segment) read(from, to int, out []replica.Batch) ([]replica.Batch, error) {
	at, last := s.index[from].at, s.index[to-1]
	data := make([]byte, last.at+last.size-at)
	if _, err := s.file.ReadAt(data, int64(at)); err != nil {
		return out, err
	}
	for _, e := range s.index[from:to] {
		first, end := e.at-at, e.at-at+e.size
		out = append(out, e.batch(data[first:end:end]))
	}
	return out, nil
}

const (
	segmentSuffix = ".log"
	removedSuffix = ".removed"
)

// segmentName is Kafka's: the base offset in twenty digits.
func segmentName(base int64) string { return fmt.Sprintf("%020d%s", base, segmentSuffix) }

// removedName is where operation number seq puts a segment until it is flushed, because it may come back.
func removedName(base int64, seq uint64) string {
	return fmt.Sprintf("%s.%d%s", segmentName(base), seq, removedSuffix)
}

// parseSegment reads what segmentName writes.
func parseSegment(name string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

// parseRemoved reads what removedName writes.
func parseRemoved(name string) (base int64, seq uint64, ok bool) {
	name, ok = strings.CutSuffix(name, removedSuffix)
	dot := strings.LastIndexByte(name, '.')
	if !ok || dot < 0 {
		return 0, 0, false
	}
	seq, err := strconv.ParseUint(name[dot+1:], 10, 64)
	base, ok = parseSegment(name[:dot])
	return base, seq, ok && err == nil
}

// scanned is what a look through a segment's file found.
type scanned struct {
	verified int64 // bytes whose CRC was compared
	cut      int64 // bytes from the first broken batch to the end of the file
	why      error // what is broken, nil if nothing is
}

// scanChunk is how much of a file is read at once. Larger makes it no faster.
const scanChunk = 128 << 10

// scan builds the index from the file. Batches that end at or below the offset trusted are known to be whole, so their
// headers are enough; those beyond are verified. It stops at the first batch that is torn, broken or out of place, and
// leaves size at its beginning; the file itself is not touched. An error means that the file cannot be read.
func (s *segment) scan(trusted int64) (found scanned, err error) {
	var buffer []byte // the bytes of the file from bufferAt on
	var bufferAt int64
	window := func(at int64, n int) ([]byte, error) {
		n = int(min(int64(n), s.size-at))
		if at < bufferAt || at+int64(n) > bufferAt+int64(len(buffer)) {
			want := int(min(int64(max(n, scanChunk)), s.size-at))
			buffer, bufferAt = slices.Grow(buffer[:0], want)[:want], at
			if _, err := s.file.ReadAt(buffer, at); err != nil {
				return nil, err
			}
		}
		from := at - bufferAt
		return buffer[from : from+int64(n)], nil
	}

	if s.size > math.MaxUint32 {
		return found, fmt.Errorf("%s has %d bytes, a segment has at most %d", segmentName(s.base), s.size, uint32(math.MaxUint32))
	}
	at := int64(0)
	for at < s.size && found.why == nil {
		head, err := window(at, headerSize)
		if err != nil {
			return found, err
		}
		b, size, why := parse(head)
		switch {
		case why != nil:
			found.why = why
		case int64(size) > s.size-at:
			found.why = fmt.Errorf("%w: batch at offset %d has %d bytes, %d are here", ErrPartial, b.Base, size, s.size-at)
		case b.Base != s.end():
			found.why = fmt.Errorf("%w: batch has base offset %d where %d comes next", ErrCorrupt, b.Base, s.end())
		case b.End() > trusted:
			data, err := window(at, size)
			if err != nil {
				return found, err
			}
			found.why = Verify(data)
			found.verified += int64(size)
		}
		if found.why == nil {
			s.index = append(s.index, newEntry(b, at, size))
			at += int64(size)
		}
	}
	if found.why != nil {
		found.why = fmt.Errorf("%s: byte %d: %w", segmentName(s.base), at, found.why)
	}
	found.cut, s.size = s.size-at, at
	return found, nil
}

// segmentPath is the segment's file in the log's folder.
func segmentPath(dir string, base int64) string { return filepath.Join(dir, segmentName(base)) }

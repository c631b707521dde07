package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"tidemark/node/storage/memory"
)

// journalName is the file in a partition's folder that makes its power failures exact. doc.go has its format.
const journalName = "unsynced.journal"

// journal is the open journal of a log. Every operation is written here before it is done, so that a process killed in
// between leaves at most one operation half done: the last one.
type journal struct {
	fs    fileSystem
	dir   string
	file  file
	size  int64
	first uint64 // sequence number of the oldest operation in it
	count int    // operations in it
	// trusted is the recovery point: batches below it were flushed, so that their CRC need not be checked at start.
	trusted int64
	scratch []byte
}

// record is one operation with what undoes it.
type record struct {
	kind memory.Kind // 0: not an operation but a flush; the journal begins with one

	segment int64 // base offset of the segment that is appended to, cut, or (reset) begun
	at      int64 // position in it where the append or the cut begins
	length  int64 // append: the batch's bytes
	created bool  // append: the segment is new

	removed []int64 // truncate and reset: base offsets of the segments removed, oldest first
	offset  int64   // truncate and reset: log end offset afterwards; flush: recovery point
	tail    []byte  // truncate: the bytes cut off from the segment

	first uint64 // flush: sequence number of the first operation that it does not cover
	start int64  // where in the journal the record begins; not stored
}

// operation is what a power failure has to know of it.
func (r record) operation() memory.Operation {
	return memory.Operation{Kind: r.kind, Bytes: int(r.length)}
}

const (
	frameSize      = 8 // length of the payload, its CRC-32C
	journalVersion = 1
)

// append adds the record in its stored form: a frame, and in it the kind and the fields that this kind has.
func (r record) append(out []byte) []byte {
	frame := len(out)
	out = append(out, make([]byte, frameSize)...)
	out = append(out, byte(r.kind))
	put := func(numbers ...int64) {
		for _, n := range numbers {
			out = binary.AppendUvarint(out, uint64(n))
		}
	}
	switch r.kind {
	case 0:
		put(journalVersion, r.offset, int64(r.first))
	case memory.Append:
		created := int64(0)
		if r.created {
			created = 1
		}
		put(r.segment, r.at, r.length, created)
	case memory.Truncate, memory.Reset:
		put(r.segment, r.at, r.offset, int64(len(r.removed)))
		put(r.removed...)
		out = append(out, r.tail...)
	}
	payload := out[frame+frameSize:]
	binary.BigEndian.PutUint32(out[frame:], uint32(len(payload)))
	binary.BigEndian.PutUint32(out[frame+4:], crc32.Checksum(payload, castagnoli))
	return out
}

// errTorn is the end of a journal whose last record was not written whole.
var errTorn = errors.New("torn journal record")

// unframe is the payload of the record that data begins with.
func unframe(data []byte) ([]byte, error) {
	if len(data) < frameSize {
		return nil, errTorn
	}
	length := int64(binary.BigEndian.Uint32(data))
	if length < 1 || length > int64(len(data)-frameSize) {
		return nil, errTorn
	}
	payload := data[frameSize : frameSize+length]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(data[4:]) {
		return nil, errTorn
	}
	return payload, nil
}

// parseRecord reads a payload. The record's tail is part of it.
func parseRecord(payload []byte) (r record, err error) {
	r.kind, payload = memory.Kind(payload[0]), payload[1:]
	get := func() (n int64) {
		u, k := binary.Uvarint(payload)
		if k <= 0 {
			err = fmt.Errorf("record of kind %d ends early", r.kind)
			return 0
		}
		payload = payload[k:]
		return int64(u)
	}
	switch r.kind {
	case 0:
		if v := get(); v != journalVersion && err == nil {
			return r, fmt.Errorf("version %d, want %d", v, journalVersion)
		}
		r.offset, r.first = get(), uint64(get())
	case memory.Append:
		r.segment, r.at, r.length = get(), get(), get()
		r.created = get() == 1
	case memory.Truncate, memory.Reset:
		r.segment, r.at, r.offset = get(), get(), get()
		for n := get(); n > 0 && err == nil; n-- {
			r.removed = append(r.removed, get())
		}
		r.tail = payload
	default:
		return r, fmt.Errorf("record of unknown kind %d", r.kind)
	}
	return r, err
}

// operations are those in a journal, oldest first. A log may go without a flush for millions of small batches, so they
// stay in their stored form until one is asked for.
type operations struct {
	data   []byte // the journal
	starts []int64
}

func (o operations) len() int { return len(o.starts) }

func (o operations) at(i int) record {
	start := o.starts[i]
	frame := o.data[start:]
	r, _ := parseRecord(frame[frameSize : frameSize+int64(binary.BigEndian.Uint32(frame))]) // was parsed before
	r.start = start
	return r
}

// openJournal opens the folder's journal and returns the operations in it. A torn record at its end is cut off: its
// operation never began. A journal that is missing or makes no sense holds no operations and trusts nothing; why says
// what is wrong with it.
func openJournal(fs fileSystem, dir string) (j *journal, ops operations, why, err error) {
	path := filepath.Join(dir, journalName)
	f, err := fs.open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, ops, nil, err
	}
	j = &journal{fs: fs, dir: dir, file: f}
	if ops.data, err = readAll(f); err != nil {
		return j, ops, nil, err
	}
	flushes := 0
	for j.size < int64(len(ops.data)) {
		payload, torn := unframe(ops.data[j.size:])
		if torn != nil {
			break
		}
		r, bad := parseRecord(payload)
		if bad == nil && j.size == 0 && r.kind != 0 {
			bad = errors.New("it begins with an operation")
		}
		if bad == nil && j.size > 0 && r.kind == 0 && (r.first < j.first || r.first > j.next()) {
			bad = fmt.Errorf("flush up to number %d, but there are %d to %d", r.first, j.first, j.next())
		}
		if bad != nil {
			why = fmt.Errorf("%s: byte %d: %w", path, j.size, bad)
			return j, operations{}, why, j.rewrite(j.count, 0, nil)
		}
		if r.kind == 0 {
			if flushes > 0 {
				ops.starts = ops.starts[r.first-j.first:]
			}
			j.trusted, j.first = r.offset, r.first
			flushes++
		} else {
			ops.starts = append(ops.starts, j.size)
		}
		j.count = ops.len()
		j.size += frameSize + int64(len(payload))
	}
	switch {
	case flushes == 1:
		return j, ops, nil, f.Truncate(j.size)
	case flushes > 1:
		// Operations can be taken out from the end only if no flush stands between them.
		ops, err = j.compact(ops)
		return j, ops, nil, err
	case len(ops.data) > 0:
		why = fmt.Errorf("%s: %w at its beginning", path, errTorn)
	}
	return j, ops, why, j.rewrite(0, 0, nil)
}

// write adds an operation that is about to be done.
func (j *journal) write(r record) error {
	if err := j.put(r); err != nil {
		return err
	}
	j.count++
	return nil
}

func (j *journal) put(r record) error {
	j.scratch = r.append(j.scratch[:0])
	if _, err := j.file.WriteAt(j.scratch, j.size); err != nil {
		return err
	}
	j.size += int64(len(j.scratch))
	if cap(j.scratch) > scanChunk {
		j.scratch = nil // a truncation's tail; the next record is small again
	}
	return nil
}

// undone takes the operations from r on, of which there are count before it, out of the journal again.
func (j *journal) undone(r record, count int) error {
	if err := j.file.Truncate(r.start); err != nil {
		return err
	}
	j.size, j.count = r.start, count
	return nil
}

// next is the sequence number of the operation that is written next.
func (j *journal) next() uint64 { return j.first + uint64(j.count) }

// compactBytes is how much of a journal may be of no use any more before it is written anew. Writing it anew makes a
// file, which takes a file system longer than anything else here but fsync.
const compactBytes = 64 << 10

// forget takes the oldest operations out of the journal, because they are on the disk now: those that were in it when it
// had count operations and size bytes. The log was flushed up to the offset trusted.
func (j *journal) forget(count int, size, trusted int64) error {
	if size > compactBytes {
		tail := make([]byte, j.size-size)
		if _, err := j.file.ReadAt(tail, size); err != nil && len(tail) > 0 {
			return err
		}
		return j.rewrite(count, trusted, tail)
	}
	if err := j.put(record{offset: trusted, first: j.first + uint64(count)}); err != nil {
		return err
	}
	j.first, j.count, j.trusted = j.first+uint64(count), j.count-count, trusted
	return nil
}

// compact writes the journal anew with nothing but the operations given, which are all it has.
func (j *journal) compact(old operations) (operations, error) {
	ops := operations{data: record{offset: j.trusted, first: j.first}.append(nil)}
	head := len(ops.data)
	for _, start := range old.starts {
		ops.starts = append(ops.starts, int64(len(ops.data)))
		end := start + frameSize + int64(binary.BigEndian.Uint32(old.data[start:]))
		ops.data = append(ops.data, old.data[start:end]...)
	}
	return ops, j.rewrite(0, j.trusted, ops.data[head:])
}

// rewrite replaces the journal by one that begins count operations later and has the records in tail. A kill leaves the
// old journal or the new one. There is no fsync: the journal is for power failures that we make, and for those nothing
// but the process dies.
func (j *journal) rewrite(count int, trusted int64, tail []byte) error {
	path := filepath.Join(j.dir, journalName)
	f, err := j.fs.open(path+temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	first := j.first + uint64(count)
	content := slices.Concat(record{offset: trusted, first: first}.append(nil), tail)
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = j.fs.rename(path+temporary, path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := j.file
	j.file, j.size = f, int64(len(content))
	j.first, j.count, j.trusted = first, j.count-count, trusted
	return old.Close()
}

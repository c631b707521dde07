package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
)

// Version is the version of the format, which stands in the first line of a journal.
const Version = 1

const (
	magic     = "tidemark journal "
	frameHead = 4 + 2 + 4 // length, check of the length, CRC of the rest
	longest   = 1 << 30
)

var header = fmt.Sprintf("%s%d\n", magic, Version)

// Errors of a file that is no journal for this version.
var (
	ErrNoJournal = errors.New("no journal")
	ErrVersion   = errors.New("journal of another version")
)

// Reader reads a journal from its beginning.
type Reader struct {
	f       io.Closer
	r       *bufio.Reader
	path    string
	at, end int64 // bytes read, bytes in the file
	records int
	cut     int64
	topics  map[string]string
}

// Open opens a journal.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoJournal, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoJournal, err), f.Close())
	}
	r, err := newReader(path, f, info.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// newReader reads the journal in a file of that size.
func newReader(path string, f io.ReadCloser, size int64) (*Reader, error) {
	r := &Reader{f: f, r: bufio.NewReaderSize(f, int(min(size, 256<<10))), path: path, end: size, topics: map[string]string{}}
	return r, r.open()
}

func (r *Reader) open() error {
	head, err := r.r.Peek(int(min(r.end, int64(len(header)+20))))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoJournal, r.path, err)
	}
	line, _, whole := strings.Cut(string(head), "\n")
	version, ours := strings.CutPrefix(line, magic)
	switch {
	case !whole && strings.HasPrefix(header, line):
		r.cut, r.at = r.end, r.end // it was not even begun
		return nil
	case !ours || !whole:
		return fmt.Errorf("%w: %s does not begin with %q", ErrNoJournal, r.path, strings.TrimSpace(header))
	case line+"\n" != header:
		return fmt.Errorf("%w: %s has version %q, this is %d: read it with the release that wrote it", ErrVersion, r.path, version, Version)
	}
	_, _ = r.r.Discard(len(header))
	r.at = int64(len(header))
	return nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Next reads the next record; io.EOF is the end. A record that the file's end cuts off is the end too, see [Reader.Cut]. Any
// other error wraps ErrDamaged and names the place.
func (r *Reader) Next() (Record, error) {
	data, err := r.frame()
	if err != nil {
		return nil, err
	}
	record, err := readRecord(data, r.topics)
	if err != nil {
		return nil, fmt.Errorf("%s: record %d, which ends at byte %d: %w", r.path, r.records, r.at, err)
	}
	return record, nil
}

// Cut is how many bytes at the end belong to a record that is not whole, once Next has said io.EOF.
func (r *Reader) Cut() int64 { return r.cut }

// whole is the length of the file without what is cut off.
func (r *Reader) whole() int64 { return r.end - r.cut }

// frame reads the next record's bytes.
func (r *Reader) frame() ([]byte, error) {
	left := r.end - r.at
	if left < frameHead {
		r.cut += left
		r.at = r.end
		return nil, io.EOF
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return nil, fmt.Errorf("%s: %w", r.path, err)
	}
	r.records++
	length := int64(binary.LittleEndian.Uint32(head[:]))
	if lengthCheck(head[:4]) != binary.LittleEndian.Uint16(head[4:]) || length > longest {
		return nil, fmt.Errorf("%s: record %d, at byte %d: %w: its length is not what was written", r.path, r.records, r.at, ErrDamaged)
	}
	if length > left-frameHead {
		r.cut += left
		r.at = r.end
		return nil, io.EOF
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r.r, data); err != nil {
		return nil, fmt.Errorf("%s: %w", r.path, err)
	}
	if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(head[6:]) {
		return nil, fmt.Errorf("%s: record %d, at byte %d: %w: its bytes are not what was written", r.path, r.records, r.at, ErrDamaged)
	}
	r.at += frameHead + length
	return data, nil
}

func lengthCheck(length []byte) uint16 {
	sum := crc32.Checksum(length, castagnoli)
	return uint16(sum>>16) ^ uint16(sum)
}

// appendFrame frames what content appends.
func appendFrame(out []byte, content func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(out)
	out = append(out, make([]byte, frameHead)...)
	out, err := content(out)
	if err != nil {
		return out[:at], err
	}
	data := out[at+frameHead:]
	if len(data) > longest {
		return out[:at], fmt.Errorf("a record of %d bytes: the largest has %d", len(data), longest)
	}
	binary.LittleEndian.PutUint32(out[at:], uint32(len(data)))
	binary.LittleEndian.PutUint16(out[at+4:], lengthCheck(out[at:at+4]))
	binary.LittleEndian.PutUint32(out[at+6:], crc32.Checksum(data, castagnoli))
	return out, nil
}

package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/klauspost/compress/zstd"
)

var (
	// ErrNotHistory says that a file is not a history at all.
	ErrNotHistory = errors.New("not a tidemark history")
	// ErrVersion says that a history is of a version that this package cannot read.
	ErrVersion = errors.New("history of a foreign version")
)

// LineError is an error at a line of a history.
type LineError struct {
	// Line counts from 1, the header.
	Line int
	// Field is the key at fault, "" if the line as a whole is.
	Field string
	Err   error
}

// Error names line, field and what is wrong.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap gives what is wrong without the line.
func (e *LineError) Unwrap() error { return e.Err }

const (
	readerBuffer = 256 << 10
	// maxLine bounds the memory for one line; a dump of a million records fits, and a longer one may be written in pieces.
	maxLine = 256 << 20
)

// zstdMagic begins a zstd frame (RFC 8878, 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// Reader reads a history event by event. It is not safe for concurrent use.
type Reader struct {
	header Header
	in     *bufio.Reader
	dec    decoder
	long   []byte
	line   int
	seq    int64
	torn   bool
	err    error
	zstd   *zstd.Decoder
	file   *os.File
}

// NewReader reads the header of the history in r, plain or compressed with zstd. Close it to free the decoder.
func NewReader(r io.Reader) (*Reader, error) {
	hr := &Reader{in: bufio.NewReaderSize(r, readerBuffer)}
	magic, err := hr.in.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read history: %w", err)
	}
	if bytes.Equal(magic, zstdMagic) {
		hr.zstd, err = zstd.NewReader(hr.in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		hr.in = bufio.NewReaderSize(hr.zstd, readerBuffer)
	}
	if err := hr.readHeader(); err != nil {
		return nil, errors.Join(err, hr.Close())
	}
	return hr, nil
}

// Open reads the header of the history in a file.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	r, err := NewReader(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r.file = f
	return r, nil
}

func (r *Reader) readHeader() error {
	line, whole, err := r.nextLine()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(line) == 0 {
		return fmt.Errorf("%w: it is empty", ErrNotHistory)
	}
	r.line = 1
	r.header, err = r.dec.header(line)
	if err != nil && !whole && !errors.Is(err, ErrVersion) {
		return fmt.Errorf("%w: it breaks off within its first line", ErrNotHistory)
	}
	return r.at(err)
}

// Header is the first line.
func (r *Reader) Header() Header { return r.header }

// Line is the number of the line that Next read last; the header is line 1.
func (r *Reader) Line() int { return r.line }

// Torn reports, once Next has returned [io.EOF], that the file breaks off within a line (or within a compressed block), as it does
// when its writer was killed. All whole lines before have been read.
func (r *Reader) Torn() bool { return r.torn }

// Next reads the next event into e, or returns [io.EOF]. What e points to is new, so events can be kept. An error that is not io.EOF
// is a [*LineError] or one of reading; it is final.
func (r *Reader) Next(e *Event) error { return r.read(e, false) }

// NextShared is Next without a copy: the texts and slices of e.Op, but for the partition and the error, belong to the reader and are valid until
// the next event is read. It is for those who go through a long history and keep little of it.
func (r *Reader) NextShared(e *Event) error { return r.read(e, true) }

func (r *Reader) read(e *Event, share bool) error {
	if r.err == nil {
		r.err = r.next(e, share)
	}
	return r.err
}

func (r *Reader) next(e *Event, share bool) error {
	line, whole, err := r.nextLine()
	if err != nil {
		return err
	}
	r.line++
	if !r.dec.quick(line, e, share) {
		err = r.dec.event(line, e)
	}
	if err != nil {
		if !whole {
			r.torn = true
			r.line--
			return io.EOF
		}
		return r.at(err)
	}
	if e.Seq <= r.seq {
		return r.at(&fieldError{"seq", fmt.Errorf("%d follows %d: numbers must rise along the file", e.Seq, r.seq)})
	}
	r.seq = e.Seq
	return nil
}

// All iterates over the rest of the events. After an error, which is never io.EOF, it stops.
func (r *Reader) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			var e Event
			err := r.Next(&e)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Close frees the decoder and closes the file if the reader opened it.
func (r *Reader) Close() error {
	if r.zstd != nil {
		r.zstd.Close()
		r.zstd = nil
	}
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
}

// nextLine returns the next line without its end, valid until the next call, and whether it had one: a last line without an end
// is whole only if it decodes, for an object that was cut lacks its closing brace.
func (r *Reader) nextLine() (line []byte, whole bool, err error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case err == nil:
			if len(r.long) > 0 {
				r.long = append(r.long, part...)
				part = r.long
			}
			return part[:len(part)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(r.long)+len(part) > maxLine {
				return nil, false, r.atNext(fmt.Errorf("it is longer than %d bytes", maxLine))
			}
			r.long = append(r.long, part...)
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
			// A compressed history that breaks off: what the decoder gave so far is good.
			r.torn = true
		case !errors.Is(err, io.EOF):
			return nil, false, fmt.Errorf("read history after line %d: %w", r.line, err)
		}
		r.long = append(r.long, part...)
		if len(r.long) == 0 {
			return nil, false, io.EOF
		}
		return r.long, false, nil
	}
}

func (r *Reader) at(err error) error {
	if err == nil {
		return nil
	}
	le := &LineError{Line: r.line, Err: err}
	var fe *fieldError
	if errors.As(err, &fe) {
		le.Field = fe.field
	}
	return le
}

func (r *Reader) atNext(err error) error { return &LineError{Line: r.line + 1, Err: err} }

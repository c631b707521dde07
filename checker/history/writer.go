package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("history is closed")

// writerBuffer holds about 500 events: at 50,000 events a second a write every 10 ms.
const writerBuffer = 64 << 10

// Writer appends events to a file, in the order of their numbers. It buffers: what a killed process had not flushed is gone, so
// flush from time to time. The first error sticks: later calls return it too, so that a full disk cannot leave a hole.
type Writer struct {
	clock Clock

	mu   sync.Mutex
	out  *bufio.Writer
	file io.Closer
	line []byte
	seq  int64
	err  error
}

// NewWriter begins a history on w with its header. With a clock every event is stamped as it is appended; without one its own
// Time is kept.
func NewWriter(w io.Writer, h Header, clock Clock) (*Writer, error) {
	hw := &Writer{clock: clock, out: bufio.NewWriterSize(w, writerBuffer), line: make([]byte, 0, 4096)}
	if _, err := hw.out.Write(appendHeader(hw.line, &h)); err != nil {
		return nil, fmt.Errorf("write history header: %w", err)
	}
	// The header goes out at once: even a run that dies at birth leaves a history.
	if err := hw.out.Flush(); err != nil {
		return nil, fmt.Errorf("write history header: %w", err)
	}
	return hw, nil
}

// Create begins a history in a new file. A file that exists is an error: no history is ever overwritten.
func Create(path string, h Header, clock Clock) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	w, err := NewWriter(f, h, clock)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.file = f
	return w, nil
}

// Append writes e, having set e.Seq and, with a clock, e.Time.
func (w *Writer) Append(e *Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.clock != nil {
		e.Time = w.clock()
	}
	e.Seq = w.seq + 1
	line, err := appendEvent(w.line[:0], e)
	if err != nil {
		// The event's own fault: it is refused and the history stays whole.
		return err
	}
	w.line = line
	w.seq++
	if _, err := w.out.Write(w.line); err != nil {
		w.err = fmt.Errorf("write history: %w", err)
	}
	return w.err
}

// Flush hands what is buffered to the operating system, which keeps it if this process is killed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err == nil {
		if err := w.out.Flush(); err != nil {
			w.err = fmt.Errorf("write history: %w", err)
		}
	}
	return w.err
}

// Close flushes, and closes the file if the writer created it. A second Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, ErrClosed) {
		return nil
	}
	err := w.flush()
	if w.file != nil {
		if cerr := w.file.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close history: %w", cerr))
		}
	}
	w.err = ErrClosed
	return err
}

// Compress replaces the closed history in path by path.zst and returns the new path. The original is removed only when the
// compressed file is complete; on an error it stays, and no half file is left.
func Compress(path string) (compressed string, err error) {
	compressed = path + ".zst"
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("compress history: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(compressed, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", fmt.Errorf("compress history: %w", err)
	}
	if err := compressTo(out, in); err != nil {
		return "", errors.Join(fmt.Errorf("compress history: %w", err), os.Remove(compressed))
	}
	if err := os.Remove(path); err != nil {
		return "", fmt.Errorf("compress history: %w", err)
	}
	return compressed, nil
}

func compressTo(out *os.File, in io.Reader) error {
	enc, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(enc, in)
	err = errors.Join(err, enc.Close(), out.Sync())
	return errors.Join(err, out.Close())
}

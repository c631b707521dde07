package journal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"tidemark/node/inbox"
	"tidemark/node/replica"
)

// Recorder writes a node's journal while the node runs. Its methods are for the goroutine that owns the cores. A nil Recorder
// records nothing, so that a node without a journal needs no questions.
type Recorder struct {
	f     *os.File
	path  string
	buf   []byte // of whole records that are not written yet: at most an outcome
	err   error
	trace Trace
	state func(now replica.Time) []byte
	every int // steps between two hashes of the state

	// Of the inputs under way.
	open     bool
	outcome  Outcome
	stepping bool
	calls    int // of the log in this step
	since    int // steps since the last hash of the state
}

// stateEvery is how many steps of a free run come between two hashes of the state.
const stateEvery = 64

// Append opens a node's journal at its end, or begins one. What a killed process has left of its last record goes.
func Append(path string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	r := &Recorder{f: f, path: path}
	if err := r.resume(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *Recorder) resume() error {
	old, err := Open(r.path)
	if err != nil {
		return fmt.Errorf("journal: %w; move it away to begin another", err)
	}
	defer old.Close()
	for err == nil {
		_, err = old.frame()
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("journal: %w; move it away to begin another", err)
	}
	if old.cut > 0 {
		if err := r.f.Truncate(old.whole()); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if old.whole() == 0 {
		r.buf = append(r.buf, header...)
	}
	return nil
}

// Close closes the file. What is not written yet is lost, as with a kill; see [Recorder.Flush].
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.f.Close()
}

// Flush writes what is left to write.
func (r *Recorder) Flush() error {
	if r == nil {
		return nil
	}
	if r.err == nil && len(r.buf) > 0 {
		if _, err := r.f.Write(r.buf); err != nil {
			r.err = fmt.Errorf("journal: %w", err)
		}
		r.buf = r.buf[:0]
	}
	return r.err
}

func (r *Recorder) add(record Record) {
	if r.err != nil {
		return
	}
	var err error
	r.buf, err = appendFrame(r.buf, func(out []byte) ([]byte, error) { return appendRecord(out, record) })
	if err != nil {
		r.err = fmt.Errorf("journal: %w", err)
	}
}

// Start writes the first record of an incarnation.
func (r *Recorder) Start(s *Start) error {
	if r == nil {
		return nil
	}
	r.every = stateEvery
	if s.Hold {
		r.every = 1
	}
	r.add(s)
	return r.Flush()
}

// Disk is the disk to make the cores over.
func (r *Recorder) Disk(d replica.Disk) replica.Disk {
	if r == nil {
		return d
	}
	return &Disk{Disk: d, Trace: &r.trace, Watcher: r}
}

// Before satisfies Watcher.
func (r *Recorder) Before(Call) error { return nil }

// After notes errors that a step meets.
func (r *Recorder) After(_ Call, err error) {
	if !r.stepping {
		return
	}
	if err != nil {
		r.outcome.Failures = append(r.outcome.Failures, Failure{Step: len(r.outcome.Sums), Call: r.calls, Error: err.Error()})
	}
	r.calls++
}

// Opened writes down that the cores are there, with the state that they give from now on when they are asked.
func (r *Recorder) Opened(o Opened, state func(now replica.Time) []byte) error {
	if r == nil {
		return nil
	}
	if r.state = state; state != nil {
		o.State = StateSum(state(0))
	}
	r.add(&o)
	return r.Flush()
}

// Mark writes down that something happens.
func (r *Recorder) Mark(e Event, failed error) error {
	if r == nil {
		return nil
	}
	m := &Mark{Event: e}
	if failed != nil {
		m.Error = failed.Error()
	}
	r.add(m)
	return r.Flush()
}

// Begin writes messages down that are about to be handled at that time, in order; with tick a tick follows if one is due.
func (r *Recorder) Begin(now replica.Time, tick bool, messages ...replica.Message) error {
	if r == nil {
		return nil
	}
	r.add(&Inputs{Now: now, Tick: tick, Messages: messages})
	r.open = true
	return r.Flush()
}

// End closes what Begin began. The outcome goes to the file with what is written next.
func (r *Recorder) End(now replica.Time) {
	if r == nil {
		return
	}
	if r.since >= r.every {
		sum := StateSum(r.state(now))
		r.outcome.State, r.since = &sum, 0
	}
	r.add(&r.outcome)
	r.open = false
	r.outcome = Outcome{Sums: r.outcome.Sums[:0], Failures: r.outcome.Failures[:0]}
}

// Core is the core to put an inbox in front of. A step that no Begin has announced is written down by itself.
func (r *Recorder) Core(c inbox.Core) inbox.Core {
	if r == nil {
		return c
	}
	return &recorded{c, r}
}

type recorded struct {
	inbox.Core
	r *Recorder
}

// Step satisfies inbox.Core.
func (c *recorded) Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	r, single := c.r, !c.r.open
	if single {
		_ = r.Begin(now, false, m) // it is the error of the next Flush too
	}
	n := len(out)
	r.stepping, r.calls = true, 0
	out = c.Core.Step(now, m, out)
	r.stepping = false
	for _, x := range out[n:] {
		r.trace.Message(x)
	}
	r.outcome.Sums = append(r.outcome.Sums, r.trace.Sum())
	r.since++
	if single {
		r.End(now)
	}
	return out
}

// Encode is a journal of these records: for whoever makes one otherwise than by running a node.
func Encode(records ...Record) ([]byte, error) {
	r := Recorder{buf: []byte(header)}
	for _, x := range records {
		r.add(x)
	}
	return r.buf, r.err
}

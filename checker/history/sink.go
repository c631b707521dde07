package history

import (
	"sync"
	"time"
)

// Sink takes the events of a run. It numbers them, and stamps them if it has a clock. [Writer] keeps them in a file, [Memory] in
// memory; a recorder needs not know which.
type Sink interface {
	// Append records e, having set e.Seq and, with a clock, e.Time. It is safe for concurrent use and does not keep e, but may keep
	// what e points to, which must not change afterwards.
	Append(e *Event) error
}

// Clock gives the time of an event in nanoseconds since the run began. A sink calls it under its lock, so that times never fall
// along a file.
type Clock func() int64

// Since is the monotonic clock of a run that began at start.
func Since(start time.Time) Clock { return func() int64 { return int64(time.Since(start)) } }

// Memory is a history in memory, for simulated runs, which are checked without a file. The zero value is ready to use.
type Memory struct {
	// Clock stamps events; if nil their own Time is kept. It must not be set once events are appended.
	Clock Clock

	mu     sync.Mutex
	events []Event
}

var (
	_ Sink = (*Memory)(nil)
	_ Sink = (*Writer)(nil)
)

// Append records e. It never fails.
func (m *Memory) Append(e *Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Clock != nil {
		e.Time = m.Clock()
	}
	e.Seq = int64(len(m.events)) + 1
	m.events = append(m.events, *e)
	return nil
}

// Events returns what has been recorded so far, in order. Later events do not show up in the slice.
func (m *Memory) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events[:len(m.events):len(m.events)]
}

package replay

import (
	"errors"

	"tidemark/node/journal"
)

// watch sees the calls of the disk while cores run again: it lets those fail that failed, and has each point remembered at which a
// process may have died.
type watch struct {
	calls    int // of the log in this step
	failures []journal.Failure
	points   int
	remember func() // nil: nothing is remembered
}

var _ journal.Watcher = (*watch)(nil)

func (w *watch) begin() { w.calls, w.failures = 0, nil }

// Before gives the error that the call had.
func (w *watch) Before(journal.Call) error {
	if len(w.failures) > 0 && w.failures[0].Call == w.calls {
		err := errors.New(w.failures[0].Error)
		w.failures = w.failures[1:]
		return err
	}
	return nil
}

// After counts the call.
func (w *watch) After(c journal.Call, err error) {
	if c < journal.CallCheckpoint {
		w.calls++
	}
	if err == nil && c != journal.CallRead && w.remember != nil {
		w.remember()
		w.points++
	}
}

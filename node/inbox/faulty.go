package inbox

import (
	"errors"

	"tidemark/node/replica"
)

// ErrInjected is the error of a log call that was told to fail.
var ErrInjected = errors.New("injected failure of the disk")

// faultyLog is a log whose next append can be told to fail.
type faultyLog struct {
	replica.Log
	failNext bool
}

// Append fails once if it was told to.
func (l *faultyLog) Append(b replica.Batch) error {
	if l.failNext {
		l.failNext = false
		return ErrInjected
	}
	return l.Log.Append(b)
}

package checker

import (
	"errors"
	"fmt"
	"strings"
)

// Level is a consistency level of one partition's log. A greater one is stronger and implies all below it.
type Level int

// The levels, weakest first. Each is decided by the same sweep with fewer columns (see the package comment).
const (
	// Broken: not even agreement holds.
	Broken Level = iota
	// Agreement: every answer can be put into one log: one value an offset, one offset a value, nothing that nobody produced,
	// no gap. Nothing is said of time or of the end.
	Agreement
	// CommittedLog: besides, nothing acknowledged or read is lost or changed, and acknowledged produces keep their real-time order.
	// Answers during the run may be stale: a deposed leader may answer for a while. Kafka promises this with acks=all.
	CommittedLog
	// MonotonicEnd: besides, end offsets are never stale, so they do not go back (KIP-207).
	MonotonicEnd
	// Linearizable: besides, fetches are not stale either.
	Linearizable
)

var levelNames = [...]string{"none", "agreement", "committed log", "monotonic end", "linearizable"}

// String is the level's name as it stands in contracts and reports.
func (l Level) String() string {
	if l >= 0 && int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", int(l))
}

// ErrLevel says that a text names no level.
var ErrLevel = errors.New("not a consistency level")

// ParseLevel reads back what [Level.String] gives; hyphens may stand for its spaces, as flags and schedules write them. "" is
// [CommittedLog], what Kafka promises.
func ParseLevel(s string) (Level, error) {
	if s == "" {
		return CommittedLog, nil
	}
	for l := Agreement; l <= Linearizable; l++ {
		if levelNames[l] == strings.ReplaceAll(s, "-", " ") {
			return l, nil
		}
	}
	return Broken, fmt.Errorf("%w: %q is none of %q", ErrLevel, s, levelNames[1:])
}

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *Level) UnmarshalText(b []byte) error {
	if string(b) == levelNames[Broken] {
		*l = Broken
		return nil
	}
	v, err := ParseLevel(string(b))
	*l = v
	return err
}

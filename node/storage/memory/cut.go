package memory

import "tidemark/node/replica"

// Kind is what an unsynced operation did to its log.
type Kind uint8

// The operations of a log that wait for a flush.
const (
	Append   Kind = iota + 1 // one batch was added at the end
	Truncate                 // batches were removed from the end
	Reset                    // everything was removed and the log's start set
)

// String is the operation's name in reports.
func (k Kind) String() string {
	switch k {
	case Append:
		return "append"
	case Truncate:
		return "truncate"
	case Reset:
		return "reset"
	}
	return "unknown operation"
}

// Operation is what a power failure has to know of an unsynced operation.
type Operation struct {
	Kind  Kind
	Bytes int // bytes that an append added, 0 for the others
}

// Fate is what a power failure does to the unsynced operations of one log.
type Fate struct {
	Keep       int   // operations that survive, oldest first; those after them are undone, newest first
	Torn       int   // bytes that stay of operation number Keep, which is an append then; always fewer than it has
	Operations int   // operations undone
	Bytes      int64 // bytes of the appends among them
}

// Decide says what the cut leaves of n unsynced operations, the i-th oldest of which is at(i).
//
// Every cut is possible: a Keep beyond what there is keeps all, a negative one nothing, so a cut still means something
// after the schedule that holds it was shortened. Torn bytes exist only where the first lost operation is an append, and
// never make it whole, because then it would not be lost.
func Decide(n int, at func(i int) Operation, cut replica.LogCut) Fate {
	fate := Fate{Keep: min(max(cut.Keep, 0), n)}
	fate.Operations = n - fate.Keep
	for i := fate.Keep; i < n; i++ {
		op := at(i)
		if op.Kind != Append {
			continue
		}
		fate.Bytes += int64(op.Bytes)
		if i == fate.Keep {
			fate.Torn = max(0, min(cut.Torn, op.Bytes-1))
		}
	}
	return fate
}

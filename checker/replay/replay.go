// Package replay is the kernel that a positive verdict rests on: it takes the operations of one log in an order that somebody claims to
// explain them, does them one after the other on a plain slice, and compares every answer. It imports nothing of the checker and nothing
// but the standard library, so that whoever doubts the checker has to read [Log.Replay] only.
package replay

import (
	"errors"
	"fmt"
	"math"
)

// Kind is what an operation does.
type Kind uint8

// The kinds of operation.
const (
	Produce Kind = iota + 1
	Fetch
	End
)

// Outcome is whether an operation must, may or must not stand in the order.
type Outcome uint8

// The outcomes. A fetch or an end without an answer says nothing and may be left out, as a produce of unknown outcome may.
const (
	Happened Outcome = iota + 1
	Unknown
	Failed
)

// Operation is one operation with its answer.
type Operation struct {
	Kind    Kind
	Outcome Outcome
	// Exact: its end must be the log's, not only within it: no stale answer is allowed.
	Exact bool
	// Gaps: the records of a fetch are not consecutive from Offset.
	Gaps bool
	// Call and Return order operations; closed intervals, so that equal numbers are concurrent. Return is math.MaxInt64 if there is none.
	Call, Return int64
	// Offset is the answer of a produce, -1 if nobody knows it; where a fetch begins; the answer of an end.
	Offset int64
	// HW is the high watermark in the answer of a fetch.
	HW int64
	// Values are what a produce appends, or the records of a fetch. Equal numbers are equal values.
	Values []int32
}

// Log is the operations of one log.
type Log interface {
	Len() int
	// At fills in the i-th operation; it may reuse the slice in o.Values.
	At(i int32, o *Operation)
}

// ErrRefused says that an order does not explain the operations.
var ErrRefused = errors.New("the order does not explain the operations")

// Replay does the operations in this order and returns nil if every answer is what the log then gives, each operation that happened is done
// once and none that failed, and, if realTime, none is done before one that had returned before it was called.
func Replay(ops Log, order []int32, realTime bool) error {
	log := make([]int32, 0, len(order))
	var o Operation
	done, latest := make([]uint64, ops.Len()/64+1), int64(math.MinInt64)
	for _, i := range order {
		ops.At(i, &o)
		n := int64(len(log))
		end := o.Offset + int64(len(o.Values))
		fits := false
		switch o.Kind {
		case Produce:
			fits = o.Offset == -1 || o.Offset == n
			log = append(log, o.Values...)
		case Fetch:
			fits = !o.Gaps && o.HW <= n && (o.HW == n || !o.Exact) && (end <= o.HW && len(o.Values) > 0 || len(o.Values) == 0 && o.Offset >= o.HW)
			for j := 0; fits && j < len(o.Values); j++ {
				fits = log[o.Offset+int64(j)] == o.Values[j]
			}
		case End:
			fits = o.Offset == n || o.Offset < n && !o.Exact
		}
		if !fits || o.Outcome == Failed || done[i/64]>>(i%64)&1 != 0 || realTime && o.Return < latest {
			return fmt.Errorf("%w: operation %d (%+v) cannot stand where the log has %d records and one called at %d came before", ErrRefused, i, o,
				n, latest)
		}
		done[i/64] |= 1 << (i % 64)
		latest = max(latest, o.Call)
	}
	for i := range int32(ops.Len()) {
		if ops.At(i, &o); o.Outcome == Happened && done[i/64]>>(i%64)&1 == 0 {
			return fmt.Errorf("%w: operation %d (%+v) happened and is not in it", ErrRefused, i, o)
		}
	}
	return nil
}

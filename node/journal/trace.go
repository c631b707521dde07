package journal

import (
	"tidemark/node/replica"
)

// Trace is the chained hash of what a node's cores give rise to. The zero value is that of a fresh incarnation.
type Trace struct {
	sum uint64
	c   coder
}

// What a trace tells apart.
const (
	tracedMessage uint8 = iota
	tracedAppend
	tracedTruncate
	tracedReset
	tracedEpochs
)

func (t *Trace) begin(what uint8, p *replica.Partition) *coder {
	t.c.b, t.c.digest = append(t.c.b[:0], what), true
	if p != nil {
		partition(&t.c, p)
	}
	return &t.c
}

func (t *Trace) add() {
	if t.sum == 0 {
		t.sum = fnvOffset
	}
	t.sum = fold(t.sum, t.c.b)
}

// Message adds a message that a step gave.
func (t *Trace) Message(m replica.Message) {
	c := t.begin(tracedMessage, nil)
	message(c, &m)
	t.add()
}

// Append adds a batch that was appended to a log.
func (t *Trace) Append(p replica.Partition, b replica.Batch) {
	c := t.begin(tracedAppend, &p)
	batch(c, &b)
	t.add()
}

// Cut adds a truncation to an offset, or a reset.
func (t *Trace) Cut(p replica.Partition, offset int64, reset bool) {
	what := tracedTruncate
	if reset {
		what = tracedReset
	}
	integer(t.begin(what, &p), &offset)
	t.add()
}

// Epochs adds a change of the leader epoch checkpoint.
func (t *Trace) Epochs(p replica.Partition, epochs []replica.EpochStart) {
	list(t.begin(tracedEpochs, &p), &epochs, epochStart)
	t.add()
}

func epochStart(c *coder, e *replica.EpochStart) {
	integer(c, &e.Epoch)
	integer(c, &e.Start)
}

// Sum is the hash as far as it is written down.
func (t *Trace) Sum() uint32 { return short(t.sum) }

// StateSum is the hash of a core's state, as the core writes it.
func StateSum(state []byte) uint32 { return short(fold(fnvOffset, state)) }

// lookBytes is how much of a log is looked at at a time.
const lookBytes = 1 << 20

// Look is what is to be found in a log: what it says of itself, and a hash of all its batches.
func Look(p replica.Partition, l replica.Log) (Found, error) {
	f := Found{Partition: p, Start: l.Start(), End: l.End(), Epochs: l.Epochs(), HighWatermark: l.HighWatermark()}
	var content Trace
	for at := f.Start; at < f.End; {
		batches, err := l.Read(at, lookBytes)
		if err != nil {
			return f, err
		}
		for _, b := range batches {
			content.Append(p, b)
			at = b.End()
		}
	}
	f.Content = content.sum
	return f, nil
}

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"

	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/inbox"
	"tidemark/node/replica"
)

// Record is a record of a journal: *[Start], *[Opened], *[Inputs], *[Outcome] or *[Mark].
type Record interface{ kind() recordKind }

type recordKind uint8

const (
	kindStart recordKind = iota + 1
	kindOpened
	kindInputs
	kindOutcome
	kindMark
)

func (*Start) kind() recordKind   { return kindStart }
func (*Opened) kind() recordKind  { return kindOpened }
func (*Inputs) kind() recordKind  { return kindInputs }
func (*Outcome) kind() recordKind { return kindOutcome }
func (*Mark) kind() recordKind    { return kindMark }

// Start is the first record of an incarnation: all that its cores are made of.
type Start struct {
	Node control.NodeID
	// Hold: nothing moved but by commands.
	Hold bool
	// Broker or Controller is the configuration of the cores; the other is nil.
	Broker     *inbox.Config      `json:",omitempty"`
	Controller *controller.Config `json:",omitempty"`
	// Disk is what a broker found in the logs of its replicas, after a power failure had been played.
	Disk []Found `json:",omitempty"`
	// Damage is what was done to the disk before this start, and before the power failure was played.
	Damage Damage `json:",omitzero"`
	// Power is the power failure before this start, nil if there was none.
	Power *Power `json:",omitempty"`
	// Record is what the controller found of its own: a snapshot, nothing if it is its first start.
	Record []byte `json:",omitempty"`
}

// Found is what is to be found in one log.
type Found struct {
	Partition     replica.Partition
	Start, End    int64
	Epochs        []replica.EpochStart // leader-epoch-checkpoint
	HighWatermark int64                // replication-offset-checkpoint
	Content       uint64               // hash of all batches, 0 if there is none
}

// Damage is what became of a broker's disk while no process had it.
type Damage struct {
	// Cut: the ends of logs were lost, and the marker of a clean shutdown; all that is left is durable.
	Cut bool `json:",omitempty"`
	// Forgotten: the checkpoint files were lost.
	Forgotten bool `json:",omitempty"`
}

// Power is a power failure as it was played: what it was to leave, and what it took.
type Power struct {
	Cut  []Cut
	Lost []replica.Lost
}

// Cut is a replica.LogCut of one partition.
type Cut struct {
	Partition replica.Partition
	replica.LogCut
}

// Opened says that the cores are there.
type Opened struct {
	// Marked: there was the marker of a clean shutdown, of the incarnation BrokerEpoch.
	Marked      bool
	BrokerEpoch int64
	State       uint32 // StateSum of the cores
	Error       string // why they are not there; the process ended
}

// Inputs are messages that are about to be handled, one after the other.
type Inputs struct {
	Now replica.Time
	// Tick: behind them the cores get a replica.Tick at the same time, if their deadline is not after it.
	Tick     bool
	Messages []replica.Message
}

// Outcome is what came of the inputs before it.
type Outcome struct {
	Sums     []uint32 // of the trace, after each step
	Failures []Failure
	State    *uint32 // StateSum after the last step, now and then
}

// Failure is an error that the log gave.
type Failure struct {
	Step, Call int // of the inputs, and of the step's calls of the log, from 0
	Error      string
}

// Event is what a [Mark] tells.
type Event string

// The events.
const (
	Flushing      Event = "flushing"      // every log; what they have now is covered
	Flushed       Event = "flushed"       // the end of that
	Checkpointing Event = "checkpointing" // the high watermarks as they are now
	Checkpointed  Event = "checkpointed"  // the end of that
	FailAppend    Event = "fail-append"   // the next append of every log is to fail
	Stopping      Event = "stopping"      // a clean shutdown
	Stopped       Event = "stopped"       // the end of that
)

var events = []Event{Flushing, Flushed, Checkpointing, Checkpointed, FailAppend, Stopping, Stopped}

// Mark is something that happened between steps.
type Mark struct {
	Event Event
	Error string // why it went wrong
}

// Binary records; a start is JSON.

func (o *Opened) code(c *coder) {
	c.bool(&o.Marked)
	integer(c, &o.BrokerEpoch)
	c.uint32(&o.State)
	c.text(&o.Error)
}

func (x *Inputs) code(c *coder) {
	integer(c, &x.Now)
	c.bool(&x.Tick)
	n := c.count(len(x.Messages))
	if c.reading && n > 0 {
		x.Messages = make([]replica.Message, 0, min(n, 1024))
	}
	for i := range n {
		if c.reading {
			if c.err != nil {
				return
			}
			x.Messages = append(x.Messages, replica.Message{})
		}
		message(c, &x.Messages[i])
	}
}

func (o *Outcome) code(c *coder) {
	n := c.count(len(o.Sums))
	for i := range n {
		if c.reading {
			if c.err != nil {
				return
			}
			o.Sums = append(o.Sums, 0)
		}
		c.uint32(&o.Sums[i])
	}
	list(c, &o.Failures, func(c *coder, f *Failure) {
		integer(c, &f.Step)
		integer(c, &f.Call)
		c.text(&f.Error)
	})
	optional(c, &o.State, (*coder).uint32)
}

func (m *Mark) code(c *coder) { c.text((*string)(&m.Event)); c.text(&m.Error) }

// binaryRecord is a record that is written as it is read.
type binaryRecord interface {
	Record
	code(*coder)
}

func empty(k recordKind) binaryRecord {
	switch k {
	case kindOpened:
		return &Opened{}
	case kindInputs:
		return &Inputs{}
	case kindOutcome:
		return &Outcome{}
	case kindMark:
		return &Mark{}
	}
	return nil
}

// appendRecord appends a record's kind and content.
func appendRecord(out []byte, r Record) ([]byte, error) {
	out = append(out, byte(r.kind()))
	if s, ok := r.(*Start); ok {
		data, err := json.Marshal(s)
		return append(out, data...), err
	}
	c := coder{b: out}
	r.(binaryRecord).code(&c)
	return c.b, nil
}

// readRecord reads what appendRecord wrote. The record keeps the bytes.
func readRecord(data []byte, topics map[string]string) (Record, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: an empty record", ErrDamaged)
	}
	k, data := recordKind(data[0]), data[1:]
	if k == kindStart {
		s := &Start{}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(s); err != nil {
			return nil, fmt.Errorf("%w: start: %w", ErrDamaged, err)
		}
		if (s.Broker == nil) == (s.Controller == nil) {
			return nil, fmt.Errorf("%w: start: want the configuration of a broker or of a controller", ErrDamaged)
		}
		return s, nil
	}
	r := empty(k)
	if r == nil {
		return nil, fmt.Errorf("%w: record of kind %d", ErrDamaged, k)
	}
	c := coder{b: data, reading: true, topics: topics}
	r.code(&c)
	if err := c.end(); err != nil {
		return nil, err
	}
	if m, ok := r.(*Mark); ok && !known(m.Event) {
		return nil, fmt.Errorf("%w: mark %q", ErrDamaged, m.Event)
	}
	return r, nil
}

func known(e Event) bool {
	for _, x := range events {
		if x == e {
			return true
		}
	}
	return false
}

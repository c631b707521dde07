package inbox

import (
	"slices"

	"tidemark/node/replica"
)

// Core is a state machine behind an inbox: a [Broker] or a controller.
type Core interface {
	Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message
	Deadline() replica.Time
}

// Fate is what became of a message on arrival.
type Fate string

// The fates.
const (
	Handled Fate = "handled" // the core has had it
	Held    Fate = "held"    // it waits
	Lost    Fate = "lost"    // its sender is cut off, or the receiver is
)

// Inbox stands in front of one core. It is not safe for concurrent use.
type Inbox struct {
	core    Core
	holding bool
	alone   bool
	cut     []replica.ID
	held    []replica.Message
}

// New puts an inbox in front of a core. When it is holding, messages wait until they are delivered or dropped.
func New(core Core, holding bool) *Inbox { return &Inbox{core: core, holding: holding} }

// Arrive takes a message from outside: it is handled at once, held, or lost.
func (x *Inbox) Arrive(now replica.Time, m replica.Message, out []replica.Message) ([]replica.Message, Fate) {
	switch {
	case looks(m):
	case x.alone || slices.Contains(x.cut, m.From):
		return out, Lost
	case x.holding && !asks(m):
		x.held = append(x.held, m)
		return out, Held
	}
	return x.core.Step(now, m, out), Handled
}

// Step hands the core a message that does not come from outside: of the node's own timers, and of commands to it.
func (x *Inbox) Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	return x.core.Step(now, m, out)
}

// looks says whether the message is a harness's look at the replica, which nothing holds and nothing cuts.
func looks(m replica.Message) bool {
	b, ok := m.Body.(*replica.Fetch)
	return ok && b.Debug && m.From.IsClient()
}

// asks says whether the message is a client's question about the log's end, which no schedule holds.
func asks(m replica.Message) bool {
	_, ok := m.Body.(*replica.ListOffsets)
	return ok && m.From.IsClient()
}

// Deliver hands a held message to the core. It is false if no such message waits.
func (x *Inbox) Deliver(now replica.Time, from replica.ID, kind replica.Kind, number int32, out []replica.Message) ([]replica.Message, bool) {
	m, ok := x.Drop(from, kind, number)
	if !ok {
		return out, false
	}
	return x.core.Step(now, m, out), true
}

// Drop takes a held message away and returns it. It is false if no such message waits.
func (x *Inbox) Drop(from replica.ID, kind replica.Kind, number int32) (replica.Message, bool) {
	i := slices.IndexFunc(x.held, func(m replica.Message) bool {
		return m.From == from && m.Body.Kind() == kind && m.Number == number
	})
	if i < 0 {
		return replica.Message{}, false
	}
	m := x.held[i]
	x.held = slices.Delete(x.held, i, i+1)
	return m, true
}

// Held lists what waits, in the order of arrival.
func (x *Inbox) Held() []replica.Message { return slices.Clone(x.held) }

// Cut sets whose messages are lost from now on: everybody's if alone, else those of the senders named. What waits, stays.
func (x *Inbox) Cut(alone bool, senders []replica.ID) {
	x.alone, x.cut = alone, slices.Clone(senders)
}

// Alone says whether the node is cut off from everybody, so that what it sends to clients is lost too.
func (x *Inbox) Alone() bool { return x.alone }

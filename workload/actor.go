package workload

import (
	"time"

	"tidemark/checker/history"
)

// Actor is one client at work, without connections and clock: it chooses what to ask and whom, writes down what is asked and what
// comes of it, and says what to do next. [Run] gives each a connection to every broker; a simulation moves them in a time of its own,
// see [Crew].
type Actor struct {
	config    *Config
	routes    *routes
	record    *recorder
	generator *Generator
	pace      pace
	pause     pause
	until     time.Time // zero: no end
	acks      int16

	op   *Operation // under way
	node int32      // that was asked
}

func newActor(c *Config, r *routes, sink history.Sink, i int, start time.Time) Actor {
	a := Actor{config: c, routes: r, record: newRecorder(sink, c, i), acks: acksOnWire[c.Acks], pace: newPace(c, start, i)}
	if c.Time > 0 {
		a.until = start.Add(c.Time)
	}
	a.become()
	return a
}

// become goes on as another process.
func (a *Actor) become() { a.generator = newGenerator(a.config, a.record.process) }

// begin writes down that an operation begins, and says who is to be asked.
func (a *Actor) begin(op *Operation) (node int32, err error) {
	a.op, a.node = op, a.routes.node(op)
	return a.node, a.record.invoke(asked(op, &a.routes.partitions[op.Partition], a.node, a.acks))
}

// Then is what a client does after an operation, before the next one: first the one, then the other.
type Then struct {
	Refresh bool // ask who leads
	Pause   bool // wait for a moment, which grows with each failure
}

// end writes down what came of the operation. stale says that somebody else may lead the partition now.
func (a *Actor) end(answer Answer, stale bool, took time.Duration) (Then, error) {
	op := a.op
	a.op = nil
	a.config.Stats.count(op.Type, len(op.Values), &answer, took)
	retired, err := a.record.returned(answer.Kind, answered(op, &a.routes.partitions[op.Partition], a.node, &answer))
	if err != nil {
		return Then{}, err
	}
	if retired {
		a.become()
	} else {
		a.generator.Learn(*op, answer)
	}
	switch {
	case op.Follower:
		// Whether it can be read from says nothing about who leads.
	case answer.Kind == history.OK:
		a.pause.reset()
	case answer.OutOfRange:
	default:
		return Then{Refresh: stale, Pause: true}, nil
	}
	return Then{}, nil
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tidemark/node/control"
	"tidemark/node/journal"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// ErrNoBeginning is wrapped by the error about a journal that begins when its node had a past already.
var ErrNoBeginning = errors.New("the journal does not go back to an empty disk")

// Options change how a node is run again.
type Options struct {
	// Rules, if not nil, gives the rules to run the cores with for those that the node had.
	Rules func(rules.Set) (rules.Set, error)
}

// How is how an incarnation came to its end.
type How string

// The ends. A process that fails by itself ends as if it were killed.
const (
	Killed  How = "killed"
	Power   How = "power failure"
	Clean   How = "stopped"
	NoStart How = "not started" // it did not get as far as its cores
	Open    How = "end of the journal"
)

// Incarnation is what was run again of one process.
type Incarnation struct {
	Inputs int // messages and ticks
	Hashes int // compared; one is missing for each input that was not known to be handled
	// Unknown are inputs at the end without a hash. Handled of them were handled before the process ended, as the next one's disk
	// says, the last perhaps in part; -1: nobody knows.
	Unknown, Handled int
	Ended            How
}

// Report is what came of a replay.
type Report struct {
	Node         control.NodeID
	Incarnations []Incarnation
	// Cut is how many bytes at the end of the journal belong to a record that is not whole.
	Cut        int64
	Difference *Difference // nil: everything is the same
}

// Hashes counts what was compared.
func (r *Report) Hashes() int {
	n := 0
	for _, i := range r.Incarnations {
		n += i.Hashes
	}
	return n
}

// Difference is the first place where what runs again is not what ran.
type Difference struct {
	Incarnation int // from 1
	Input       int // from 1, of the incarnation; 0: before the first
	Now         replica.Time
	Message     string // the input in words
	What        string // what differs
	There, Here string // in the journal, and now
}

// String tells it in lines.
func (d *Difference) String() string {
	s := fmt.Sprintf("incarnation %d", d.Incarnation)
	if d.Input > 0 {
		s += fmt.Sprintf(", input %d, at %.6f s: %s", d.Input, float64(d.Now)/1e9, d.Message)
	}
	return fmt.Sprintf("%s\n  %s\n  there: %s\n  here:  %s", s, d.What, d.There, d.Here)
}

// errDiffers ends a replay at a difference.
var errDiffers = errors.New("differs")

// Run runs the node again whose journal that is. An error is about the journal: it cannot be read or does not go back far enough;
// what is in the report then was compared before.
func Run(ctx context.Context, path string, o Options) (*Report, error) {
	j, err := journal.Open(path)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	n := &node{options: o, report: &Report{}, path: path}
	for err == nil {
		err = ctx.Err()
		var r journal.Record
		if err == nil {
			r, err = j.Next()
		}
		if err == nil {
			err = n.take(r)
		}
	}
	if errors.Is(err, io.EOF) {
		err = n.end(nil)
		n.report.Cut = j.Cut()
	}
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return n.report, err
}

// core is what runs again: the cores of a broker or of the controller.
type core interface {
	// begin begins an incarnation that is not open yet. The rules that it gives can still be changed.
	begin(s *journal.Start, t *journal.Trace, w *watch) *rules.Set
	open(o *journal.Opened) error
	step(now replica.Time, m replica.Message) []replica.Message
	deadline() replica.Time
	state(now replica.Time) []byte
	words() string // the state for people
	// settled is called when everything that was handled together is done.
	settled() error
	mark(m *journal.Mark) error
	// last is called before steps of which nobody knows whether they were done: points from now on are remembered.
	last()
	// next finds out which of the points is what the next process found, and gives its number, counted from the call of last
	// on; or says what differs.
	next(s *journal.Start) (point int, d *Difference, err error)
}

// node is a node that is run again.
type node struct {
	options Options
	report  *Report
	path    string
	start   *journal.Start
	core    core
	now     *Incarnation
	trace   *journal.Trace
	watch   *watch
	opened  bool
	pending *journal.Inputs // without outcome so far
	ended   How
}

func (n *node) take(r journal.Record) error {
	s, isStart := r.(*journal.Start)
	switch {
	case isStart:
		if n.start != nil {
			if err := n.end(s); err != nil {
				return err
			}
		}
		return n.begin(s)
	case n.start == nil:
		return n.disorder("it begins with something else than a start")
	}
	switch r := r.(type) {
	case *journal.Opened:
		if n.opened {
			return n.disorder("cores are opened twice")
		}
		return n.openCores(r)
	case *journal.Inputs:
		if !n.opened || n.pending != nil {
			return n.disorder("inputs in the middle of others")
		}
		n.pending = r
		return nil
	case *journal.Outcome:
		if n.pending == nil {
			return n.disorder("an outcome without inputs")
		}
		x := n.pending
		n.pending = nil
		return n.inputs(x, r)
	case *journal.Mark:
		if !n.opened || n.pending != nil {
			return n.disorder("a mark in the middle of inputs")
		}
		return n.mark(r)
	}
	return nil
}

func (n *node) disorder(what string) error {
	return fmt.Errorf("%s: %w: incarnation %d: %s", n.path, journal.ErrDamaged, len(n.report.Incarnations), what)
}

// begin begins an incarnation.
func (n *node) begin(s *journal.Start) (err error) {
	if n.start == nil {
		n.report.Node = s.Node
	} else if s.Node != n.report.Node || (s.Broker == nil) != (n.start.Broker == nil) {
		return n.disorder(fmt.Sprintf("it is of node %s and goes on with node %s", n.report.Node, s.Node))
	}
	first := n.start == nil
	n.start, n.opened, n.ended = s, false, ""
	n.report.Incarnations = append(n.report.Incarnations, Incarnation{})
	n.now = &n.report.Incarnations[len(n.report.Incarnations)-1]
	n.trace, n.watch = &journal.Trace{}, &watch{}
	if first {
		if s.Broker != nil {
			n.core, err = newBroker(s)
		} else {
			n.core, err = newController(s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	set := n.core.begin(s, n.trace, n.watch)
	if n.options.Rules != nil {
		*set, err = n.options.Rules(*set)
	}
	return err
}

func (n *node) openCores(o *journal.Opened) error {
	if o.Error != "" {
		n.ended = NoStart
		n.core.last()
		_ = n.core.open(nil)
		return nil
	}
	n.opened = true
	err := n.core.open(o)
	if err != nil {
		return n.differ(0, replica.Time(0), nil, "the start", "cores that work", err.Error())
	}
	if sum := journal.StateSum(n.core.state(0)); sum != o.State {
		return n.differ(0, 0, nil, "the state after the start", fmt.Sprintf("hash %08x", o.State), fmt.Sprintf("hash %08x: %s", sum, n.core.words()))
	}
	return nil
}

// differ notes the difference and ends the replay.
func (n *node) differ(input int, now replica.Time, m *replica.Message, what, there, here string) error {
	n.report.Difference = &Difference{Incarnation: len(n.report.Incarnations), Input: input, Now: now, What: what, There: there, Here: here}
	if m != nil {
		n.report.Difference.Message = journal.Words(*m)
	}
	return errDiffers
}

// inputs runs messages again and compares what comes of each.
func (n *node) inputs(x *journal.Inputs, o *journal.Outcome) error {
	failures := o.Failures
	at := n.now.Inputs
	for i := range x.Messages {
		if err := n.step(x.Now, x.Messages[i], i, o, &failures); err != nil {
			return err
		}
	}
	steps := len(x.Messages)
	if due := x.Tick && n.core.deadline() <= x.Now; due || steps < len(o.Sums) {
		tick := replica.Message{From: replica.ID(n.report.Node), To: replica.ID(n.report.Node), Body: &replica.Tick{}}
		if !due {
			return n.differ(n.now.Inputs+1, x.Now, &tick, "whether time is due", "a tick", "none")
		}
		if err := n.step(x.Now, tick, steps, o, &failures); err != nil {
			return err
		}
		steps++
	}
	if o.State != nil {
		if sum := journal.StateSum(n.core.state(x.Now)); sum != *o.State {
			last := lastOf(x)
			return n.differ(at+steps, x.Now, last, "the state behind it", fmt.Sprintf("hash %08x", *o.State), fmt.Sprintf("hash %08x: %s", sum, n.core.words()))
		}
	}
	return n.core.settled()
}

func lastOf(x *journal.Inputs) *replica.Message {
	if len(x.Messages) == 0 {
		return nil
	}
	return &x.Messages[len(x.Messages)-1]
}

func (n *node) step(now replica.Time, m replica.Message, i int, o *journal.Outcome, failures *[]journal.Failure) error {
	n.now.Inputs++
	n.watch.begin()
	for len(*failures) > 0 && (*failures)[0].Step == i {
		n.watch.failures = append(n.watch.failures, (*failures)[0])
		*failures = (*failures)[1:]
	}
	out := n.core.step(now, m)
	for _, x := range out {
		n.trace.Message(x)
	}
	if left := n.watch.failures; len(left) > 0 {
		return n.differ(n.now.Inputs, now, &m, "the calls of the log", fmt.Sprintf("call %d failed: %s", left[0].Call+1, left[0].Error),
			fmt.Sprintf("%d calls", n.watch.calls))
	}
	if i >= len(o.Sums) {
		return n.differ(n.now.Inputs, now, &m, "whether it was handled", "it was not", "it is: "+told(out))
	}
	if sum := n.trace.Sum(); sum != o.Sums[i] {
		return n.differ(n.now.Inputs, now, &m, "what comes of it", fmt.Sprintf("hash %08x", o.Sums[i]), fmt.Sprintf("hash %08x: %s", sum, told(out)))
	}
	n.now.Hashes++
	return nil
}

// told is what a step gave in words.
func told(out []replica.Message) string {
	if len(out) == 0 {
		return "nothing"
	}
	s := ""
	for i, m := range out {
		if i > 0 {
			s += "; "
		}
		s += journal.Words(m)
	}
	return s
}

func (n *node) mark(m *journal.Mark) error {
	switch m.Event {
	case journal.Stopping:
		n.core.last()
	case journal.Stopped:
		if m.Error == "" {
			n.ended = Clean
		}
	}
	return n.core.mark(m)
}

// end ends an incarnation: s is the next start, nil at the end of the journal.
func (n *node) end(s *journal.Start) error {
	if n.start == nil {
		return nil
	}
	var ends []int // points that there were after each input
	if !n.opened && n.ended == "" {
		// Nobody knows how far it got.
		n.ended = NoStart
		n.core.last()
		_ = n.core.open(nil)
	}
	if x := n.pending; x != nil {
		n.pending = nil
		n.core.last()
		n.now.Unknown, n.now.Handled = len(x.Messages), -1
		for _, m := range x.Messages {
			n.watch.begin()
			n.core.step(x.Now, m)
			ends = append(ends, n.watch.points)
		}
		if x.Tick && n.core.deadline() <= x.Now {
			n.watch.begin()
			n.core.step(x.Now, replica.Message{From: replica.ID(n.report.Node), To: replica.ID(n.report.Node), Body: &replica.Tick{}})
		}
		n.now.Inputs += n.now.Unknown
		if err := n.core.settled(); err != nil {
			return err
		}
	}
	if n.now.Ended = n.ended; n.ended == "" {
		n.now.Ended = Killed
	}
	if s == nil {
		if n.ended == "" {
			n.now.Ended = Open
		}
		return nil
	}
	if s.Power != nil && n.now.Ended == Killed {
		n.now.Ended = Power
	}
	point, d, err := n.core.next(s)
	if err != nil {
		return err
	}
	if d != nil {
		d.Incarnation = len(n.report.Incarnations) + 1
		n.report.Difference = d
		return errDiffers
	}
	for i, at := range ends {
		if point >= at {
			n.now.Handled = i + 1
		} else if n.now.Handled < 0 {
			n.now.Handled = 0
		}
	}
	return nil
}

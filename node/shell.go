package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"tidemark/node/control"
	"tidemark/node/inbox"
	"tidemark/node/journal"
	"tidemark/node/kafka"
	"tidemark/node/replica"
)

// shell drives the cores of one process with sockets and the clock. One goroutine owns the cores: everything that comes
// from outside goes through its channels.
//
//	kafka.Server --Deliver--+                        +--> reply functions
//	kafka.Conn --Receive----+--> in --> inbox, cores +--> kafka.Conn (requests to peers)
//	clock ------------------+                        +--> stream (events), always before the two others
//	control.Server ---------+
type shell struct {
	self    control.NodeID
	hold    bool
	core    inbox.Core
	inbox   *inbox.Inbox
	host    *control.Host
	events  *stream
	log     *slog.Logger
	journal *journal.Recorder
	began   time.Time
	connect func(to replica.ID) *kafka.Conn
	// settled is called after the cores have handled what came, before anything of it leaves the process.
	settled func(out []replica.Message) error
	// faults are those of the disk that commands set; nil: there is no disk.
	faults *diskFaults

	in       chan envelope
	commands chan order
	asks     chan func()   // run in the loop
	done     chan struct{} // closed when the loop has ended

	replies map[question]func(replica.Message)
	tickets int32
	conns   map[peer]*kafka.Conn

	// Under hold only: what has arrived, and what was sent, by name.
	fates   map[control.Message]control.Fate
	awaited map[control.Message][]chan<- control.Reply
	sent    map[control.Message]replica.Message
}

// envelope is a message and the way back for its answer, if it needs one.
type envelope struct {
	m     replica.Message
	reply func(replica.Message)
}

type order struct {
	command control.Command
	reply   chan<- control.Reply
}

// question is what an answer answers.
type question struct {
	from      replica.ID
	partition replica.Partition
	kind      string
	number    int32
}

// peer is one core's connection to one other process: partitions never wait for each other.
type peer struct {
	to        replica.ID
	partition replica.Partition
}

func newShell(self control.NodeID, hold bool, core inbox.Core, j *journal.Recorder, out io.Writer, log *slog.Logger) *shell {
	return &shell{self: self, hold: hold, core: core, inbox: inbox.New(j.Core(core), hold), journal: j, events: newStream(out), log: log, began: time.Now(),
		settled: func([]replica.Message) error { return nil },
		in:      make(chan envelope, 1024), commands: make(chan order), asks: make(chan func()), done: make(chan struct{}),
		replies: map[question]func(replica.Message){}, conns: map[peer]*kafka.Conn{},
		fates: map[control.Message]control.Fate{}, awaited: map[control.Message][]chan<- control.Reply{}, sent: map[control.Message]replica.Message{}}
}

// now is the cores' time. Under hold it stands still.
func (s *shell) now() replica.Time {
	if s.hold {
		return 0
	}
	return replica.Time(time.Since(s.began))
}

// Deliver is what kafka's servers put requests in with.
func (s *shell) Deliver(m replica.Message, reply func(replica.Message)) {
	select {
	case s.in <- envelope{m, reply}:
	case <-s.done:
		reply(m.Answer(nil))
	}
}

// receive is what kafka's connections put answers in with.
func (s *shell) receive(m replica.Message) {
	if _, lost := m.Body.(*replica.ConnectionLost); lost && s.hold {
		return // under hold only the harness says what is lost
	}
	select {
	case s.in <- envelope{m: m}:
	case <-s.done:
	}
}

// order gives a command to the loop and waits for its reply.
func (s *shell) order(ctx context.Context, c control.Command) control.Reply {
	reply := make(chan control.Reply, 1)
	select {
	case s.commands <- order{c, reply}:
	case <-s.done:
		return control.Reply{Error: "the node is stopping"}
	case <-ctx.Done():
		return control.Reply{Error: ctx.Err().Error()}
	}
	var patience <-chan time.Time
	if c.Do == control.Await {
		patience = time.After(awaitFor)
	}
	select {
	case r := <-reply:
		return r
	case <-patience:
		return control.Reply{}
	case <-s.done:
		return control.Reply{Error: "the node is stopping"}
	}
}

// awaitFor is how long a message may take between two processes before the harness has it sent again.
const awaitFor = 100 * time.Millisecond

// together is how many messages are handled before what they gave rise to leaves.
const together = 128

// run is the loop. It ends with its context, or with an error that the process cannot go on after.
func (s *shell) run(ctx context.Context) error {
	defer s.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var arrived []envelope
	for {
		arrived = arrived[:0]
		select {
		case <-ctx.Done():
			return nil
		case e := <-s.in:
			arrived = append(arrived, s.ticket(e))
			for len(arrived) < together && len(s.in) > 0 {
				arrived = append(arrived, s.ticket(<-s.in))
			}
		case o := <-s.commands:
			if err := s.command(o); err != nil {
				return err
			}
			continue
		case ask := <-s.asks:
			ask()
			continue
		case <-timer.C:
		}
		out, err := s.handle(arrived)
		if err != nil {
			return err
		}
		if err := s.leave(nil, out); err != nil {
			return err
		}
		if due := s.core.Deadline(); !s.hold && due != replica.Never {
			timer.Reset(max(0, time.Duration(due-s.now())))
		}
	}
}

// handle puts messages in front of the cores, and in a free run lets time pass. All of it happens at one time, and the journal
// has it before the cores have.
func (s *shell) handle(arrived []envelope) (out []replica.Message, err error) {
	now := s.now()
	if s.hold {
		for _, e := range arrived {
			out = s.arrive(now, e, out)
		}
		return out, nil // the inbox holds them: what it does not hold is written down one by one
	}
	if len(arrived) == 0 && s.core.Deadline() > now {
		return nil, nil
	}
	if s.journal != nil {
		messages := make([]replica.Message, len(arrived))
		for i, e := range arrived {
			messages[i] = e.m
		}
		if err := s.journal.Begin(now, true, messages...); err != nil {
			return nil, err
		}
	}
	for _, e := range arrived {
		out = s.arrive(now, e, out)
	}
	if s.core.Deadline() <= now {
		out = s.inbox.Step(now, replica.Message{From: replica.ID(s.self), To: replica.ID(s.self), Body: &replica.Tick{}}, out)
	}
	s.journal.End(now)
	return out, nil
}

// ticket gives a client's request a number of its own in a free run: correlation ids are a connection's, and an answer must not
// go to a request of another one.
func (s *shell) ticket(e envelope) envelope {
	if e.m.From.IsClient() && !s.hold {
		number, reply := e.m.Number, e.reply
		s.tickets++
		e.m.Number = s.tickets
		e.reply = func(a replica.Message) { a.Number = number; reply(a) }
	}
	return e
}

// arrive puts a message in front of the cores.
func (s *shell) arrive(now replica.Time, e envelope, out []replica.Message) []replica.Message {
	name := control.Name(e.m)
	if s.hold {
		if _, again := s.fates[name]; again {
			s.expect(e) // sent once more over a new connection: the answer goes there
			return out
		}
	}
	s.expect(e)
	out, fate := s.inbox.Arrive(now, e.m, out)
	if s.hold {
		s.fates[name] = control.Fate(fate)
		for _, waiting := range s.awaited[name] {
			waiting <- control.Reply{Fate: control.Fate(fate)}
		}
		delete(s.awaited, name)
	}
	if fate == inbox.Lost {
		s.answer(e.m.Answer(nil), string(e.m.Body.Kind()))
	}
	return out
}

func (s *shell) expect(e envelope) {
	if e.reply != nil {
		s.replies[question{e.m.From, e.m.Partition, string(e.m.Body.Kind()), e.m.Number}] = e.reply
	}
}

// answer gives an answer to whoever waits for it.
func (s *shell) answer(m replica.Message, kind string) {
	q := question{m.To, m.Partition, kind, m.Number}
	if reply := s.replies[q]; reply != nil {
		delete(s.replies, q)
		reply(m)
	}
}

// leave lets out what the cores gave rise to: what has to be durable first, then events, then messages.
func (s *shell) leave(events []control.Event, out []replica.Message) error {
	if err := s.settled(out); err != nil {
		return err
	}
	if s.hold {
		// Whoever moves the node by commands may kill it as soon as it sees what comes of them.
		if err := s.journal.Flush(); err != nil {
			return err
		}
	}
	for _, e := range events {
		s.events.add(e)
	}
	for _, m := range out {
		if e, ok := m.Body.(*replica.Event); ok {
			s.events.add(control.NewEvent(m, e))
		}
	}
	if err := s.events.flush(); err != nil {
		return fmt.Errorf("event stream: %w", err)
	}
	for _, m := range out {
		s.send(m)
	}
	return nil
}

func (s *shell) send(m replica.Message) {
	if m.To == replica.Observer {
		return
	}
	if kind, isAnswer := strings.CutSuffix(string(m.Body.Kind()), " answer"); isAnswer {
		s.answer(m, kind)
		return
	}
	if s.hold {
		s.sent[control.Name(m)] = m
	}
	at := peer{m.To, m.Partition}
	c := s.conns[at]
	if c == nil {
		c = s.connect(m.To)
		s.conns[at] = c
	}
	c.Send(m)
}

// command carries out what the control connection asks for.
func (s *shell) command(o order) error {
	c := o.command
	switch c.Do {
	case control.Await:
		if c.Message == nil {
			o.reply <- control.Reply{Error: "await names no message"}
			return nil
		}
		name := *c.Message
		name.Fate = ""
		if fate, ok := s.fates[name]; ok {
			o.reply <- control.Reply{Fate: fate}
		} else {
			s.awaited[name] = append(s.awaited[name], o.reply)
		}
		return nil
	case control.Resend:
		if c.Message == nil {
			o.reply <- control.Reply{Error: "resend names no message"}
			return nil
		}
		name := *c.Message
		name.Fate = ""
		m, ok := s.sent[name]
		if !ok {
			o.reply <- control.Reply{Error: fmt.Sprintf("%s was not sent from here", c.Message)}
			return nil
		}
		s.send(m)
		o.reply <- control.Reply{}
		return nil
	case control.Disk:
		if s.faults == nil {
			o.reply <- control.Reply{Error: "disk: only brokers have one"}
			return nil
		}
		counts := s.faults.set(c.Disk)
		o.reply <- control.Reply{Disk: &counts}
		return nil
	}
	if moves := c.Do != control.Look && c.Do != control.Fence && c.Do != control.Transfer; moves && !s.hold {
		o.reply <- control.Reply{Error: fmt.Sprintf("%s: the node moves by itself; start it with --hold to move it by commands", c.Do)}
		return nil
	}
	begins, ends := noted(c.Do)
	if begins != "" {
		if err := s.journal.Mark(begins, nil); err != nil {
			return err
		}
	}
	reply, out := s.host.Do(s.now(), c)
	if ends != "" {
		var failed error
		if reply.Error != "" {
			failed = errors.New(reply.Error)
		}
		if err := s.journal.Mark(ends, failed); err != nil {
			return err
		}
	}
	if c.Do == control.Drop && reply.Error == "" {
		s.dropped(*c.Message)
	}
	err := s.leave(reply.Events, out)
	o.reply <- reply
	return err
}

// noted is what the journal has of a command that acts on the disk and is no message: its beginning and its end.
func noted(v control.Verb) (begins, ends journal.Event) {
	switch v {
	case control.Flush:
		return journal.Flushing, journal.Flushed
	case control.Checkpoint:
		return journal.Checkpointing, journal.Checkpointed
	case control.FailAppend:
		return journal.FailAppend, ""
	}
	return "", ""
}

// dropped tells the connection over which a request came that it gets no answer.
func (s *shell) dropped(name control.Message) {
	from, err := replica.ParseID(name.From)
	if err != nil || name.IsAnswer() {
		return
	}
	for q, reply := range s.replies {
		if q.from == from && q.kind == name.Kind && q.number == name.Number {
			delete(s.replies, q)
			reply(replica.Message{From: replica.ID(s.self), To: from, Partition: q.partition, Number: q.number})
		}
	}
}

// close ends the connections to peers. What they report as lost goes nowhere: the loop has ended.
func (s *shell) close() {
	close(s.done)
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// commandServer is a control listener with the address that it got.
type commandServer struct {
	*control.Server
	Address string
}

func (s *shell) serveControl(address string) (*commandServer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("control listener: %w", err)
	}
	return &commandServer{control.Serve(l, s.order), l.Addr().String()}, nil
}

// beside does something that takes time beside the loop, and has the loop, which owns the cores, note its beginning and its end.
// With the beginning, first is called in the loop.
func (s *shell) beside(ctx context.Context, begins, ends journal.Event, first func(), then func() error) error {
	if err := s.inLoop(ctx, func() error { first(); return s.journal.Mark(begins, nil) }); err != nil {
		return err
	}
	failed := then()
	return errors.Join(failed, s.inLoop(ctx, func() error { return s.journal.Mark(ends, failed) }))
}

// inLoop has the loop do something and waits for it.
func (s *shell) inLoop(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	select {
	case s.asks <- func() { done <- do() }:
		return <-done
	case <-s.done:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

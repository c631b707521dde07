package controller_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/rules/rulestest"
	"tidemark/node/session"
)

// TestStories plays the files of testdata: messages to the controller, and what it makes of them. -rewrite writes what it
// makes of them now.
//
// Every directive is one command or several, a line each. Below ---- stands what the controller sent, the same LeaderAndIsr to
// several brokers as one line, and then its record of the partition and the brokers:
//
//	leader 1, epoch 0/2, ISR 1,2   brokers 1@1 2@3 3@5x
//
// leader epoch 0, partition epoch 2, and each broker with its broker epoch, 3 fenced.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTestAny(t, path, s.tell)
	})
}

// tell carries out the commands of one directive and returns what there is to say of them.
func (s *story) tell(t testing.TB, d *datadriven.TestData) string {
	s.t, s.said = t, strings.Builder{}
	for i, line := range strings.Split(d.FullCmd()+"\n"+d.Input, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, args, err := datadriven.ParseLine(line)
		require.NoError(t, err, "%s, line %d", d.Pos, i+1)
		s.do(command{t: t, pos: d.Pos, name: name, args: args})
	}
	s.say("%s", s.picture())
	return s.said.String()
}

// story is one controller with one partition.
type story struct {
	t       testing.TB
	wrong   rulestest.Change // made in every set of rules; zero: none
	said    strings.Builder
	config  controller.Config
	ruler   *controller.Controller
	now     replica.Time
	epochs  map[replica.ID]int64  // broker epochs, as the registration's answers gave them
	starts  map[replica.ID]uint64 // incarnations so far
	numbers int32
}

var orders = replica.Partition{Topic: "orders"}

// command is one line of a story.
type command struct {
	t    testing.TB
	pos  string
	name string
	args []datadriven.CmdArg
}

func (c command) arg(key string) (datadriven.CmdArg, bool) {
	for _, a := range c.args {
		if a.Key == key {
			return a, true
		}
	}
	return datadriven.CmdArg{}, false
}

func (c command) has(key string) bool { _, ok := c.arg(key); return ok }

func (c command) text(key, without string) string {
	if a, ok := c.arg(key); ok {
		return strings.Join(a.Vals, ",")
	}
	return without
}

func (c command) list(key string) []string {
	a, _ := c.arg(key)
	var words []string
	for _, w := range a.Vals {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}

func (c command) parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(c.t, err, "%s: %s", c.pos, c.name)
	return n
}

func (c command) number(key string, without int64) int64 {
	if a, ok := c.arg(key); ok {
		return c.parse(a.Vals[0])
	}
	return without
}

// bare is the number that stands first, without a key.
func (c command) bare() int64 { return c.parse(c.args[0].Key) }

func (c command) ids(key string) []replica.ID {
	var ids []replica.ID
	for _, w := range c.list(key) {
		ids = append(ids, replica.ID(c.parse(w)))
	}
	return ids
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.said, format+"\n", args...) }

// do carries out one command.
func (s *story) do(c command) {
	switch c.name {
	case "open": // [protocol=P] [without=(..)] [rules=(..)] [replicas=(..)] [min-isr=K] [unclean] [session-timeout=T] [push-interval=T]
		s.open(c)
	case "up": // N..: register and send the first heartbeat, as a broker does that starts. Only what it changes is said
		before := s.said.String()
		for _, a := range c.args {
			s.register(replica.ID(c.parse(a.Key)), replica.NoBrokerEpoch, false)
			s.heartbeat(replica.ID(c.parse(a.Key)), s.epochs[replica.ID(c.parse(a.Key))], false)
		}
		said := strings.TrimPrefix(s.said.String(), before)
		s.said.Reset()
		s.said.WriteString(before)
		for line := range strings.Lines(said) {
			if strings.Contains(line, "elected") || strings.Contains(line, "LeaderAndIsr") {
				s.said.WriteString(line)
			}
		}
	case "register": // N [previous=K] [again]: a new incarnation, or the same again
		s.register(replica.ID(c.bare()), c.number("previous", replica.NoBrokerEpoch), c.has("again"))
	case "heartbeat": // N [epoch=K] [want-fence]
		id := replica.ID(c.bare())
		s.heartbeat(id, c.number("epoch", s.epochs[id]), c.has("want-fence"))
	case "fence":
		s.command(&controller.Fence{Broker: replica.ID(c.bare())})
	case "transfer":
		s.command(&controller.Transfer{To: replica.ID(c.bare())})
	case "push":
		s.command(&controller.Push{To: replica.ID(c.bare())})
	case "alter": // N isr=(A B@K ..) [epoch=E] [pe=K] [broker-epoch=K]
		s.alter(c)
	case "ack": // N [version=K] [CODE]
		a := &replica.LeaderAndIsrAnswer{Version: c.number("version", s.ruler.Version())}
		if c.has("STALE_BROKER_EPOCH") {
			a.Error = replica.StaleBrokerEpoch
		}
		s.step(replica.ID(c.bare()), orders, a)
	case "lost": // N: the connection to it broke over a push
		s.step(replica.ID(c.bare()), orders, &replica.ConnectionLost{Request: replica.KindLeaderAndIsr})
	case "at":
		s.now = replica.Time(c.bare())
	case "tick":
		s.step(replica.Controller, replica.Partition{}, &replica.Tick{})
	case "deadline":
		if due := s.ruler.Deadline(); due == replica.Never {
			s.say("no deadline")
		} else {
			s.say("deadline %d", due)
		}
	case "restart": // from its snapshot
		data, err := s.ruler.AppendSnapshot(nil)
		require.NoError(s.t, err)
		s.ruler, err = controller.Restore(s.config, s.now, data)
		require.NoError(s.t, err)
	default:
		s.t.Fatalf("%s: no command %q", c.pos, c.name)
	}
}

func (s *story) open(c command) {
	set, err := rules.Parse(rules.Protocol(c.text("protocol", "kip320")), c.list("without"), c.list("rules"))
	require.NoError(s.t, err)
	set, _ = s.wrong.Of(set)
	replicas := c.ids("replicas")
	if replicas == nil {
		replicas = []replica.ID{1, 2, 3}
	}
	s.config = controller.Config{Rules: set, Brokers: []replica.ID{1, 2, 3}, Unclean: c.has("unclean"),
		SessionTimeout: replica.Time(c.number("session-timeout", 0)), PushInterval: replica.Time(c.number("push-interval", 0)),
		Topics: []controller.Topic{{Partition: orders, Replicas: replicas, MinISR: int(c.number("min-isr", 2))}}}
	*s = story{t: s.t, wrong: s.wrong, config: s.config, epochs: map[replica.ID]int64{}, starts: map[replica.ID]uint64{}}
	s.ruler, err = controller.Open(s.config)
	require.NoError(s.t, err)
}

func (s *story) register(id replica.ID, previous int64, again bool) {
	if !again {
		s.starts[id]++
	}
	s.step(id, replica.Partition{}, &session.Registration{Incarnation: s.starts[id], Previous: previous})
}

func (s *story) heartbeat(id replica.ID, epoch int64, wantFence bool) {
	s.step(id, replica.Partition{}, &session.Heartbeat{BrokerEpoch: epoch, WantFence: wantFence})
}

func (s *story) command(b replica.Body) { s.step(replica.Controller, orders, b) }

func (s *story) alter(c command) {
	v := s.ruler.Views()[0]
	from := replica.ID(c.bare())
	a := &replica.AlterPartition{BrokerEpoch: c.number("broker-epoch", s.epochs[from]), LeaderEpoch: int32(c.number("epoch", int64(v.LeaderEpoch))),
		PartitionEpoch: int32(c.number("pe", int64(v.PartitionEpoch)))}
	for _, w := range c.list("isr") {
		id, epoch, given := strings.Cut(w, "@")
		m := replica.Member{ID: replica.ID(c.parse(id)), BrokerEpoch: replica.NoBrokerEpoch}
		if given {
			m.BrokerEpoch = c.parse(epoch)
		}
		a.ISR = append(a.ISR, m)
	}
	p := orders
	if c.has("topic") {
		p.Topic = c.text("topic", "")
	}
	s.step(from, p, a)
}

// step hands a message to the controller and says what it sends.
func (s *story) step(from replica.ID, p replica.Partition, b replica.Body) {
	s.numbers++
	m := replica.Message{From: from, To: replica.Controller, Partition: p, Number: s.numbers, Body: b}
	var to []string
	pushed := ""
	flush := func() {
		if pushed != "" {
			s.say("controller->%s LeaderAndIsr: %s", strings.Join(to, ","), pushed)
		}
		to, pushed = nil, ""
	}
	for _, out := range s.ruler.Step(s.now, m, nil) {
		w, ok := out.Body.(*replica.LeaderAndIsr)
		if !ok {
			flush()
			s.say("%s", s.sentence(out))
			continue
		}
		require.Equal(s.t, orders, out.Partition)
		require.Equal(s.t, s.epochs[out.To], w.BrokerEpoch, "the word is for the present incarnation of %s", out.To)
		if text := word(w); text != pushed {
			flush()
			pushed = text
		}
		to = append(to, out.To.String())
	}
	flush()
}

func word(w *replica.LeaderAndIsr) string {
	s := fmt.Sprintf("version %d, leader %s, epoch %d/%d, ISR %s", w.Version, w.Leader, w.LeaderEpoch, w.PartitionEpoch, names(w.ISR))
	if len(w.ELR) > 0 {
		s += ", ELR " + names(w.ELR)
	}
	var fenced []replica.ID
	for _, b := range w.Brokers {
		if b.Fenced {
			fenced = append(fenced, b.ID)
		}
	}
	if len(fenced) > 0 {
		s += ", fenced " + names(fenced)
	}
	return s
}

func (s *story) sentence(m replica.Message) string {
	switch b := m.Body.(type) {
	case *replica.Event:
		return "event " + event(b)
	case *session.RegistrationAnswer:
		if b.Error == replica.OK {
			s.epochs[m.To] = b.BrokerEpoch
			return fmt.Sprintf("controller->%s registered: broker epoch %d", m.To, b.BrokerEpoch)
		}
		return fmt.Sprintf("controller->%s not registered: %s", m.To, b.Error)
	case *session.HeartbeatAnswer:
		fenced := ""
		if b.Fenced {
			fenced = ", fenced"
		}
		return fmt.Sprintf("controller->%s heartbeat: %s%s", m.To, b.Error, fenced)
	case *replica.AlterPartitionAnswer:
		return fmt.Sprintf("controller->%s AlterPartition answer: %s, leader %s, epoch %d/%d, ISR %s", m.To, b.Error, b.Leader, b.LeaderEpoch, b.PartitionEpoch, names(b.ISR))
	}
	return m.String()
}

func event(e *replica.Event) string {
	switch e.What {
	case controller.EventElected:
		unclean := ""
		if e.Unclean {
			unclean = ", unclean"
		}
		return fmt.Sprintf("elected %s, epoch %d/%d, ISR %s: %s%s", e.Leader, e.Epoch, e.PartitionEpoch, names(e.ISR), e.Why, unclean)
	case controller.EventISR:
		return fmt.Sprintf("ISR %s, epoch %d/%d", names(e.ISR), e.Epoch, e.PartitionEpoch)
	}
	return fmt.Sprintf("%s %s@%d", e.What, e.Broker, e.BrokerEpoch)
}

// picture is how the controller's record looks.
func (s *story) picture() string {
	v := s.ruler.Views()[0]
	p := "not created"
	if v.Created {
		p = fmt.Sprintf("leader %s, epoch %d/%d, ISR %s", v.Leader, v.LeaderEpoch, v.PartitionEpoch, names(v.ISR))
		if len(v.ELR) > 0 {
			p += ", ELR " + names(v.ELR)
		}
	}
	p += "   brokers"
	for _, b := range s.ruler.Brokers() {
		p += fmt.Sprintf(" %s@%d", b.ID, b.Epoch)
		if b.Fenced {
			p += "x"
		}
	}
	return p
}

func names(ids []replica.ID) string {
	if len(ids) == 0 {
		return "empty"
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	return strings.Join(words, ",")
}

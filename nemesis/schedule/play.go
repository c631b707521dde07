package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/checker/history"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// Result is what playing a schedule gave, beside the history that was recorded.
type Result struct {
	Transcript string
	// Story is what happened, in plain words, a line each.
	Story []string
	// Told is the part of the story that belongs to each of the file's steps, by index; the last is that of the end.
	Told [][]string
	// Impossible is the index of the step that could not happen; -1 if there is none, or none in particular.
	Impossible int
	// Inconclusive is why the schedule did not happen as it is written, with every node's view; "" if it did.
	Inconclusive string
}

// Play plays the schedule on a stage, as it is written for a protocol, under the rules that the stage's nodes have, from the settling before the first step to the dumps after the last,
// and records the history. An error is the stage's or the sink's; a step that cannot happen is no error, but makes the
// result inconclusive.
func Play(ctx context.Context, f *File, protocol rules.Protocol, set rules.Set, stage Stage, sink history.Sink) (*Result, error) {
	p := &player{file: f, protocol: protocol, rules: set, stage: stage, sink: sink,
		nodes: map[control.NodeID]*broker{}, open: map[string]*operation{}}
	for _, n := range slices.Sorted(slices.Values(f.Cluster.Replicas)) {
		p.ids = append(p.ids, n)
		p.nodes[n] = &broker{up: true}
	}
	for _, s := range f.Steps {
		if s.Verb == Deliver || s.Verb == Drop {
			p.manual = append(p.manual, strings.TrimSuffix(s.Message.Kind, " answer"))
		}
	}
	err := p.play(ctx)
	result := &Result{Transcript: p.transcript.String(), Story: p.story, Told: p.told, Impossible: -1}
	if errors.Is(err, ErrImpossible) {
		result.Inconclusive = err.Error() + "\n" + p.describe(ctx)
		if at := len(p.told); at < len(f.Steps) {
			result.Impossible = at
		}
		err = nil
	}
	return result, err
}

// broker is what the player knows of a broker without asking it.
type broker struct {
	up, paused, isolated bool
	powerFailed          bool
}

// operation is a client's request that was sent and not answered yet.
type operation struct {
	process int64
	invoke  history.Op
	message control.Message
}

type player struct {
	file       *File
	protocol   rules.Protocol
	rules      rules.Set
	stage      Stage
	sink       history.Sink
	ids        []control.NodeID // sorted
	nodes      map[control.NodeID]*broker
	manual     []string              // kinds of message that the schedule delivers itself
	open       map[string]*operation // by client address, "p4"
	acked      []string
	answers    map[int64]control.Answer
	processes  int64
	faults     int64
	transcript transcript
	story      []string
	told       [][]string // of each step that is over
	recordErr  error
}

func (p *player) play(ctx context.Context) error {
	if err := p.settle(ctx, nil); err != nil {
		return err
	}
	for _, s := range p.file.Steps {
		before := len(p.story)
		if s.Only.Contains(p.protocol) {
			if err := p.step(ctx, s); err != nil {
				return fmt.Errorf("line %d, %s: %w", s.Line, s, err)
			}
		}
		p.told = append(p.told, p.story[before:len(p.story):len(p.story)])
	}
	before := len(p.story)
	if err := p.end(ctx); err != nil {
		return err
	}
	p.told = append(p.told, p.story[before:])
	return p.recordErr
}

// step takes one step and draws its line.
func (p *player) step(ctx context.Context, s Step) error {
	err := p.take(ctx, s)
	note := ""
	if s.Optional && errors.Is(err, ErrImpossible) {
		note = err.Error()
		err = nil
	}
	if err != nil {
		return err
	}
	if s.Verb == Require {
		return nil // it moves nothing
	}
	return p.draw(ctx, s.String(), note)
}

func (p *player) take(ctx context.Context, s Step) error {
	switch s.Verb {
	case Produce:
		return p.produce(ctx, s.Value, s.To)
	case Consume:
		return p.consume(ctx, s.Nodes, false)
	case Latest:
		return p.latest(ctx, s.Nodes)
	case Settle:
		return p.settle(ctx, s.Nodes)
	case Heal:
		return p.heal(ctx, s.Nodes)
	case Deliver:
		return p.deliver(ctx, s.Message)
	case Drop:
		return p.drop(ctx, s.Message)
	case Require:
		return p.require(ctx, s.Premises)
	}
	for _, n := range s.Nodes {
		if err := p.one(ctx, s, n); err != nil {
			return err
		}
	}
	return nil
}

// one takes a step that concerns one broker at a time.
func (p *player) one(ctx context.Context, s Step, n control.NodeID) error {
	node := p.nodes[n]
	switch s.Verb {
	case Start:
		if node.up {
			return impossible("broker %d is up", n)
		}
		return p.start(ctx, n)
	case Kill, PowerFail:
		if !node.up {
			return impossible("broker %d is down", n)
		}
		return p.crash(ctx, s, n)
	case Resume:
		if !node.up || !node.paused {
			return impossible("broker %d is not paused", n)
		}
		return p.pause(ctx, n, false)
	case Isolate:
		if node.isolated {
			return impossible("broker %d is isolated", n)
		}
		return p.isolate(ctx, n, true)
	case Fence:
		return p.fence(ctx, n)
	case Transfer:
		return p.transfer(ctx, n)
	case Lag:
		return p.lag(ctx, n)
	}
	if err := p.reachable(n); err != nil {
		return err
	}
	switch s.Verb {
	case Fetch:
		return p.fetch(ctx, n, s.Mode, s.Max)
	case Learn:
		return p.learn(ctx, n)
	case Truncate:
		return p.truncate(ctx, n, s.Mode)
	case Flush:
		return p.do(ctx, n, control.Command{Do: control.Flush})
	case Checkpoint:
		return p.do(ctx, n, control.Command{Do: control.Checkpoint})
	case Fail:
		return p.do(ctx, n, control.Command{Do: control.FailAppend})
	case Pause:
		return p.pause(ctx, n, true)
	case Unfence:
		return p.unfence(ctx, n)
	}
	return fmt.Errorf("verb %q is not played", s.Verb)
}

// reachable says why a broker cannot be given a command.
func (p *player) reachable(n control.NodeID) error {
	switch node := p.nodes[n]; {
	case !node.up:
		return impossible("broker %d is down", n)
	case node.paused:
		return impossible("broker %d is paused", n)
	}
	return nil
}

// do gives a command and deals with what it gave rise to.
func (p *player) do(ctx context.Context, at control.NodeID, c control.Command) error {
	_, err := p.command(ctx, at, c)
	return err
}

// command gives a command, deals with what it gave rise to, and returns the reply.
func (p *player) command(ctx context.Context, at control.NodeID, c control.Command) (control.Reply, error) {
	reply, err := p.stage.Do(ctx, at, c)
	if err != nil {
		return reply, err
	}
	if reply.Error != "" {
		return reply, impossible("%s", reply.Error)
	}
	return reply, p.follow(ctx, reply)
}

// follow records a reply's events and moves on what no step has to name: answers to clients, the word of lost messages to
// their senders, the exchange of ISR changes with the controller, acknowledgements of the controller's word.
func (p *player) follow(ctx context.Context, reply control.Reply) error {
	for _, e := range reply.Events {
		p.event(e)
	}
	for _, m := range reply.Sent {
		var err error
		switch {
		case m.Fate == control.FateLost:
			err = p.lost(ctx, m)
		case m.Fate == control.FateSent:
			err = p.receive(ctx, m)
		case m.Fate == control.FateHeld && p.automatic(m):
			err = p.do(ctx, p.at(m.To), control.Command{Do: control.Deliver, Message: &m})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// automatic says whether the message goes on as part of the step that sent it.
func (p *player) automatic(m control.Message) bool {
	kind := strings.TrimSuffix(m.Kind, " answer")
	if slices.Contains(p.manual, kind) {
		return false
	}
	switch kind {
	case "AlterPartition", "BrokerRegistration", "BrokerHeartbeat":
		return true
	case "LeaderAndIsr":
		return m.IsAnswer()
	}
	return false
}

// lost tells the sender of a request, or whoever waits for an answer, that the connection broke.
func (p *player) lost(ctx context.Context, m control.Message) error {
	request := m
	if m.IsAnswer() {
		request = m.Request()
	}
	sender := p.at(request.From)
	if sender == 0 || sender != control.Controller && p.reachable(sender) != nil {
		return nil // a client's stays open; a node that is down needs no telling
	}
	return p.do(ctx, sender, control.Command{Do: control.Break, Message: &request})
}

// at is the node with that address, 0 for a client.
func (p *player) at(address string) control.NodeID {
	if address == control.Controller.String() {
		return control.Controller
	}
	for _, n := range p.ids {
		if n.String() == address {
			return n
		}
	}
	return 0
}

// look is a broker's view of its replica.
func (p *player) look(ctx context.Context, n control.NodeID) (control.View, control.PartitionView, error) {
	reply, err := p.stage.Do(ctx, n, control.Command{Do: control.Look})
	if err != nil {
		return reply.View, control.PartitionView{}, err
	}
	if len(reply.View.Partitions) != 1 {
		return reply.View, control.PartitionView{}, fmt.Errorf("broker %d has %d partitions, a schedule plays with one", n, len(reply.View.Partitions))
	}
	return reply.View, reply.View.Partitions[0], nil
}

// record is the controller's view.
func (p *player) record(ctx context.Context) (control.View, control.RecordView, error) {
	reply, err := p.stage.Do(ctx, control.Controller, control.Command{Do: control.Look})
	if err != nil {
		return reply.View, control.RecordView{}, err
	}
	if len(reply.View.Records) != 1 {
		return reply.View, control.RecordView{}, fmt.Errorf("the controller has %d partitions, a schedule plays with one", len(reply.View.Records))
	}
	return reply.View, reply.View.Records[0], nil
}

// leader is the broker that leads by the controller's record.
func (p *player) leader(ctx context.Context) (control.NodeID, error) {
	_, r, err := p.record(ctx)
	if err == nil && r.Leader == 0 {
		err = impossible("nobody leads")
	}
	return r.Leader, err
}

// fenced says whether the controller holds the broker for fenced.
func (p *player) fenced(ctx context.Context, n control.NodeID) (bool, error) {
	v, _, err := p.record(ctx)
	for _, b := range v.Brokers {
		if b.Node == n {
			return b.Fenced, err
		}
	}
	return true, err
}

// describe is every node's view, for a schedule that did not go as it is written.
func (p *player) describe(ctx context.Context) string {
	var b strings.Builder
	if _, r, err := p.record(ctx); err == nil {
		fmt.Fprintf(&b, "  %s\n", controllerText(r))
	}
	for _, n := range slices.Sorted(maps.Keys(p.nodes)) {
		if p.reachable(n) != nil {
			fmt.Fprintf(&b, "  broker %s\n", column(n, *p.nodes[n], control.PartitionView{}))
			continue
		}
		v, r, err := p.look(ctx, n)
		if err != nil {
			fmt.Fprintf(&b, "  broker %d: %v\n", n, err)
			continue
		}
		fmt.Fprintf(&b, "  broker %s: leader %d, epoch %d, log end offset %d, high watermark %d, truncating %t, waiting: %v\n",
			column(n, *p.nodes[n], r), r.Leader, r.LeaderEpoch, r.LEO, r.HW, r.Truncating, v.Held)
	}
	return b.String()
}

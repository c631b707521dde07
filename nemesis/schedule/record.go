package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker/history"
	"tidemark/node/control"
)

// produce sends a value to the leader, or to the broker named, as a process of its own. The answer may come with a later
// step.
func (p *player) produce(ctx context.Context, value string, to control.NodeID) error {
	if to == 0 {
		leader, err := p.leader(ctx)
		if err != nil {
			return err
		}
		to = leader
	}
	if err := p.reachable(to); err != nil {
		return err
	}
	op := history.Op{Type: history.Produce, Partition: Partition, Values: []string{value}, Acks: -1, Offset: history.Unknown, Node: int32(to)}
	_, err := p.operate(ctx, to, op, control.Request{Partition: Partition, Produce: true, Value: value})
	return err
}

// asked is the broker that a consumer asks: the one named, or the leader.
func (p *player) asked(ctx context.Context, nodes []control.NodeID) (control.NodeID, error) {
	if len(nodes) > 0 {
		return nodes[0], p.reachable(nodes[0])
	}
	leader, err := p.leader(ctx)
	if err != nil {
		return 0, err
	}
	return leader, p.reachable(leader)
}

// latest asks for the latest offset. An error is an answer too.
func (p *player) latest(ctx context.Context, nodes []control.NodeID) error {
	from, err := p.asked(ctx, nodes)
	if err != nil {
		return err
	}
	op := history.Op{Type: history.End, Partition: Partition, Node: int32(from), Offset: history.Unknown}
	answer, err := p.operate(ctx, from, op, control.Request{Partition: Partition, Latest: true})
	if err == nil && answer == nil {
		return impossible("broker %d does not answer consumers", from)
	}
	return err
}

// consume reads a broker's log from its beginning to its high watermark, one fetch after the other.
func (p *player) consume(ctx context.Context, nodes []control.NodeID, final bool) error {
	from, err := p.asked(ctx, nodes)
	if err != nil {
		return err
	}
	for at := int64(0); ; {
		op := history.Op{Type: history.Fetch, Partition: Partition, From: at, Node: int32(from), Offset: history.Unknown, Final: final}
		answer, err := p.operate(ctx, from, op, control.Request{Partition: Partition, Offset: at})
		switch {
		case err != nil:
			return err
		case answer == nil:
			return impossible("broker %d does not answer consumers", from)
		case answer.Error != "":
			return impossible("broker %d answers %s", from, answer.Error)
		}
		if n := len(answer.Records); n > 0 {
			at = answer.Records[n-1].Offset + 1
		}
		if at >= answer.HW || len(answer.Records) == 0 {
			return nil
		}
	}
}

// operate records and sends one operation of a new process. The answer is nil if it did not come yet.
func (p *player) operate(ctx context.Context, to control.NodeID, op history.Op, r control.Request) (*control.Answer, error) {
	process := p.processes
	p.processes++
	p.append(history.Event{Kind: history.Invoke, Process: process, Op: op})
	m, err := p.stage.Send(ctx, process, to, r)
	if err != nil {
		return nil, err
	}
	p.open[fmt.Sprintf("p%d", process)] = &operation{process: process, invoke: op, message: m}
	switch m.Fate {
	case control.FateHeld:
		err = p.do(ctx, to, control.Command{Do: control.Deliver, Message: &m})
	case control.FateHandled:
		err = p.receive(ctx, control.Message{From: m.To, To: m.From})
	}
	if err != nil {
		return nil, err
	}
	if a, ok := p.answers[process]; ok {
		return &a, nil
	}
	return nil, nil
}

// receive takes the answer that a client got, and records it.
func (p *player) receive(ctx context.Context, m control.Message) error {
	o, ok := p.open[m.To]
	if !ok {
		return nil // its process has given up
	}
	a, err := p.stage.Receive(ctx, o.process)
	if err != nil {
		return err
	}
	delete(p.open, m.To)
	if p.answers == nil {
		p.answers = map[int64]control.Answer{}
	}
	p.answers[o.process] = a
	op := o.invoke
	op.Values, op.Acks, op.Error = nil, 0, a.Error
	e := history.Event{Kind: history.OK, Process: o.process}
	switch {
	case a.Refused:
		e.Kind = history.Fail
	case a.Error != "" && op.Type == history.Produce:
		e.Kind = history.Info
	case a.Error != "":
		e.Kind = history.Fail // a read that got nothing
	case op.Type == history.End:
		op.Offset = a.Offset
	case op.Type == history.Produce:
		op.Offset = a.Offset
		value := o.invoke.Values[0]
		p.acked = append(p.acked, value)
	default:
		op.Records = historyRecords(a.Records)
		op.HighWatermark = a.HW
	}
	e.Op = op
	p.append(e)
	p.tellAnswer(o, a)
	return nil
}

// closeOpen records that nobody knows what became of the operations without an answer.
func (p *player) closeOpen() {
	var open []*operation
	for _, o := range p.open {
		open = append(open, o)
	}
	slices.SortFunc(open, func(a, b *operation) int { return int(a.process - b.process) })
	for _, o := range open {
		op := o.invoke
		op.Values, op.Acks, op.Error = nil, 0, "no answer"
		p.append(history.Event{Kind: history.Info, Process: o.process, Op: op})
	}
	clear(p.open)
}

// event records what a node did.
func (p *player) event(e control.Event) {
	p.append(history.Event{Kind: history.KindNode, Node: NodeEvent(e)})
	p.tellEvent(e)
}

// NodeEvent is the event as a history has it.
func NodeEvent(e control.Event) *history.NodeEvent {
	n := &history.NodeEvent{Node: int32(e.Node), What: history.What(e.What), Partition: e.Partition, Epoch: e.Epoch,
		PartitionEpoch: e.PartitionEpoch, From: e.From, To: e.To, HW: e.HW, Leader: int32(e.Leader), Role: e.Role, Why: e.Why,
		Broker: int32(e.Broker), BrokerEpoch: e.BrokerEpoch, Bytes: e.Bytes, Unclean: e.Unclean}
	if n.Leader == 0 {
		n.Leader = history.Unknown
	}
	if e.ISR != nil {
		n.ISR = make([]int32, len(e.ISR))
		for i, id := range e.ISR {
			n.ISR[i] = int32(id)
		}
	}
	return n
}

// dump records a replica as it is at the end.
func (p *player) dump(n control.NodeID, v control.PartitionView) {
	r := &history.Replica{Node: int32(n), Partition: Partition, Entries: historyRecords(v.Log), HW: v.HW, LEO: v.LEO}
	for _, e := range v.Epochs {
		r.Epochs = append(r.Epochs, history.EpochStart{Epoch: e.Epoch, Start: e.Start})
	}
	p.append(history.Event{Kind: history.KindReplica, Replica: r})
}

func historyRecords(records []control.Record) []history.Record {
	out := make([]history.Record, len(records))
	for i, r := range records {
		out[i] = history.Record{Offset: r.Offset, Epoch: r.Epoch, Value: r.Value}
	}
	return out
}

func (p *player) faultBegins(verb, asked string, n control.NodeID) int64 {
	p.faults++
	p.append(history.Event{Kind: history.KindFault, Fault: &history.FaultEvent{ID: p.faults, Phase: history.Begin, Verb: verb,
		Asked: asked, Nodes: []int32{int32(n)}}})
	return p.faults
}

func (p *player) faultEnds(id int64, verb, asked string, n control.NodeID, evidence Evidence) {
	p.append(history.Event{Kind: history.KindFault, Fault: &history.FaultEvent{ID: id, Phase: history.Over, Verb: verb,
		Asked: asked, Nodes: []int32{int32(n)}, Evidence: evidence.Measured, Proven: evidence.Proven}})
}

func (p *player) append(e history.Event) {
	if err := p.sink.Append(&e); err != nil && p.recordErr == nil {
		p.recordErr = err
	}
}

// require checks premises.
func (p *player) require(ctx context.Context, premises []Premise) error {
	for _, want := range premises {
		is, err := p.observe(ctx, want)
		if err != nil {
			return err
		}
		if is != want.String() {
			return impossible("require %s: it is %s", want, is)
		}
	}
	return nil
}

// observe is the premise as it really is.
func (p *player) observe(ctx context.Context, want Premise) (string, error) {
	is := want
	switch want.What {
	case "acked":
		if !slices.Contains(p.acked, want.Value) {
			return "not acked", nil
		}
	case "hw", "log":
		if err := p.reachable(want.Node); err != nil {
			return "", err
		}
		_, v, err := p.look(ctx, want.Node)
		if err != nil {
			return "", err
		}
		is.Offset, is.Values = v.HW, nil
		for _, r := range v.Log {
			is.Values = append(is.Values, r.Value)
		}
	default:
		_, r, err := p.record(ctx)
		if err != nil {
			return "", err
		}
		is.Node, is.Nodes = r.Leader, r.ISR
	}
	return is.String(), nil
}

// tellAnswer and tellEvent write the story.
func (p *player) tellAnswer(o *operation, a control.Answer) {
	switch {
	case o.invoke.Type == history.Produce && a.Error == "":
		p.tell("%s is acknowledged at offset %d", o.invoke.Values[0], a.Offset)
	case o.invoke.Type == history.Produce && a.Refused:
		p.tell("%s is refused: %s", o.invoke.Values[0], a.Error)
	case o.invoke.Type == history.Produce:
		p.tell("nobody knows whether %s was written: %s", o.invoke.Values[0], a.Error)
	case o.invoke.Type == history.End && a.Error == "":
		p.tell("broker %d says that the log ends at %d", o.invoke.Node, a.Offset)
	case o.invoke.Type == history.End:
		p.tell("broker %d does not say where the log ends: %s", o.invoke.Node, a.Error)
	case a.Error == "" && len(a.Records) > 0:
		var values []string
		for _, r := range a.Records {
			values = append(values, fmt.Sprintf("%s at %d", r.Value, r.Offset))
		}
		p.tell("a consumer reads %s from broker %d", strings.Join(values, ", "), o.invoke.Node)
	}
}

func (p *player) tellEvent(e control.Event) {
	switch history.What(e.What) {
	case history.Truncated:
		if e.To < e.From {
			below := ""
			if e.To < e.HW {
				below = fmt.Sprintf(", below its high watermark %d", e.HW)
			}
			p.tell("broker %d cuts its log from %d to %d%s: %s", e.Node, e.From, e.To, below, e.Why)
		}
	case history.Elected:
		if e.Leader == 0 {
			p.tell("nobody leads in epoch %d (%s)", e.Epoch, isrText(e.ISR))
		} else {
			p.tell("broker %d leads in epoch %d (%s, %s)", e.Leader, e.Epoch, e.Why, isrText(e.ISR))
		}
	case history.PowerLoss:
		p.tell("a power failure takes %d bytes from broker %d: its log ends at %d", e.Bytes, e.Node, e.To)
	case history.Offline, "stuck":
		p.tell("broker %d is %s: %s", e.Node, e.What, e.Why)
	}
}

func (p *player) tell(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

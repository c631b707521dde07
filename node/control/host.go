package control

import (
	"fmt"
	"hash/fnv"

	"tidemark/node/controller"
	"tidemark/node/inbox"
	"tidemark/node/replica"
)

// Host carries commands out over the cores of one process. It is not safe for concurrent use.
type Host struct {
	self   NodeID
	inbox  *inbox.Inbox
	broker *inbox.Broker          // nil for the controller
	ruler  *controller.Controller // nil for a broker
	values func(data []byte) []string
}

// NewBroker makes the host of a broker. Values reads the values out of a batch's data, one for each of its records; if it is
// nil, views are without logs.
func NewBroker(self NodeID, x *inbox.Inbox, b *inbox.Broker, values func([]byte) []string) *Host {
	return &Host{self: self, inbox: x, broker: b, values: values}
}

// NewController makes the host of the controller.
func NewController(x *inbox.Inbox, k *controller.Controller) *Host {
	return &Host{self: Controller, inbox: x, ruler: k}
}

// Do carries a command out. The messages of the second result are for the driver to send, all of them: those that are
// lost with the node's connections are not among them. Await and Resend are the driver's own business.
func (h *Host) Do(now replica.Time, c Command) (Reply, []replica.Message) {
	out, err := h.do(now, c)
	reply, send := h.Report(out)
	reply.View = h.View(now)
	if err != nil {
		reply.Error = err.Error()
	}
	return reply, send
}

// Report tells what a step gave rise to, and keeps what has to be sent.
func (h *Host) Report(out []replica.Message) (Reply, []replica.Message) {
	var reply Reply
	send := out[:0:0]
	for _, m := range out {
		if e, ok := m.Body.(*replica.Event); ok {
			reply.Events = append(reply.Events, NewEvent(m, e))
			continue
		}
		sent := Name(m)
		if h.inbox.Alone() && m.To.IsClient() {
			sent.Fate = FateLost
			reply.Sent = append(reply.Sent, sent)
			continue
		}
		reply.Sent = append(reply.Sent, sent)
		send = append(send, m)
	}
	return reply, send
}

func (h *Host) do(now replica.Time, c Command) ([]replica.Message, error) {
	self := replica.ID(h.self)
	step := func(p replica.Partition, b replica.Body) []replica.Message {
		return h.inbox.Step(now, replica.Message{From: self, To: self, Partition: p, Body: b}, nil)
	}
	switch c.Do {
	case Deliver, Drop, Break:
		return h.onMessage(now, c)
	case Cut:
		senders := make([]replica.ID, len(c.From))
		for i, n := range c.From {
			senders[i] = replica.ID(n)
		}
		h.inbox.Cut(c.Alone, senders)
		return nil, nil
	case Look:
		return nil, nil
	}
	if h.broker != nil {
		switch c.Do {
		case Heartbeat:
			return step(replica.Partition{}, &replica.Poll{}), nil
		case Poll:
			return h.eachPartition(step, func() replica.Body { return &replica.Poll{MaxRecords: c.Max} }), nil
		case Lag:
			return h.eachPartition(step, func() replica.Body { return &replica.Lag{Replica: replica.ID(c.Node)} }), nil
		case Flush:
			return nil, h.broker.Flush()
		case Checkpoint:
			return nil, h.broker.Checkpoint()
		case FailAppend:
			h.broker.FailNextAppend()
			return nil, nil
		}
	} else {
		switch c.Do {
		case Fence:
			return step(replica.Partition{}, &controller.Fence{Broker: replica.ID(c.Node)}), nil
		case Transfer:
			return h.eachPartition(step, func() replica.Body { return &controller.Transfer{To: replica.ID(c.Node)} }), nil
		case Push:
			return h.eachPartition(step, func() replica.Body { return &controller.Push{To: replica.ID(c.Node)} }), nil
		}
	}
	return nil, fmt.Errorf("%s does not know the command %q", h.self, c.Do)
}

func (h *Host) eachPartition(step func(replica.Partition, replica.Body) []replica.Message, body func() replica.Body) []replica.Message {
	var out []replica.Message
	if h.broker != nil {
		for _, p := range h.broker.Partitions() {
			out = append(out, step(p, body())...)
		}
		return out
	}
	for _, v := range h.ruler.Views() {
		out = append(out, step(v.Partition, body())...)
	}
	return out
}

// onMessage delivers, drops or breaks the message that the command names.
func (h *Host) onMessage(now replica.Time, c Command) ([]replica.Message, error) {
	if c.Message == nil {
		return nil, fmt.Errorf("command %s: names no message", c.Do)
	}
	m := *c.Message
	if c.Do == Break {
		to, err := replica.ParseID(m.To)
		if err != nil {
			return nil, err
		}
		var out []replica.Message
		for _, p := range h.concerned(replica.Kind(m.Kind)) {
			lost := replica.Message{From: to, To: replica.ID(h.self), Partition: p, Number: m.Number,
				Body: &replica.ConnectionLost{Request: replica.Kind(m.Kind)}}
			out = h.inbox.Step(now, lost, out)
		}
		return out, nil
	}
	from, err := replica.ParseID(m.From)
	if err != nil {
		return nil, err
	}
	if c.Do == Drop {
		if _, ok := h.inbox.Drop(from, replica.Kind(m.Kind), m.Number); !ok {
			return nil, fmt.Errorf("%s does not wait at %s", m, h.self)
		}
		return nil, nil
	}
	out, ok := h.inbox.Deliver(now, from, replica.Kind(m.Kind), m.Number, nil)
	if !ok {
		return nil, fmt.Errorf("%s does not wait at %s", m, h.self)
	}
	return out, nil
}

// concerned lists the partitions whose cores send requests of that kind; the zero partition is the session's.
func (h *Host) concerned(kind replica.Kind) []replica.Partition {
	switch {
	case h.ruler != nil:
		var all []replica.Partition
		for _, v := range h.ruler.Views() {
			all = append(all, v.Partition)
		}
		return all
	case kind == "BrokerRegistration" || kind == "BrokerHeartbeat":
		return []replica.Partition{{}}
	}
	return h.broker.Partitions()
}

// View is how the node looks, logs included.
func (h *Host) View(now replica.Time) View {
	v := View{Node: h.self}
	digest := fnv.New64a()
	for _, m := range h.inbox.Held() {
		v.Held = append(v.Held, Name(m))
	}
	if h.broker != nil {
		digest.Write(h.broker.AppendState(now, nil))
		v.Fenced = h.broker.Session().Fenced()
		for _, p := range h.broker.Partitions() {
			v.Partitions = append(v.Partitions, h.partitionView(p))
		}
	} else {
		digest.Write(h.ruler.AppendState(nil))
		v.Records, v.Brokers = Views(h.ruler.Views(), h.ruler.Brokers())
	}
	v.State = fmt.Sprintf("%016x", digest.Sum64())
	return v
}

// Views are the controller's records and brokers for a harness.
func Views(parts []controller.View, known []controller.BrokerView) (records []RecordView, brokers []BrokerView) {
	for _, r := range parts {
		records = append(records, RecordView{Partition: r.Partition.String(), Created: r.Created, Replicas: nodes(r.Replicas), Leader: NodeID(r.Leader),
			LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ISR: nodes(r.ISR), ELR: nodes(r.ELR)})
	}
	for _, b := range known {
		brokers = append(brokers, BrokerView{Node: NodeID(b.ID), Epoch: b.Epoch, Fenced: b.Fenced, Host: b.Host, Port: b.Port})
	}
	return records, brokers
}

func (h *Host) partitionView(p replica.Partition) PartitionView {
	r, _ := h.broker.View(p)
	v := NewPartitionView(p, r)
	for at := r.Start; at < r.LEO && h.values != nil; {
		batches, err := h.broker.Read(p, at, 1<<20)
		if err != nil || len(batches) == 0 {
			break // a log that failed: its end is in the view
		}
		for _, b := range batches {
			for i, value := range h.values(b.Data) {
				v.Log = append(v.Log, Record{Offset: b.Base + int64(i), Epoch: b.Epoch, Value: value})
			}
			at = b.End()
		}
	}
	return v
}

// NewPartitionView is how a replica looks, its log's content excepted.
func NewPartitionView(p replica.Partition, r replica.View) PartitionView {
	v := PartitionView{Partition: p.String(), Role: r.Role.String(), Truncating: r.Truncating, Leader: NodeID(r.Leader),
		LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Start: r.Start, LEO: r.LEO, HW: r.HW, ISR: nodes(r.ISR)}
	for _, e := range r.Epochs {
		v.Epochs = append(v.Epochs, Epoch{e.Epoch, e.Start})
	}
	return v
}

// Name is the message's name.
func Name(m replica.Message) Message {
	return Message{From: m.From.String(), To: m.To.String(), Kind: string(m.Body.Kind()), Number: m.Number}
}

// NewEvent is the event of a core as a harness sees it.
func NewEvent(m replica.Message, e *replica.Event) Event {
	v := Event{Node: NodeID(m.From), What: string(e.What), Leader: NodeID(e.Leader), Epoch: e.Epoch, PartitionEpoch: e.PartitionEpoch,
		From: e.From, To: e.To, HW: e.HW, ISR: nodes(e.ISR), Broker: NodeID(e.Broker), BrokerEpoch: e.BrokerEpoch, Why: e.Why, Unclean: e.Unclean}
	if m.Partition != (replica.Partition{}) {
		v.Partition = m.Partition.String()
	}
	if e.What == replica.EventRole {
		v.Role = e.Role.String()
	}
	return v
}

func nodes(ids []replica.ID) []NodeID {
	if ids == nil {
		return nil
	}
	out := make([]NodeID, len(ids))
	for i, id := range ids {
		out[i] = NodeID(id)
	}
	return out
}

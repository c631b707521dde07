package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/inbox"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

// Stage is a cluster that moves step by step. It satisfies schedule.Stage. It is not safe for concurrent use.
type Stage struct {
	topic   controller.Topic
	rules   rules.Set
	nodes   map[control.NodeID]*node
	ids     []control.NodeID // brokers, sorted
	answers map[string]control.Answer
	numbers map[int64]int32 // of each process's requests
}

// node is one process and, for a broker, its disk, which outlives it.
type node struct {
	id      control.NodeID
	up      bool
	paused  bool
	inbox   *inbox.Inbox
	host    *control.Host
	disk    *memory.Disk
	starts  int32
	cut     *replica.LogCut   // of a power failure before the next start
	frozen  []replica.Message // arrived while paused
	started int32             // number of the first request of this incarnation
}

var _ schedule.Stage = (*Stage)(nil)

// perStart is how many requests an incarnation may send before its numbers run into the next one's.
const perStart = 100_000

// NewStage makes a cluster for the schedule, every broker registered and the partition created.
func NewStage(ctx context.Context, c schedule.Cluster, set rules.Set) (*Stage, error) {
	name, err := replica.ParsePartition(schedule.Partition)
	if err != nil {
		return nil, err
	}
	s := &Stage{rules: set, nodes: map[control.NodeID]*node{}, answers: map[string]control.Answer{}, numbers: map[int64]int32{},
		topic: controller.Topic{Partition: name, MinISR: c.MinISR}}
	for _, n := range c.Replicas {
		s.topic.Replicas = append(s.topic.Replicas, replica.ID(n))
		s.ids = append(s.ids, n)
	}
	slices.Sort(s.ids)
	config := controller.Config{Rules: set, Topics: []controller.Topic{s.topic}, Unclean: c.Unclean}
	for _, n := range s.ids {
		config.Brokers = append(config.Brokers, replica.ID(n))
	}
	k, err := controller.Open(config)
	if err != nil {
		return nil, err
	}
	x := inbox.New(k, true)
	s.nodes[control.Controller] = &node{id: control.Controller, up: true, inbox: x, host: control.NewController(x, k)}
	for _, n := range s.ids {
		s.nodes[n] = &node{id: n, disk: memory.New()}
		if _, err := s.Start(ctx, n); err != nil {
			return nil, err
		}
	}
	return s, schedule.Register(ctx, s, s.ids)
}

// Do gives a command to a node.
func (s *Stage) Do(_ context.Context, at control.NodeID, c control.Command) (control.Reply, error) {
	n, err := s.running(at)
	if err != nil {
		return control.Reply{}, err
	}
	reply, send := n.host.Do(0, c)
	s.send(n, &reply, send)
	reply.View = n.host.View(0)
	return reply, nil
}

func (s *Stage) running(at control.NodeID) (*node, error) {
	n := s.nodes[at]
	switch {
	case n == nil:
		return nil, fmt.Errorf("no node %s", at)
	case !n.up:
		return nil, fmt.Errorf("broker %s is down", at)
	case n.paused:
		return nil, fmt.Errorf("broker %s is paused", at)
	}
	return n, nil
}

// send brings messages to their receivers' inboxes and notes in the reply what became of them.
func (s *Stage) send(from *node, reply *control.Reply, messages []replica.Message) {
	for _, m := range messages {
		name := control.Name(m)
		fate := s.route(from, m)
		for i := range reply.Sent {
			if reply.Sent[i].Same(name) && reply.Sent[i].Fate == "" {
				reply.Sent[i].Fate = fate
				break
			}
		}
	}
}

func (s *Stage) route(from *node, m replica.Message) control.Fate {
	if m.To.IsClient() {
		s.answers[m.To.String()] = clientAnswer(m)
		return control.FateSent
	}
	to := s.nodes[control.NodeID(m.To)]
	isAnswer := strings.HasSuffix(string(m.Body.Kind()), " answer")
	switch {
	case to == nil || !to.up:
		return control.FateLost
	case isAnswer && to.id != control.Controller && m.Number < to.started:
		return control.FateLost // the connection over which it was asked went with the process that asked
	case to.paused:
		to.frozen = append(to.frozen, m)
		return control.FateFrozen
	}
	return s.arrive(to, m)
}

// arrive puts a message into its receiver's inbox. What no inbox holds is a client's question, and answered at once.
func (s *Stage) arrive(to *node, m replica.Message) control.Fate {
	out, fate := to.inbox.Arrive(0, m, nil)
	for _, answer := range out {
		if answer.To.IsClient() {
			s.answers[answer.To.String()] = clientAnswer(answer)
		}
	}
	return control.Fate(fate)
}

// Start starts a broker with what its disk holds.
func (s *Stage) Start(_ context.Context, id control.NodeID) (control.Reply, error) {
	n := s.nodes[id]
	if n == nil || n.up {
		return control.Reply{}, fmt.Errorf("broker %s is up or does not exist", id)
	}
	var reply control.Reply
	if n.cut != nil {
		log, err := n.disk.Log(s.topic.Partition)
		if err != nil {
			return reply, err
		}
		before := log.End()
		lost, err := n.disk.Power(replica.Cut{s.topic.Partition: *n.cut})
		if err != nil {
			return reply, err
		}
		n.cut = nil
		e := control.Event{Node: id, Partition: s.topic.Partition.String(), What: string(history.PowerLoss), From: before, To: before}
		for _, l := range lost {
			e.To, e.Bytes = l.End, l.Bytes
		}
		reply.Events = append(reply.Events, e)
	}
	n.starts++
	n.started = (n.starts-1)*perStart + 1
	config := inbox.Config{
		Session: session.Config{Self: replica.ID(id), Incarnation: uint64(n.starts), Host: "broker" + strconv.Itoa(int(id)), Port: 9092, FirstNumber: n.started},
		Replica: replica.Config{Self: replica.ID(id), Rules: s.rules, FirstNumber: n.started},
		Hosted:  []inbox.Hosted{{Partition: s.topic.Partition, MinISR: s.topic.MinISR}},
	}
	b, err := inbox.Start(config, n.disk)
	if err != nil {
		return reply, err
	}
	n.inbox = inbox.New(b, true)
	n.host = control.NewBroker(id, n.inbox, b, func(data []byte) []string { return []string{string(data)} })
	n.up = true
	v, _ := b.View(s.topic.Partition)
	reply.Events = append(reply.Events, control.Event{Node: id, Partition: s.topic.Partition.String(), What: string(history.Recovered), To: v.LEO, HW: v.HW})
	reply.View = n.host.View(0)
	return reply, nil
}

// Kill ends a broker at once.
func (s *Stage) Kill(_ context.Context, id control.NodeID) (schedule.Evidence, error) {
	n := s.nodes[id]
	if n == nil || !n.up {
		return schedule.Evidence{}, fmt.Errorf("broker %s is down or does not exist", id)
	}
	n.up, n.paused, n.inbox, n.host, n.frozen = false, false, nil, nil, nil
	return proven("process", "gone"), nil
}

// PowerFail kills a broker and cuts its disk before it starts again.
func (s *Stage) PowerFail(ctx context.Context, id control.NodeID, cut schedule.Cut) (schedule.Evidence, error) {
	evidence, err := s.Kill(ctx, id)
	if err == nil {
		s.nodes[id].cut = &replica.LogCut{Keep: cut.Keep, Torn: cut.Torn}
	}
	return evidence, err
}

// Pause freezes a broker or lets it go on.
func (s *Stage) Pause(_ context.Context, id control.NodeID, on bool) (control.Reply, schedule.Evidence, error) {
	n := s.nodes[id]
	if n == nil || !n.up || n.paused == on {
		return control.Reply{}, schedule.Evidence{}, fmt.Errorf("broker %s is down, or is that way already", id)
	}
	n.paused = on
	var reply control.Reply
	if !on {
		for _, m := range n.frozen {
			name := control.Name(m)
			name.Fate = s.arrive(n, m)
			reply.Sent = append(reply.Sent, name)
		}
		n.frozen = nil
	}
	return reply, proven("paused", strconv.FormatBool(on)), nil
}

func proven(name, value string) schedule.Evidence {
	return schedule.Evidence{Measured: []history.Measurement{{Name: name, Value: value}}, Proven: true}
}

// Send sends a client's request.
func (s *Stage) Send(_ context.Context, process int64, to control.NodeID, r control.Request) (control.Message, error) {
	n, err := s.running(to)
	if err != nil {
		return control.Message{}, err
	}
	s.numbers[process]++
	m := replica.Message{From: replica.Client(process), To: replica.ID(to), Partition: s.topic.Partition, Number: s.numbers[process]}
	switch {
	case r.Produce:
		m.Body = &replica.Produce{Acks: replica.AcksAll, Batch: replica.Batch{Count: 1, Producer: replica.NoProducer, Data: []byte(r.Value)}}
	case r.Latest:
		m.Body = &replica.ListOffsets{LeaderEpoch: replica.NoEpoch, Timestamp: replica.LatestOffset}
	default:
		m.Body = &replica.Fetch{Offset: r.Offset, LeaderEpoch: replica.NoEpoch, BrokerEpoch: replica.NoBrokerEpoch, MaxBytes: 1 << 20, FromFollower: true}
	}
	name := control.Name(m)
	name.Fate = s.arrive(n, m)
	return name, nil
}

// Receive is the answer to the process's request.
func (s *Stage) Receive(_ context.Context, process int64) (control.Answer, error) {
	address := replica.Client(process).String()
	a, ok := s.answers[address]
	if !ok {
		return a, fmt.Errorf("process %d has no answer", process)
	}
	delete(s.answers, address)
	return a, nil
}

func clientAnswer(m replica.Message) control.Answer {
	var a control.Answer
	code := replica.OK
	switch b := m.Body.(type) {
	case *replica.ProduceAnswer:
		code, a.Refused, a.Offset = b.Error, b.Refused, b.Base
	case *replica.ListOffsetsAnswer:
		code, a.Offset = b.Error, b.Offset
	case *replica.FetchAnswer:
		code, a.HW = b.Error, b.HighWatermark
		for _, batch := range b.Batches {
			a.Records = append(a.Records, control.Record{Offset: batch.Base, Epoch: batch.Epoch, Value: string(batch.Data)})
		}
	}
	if code != replica.OK {
		a.Error = code.String()
	}
	return a
}

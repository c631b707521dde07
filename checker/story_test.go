package checker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

const orders = "orders-0"

// story builds the history of a run on one partition, an event a millisecond.
type story struct {
	events  []history.Event
	process int64
	faults  int64
}

func (s *story) add(e history.Event) *story {
	e.Seq = int64(len(s.events)) + 1
	e.Time = e.Seq * 1e6
	s.events = append(s.events, e)
	return s
}

func (s *story) call(op history.Op) int64 {
	s.process++
	op.Partition = orders
	s.add(history.Event{Kind: history.Invoke, Process: s.process, Op: op})
	return s.process
}

func (s *story) answer(p int64, k history.Kind, op history.Op) *story {
	op.Partition = orders
	return s.add(history.Event{Kind: k, Process: p, Op: op})
}

func (s *story) produceAcks(acks int16, offset int64, values ...string) *story {
	p := s.call(history.Op{Type: history.Produce, Values: values, Acks: acks})
	return s.answer(p, history.OK, history.Op{Type: history.Produce, Offset: offset})
}

func (s *story) produce(offset int64, values ...string) *story {
	return s.produceAcks(-1, offset, values...)
}

func (s *story) unknown(values ...string) *story {
	p := s.call(history.Op{Type: history.Produce, Values: values, Acks: -1})
	return s.answer(p, history.Info, history.Op{Type: history.Produce, Error: "REQUEST_TIMED_OUT"})
}

func records(from int64, values ...string) []history.Record {
	var rs []history.Record
	for i, v := range values {
		rs = append(rs, history.Record{Offset: from + int64(i), Epoch: history.Unknown, Value: v})
	}
	return rs
}

func (s *story) fetch(from, hw int64, values ...string) *story {
	p := s.call(history.Op{Type: history.Fetch, From: from, Node: 1})
	return s.answer(p, history.OK, history.Op{Type: history.Fetch, Records: records(from, values...), HighWatermark: hw, Node: 1})
}

func (s *story) end(offset int64) *story {
	p := s.call(history.Op{Type: history.End, Node: 1})
	return s.answer(p, history.OK, history.Op{Type: history.End, Offset: offset, Node: 1})
}

// final reads the whole log at the end of the run.
func (s *story) final(values ...string) *story {
	p := s.call(history.Op{Type: history.Fetch, Final: true, Node: 1})
	return s.answer(p, history.OK, history.Op{Type: history.Fetch, Final: true, Node: 1, HighWatermark: int64(len(values)),
		Records: records(0, values...)})
}

func (s *story) node(n history.NodeEvent) *story {
	if n.Partition == "" {
		n.Partition = orders
	}
	return s.add(history.Event{Kind: history.KindNode, Node: &n})
}

func (s *story) appended(node, epoch int32, from, to int64) *story {
	return s.node(history.NodeEvent{Node: node, What: history.Append, Epoch: epoch, From: from, To: to})
}

func (s *story) acked(node, epoch int32, from, to int64, isr ...int32) *story {
	return s.node(history.NodeEvent{Node: node, What: history.Ack, Epoch: epoch, PartitionEpoch: epoch, From: from, To: to, ISR: isr})
}

func (s *story) elected(epoch, leader int32, isr ...int32) *story {
	return s.node(history.NodeEvent{Node: history.Controller, What: history.Elected, Epoch: epoch, PartitionEpoch: epoch, Leader: leader,
		ISR: isr, Why: "in-sync replica"})
}

func (s *story) uncleanlyElected(epoch, leader int32) *story {
	return s.node(history.NodeEvent{Node: history.Controller, What: history.Elected, Epoch: epoch, PartitionEpoch: epoch, Leader: leader,
		ISR: []int32{leader}, Why: "last known leader", Unclean: true})
}

func (s *story) role(node, epoch, leader int32, isr ...int32) *story {
	role := "follower"
	if node == leader {
		role = "leader"
	}
	return s.node(history.NodeEvent{Node: node, What: history.RoleChanged, Epoch: epoch, PartitionEpoch: epoch, Leader: leader, ISR: isr,
		Role: role})
}

func (s *story) powerLoss(node int32, to int64) *story {
	return s.node(history.NodeEvent{Node: node, What: history.PowerLoss, From: history.Unknown, To: to, Bytes: 70})
}

func (s *story) fault(proven bool, verb string, nodes ...int32) *story {
	s.faults++
	f := history.FaultEvent{ID: s.faults, Phase: history.Begin, Verb: verb, Asked: verb, Nodes: nodes}
	over := f
	over.Phase, over.Proven = history.Over, proven
	return s.add(history.Event{Kind: history.KindFault, Fault: &f}).add(history.Event{Kind: history.KindFault, Fault: &over})
}

func (s *story) settled(ok bool, why string) *story {
	return s.add(history.Event{Kind: history.KindSettled, Settled: &history.Settled{Partition: orders, OK: ok, Why: why}})
}

func (s *story) replica(node int32, hw int64, rs ...history.Record) *story {
	return s.add(history.Event{Kind: history.KindReplica, Replica: &history.Replica{Node: node, Partition: orders, HW: hw, LEO: int64(len(rs)),
		Entries: rs}})
}

// judge checks the story under a contract.
func (s *story) judge(t *testing.T, c history.Contract, o checker.Options) *checker.Result {
	t.Helper()
	h := history.Header{Contract: c, Topics: []history.Topic{{Name: "orders", Partitions: 1, Replicas: 3}}}
	res, err := checker.Check(context.Background(), checker.Events(h, s.events), o)
	require.NoError(t, err)
	return res
}

package controller

import (
	"slices"

	"tidemark/node/replica"
)

// alterPartition changes an ISR at its leader's request, by compare-and-set on the partition epoch (KIP-497).
func (k *Controller) alterPartition(m message, b *replica.AlterPartition) {
	r := k.record(m.Partition)
	code := k.refusal(r, m.From, b)
	answer := &replica.AlterPartitionAnswer{Error: code}
	if code == replica.OK {
		members := memberIDs(b.ISR)
		isr := r.inOrder(func(x id) bool { return slices.Contains(members, x) })
		if !slices.Equal(isr, r.ISR) {
			k.setISR(r, isr)
			r.PartitionEpoch++
			k.changed = true
			k.tellISR(r)
		}
	}
	if r != nil {
		answer.Leader, answer.LeaderEpoch, answer.PartitionEpoch, answer.ISR = r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.ISR
	}
	k.send(m.Answer(answer))
}

// refusal is the code with which an ISR change is turned down, OK if it is not.
func (k *Controller) refusal(r *record, from id, b *replica.AlterPartition) replica.Code {
	sender := k.broker(from)
	switch {
	case r == nil || !r.created:
		return replica.UnknownTopicOrPartition
	case sender == nil || sender.Epoch != b.BrokerEpoch:
		return replica.StaleBrokerEpoch
	case b.LeaderEpoch < r.LeaderEpoch:
		return replica.FencedLeaderEpoch
	case b.PartitionEpoch < r.PartitionEpoch && !k.c.Rules.Defect.NoVersionCheck: // Z12
		return replica.InvalidUpdateVersion
	case b.LeaderEpoch > r.LeaderEpoch || b.PartitionEpoch > r.PartitionEpoch:
		return replica.NotController
	case from != r.Leader || !slices.Contains(memberIDs(b.ISR), from):
		return replica.InvalidRequest
	}
	for _, member := range b.ISR {
		x := k.broker(member.ID)
		switch {
		case !slices.Contains(r.Replicas, member.ID):
			return replica.InvalidRequest
		case x == nil || x.Fenced:
			return replica.IneligibleReplica
		case k.c.Rules.BrokerEpoch && member.BrokerEpoch != replica.NoBrokerEpoch && member.BrokerEpoch != x.Epoch:
			return replica.IneligibleReplica
		}
	}
	return replica.OK
}

func memberIDs(members []replica.Member) []id {
	ids := make([]id, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return ids
}

// transfer moves the leadership to another live member of the ISR, which stays as it is. Anything else it leaves alone.
func (k *Controller) transfer(m message, b *Transfer) {
	r := k.record(m.Partition)
	if r == nil || !r.created || r.Leader == b.To || !k.live(b.To) || !slices.Contains(r.ISR, b.To) {
		return
	}
	r.Leader = b.To
	r.LeaderEpoch++
	r.PartitionEpoch++
	k.changed = true
	k.tellElection(r, WhyTransfer)
}

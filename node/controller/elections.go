package controller

import (
	"slices"

	"tidemark/node/replica"
)

// The controller's events.
const (
	// EventElected is a new leader, none included, or a new leader epoch of the same one: Leader, Epoch, PartitionEpoch, ISR,
	// Why, Unclean.
	EventElected replica.EventKind = "elected"
	// EventISR is an accepted change of an ISR that left the leader alone: Epoch, PartitionEpoch, ISR.
	EventISR = replica.EventISR
	// EventRegistered, EventFenced and EventUnfenced tell of Broker, with its BrokerEpoch.
	EventRegistered replica.EventKind = "registered"
	EventFenced     replica.EventKind = "fenced"
	EventUnfenced   replica.EventKind = "unfenced"
)

// leave removes a broker from a partition's ISR. Without ELR the last member stays: it is the only one known to have
// everything. With ELR, whoever leaves an ISR that becomes too small to commit anything stays eligible (KIP-966).
func (k *Controller) leave(r *record, b id) {
	rest := without(r.ISR, b)
	if !k.c.Rules.ELR && len(rest) == 0 {
		return
	}
	k.setISR(r, rest)
}

// setISR replaces the ISR and keeps the ELR in step with it.
func (k *Controller) setISR(r *record, isr []id) {
	if k.c.Rules.ELR {
		if len(isr) >= r.MinISR {
			r.ELR = nil
		} else {
			r.ELR = r.inOrder(func(b id) bool {
				return !slices.Contains(isr, b) && (slices.Contains(r.ELR, b) || slices.Contains(r.ISR, b))
			})
		}
		if len(isr) == 0 && len(r.ISR) > 0 {
			r.LastKnown = r.ISR[len(r.ISR)-1]
		}
	}
	r.ISR = isr
}

// elect finds a leader for a record that changed: the present one if it lives and is in the ISR, else the first live member
// of the ISR in assignment order, else one eligible by KIP-966, else nobody. Every change of the leader is a new leader
// epoch, every change of the record a new partition epoch.
func (k *Controller) elect(r *record) {
	r.PartitionEpoch++
	leader, why := k.candidate(r)
	if leader == r.Leader {
		k.tellISR(r)
		return
	}
	if leader != replica.None && !slices.Contains(r.ISR, leader) {
		// It becomes the whole ISR: what the others have is not known.
		r.ELR = without(r.ELR, leader)
		r.ISR = []id{leader}
		if len(r.ISR) >= r.MinISR {
			r.ELR = nil
		}
	}
	r.Leader = leader
	r.LeaderEpoch++
	k.tellElection(r, why)
}

// Why a leader was elected, as EventElected tells it.
const (
	WhyISR      = "in-sync replica"
	WhyELR      = "eligible leader replica"
	WhyUnclean  = "unclean election"
	WhyRecovery = "unclean recovery: last known leader"
	WhyNobody   = "no candidate"
	WhyTransfer = "transfer"
	WhyRestart  = "restart of the leader"
	WhyCreated  = "partition created"
)

func (k *Controller) candidate(r *record) (id, string) {
	if k.live(r.Leader) && slices.Contains(r.ISR, r.Leader) {
		return r.Leader, WhyISR
	}
	for _, b := range r.Replicas {
		if k.live(b) && slices.Contains(r.ISR, b) {
			return b, WhyISR
		}
	}
	if len(r.ISR) == 0 && k.c.Rules.ELR {
		for _, b := range r.Replicas {
			if k.live(b) && slices.Contains(r.ELR, b) {
				return b, WhyELR
			}
		}
		if len(r.ELR) == 0 && k.live(r.LastKnown) {
			return r.LastKnown, WhyRecovery
		}
	}
	if k.c.Unclean {
		for _, b := range r.Replicas {
			if k.live(b) {
				return b, WhyUnclean
			}
		}
	}
	return replica.None, WhyNobody
}

func (k *Controller) tellElection(r *record, why string) {
	k.send(message{From: replica.Controller, To: replica.Observer, Partition: r.Partition, Body: &replica.Event{
		What: EventElected, Leader: r.Leader, Epoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ISR: r.ISR,
		Why: why, Unclean: why == WhyUnclean || why == WhyRecovery}})
}

func (k *Controller) tellISR(r *record) {
	k.send(message{From: replica.Controller, To: replica.Observer, Partition: r.Partition, Body: &replica.Event{
		What: EventISR, Epoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ISR: r.ISR}})
}

func (k *Controller) tellBroker(what replica.EventKind, b *broker) {
	k.send(message{From: replica.Controller, To: replica.Observer, Body: &replica.Event{What: what, Broker: b.ID, BrokerEpoch: b.Epoch}})
}

// inOrder lists the replicas that the condition holds for, in assignment order.
func (r *record) inOrder(is func(id) bool) []id {
	var ids []id
	for _, b := range r.Replicas {
		if is(b) {
			ids = append(ids, b)
		}
	}
	return ids
}

func without(ids []id, b id) []id {
	rest := make([]id, 0, len(ids))
	for _, x := range ids {
		if x != b {
			rest = append(rest, x)
		}
	}
	return rest
}

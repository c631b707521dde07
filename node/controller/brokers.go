package controller

import (
	"slices"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
)

// register accepts a new incarnation of a broker.
func (k *Controller) register(now time, m message, b *session.Registration) {
	x := k.broker(m.From)
	switch {
	case !slices.Contains(k.c.Brokers, m.From):
		k.send(m.Answer(&session.RegistrationAnswer{Error: replica.InvalidRequest, BrokerEpoch: replica.NoBrokerEpoch}))
		return
	case x != nil && x.Incarnation == b.Incarnation && x.Epoch >= 0:
		x.heard = now // the answer to the first try was lost
		k.send(m.Answer(&session.RegistrationAnswer{BrokerEpoch: x.Epoch}))
		return
	case x != nil && !x.Fenced && k.c.Rules.Registration == rules.KRaft:
		// The old incarnation may still act: wait until its session is over.
		k.send(m.Answer(&session.RegistrationAnswer{Error: replica.DuplicateBrokerRegistration, BrokerEpoch: replica.NoBrokerEpoch}))
		return
	}
	former := replica.NoBrokerEpoch
	if x == nil {
		x = &broker{ID: m.From, Fenced: true}
		i, _ := slices.BinarySearchFunc(k.brokers, m.From, func(y *broker, b id) int { return int(y.ID - b) })
		k.brokers = slices.Insert(k.brokers, i, x)
		for _, r := range k.parts {
			r.pushes = slices.Insert(r.pushes, i, push{to: m.From})
		}
	} else {
		former = x.Epoch
	}
	x.Incarnation, x.Host, x.Port, x.heard = b.Incarnation, b.Host, b.Port, now
	x.Epoch = k.version + 1 // every accepted change, this one included, has a version of its own
	k.tellBroker(EventRegistered, x)
	for _, r := range k.parts {
		p := r.pushTo(m.From)
		*p = push{to: m.From} // a new incarnation knows nothing
		if r.created {
			k.reincarnated(r, m.From, former != replica.NoBrokerEpoch && b.Previous == former)
		}
	}
	k.changed = true
	k.send(m.Answer(&session.RegistrationAnswer{BrokerEpoch: x.Epoch}))
}

// reincarnated changes a partition's record for a broker that has restarted. With ELR, a restart that was not clean may
// have lost data, so that the broker may neither be in the ISR nor eligible. A leader gets a new leader epoch in every
// case: the old one would reuse (epoch, offset) pairs.
func (k *Controller) reincarnated(r *record, b id, clean bool) {
	if k.c.Rules.ELR && !clean && !k.c.Rules.Defect.UncleanKeepsPlace { // Z31
		if !slices.Contains(r.ISR, b) && !slices.Contains(r.ELR, b) {
			return
		}
		if slices.Contains(r.ISR, b) {
			k.setISR(r, without(r.ISR, b))
		}
		r.ELR = without(r.ELR, b)
		k.elect(r)
		return
	}
	if r.Leader == b && !k.c.Rules.Defect.SameEpochAfterLoss { // Z24
		r.LeaderEpoch++
		r.PartitionEpoch++
		k.tellElection(r, WhyRestart)
	}
}

// heartbeat keeps a session alive, and begins it when the broker was fenced.
func (k *Controller) heartbeat(now time, m message, b *session.Heartbeat) {
	x := k.broker(m.From)
	switch {
	case x == nil:
		k.send(m.Answer(&session.HeartbeatAnswer{Error: replica.BrokerIDNotRegistered, Fenced: true}))
		return
	case b.BrokerEpoch != x.Epoch:
		k.send(m.Answer(&session.HeartbeatAnswer{Error: replica.StaleBrokerEpoch, Fenced: true}))
		return
	}
	x.heard = now
	switch {
	case b.WantFence || b.WantShutdown:
		k.fence(x.ID)
	case x.Fenced:
		x.Fenced = false
		k.changed = true
		k.tellBroker(EventUnfenced, x)
		k.create()
		for _, r := range k.parts {
			if leader, _ := k.candidate(r); r.created && leader != r.Leader {
				k.elect(r)
			}
		}
	}
	k.send(m.Answer(&session.HeartbeatAnswer{Fenced: x.Fenced}))
}

// create makes the partitions once every configured broker lives.
func (k *Controller) create() {
	for _, b := range k.c.Brokers {
		if !k.live(b) {
			return
		}
	}
	for _, r := range k.parts {
		if r.created {
			continue
		}
		r.created = true
		r.Leader, r.LeaderEpoch, r.PartitionEpoch = r.Replicas[0], 0, 0
		r.ISR = slices.Clone(r.Replicas)
		k.tellElection(r, WhyCreated)
	}
}

// fence ends a broker's session: it leaves every ISR and leads nothing.
func (k *Controller) fence(b id) {
	x := k.broker(b)
	if x == nil || x.Fenced {
		return
	}
	x.Fenced = true
	k.changed = true
	k.tellBroker(EventFenced, x)
	for _, r := range k.parts {
		if r.created && (slices.Contains(r.ISR, b) || r.Leader == b) {
			k.leave(r, b)
			k.elect(r)
		}
	}
}

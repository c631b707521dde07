package controller

import (
	"slices"

	"tidemark/node/replica"
)

func (r *record) pushTo(b id) *push {
	i := slices.IndexFunc(r.pushes, func(p push) bool { return p.to == b })
	return &r.pushes[i]
}

// pushAll sends the newest word on every partition to every registered broker.
func (k *Controller) pushAll(now time) {
	for _, r := range k.parts {
		if !r.created {
			continue
		}
		words := make([]replica.LeaderAndIsr, len(r.pushes))
		for i := range r.pushes {
			k.push(now, r, &r.pushes[i], &words[i])
		}
	}
}

// push sends a broker the newest word, which shares with all others what they have in common.
func (k *Controller) push(now time, r *record, p *push, word *replica.LeaderAndIsr) {
	k.number++
	p.number, p.sent = k.number, k.version
	p.retryAt = k.again(now)
	*word = replica.LeaderAndIsr{Version: k.version, Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch,
		Replicas: r.Replicas, ISR: r.ISR, ELR: r.ELR, BrokerEpoch: k.broker(p.to).Epoch, Brokers: k.brokerStates()}
	k.send(message{From: replica.Controller, To: p.to, Partition: r.Partition, Number: k.number, Body: word})
}

// again is when a word that was sent now is sent once more.
func (k *Controller) again(now time) time {
	if k.c.PushInterval == 0 {
		return replica.Never
	}
	return now + k.c.PushInterval
}

// pushAgain sends an unacknowledged word again, now.
func (k *Controller) pushAgain(now time, m message, b *Push) {
	r := k.record(m.Partition)
	if r == nil || !r.created || k.broker(b.To) == nil {
		return
	}
	if p := r.pushTo(b.To); p.acked < k.version {
		k.push(now, r, p, new(replica.LeaderAndIsr))
	}
}

func (k *Controller) acknowledged(now time, m message, b *replica.LeaderAndIsrAnswer) {
	r := k.record(m.Partition)
	if r == nil || k.broker(m.From) == nil {
		return
	}
	p := r.pushTo(m.From)
	if b.Error != replica.OK {
		p.retryAt = max(p.retryAt, k.again(now))
		return
	}
	p.acked = max(p.acked, b.Version)
}

// pushLost leaves a push to the next interval: the broker is down or cut off.
func (k *Controller) pushLost(now time, m message) {
	if r := k.record(m.Partition); r != nil && k.broker(m.From) != nil {
		p := r.pushTo(m.From)
		p.retryAt = max(p.retryAt, k.again(now))
	}
}

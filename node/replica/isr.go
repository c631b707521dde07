package replica

import "slices"

// proposal is a change of the ISR that was sent to the controller and not decided yet (KIP-497). While it is open, the
// high watermark counts the members of both ISRs: the controller may have accepted it already.
type proposal struct {
	isr            []Member
	ids            []ID
	partitionEpoch int32
	number         int32 // of the request, 0 when it was lost
	retryAt        Time  // when it is sent again
	void           bool  // the controller knows a newer record: wait for it, do not ask again
}

// maximalISR is the ISR and whoever is being added to it, in assignment order.
func (r *Replica) maximalISR() []ID {
	ids := make([]ID, 0, len(r.replicas))
	for _, id := range r.replicas {
		if r.inMaximalISR(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *Replica) inMaximalISR(id ID) bool {
	if r.c.Rules.Defect.LocalShrink && r.leading.pending != nil {
		return slices.Contains(r.leading.pending.ids, id) // Z11
	}
	return slices.Contains(r.isr, id) || r.leading.pending != nil && slices.Contains(r.leading.pending.ids, id)
}

// minISR is the effective min.insync.replicas: no more than there are replicas.
func (r *Replica) minISR() int { return min(r.c.MinISR, len(r.replicas)) }

// expand proposes a follower for the ISR when its fetch shows that it has all that is committed.
func (r *Replica) expand(now Time, f *remote) {
	if p := r.leading.pending; p != nil {
		if p.number == 0 && !p.void {
			r.sendProposal(now) // it was lost
		}
		return
	}
	switch {
	case slices.Contains(r.isr, f.id):
	case f.leo < r.hw:
	case r.c.Rules.IsrFromEpochStart && f.leo < r.leading.epochStart:
		// The high watermark of a new leader may lag behind what its predecessor committed (KAFKA-7128).
	case !r.eligible(f):
	default:
		ids := make([]ID, 0, len(r.isr)+1)
		for _, id := range r.replicas {
			if id == f.id || slices.Contains(r.isr, id) {
				ids = append(ids, id)
			}
		}
		r.propose(now, ids)
	}
}

// shrink proposes an ISR without the followers that lag, by the clock.
func (r *Replica) shrink(now Time) {
	if r.c.LagMax > 0 && now >= r.leading.quietUntil {
		r.dropLagging(now, func(f *remote) bool { return !r.withinLag(now, f) })
	}
}

// lag makes the ISR clock jump for one follower.
func (r *Replica) lag(now Time, id ID) {
	if f := r.remote(id); r.role == RoleLeader && f != nil {
		f.caughtUp = never
		r.dropLagging(now, func(f *remote) bool { return f.id == id })
	}
}

// Lags says whether a [Lag] of that replica would make this one, if it leads, propose an ISR without it.
func (r *Replica) Lags(id ID) bool {
	f := r.remote(id)
	return r.role == RoleLeader && f != nil && r.leading.pending == nil && slices.Contains(r.isr, id) && f.leo != r.log.End()
}

func (r *Replica) dropLagging(now Time, lags func(*remote) bool) {
	if r.leading.pending != nil {
		return
	}
	ids := make([]ID, 0, len(r.isr))
	for _, id := range r.isr {
		f := r.remote(id)
		if f == nil || f.leo == r.log.End() || !lags(f) {
			ids = append(ids, id)
		}
	}
	if len(ids) < len(r.isr) {
		r.propose(now, ids)
	}
}

// withinLag says whether the follower was caught up no longer than replica.lag.time.max.ms ago. Without a clock, it was
// if it ever was in this leader epoch.
func (r *Replica) withinLag(now Time, f *remote) bool {
	return f.caughtUp != never && (r.c.LagMax == 0 || now-f.caughtUp <= r.c.LagMax)
}

// eligible says whether the follower may be in an ISR, as far as the leader was told: alive, and (KIP-903) the same
// incarnation that fetched.
func (r *Replica) eligible(f *remote) bool {
	for _, b := range r.brokers {
		if b.ID == f.id {
			return !b.Fenced && (!r.c.Rules.BrokerEpoch || b.Epoch == f.brokerEpoch)
		}
	}
	return false
}

// staleIncarnation says whether a fetch is that of another incarnation than the one the controller told of (KIP-903).
func (r *Replica) staleIncarnation(id ID, brokerEpoch int64) bool {
	for _, b := range r.brokers {
		if b.ID == id {
			return brokerEpoch < b.Epoch
		}
	}
	return false
}

func (r *Replica) propose(now Time, ids []ID) {
	members := make([]Member, len(ids))
	for i, id := range ids {
		members[i] = Member{ID: id, BrokerEpoch: NoBrokerEpoch}
		if r.c.Rules.BrokerEpoch {
			members[i].BrokerEpoch = r.brokerEpoch
			if f := r.remote(id); f != nil {
				members[i].BrokerEpoch = f.brokerEpoch
			}
		}
	}
	r.leading.pending = &proposal{isr: members, ids: ids, partitionEpoch: r.partitionEpoch}
	r.sendProposal(now)
}

func (r *Replica) sendProposal(now Time) {
	p := r.leading.pending
	p.retryAt = Never
	if r.c.Timeout > 0 {
		p.retryAt = now + r.c.Timeout
	}
	p.number = r.request(Controller, &AlterPartition{BrokerEpoch: r.brokerEpoch, LeaderEpoch: r.leaderEpoch,
		PartitionEpoch: p.partitionEpoch, ISR: p.isr})
}

// retryProposal sends the same request again when its answer is overdue: it may have been accepted or not.
func (r *Replica) retryProposal(now Time) {
	if p := r.leading.pending; p != nil && !p.void && now >= p.retryAt {
		r.sendProposal(now)
	}
}

// alterPartitionAnswer commits a change that was accepted, and takes one back that was refused for good.
func (r *Replica) alterPartitionAnswer(now Time, m Message, b *AlterPartitionAnswer) {
	p := r.leading.pending
	if r.role != RoleLeader || p == nil || m.Number != p.number {
		return
	}
	switch b.Error {
	case OK:
		r.leading.pending = nil
		if b.LeaderEpoch == r.leaderEpoch && b.PartitionEpoch > r.partitionEpoch {
			r.partitionEpoch, r.isr = b.PartitionEpoch, b.ISR
			r.tell(Event{What: EventISR, Epoch: r.leaderEpoch, PartitionEpoch: r.partitionEpoch, ISR: r.isr})
		}
	case IneligibleReplica:
		r.leading.pending, r.leading.quietUntil = nil, now+r.c.Backoff
	default:
		// Another leader epoch or another partition epoch: the newer record is on its way, and the change may be part of it.
		p.void, p.retryAt = true, Never
		return
	}
	r.advance(now)
}

package replica

import "tidemark/node/rules"

// following is what only a follower has.
type following struct {
	truncating  bool  // the truncation dialogue is not finished: no fetch is sent, no answer to one applied
	stuck       bool  // nothing can be done until the controller's next word
	outOfRange  bool  // the leader does not have the offset: ask for its log's end
	leaderStart int64 // its log start when it said so
	asked       asked
	pollAt      Time
	uncut       *EpochEnd // under defect Z14, where to cut before the next request
}

// asked is the newest request to the leader; answers to earlier ones are ignored.
type asked struct {
	number      int32 // 0: none
	kind        Kind
	leaderEpoch int32 // of this replica when it asked
	offset      int64
	epoch       int32
	maxRecords  int32
}

// follow becomes or stays a follower.
func (r *Replica) follow(now Time, newEpoch bool, formerLeader ID) {
	was := r.role
	if was == RoleLeader {
		r.resign(NotLeaderOrFollower)
	}
	r.role = RoleFollower
	f := &r.following
	if !newEpoch && was == RoleFollower && formerLeader == r.leader {
		return // a new ISR changes nothing for a follower
	}
	truncate := was != RoleFollower || formerLeader != r.leader || r.c.Rules.TruncateEveryEpoch
	if truncate {
		former := f.asked
		*f = following{truncating: true}
		if r.c.Rules.Defect.LateEpochAnswer { // Z18
			f.asked, f.asked.leaderEpoch = former, r.leaderEpoch
		}
	} else if r.c.Rules.FetchFencing {
		f.asked = asked{}
	}
	f.stuck, f.pollAt = false, now
	r.tell(Event{What: EventRole, Role: RoleFollower, Leader: r.leader, Epoch: r.leaderEpoch,
		PartitionEpoch: r.partitionEpoch, ISR: r.isr, To: r.log.End()})
	if r.leader == None {
		f.pollAt = Never
		return
	}
	if truncate {
		r.beginTruncation()
	}
}

// poll sends the next request to the leader. It replaces the one before: a lost request or answer leaves no mark.
func (r *Replica) poll(now Time, maxRecords int32) {
	f := &r.following
	if r.role != RoleFollower || r.leader == None || f.stuck {
		return
	}
	if d := f.uncut; d != nil {
		f.uncut = nil
		if _, ok := r.cutToCommon(d.Epoch, d.End); !ok {
			return
		}
	}
	a := asked{leaderEpoch: r.leaderEpoch, offset: r.log.End(), maxRecords: maxRecords}
	fence := NoEpoch
	if r.c.Rules.FetchFencing {
		fence = r.leaderEpoch
	}
	var body Body
	switch {
	case f.truncating:
		a.epoch = r.epochs.last()
		body = &OffsetForLeaderEpoch{LeaderEpoch: fence, Epoch: a.epoch}
	case f.outOfRange:
		body = &ListOffsets{LeaderEpoch: fence, Timestamp: LatestOffset}
	default:
		last := NoEpoch
		if r.c.Rules.Truncation == rules.OnFetch {
			last = r.epochs.last()
		}
		body = &Fetch{Offset: a.offset, LeaderEpoch: fence, LastEpoch: last, BrokerEpoch: r.brokerEpoch, Start: r.log.Start(),
			MaxBytes: r.c.FetchMaxBytes, MaxWait: r.c.FetchWait}
	}
	a.kind = body.Kind()
	a.number = r.request(r.leader, body)
	f.asked = a
	f.pollAt = Never
	if r.c.Timeout > 0 {
		f.pollAt = now + r.c.FetchWait + r.c.Timeout
	}
}

// answered takes the answer to the newest request and says what was asked. It is not ok for an answer that no longer
// means anything: from another leader, to an earlier request, or, where the epoch fences, of another leader epoch
// (KAFKA-7786). An error is dealt with here too.
func (r *Replica) answered(now Time, m Message, kind Kind, code Code) (a asked, ok bool) {
	f := &r.following
	a = f.asked
	if r.role != RoleFollower || m.From != r.leader || a.number == 0 || a.number != m.Number || a.kind != kind {
		return a, false
	}
	f.asked = asked{}
	f.pollAt = now
	if r.c.Rules.FetchFencing && a.leaderEpoch != r.leaderEpoch {
		return a, false
	}
	switch code {
	case OK:
		return a, true
	case FencedLeaderEpoch:
		f.stuck, f.pollAt = true, Never // the controller's next word is on its way
	default:
		f.pollAt = now + r.c.Backoff
	}
	return a, false
}

// fetched appends what the leader gave, as it is, and takes over its high watermark, which may be lower than the own.
func (r *Replica) fetched(now Time, m Message, b *FetchAnswer) {
	if b.Error == OffsetOutOfRange {
		if _, ok := r.answered(now, m, KindFetch, OK); ok && !r.following.truncating {
			r.following.outOfRange, r.following.leaderStart = true, b.Start
		}
		return
	}
	a, ok := r.answered(now, m, KindFetch, b.Error)
	if !ok || r.following.truncating || a.offset != r.log.End() {
		return
	}
	if d := b.Diverging; d != nil {
		// The high watermark of such an answer is for a log that this one is not yet (KAFKA-14704).
		if r.c.Rules.Defect.HWBeforeCut { // Z14
			r.following.uncut = d
			r.setHW(min(b.HighWatermark, r.log.End()))
			return
		}
		r.cutToCommon(d.Epoch, d.End)
		return
	}
	var taken int32
	for _, batch := range b.Batches {
		if a.maxRecords > 0 && taken > 0 && taken+batch.Count > a.maxRecords {
			break
		}
		if r.c.Rules.FetchFencing && batch.Epoch > a.leaderEpoch {
			break // the leader read while it was being replaced (KAFKA-18723)
		}
		if batch.Base != r.log.End() {
			r.stick(r.why("the leader's batch starts at %d, the log ends at %d", batch.Base, r.log.End()))
			return
		}
		if !r.append(batch) {
			return
		}
		taken += batch.Count
	}
	r.setHW(min(b.HighWatermark, r.log.End()))
}

func (r *Replica) setHW(hw int64) {
	if hw != r.hw {
		r.tell(Event{What: EventHW, Epoch: r.leaderEpoch, From: r.hw, To: hw})
		r.hw = hw
	}
}

// stick stops a follower that cannot go on until the controller changes something, as a partition whose fetcher failed.
func (r *Replica) stick(why string) {
	r.following.stuck, r.following.pollAt = true, Never
	r.tell(Event{What: EventStuck, Epoch: r.leaderEpoch, Leader: r.leader, To: r.log.End(), Why: why})
}

// leaderEnd goes on after OFFSET_OUT_OF_RANGE: a second way of truncation, blind to epochs.
func (r *Replica) leaderEnd(now Time, m Message, b *ListOffsetsAnswer) {
	if _, ok := r.answered(now, m, KindListOffsets, b.Error); !ok {
		return
	}
	f := &r.following
	f.outOfRange = false
	switch {
	case b.Offset < r.log.End():
		r.cut(b.Offset, r.why("offset out of range: the log of leader %d ends at %d", r.leader, b.Offset))
	case f.leaderStart > r.log.End():
		r.restartAt(f.leaderStart)
	default:
		f.pollAt = now + r.c.Backoff
	}
}

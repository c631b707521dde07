package replica

import "tidemark/node/rules"

// beginTruncation starts what a new follower does before it fetches. By the high watermark it is done at once, and so it
// is when there is no epoch to ask about; else the next poll begins the dialogue with the leader.
func (r *Replica) beginTruncation() {
	switch {
	case r.c.Rules.Truncation == rules.OnFetch:
		r.following.truncating = false // the first fetch shows where the logs part
	case r.c.Rules.Truncation == rules.ToHighWatermark:
		r.truncated(r.hw, r.why("becoming follower of %d: high watermark %d", r.leader, r.hw))
	case r.epochs.last() == NoEpoch:
		r.truncated(r.hw, r.why("becoming follower of %d: no epoch in the log, high watermark %d", r.leader, r.hw))
	}
}

// epochEnd is the leader's answer in the truncation dialogue.
func (r *Replica) epochEnd(now Time, m Message, b *OffsetForLeaderEpochAnswer) {
	a, ok := r.answered(now, m, KindOffsetForLeaderEpoch, b.Error)
	if !ok || !r.following.truncating {
		return
	}
	if b.End == NoOffset {
		// The leader cannot tell. The high watermark is all that is left, with all that is wrong with it.
		r.truncated(r.hw, r.why("leader %d knows no end of epoch %d: high watermark %d", r.leader, a.epoch, r.hw))
		return
	}
	if r.c.Rules.Truncation == rules.ToEpochEnd {
		// KIP-101: the offset alone, taken as the end of the epoch asked about, whichever epoch it belongs to.
		r.truncated(b.End, r.why("leader %d says that epoch %d ends at %d", r.leader, a.epoch, b.End))
		return
	}
	if agreed, ok := r.cutToCommon(b.Epoch, b.End); ok && agreed {
		r.following.truncating = false
	} else if ok && r.epochs.last() == NoEpoch {
		r.beginTruncation() // nothing left to ask about
	}
}

// cutToCommon cuts where this log and the leader's part, given the leader's largest epoch that is at most the newest here, and
// where it ends there (KIP-279). When this log has an epoch below that one, but not that one itself, the two part before the
// end of that lower epoch: it is cut there, and they have not agreed yet. It is not ok after an error of the log.
func (r *Replica) cutToCommon(epoch int32, leaderEnd int64) (agreed, ok bool) {
	why := r.why("leader %d says that epoch %d ends at %d", r.leader, epoch, leaderEnd)
	mine, end := r.epochs.endOffsetFor(epoch, r.log.End())
	switch {
	case end == NoOffset:
		return true, r.cut(leaderEnd, why)
	case mine != epoch:
		return false, r.cut(end, r.why("%s, here epoch %d ends at %d", why, mine, end))
	}
	return true, r.cut(min(end, leaderEnd), why)
}

// truncated ends the dialogue with a cut.
func (r *Replica) truncated(to int64, why string) {
	if r.cut(to, why) {
		r.following.truncating = false
	}
}

// cut removes everything from offset to on: log, epoch cache, producer state and high watermark agree afterwards. Each
// is looked at also when the log is not cut, because each may reach beyond it on its own.
func (r *Replica) cut(to int64, why string) bool {
	from, hw := r.log.End(), r.hw
	if to < from {
		if err := r.log.TruncateTo(to); err != nil {
			return r.fail("truncating", err)
		}
	}
	end := r.log.End()
	r.hw = min(r.hw, end)
	if end < from {
		r.cuts++
	}
	r.tell(Event{What: EventTruncate, Epoch: r.leaderEpoch, Leader: r.leader, From: from, To: end, HW: hw, Why: why})
	if !r.setEpochs(r.epochs.truncatedFromEnd(end)) {
		return false
	}
	if r.producers.reach() > end {
		if err := r.loadProducers(); err != nil {
			return r.fail("rebuilding the producer state", err)
		}
	}
	return true
}

// restartAt drops the whole log and goes on at the leader's log start, which lies beyond this log's end.
func (r *Replica) restartAt(start int64) {
	from, hw := r.log.End(), r.hw
	if err := r.log.Reset(start); err != nil {
		r.fail("resetting the log", err)
		return
	}
	r.hw = start
	r.producers = nil
	r.tell(Event{What: EventTruncate, Epoch: r.leaderEpoch, Leader: r.leader, From: from, To: start, HW: hw,
		Why: r.why("offset out of range: the log of leader %d starts at %d", r.leader, start)})
	r.setEpochs(nil, len(r.epochs) > 0)
}

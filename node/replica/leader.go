package replica

import (
	"slices"

	"tidemark/node/rules"
)

// leading is what only a leader has.
type leading struct {
	epochStart int64 // log end offset when this leader epoch began (LESO)
	remotes    []remote
	pending    *proposal
	quietUntil Time // no shrink is proposed before: the last one was refused
	purgatory  []waitingProduce
	parked     []parkedFetch
}

// remote is what the leader knows of another replica: all of it from that replica's fetches.
type remote struct {
	id          ID
	leo         int64 // NoOffset until its first fetch
	caughtUp    Time  // when it last was caught up; never: not in this leadership
	fetchedAt   Time  // of its previous fetch
	leoAtFetch  int64 // the leader's log end at its previous fetch
	sentHW      int64 // the high watermark of the last answer
	brokerEpoch int64 // of its last fetch
}

const never Time = -1

// parkedFetch is a follower's fetch that waits for something new.
type parkedFetch struct {
	m        Message
	b        *Fetch
	deadline Time
}

// cloneTo is a copy in the room that another had.
func (l leading) cloneTo(room leading) leading {
	l.remotes = append(room.remotes[:0], l.remotes...)
	l.purgatory = append(room.purgatory[:0], l.purgatory...)
	l.parked = append(room.parked[:0], l.parked...)
	if l.pending != nil {
		p := *l.pending
		l.pending = &p
	}
	return l
}

// lead takes the leadership, or a new epoch of it, or a new ISR in the same epoch. A leader never truncates on election.
// When it has missed an epoch, another may have led in it.
func (r *Replica) lead(now Time, newEpoch, missed bool) {
	was := r.role
	r.role = RoleLeader
	if was != RoleLeader {
		r.following = following{}
		r.leading = leading{}
	}
	if newEpoch || was != RoleLeader {
		r.leading.epochStart = r.log.End()
		if r.c.Rules.EpochAtElection {
			if !r.setEpochs(r.epochs.assigned(r.leaderEpoch, r.log.End())) {
				return
			}
		}
		r.resetRemotes(now, missed)
	}
	r.leading.pending = nil // whatever it was, the compare-and-set of an older partition epoch can no longer succeed
	r.tell(Event{What: EventRole, Role: RoleLeader, Leader: r.leader, Epoch: r.leaderEpoch,
		PartitionEpoch: r.partitionEpoch, ISR: r.isr, To: r.log.End()})
}

// resetRemotes starts a leader epoch: what is known of a replica is kept over a re-election, but only members of the ISR
// count as caught up now. It is not kept over an epoch that this leader has missed: for the leader of that one the replica
// may have cut what it once acknowledged here, and the high watermark would rise over records that it no longer has.
func (r *Replica) resetRemotes(now Time, missed bool) {
	old := r.leading.remotes
	if missed && !r.c.Rules.Defect.RemotesOutliveEpoch { // Z36
		old = nil
	}
	r.leading.remotes = make([]remote, 0, len(r.replicas))
	for _, id := range r.replicas {
		if id == r.c.Self {
			continue
		}
		f := remote{id: id, leo: NoOffset, leoAtFetch: NoOffset, sentHW: NoOffset, brokerEpoch: NoBrokerEpoch}
		if i := slices.IndexFunc(old, func(o remote) bool { return o.id == id }); i >= 0 {
			f = old[i]
		}
		f.caughtUp = never
		if slices.Contains(r.isr, id) {
			f.caughtUp = now
		}
		r.leading.remotes = append(r.leading.remotes, f)
	}
}

// resign answers everything that waits when the leadership ends. Produce requests may still come true: their records
// are in the log.
func (r *Replica) resign(code Code) {
	for _, w := range r.leading.purgatory {
		r.send(w.m.Answer(&ProduceAnswer{Error: code, Base: NoOffset}))
	}
	for _, p := range r.leading.parked {
		r.send(p.m.Answer(&FetchAnswer{Error: code, HighWatermark: NoOffset}))
	}
	r.leading = leading{}
}

// wrongEpoch is the fence: the code with which a leader turns down a request of another leader epoch.
func (r *Replica) wrongEpoch(requested int32) Code {
	switch {
	case !r.c.Rules.FetchFencing || requested == NoEpoch || requested == r.leaderEpoch:
		return OK
	case requested < r.leaderEpoch:
		return FencedLeaderEpoch
	}
	return UnknownLeaderEpoch
}

// fetch serves a follower, a consumer or the debugging consumer.
func (r *Replica) fetch(now Time, m Message, b *Fetch) {
	if m.From.IsBroker() && !b.Debug {
		r.fetchByFollower(now, m, b)
		return
	}
	answer := &FetchAnswer{HighWatermark: r.hw, Start: r.log.Start()}
	limit := r.Readable()
	switch {
	case b.Debug:
		limit = r.log.End()
	case r.wrongEpoch(b.LeaderEpoch) != OK:
		answer.Error = r.wrongEpoch(b.LeaderEpoch)
	case r.role != RoleLeader && !(b.FromFollower && r.role == RoleFollower):
		answer.Error = NotLeaderOrFollower
	}
	if answer.Error == OK && (b.Offset < r.log.Start() || b.Offset > r.log.End()) {
		answer.Error = OffsetOutOfRange
	}
	if answer.Error == OK && b.Offset < limit {
		if !r.read(answer, b.Offset, b.MaxBytes) {
			answer = &FetchAnswer{Error: StorageError}
		}
		// A consumer never sees a batch that reaches beyond the high watermark.
		n := len(answer.Batches)
		for n > 0 && answer.Batches[n-1].End() > limit {
			n--
		}
		answer.Batches = answer.Batches[:n]
	}
	r.send(m.Answer(answer))
}

// Readable is the offset below which consumers are given records: the high watermark.
func (r *Replica) Readable() int64 {
	if r.c.Rules.Defect.ReadsUnbounded {
		return r.log.End() // Z15
	}
	return r.hw
}

// fetchByFollower serves a follower, and takes its offset as the acknowledgement of everything below it.
func (r *Replica) fetchByFollower(now Time, m Message, b *Fetch) {
	refuse := func(c Code) {
		r.send(m.Answer(&FetchAnswer{Error: c, HighWatermark: r.hw, Start: r.log.Start()}))
	}
	if c := r.wrongEpoch(b.LeaderEpoch); c != OK {
		refuse(c)
		return
	}
	f := r.remote(m.From)
	switch {
	case r.role != RoleLeader || f == nil:
		refuse(NotLeaderOrFollower)
		return
	case r.c.Rules.BrokerEpoch && r.staleIncarnation(m.From, b.BrokerEpoch):
		refuse(StaleBrokerEpoch)
		return
	case r.diverges(m, b):
		return
	case b.Offset < r.log.Start() || b.Offset > r.log.End():
		// The offset says nothing about what the follower has, so it must not count as an acknowledgement (KAFKA-8400).
		refuse(OffsetOutOfRange)
		return
	}
	answer := &FetchAnswer{HighWatermark: r.hw, Start: r.log.Start()}
	end := r.log.End()
	if b.Offset < end && !r.read(answer, b.Offset, b.MaxBytes) {
		r.send(m.Answer(&FetchAnswer{Error: StorageError}))
		return
	}
	wait := b.MaxWait > 0 && b.Offset == end && f.sentHW == r.hw
	if wait {
		r.park(now, m, b)
	} else {
		f.sentHW = answer.HighWatermark
		r.send(m.Answer(answer))
	}

	has := b.Offset
	if n := len(answer.Batches); n > 0 && r.c.Rules.Defect.AckOnSend {
		has = answer.Batches[n-1].End() // Z21
	}
	moved := f.leo != has
	f.leo, f.brokerEpoch = has, b.BrokerEpoch
	switch {
	case b.Offset >= end:
		f.caughtUp = now
	case f.leoAtFetch != NoOffset && b.Offset >= f.leoAtFetch:
		f.caughtUp = max(f.caughtUp, f.fetchedAt)
	}
	f.fetchedAt, f.leoAtFetch = now, end
	r.expand(now, f)
	if moved {
		r.advance(now)
	}
}

// diverges answers a fetch of a follower whose log has parted from this one, without taking its offset for an
// acknowledgement. It is false if the follower may have records.
func (r *Replica) diverges(m Message, b *Fetch) bool {
	if r.c.Rules.Truncation != rules.OnFetch || b.LastEpoch == NoEpoch {
		return false
	}
	epoch, end := r.epochs.endOffsetFor(b.LastEpoch, r.log.End())
	answer := &FetchAnswer{HighWatermark: r.hw, Start: r.log.Start()}
	switch {
	case end == NoOffset:
		answer.Error = OffsetOutOfRange
	case epoch < b.LastEpoch || end < b.Offset:
		answer.Diverging = &EpochEnd{epoch, end}
	default:
		return false
	}
	r.send(m.Answer(answer))
	return true
}

// read fills the answer with whole batches from offset on. After an error the replica is offline and read is false.
func (r *Replica) read(answer *FetchAnswer, offset int64, maxBytes int32) bool {
	batches, err := r.log.Read(offset, int(maxBytes))
	if err != nil {
		return r.fail("reading", err)
	}
	answer.Batches = batches
	return true
}

// park holds a follower's fetch until something is new. An earlier one of the same follower is answered: nobody waits for
// it any more, but whoever carries the answers must not wait for ever.
func (r *Replica) park(now Time, m Message, b *Fetch) {
	kept := r.leading.parked[:0]
	for _, p := range r.leading.parked {
		if p.m.From != m.From {
			kept = append(kept, p)
			continue
		}
		r.send(p.m.Answer(&FetchAnswer{HighWatermark: r.hw, Start: r.log.Start()}))
	}
	r.leading.parked = append(kept, parkedFetch{m, b, now + b.MaxWait})
}

// answerParked answers the waiting fetches for which something is new, or whose time is over.
func (r *Replica) answerParked(now Time) {
	waiting := r.leading.parked
	if len(waiting) == 0 {
		return
	}
	kept := make([]parkedFetch, 0, len(waiting))
	for i, p := range waiting {
		f := r.remote(p.m.From)
		if p.b.Offset == r.log.End() && f.sentHW == r.hw && now < p.deadline {
			kept = append(kept, p)
			continue
		}
		answer := &FetchAnswer{HighWatermark: r.hw, Start: r.log.Start()}
		if p.b.Offset < r.log.End() {
			r.leading.parked = append(kept, waiting[i:]...) // whoever was answered is not told of an error of the log, too
			if !r.read(answer, p.b.Offset, p.b.MaxBytes) {
				return
			}
		}
		f.sentHW = r.hw
		r.send(p.m.Answer(answer))
	}
	r.leading.parked = kept
}

// advance raises the high watermark to what every replica that counts has, and answers what waited for that.
func (r *Replica) advance(now Time) {
	if r.role != RoleLeader {
		return
	}
	if hw := r.committedEnd(now); hw > r.hw {
		r.tell(Event{What: EventHW, Epoch: r.leaderEpoch, From: r.hw, To: hw})
		r.hw = hw
	}
	r.completeProduces(now)
	r.answerParked(now)
}

// committedEnd is the smallest log end among the replicas that count: the leader, the maximal ISR, and replicas outside of
// it that are caught up and eligible, because they are about to join. A replica that was not heard of yet blocks.
func (r *Replica) committedEnd(now Time) int64 {
	if r.c.Rules.HWNeedsMinISR && len(r.isr) < r.minISR() {
		return NoOffset
	}
	end := r.log.End()
	for i := range r.leading.remotes {
		f := &r.leading.remotes[i]
		if f.leo == NoOffset && r.c.Rules.Defect.UnknownIsCaughtUp {
			continue // Z22
		}
		if r.inMaximalISR(f.id) || r.eligible(f) && r.withinLag(now, f) {
			end = min(end, f.leo)
		}
	}
	return end
}

// offsetForLeaderEpoch tells a follower or a consumer where an epoch ends here.
func (r *Replica) offsetForLeaderEpoch(m Message, b *OffsetForLeaderEpoch) {
	answer := &OffsetForLeaderEpochAnswer{Error: r.wrongEpoch(b.LeaderEpoch), Epoch: NoEpoch, End: NoOffset}
	if answer.Error == OK && r.role != RoleLeader {
		answer.Error = NotLeaderOrFollower
	}
	if answer.Error == OK {
		answer.Epoch, answer.End = r.epochs.endOffsetFor(b.Epoch, r.log.End())
	}
	r.send(m.Answer(answer))
}

// listOffsets tells an end of the log: the high watermark to consumers, the log end to followers.
func (r *Replica) listOffsets(m Message, b *ListOffsets) {
	answer := &ListOffsetsAnswer{Error: r.wrongEpoch(b.LeaderEpoch), Offset: NoOffset, LeaderEpoch: r.leaderEpoch}
	switch {
	case b.Timestamp == LogEndOffset && m.From.IsClient():
		answer.Error, answer.Offset = OK, r.log.End()
	case answer.Error != OK:
	case r.role != RoleLeader:
		answer.Error = NotLeaderOrFollower
	case b.Timestamp == EarliestOffset:
		answer.Offset = r.log.Start()
	case b.Timestamp != LatestOffset:
		answer.Error = InvalidRequest
	case m.From.IsBroker():
		answer.Offset = r.log.End()
	case r.c.Rules.OffsetNotAvailable && r.hw < r.leading.epochStart:
		answer.Error = OffsetNotAvailable
	default:
		answer.Offset = r.hw
	}
	r.send(m.Answer(answer))
}

// remote is what the leader knows of a replica, nil if it is not one of the partition's.
func (r *Replica) remote(id ID) *remote {
	for i := range r.leading.remotes {
		if r.leading.remotes[i].id == id {
			return &r.leading.remotes[i]
		}
	}
	return nil
}

// tickLeader answers what has waited long enough and looks for followers that lag.
func (r *Replica) tickLeader(now Time) {
	r.expireProduces(now)
	r.shrink(now)
	r.retryProposal(now)
	r.answerParked(now)
}

func (r *Replica) leaderDeadline() Time {
	due := Never
	for _, w := range r.leading.purgatory {
		due = min(due, w.deadline)
	}
	for _, p := range r.leading.parked {
		due = min(due, p.deadline)
	}
	if p := r.leading.pending; p != nil {
		return min(due, p.retryAt)
	}
	if r.c.LagMax > 0 {
		for i := range r.leading.remotes {
			f := &r.leading.remotes[i]
			if slices.Contains(r.isr, f.id) && f.leo != r.log.End() {
				lags := f.caughtUp // it lags already if it never was caught up
				if lags != never {
					lags += r.c.LagMax + 1
				}
				due = min(due, max(lags, r.leading.quietUntil))
			}
		}
	}
	return due
}

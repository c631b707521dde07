package replica

import "encoding/binary"

// Clone is an independent copy on a copy of its log.
func (r *Replica) Clone(l Log) *Replica {
	c := &Replica{}
	r.CloneTo(c, l)
	return c
}

// CloneTo makes c an independent copy on a copy of the log. What c was before is gone; what room it had is used again, so that a
// search that copies at every step leaves nothing to collect. What is never changed in place is shared: bodies of messages,
// lists of brokers, the epoch cache.
func (r *Replica) CloneTo(c *Replica, l Log) {
	producers, leading := c.producers[:0], c.leading
	*c = *r
	c.log, c.out = l, nil
	c.producers = r.producers.cloneTo(producers)
	c.leading = r.leading.cloneTo(leading)
}

// AppendState appends a canonical form of everything that decides the replica's future, its log excepted: ages instead
// of times, no numbers of messages, nothing of a role that it does not have. Two replicas of one configuration and one log
// for which it is equal answer equal messages alike, for ever. It is binary, every list with its length before it, so that
// no two states share a form.
func (r *Replica) AppendState(now Time, b []byte) []byte {
	b = append(b, byte(r.role))
	b = appendInts(b, int64(r.leader), int64(r.leaderEpoch), int64(r.partitionEpoch), r.version, r.hw, r.log.End(), r.brokerEpoch)
	b = appendIDs(b, r.isr)
	b = appendIDs(b, r.replicas)
	b = binary.AppendUvarint(b, uint64(len(r.brokers)))
	for _, x := range r.brokers {
		b = appendBool(appendInts(b, int64(x.ID), x.Epoch), x.Fenced)
	}
	b = binary.AppendUvarint(b, uint64(len(r.epochs)))
	for _, e := range r.epochs {
		b = appendInts(b, int64(e.Epoch), e.Start)
	}
	b = r.producers.appendState(b)
	switch r.role {
	case RoleLeader:
		b = r.leading.appendState(now, b)
	case RoleFollower:
		b = r.following.appendState(now, b)
	}
	return b
}

func (p producers) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, q := range p {
		b = appendInts(b, q.id, int64(q.epoch))
		b = binary.AppendUvarint(b, uint64(len(q.recent)))
		for _, s := range q.recent {
			b = appendInts(b, int64(s.first), int64(s.count), s.base, int64(s.leaderEpoch))
		}
	}
	return b
}

func (l *leading) appendState(now Time, b []byte) []byte {
	b = appendInts(b, l.epochStart, int64(max(0, l.quietUntil-now)))
	b = binary.AppendUvarint(b, uint64(len(l.remotes)))
	for i := range l.remotes {
		f := &l.remotes[i]
		b = appendInts(b, int64(f.id), f.leo, int64(age(now, f.caughtUp)), f.sentHW, f.brokerEpoch, f.leoAtFetch)
		if f.leoAtFetch != NoOffset {
			b = appendInts(b, int64(now-f.fetchedAt))
		}
	}
	b = appendBool(b, l.pending != nil)
	if p := l.pending; p != nil {
		b = binary.AppendUvarint(b, uint64(len(p.isr)))
		for _, m := range p.isr {
			b = appendInts(b, int64(m.ID), m.BrokerEpoch)
		}
		b = appendBool(appendBool(appendInts(b, int64(p.partitionEpoch)), p.void), p.number == 0)
		b = appendInts(b, due(now, p.retryAt))
	}
	b = binary.AppendUvarint(b, uint64(len(l.purgatory)))
	for i := range l.purgatory {
		w := &l.purgatory[i]
		b = appendInts(b, w.base, w.end, int64(w.epoch), int64(w.m.From), due(now, w.deadline))
	}
	b = binary.AppendUvarint(b, uint64(len(l.parked)))
	for i := range l.parked {
		p := &l.parked[i]
		b = appendInts(b, int64(p.m.From), p.b.Offset, int64(p.b.MaxBytes), due(now, p.deadline))
	}
	return b
}

func (f *following) appendState(now Time, b []byte) []byte {
	b = appendBool(appendBool(b, f.truncating), f.stuck)
	b = appendInts(b, due(now, f.pollAt))
	b = appendBool(b, f.outOfRange)
	if f.outOfRange {
		b = appendInts(b, f.leaderStart)
	}
	if f.uncut != nil {
		b = appendInts(append(b, 2), int64(f.uncut.Epoch), f.uncut.End) // no boolean begins with 2
	}
	a := &f.asked
	b = appendBool(b, a.number != 0)
	if a.number != 0 {
		b = binary.AppendUvarint(b, uint64(len(a.kind)))
		b = append(b, a.kind...)
		b = appendInts(b, int64(a.leaderEpoch), a.offset, int64(a.epoch), int64(a.maxRecords))
	}
	return b
}

// age is how long ago something was, -1 if it never was.
func age(now, at Time) Time {
	if at == never {
		return -1
	}
	return now - at
}

// due is how long it is until a deadline: -1 if it never comes, 0 when it has passed.
func due(now, deadline Time) int64 {
	if deadline == Never {
		return -1
	}
	return int64(max(0, deadline-now))
}

func appendInts(b []byte, of ...int64) []byte {
	for _, n := range of {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func appendIDs(b []byte, ids []ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = binary.AppendVarint(b, int64(id))
	}
	return b
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

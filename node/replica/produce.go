package replica

import (
	"fmt"
	"slices"
)

// waitingProduce is a produce request with acks=all whose records wait to be committed.
type waitingProduce struct {
	m        Message
	base     int64
	end      int64
	epoch    int32 // the records' own
	deadline Time
}

// produce appends, or refuses before anything is appended.
func (r *Replica) produce(now Time, m Message, b *Produce) {
	if code := r.refusal(b); code != OK {
		r.send(m.Answer(&ProduceAnswer{Error: code, Base: NoOffset, Start: r.log.Start(), Refused: true}))
		return
	}
	batch := b.Batch
	batch.Base, batch.Epoch = r.log.End(), r.leaderEpoch
	if s, again := r.producers.duplicate(batch); again {
		batch.Base, batch.Epoch = s.base, s.leaderEpoch // in the log; the answer waits until it is committed, as for the first time
	} else if !r.append(batch) {
		r.send(m.Answer(&ProduceAnswer{Error: StorageError, Base: NoOffset}))
		return
	}
	if b.Acks == AcksAll {
		w := waitingProduce{m: m, base: batch.Base, end: batch.End(), epoch: batch.Epoch, deadline: Never}
		if b.Timeout > 0 {
			w.deadline = now + b.Timeout
		}
		r.leading.purgatory = append(r.leading.purgatory, w)
	} else {
		r.send(m.Answer(&ProduceAnswer{Base: batch.Base, Start: r.log.Start()}))
	}
	r.advance(now)
}

// refusal is the code with which a produce request is turned down before append, OK if it is not.
func (r *Replica) refusal(b *Produce) Code {
	switch {
	case r.role != RoleLeader:
		return NotLeaderOrFollower
	case b.Acks != AcksAll && b.Acks != AcksOne && b.Acks != AcksNo:
		return InvalidRequiredAcks
	case b.Acks == AcksAll && len(r.isr) < r.minISR():
		return NotEnoughReplicas
	}
	return r.producers.check(b.Batch)
}

// append writes one batch, its epoch's entry in the cache before it: the entry is durable before any record of the epoch
// can be acknowledged.
func (r *Replica) append(b Batch) bool {
	if !r.setEpochs(r.epochs.assigned(b.Epoch, b.Base)) {
		return false
	}
	if err := r.log.Append(b); err != nil && !r.c.Rules.Defect.WriteErrorsIgnored { // Z26
		return r.fail("appending", err)
	}
	if r.role == RoleLeader || !r.c.Rules.Defect.ProducersNotCopied { // Z33
		r.producers.remember(b)
	}
	r.tell(Event{What: EventAppend, Epoch: b.Epoch, From: b.Base, To: b.End()})
	return true
}

// completeProduces answers the requests whose records are committed.
func (r *Replica) completeProduces(now Time) {
	kept := r.leading.purgatory[:0]
	var isr []ID
	for i := range r.leading.purgatory {
		w := &r.leading.purgatory[i]
		if w.end > r.hw {
			kept = append(kept, *w)
			continue
		}
		if isr == nil {
			isr = r.maximalISR()
		}
		if len(isr) < r.minISR() {
			r.send(w.m.Answer(&ProduceAnswer{Error: NotEnoughReplicasAfterAppend, Base: NoOffset}))
			continue
		}
		r.tell(Event{What: EventAck, Epoch: w.epoch, PartitionEpoch: r.partitionEpoch, From: w.base, To: w.end, ISR: isr})
		r.send(w.m.Answer(&ProduceAnswer{Base: w.base, Start: r.log.Start()}))
	}
	r.leading.purgatory = kept
}

// expireProduces answers the requests whose time is over. Their records may still be committed.
func (r *Replica) expireProduces(now Time) {
	r.leading.purgatory = slices.DeleteFunc(r.leading.purgatory, func(w waitingProduce) bool {
		if now < w.deadline {
			return false
		}
		r.send(w.m.Answer(&ProduceAnswer{Error: RequestTimedOut, Base: NoOffset}))
		return true
	})
}

// producers is the idempotent producers' state, sorted by producer id (KIP-98): the newest epoch, and its last batches.
type producers []producer

type producer struct {
	id     int64
	epoch  int16
	recent []sequence // oldest first, at most remembered
}

type sequence struct {
	first       int32
	count       int32
	base        int64
	leaderEpoch int32
}

// remembered is how many batches of a producer are known for telling duplicates, as many as a client may have in flight.
const remembered = 5

func (p producers) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(p, id, func(q producer, id int64) int {
		switch {
		case q.id < id:
			return -1
		case q.id > id:
			return 1
		}
		return 0
	})
}

// duplicate finds a batch that was appended before.
func (p producers) duplicate(b Batch) (sequence, bool) {
	if b.Producer == NoProducer {
		return sequence{}, false
	}
	i, ok := p.find(b.Producer)
	if !ok || p[i].epoch != b.ProducerEpoch {
		return sequence{}, false
	}
	for _, s := range p[i].recent {
		if s.first == b.Sequence && s.count == b.Count {
			return s, true
		}
	}
	return sequence{}, false
}

// check says whether a producer's batch comes in its turn. A producer that is not known may begin anywhere (KIP-360).
func (p producers) check(b Batch) Code {
	if b.Producer == NoProducer {
		return OK
	}
	i, known := p.find(b.Producer)
	if !known {
		return OK
	}
	q := p[i]
	switch {
	case b.ProducerEpoch < q.epoch:
		return InvalidProducerEpoch
	case b.ProducerEpoch > q.epoch:
		if b.Sequence != 0 {
			return OutOfOrderSequenceNumber
		}
		return OK
	}
	if _, again := p.duplicate(b); again || len(q.recent) == 0 {
		return OK
	}
	last := q.recent[len(q.recent)-1]
	if b.Sequence != last.following() {
		return OutOfOrderSequenceNumber
	}
	return OK
}

// following is the sequence number after a batch; numbers wrap to 0 after the largest int32.
func (s sequence) following() int32 { return int32((int64(s.first) + int64(s.count)) & (1<<31 - 1)) }

func (p *producers) remember(b Batch) {
	if b.Producer == NoProducer {
		return
	}
	i, known := p.find(b.Producer)
	if !known {
		*p = slices.Insert(*p, i, producer{id: b.Producer, epoch: b.ProducerEpoch})
	}
	q := &(*p)[i]
	if q.epoch != b.ProducerEpoch {
		q.epoch, q.recent = b.ProducerEpoch, nil
	}
	if len(q.recent) == remembered {
		q.recent = slices.Delete(q.recent, 0, 1)
	}
	q.recent = append(q.recent, sequence{b.Sequence, b.Count, b.Base, b.Epoch})
}

// reach is the end of the last batch that any producer's state knows, 0 if none.
func (p producers) reach() int64 {
	var end int64
	for _, q := range p {
		if n := len(q.recent); n > 0 {
			end = max(end, q.recent[n-1].base+int64(q.recent[n-1].count))
		}
	}
	return end
}

// cloneTo is a copy in the room that another had.
func (p producers) cloneTo(room producers) producers {
	c := append(room, p...)
	for i := range c {
		c[i].recent = slices.Clone(c[i].recent)
	}
	return c
}

// loadProducers rebuilds the producers' state from the log.
func (r *Replica) loadProducers() error {
	r.producers = nil
	return r.eachBatch(r.producers.remember)
}

// eachBatch visits the log's batches in order.
func (r *Replica) eachBatch(visit func(Batch)) error {
	for at := r.log.Start(); at < r.log.End(); {
		batches, err := r.log.Read(at, 1<<20)
		if err != nil {
			return err
		}
		if len(batches) == 0 {
			return fmt.Errorf("no batch at offset %d of a log that ends at %d", at, r.log.End())
		}
		for _, b := range batches {
			visit(b)
			at = b.End()
		}
	}
	return nil
}

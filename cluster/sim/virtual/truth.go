package virtual

import (
	"cmp"
	"fmt"
	"slices"

	"tidemark/node/replica"
)

// Truth is what only the simulation knows of a run: what the replica that answered a client had in its log at that moment, and where
// everything is at the end. It is made from the cores and their disks, never from what clients wrote down, so that it can judge who
// judges those.
//
// A client is told three things: that its batch is at an offset, that records are at offsets, and that the log has an end. Each of
// them is a promise about the first offsets of one log: the log of whoever answered. It is kept if the final log begins in the same
// way.
type Truth struct {
	moment int64
	parts  []known
}

// known is what is known of one partition.
type known struct {
	promises []promise // in the order in which clients got them
	last     *promise  // of the newest final read
}

// promise is what an answer tells of a log.
type promise struct {
	part    int
	moment  int64
	batches []replica.Batch // all of the log of who answered, as it was; batch lists are never overwritten
	end     int64           // the log is told to reach so far
	// from and to are the offsets of which the answer told what is there.
	from, to int64
	fell     bool // the epochs of its records go down
	hollow   bool // it has nothing at an offset that it tells is below the end
}

func newTruth(parts int) *Truth { return &Truth{parts: make([]known, parts)} }

func (t *Truth) next() int64 {
	t.moment++
	return t.moment
}

// tell notes that a client has got an answer.
func (t *Truth) tell(p *promise) {
	p.moment = t.next()
	t.parts[p.part].promises = append(t.parts[p.part].promises, *p)
}

// final notes an answer to a read at the end.
func (t *Truth) final(p *promise) {
	t.parts[p.part].last = p
	t.tell(p)
}

// promised is what an answer promises, nil if it does nothing of the kind.
func (k *Cluster) promised(i int, m replica.Message) *promise {
	c := int(m.To.Process())
	if c >= len(k.callers) {
		return nil
	}
	part := k.partOf(m.Partition)
	if part == len(k.parts) {
		return nil
	}
	p := &promise{part: part}
	switch b := m.Body.(type) {
	case *replica.ProduceAnswer:
		if b.Error != replica.OK || k.crew.Acks() == replica.AcksNo {
			return nil
		}
		p.from, p.end = b.Base, b.Base+int64(len(k.produced[k.callers[c].batch].values))
		p.to = p.end
	case *replica.ListOffsetsAnswer:
		if b.Error != replica.OK || c == k.reader() {
			return nil
		}
		p.end = b.Offset
	case *replica.FetchAnswer:
		if b.Error != replica.OK {
			return nil
		}
		p.end = b.HighWatermark
		epoch := int32(-1)
		for j := range b.Batches {
			x := &b.Batches[j]
			if j == 0 {
				p.from = x.Base
			}
			p.to = x.End()
			p.fell = p.fell || x.Epoch < epoch
			epoch = x.Epoch
		}
	default:
		return nil
	}
	log, err := k.servers[i].broker.Read(m.Partition, 0, 1<<30)
	if err != nil {
		return nil // a log that failed; it has answered with an error
	}
	p.batches = log
	return p
}

// Fact is what became of one partition.
type Fact struct {
	// Read says whether the final log is known. Without it nothing else is.
	Read bool
	// Broken says how the committed log was not kept, so that clients can have noticed; "" if it was kept.
	Broken string
	// Hidden are offsets below an end that clients were told, with a record that no client ever heard of, at which there is another
	// one in the end that might have been there all the time, for all that clients know.
	Hidden int
}

// Partitions is how many partitions it knows of, in the order of the topics.
func (t *Truth) Partitions() int { return len(t.parts) }

// Judge says what became of a partition.
func (k *Cluster) Judge(part int) Fact {
	x := &k.truth.parts[part]
	if x.last == nil {
		return Fact{}
	}
	f := Fact{Read: true}
	final := x.last.log()
	for i := range x.promises {
		k.judge(&f, &x.promises[i], final)
	}
	k.judgeOrder(&f, x.promises, final)
	return f
}

// log is the batch at each offset up to the end that was told, by its number, and its base.
func (p *promise) log() []at {
	log := make([]at, 0, p.end)
	for i := range p.batches {
		b := &p.batches[i]
		for o := b.Base; o < b.End() && o < p.end; o++ {
			log = append(log, at{number(b.Data), o - b.Base})
		}
	}
	return log
}

// at names one record: the number of its batch, and its place in it.
type at struct {
	batch int
	index int64
}

func (f *Fact) say(format string, args ...any) {
	if f.Broken == "" {
		f.Broken = fmt.Sprintf(format, args...)
	}
}

// judge holds one promise against the final log.
func (k *Cluster) judge(f *Fact, p *promise, final []at) {
	if p.fell {
		f.say("an answer had records whose epochs go down")
	}
	if p.hollow {
		f.say("a client got nothing at an offset below %d, the end that it was told", p.end)
	}
	if p.end > int64(len(final)) {
		f.say("a client was told of an end at %d, the final log ends at %d", p.end, len(final))
	}
	if p.to > p.end {
		f.say("a client was given records up to %d, beyond the end %d", p.to, p.end)
	}
	for i := range p.batches {
		b := &p.batches[i]
		if b.Base >= p.end {
			break
		}
		for o := b.Base; o < b.End() && o < int64(len(final)); o++ {
			switch {
			case final[o] == at{number(b.Data), o - b.Base}:
			case o >= p.from && o < p.to:
				f.say("a client was told what is at offset %d (%s); in the end there is another (%s)", o, k.text(b, o), k.textOf(final[o]))
			case o < p.end:
				f.Hidden++
			}
		}
	}
}

// judgeOrder looks for records that are where the log was told to reach already before anybody produced them, for values that are
// there twice, and for values that certainly failed.
func (k *Cluster) judgeOrder(f *Fact, promises []promise, final []at) {
	told := make([]int64, len(promises)) // the furthest end that was told until then
	furthest := int64(0)
	for i := range promises {
		furthest = max(furthest, promises[i].end)
		told[i] = furthest
	}
	for o, r := range final {
		b := &k.produced[r.batch]
		if b.found != 0 && r.index == 0 {
			f.say("%s is at %d and at %d", k.textOf(r), b.found-1, o)
		}
		if r.index == 0 {
			b.found = o + 1
		}
		if b.failed {
			f.say("%s failed for certain, and is at offset %d", k.textOf(r), o)
		}
		if r.index != 0 {
			continue
		}
		before, _ := slices.BinarySearchFunc(promises, b.called, func(p promise, called int64) int { return cmp.Compare(p.moment, called) })
		if before > 0 && told[before-1] > int64(o) {
			f.say("%s is at offset %d, below the end %d that was told before it was produced", k.textOf(r), o, told[before-1])
		}
	}
	for _, r := range final {
		k.produced[r.batch].found = 0
	}
}

func (k *Cluster) text(b *replica.Batch, o int64) string {
	return k.textOf(at{number(b.Data), o - b.Base})
}

func (k *Cluster) textOf(r at) string {
	if v := k.produced[r.batch].values; r.index < int64(len(v)) {
		return v[r.index]
	}
	return "?"
}

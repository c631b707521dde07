package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/node/inbox"
	"tidemark/node/journal"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/storage/memory"
)

// broker is a broker that runs again.
type broker struct {
	config inbox.Config
	disk   *memory.Disk
	watch  *watch
	trace  *journal.Trace
	broker *inbox.Broker // nil: no process

	// points are copies of the disk at which the process may have ended, the first before anything of it was done; nil: the disk
	// is what it is.
	points []*memory.Disk
	// others are what the disk may be as well, by what the process found, except for the marker of a clean shutdown: it is found later.
	others []*memory.Disk
	// hw is a checkpoint that was begun and of which nobody knows whether it was written.
	hw map[replica.Partition]int64
	// Of each hosted log, in order: how many operations there were when the flush began that is under way, -1 if none is; and
	// how many more than is known the last flush may have covered.
	flushing, doubtful []int
}

func newBroker(s *journal.Start) (*broker, error) {
	for _, f := range s.Disk {
		if f.Start != 0 || f.End != 0 || f.HighWatermark != 0 || len(f.Epochs) > 0 {
			return nil, fmt.Errorf("%w: %s had the offsets [%d, %d) then", ErrNoBeginning, f.Partition, f.Start, f.End)
		}
	}
	return &broker{disk: memory.New()}, nil
}

func (b *broker) begin(s *journal.Start, t *journal.Trace, w *watch) *rules.Set {
	b.config, b.trace, b.watch, b.broker = *s.Broker, t, w, nil
	b.points, b.hw = nil, nil
	b.flushing, b.doubtful = make([]int, len(s.Broker.Hosted)), make([]int, len(s.Broker.Hosted))
	for i := range b.flushing {
		b.flushing[i] = -1
	}
	return &b.config.Replica.Rules
}

func (b *broker) open(o *journal.Opened) (err error) {
	candidates := append([]*memory.Disk{b.disk}, b.others...)
	b.others = nil
	if o == nil {
		for _, b.disk = range candidates {
			b.watch.remember()
			b.broker, err = inbox.Start(b.config, &journal.Disk{Disk: b.disk, Trace: b.trace, Watcher: b.watch})
		}
		return err
	}
	marker := func(d *memory.Disk) (int64, bool) {
		epoch, marked, _ := d.Clone().TakeCleanShutdown() // never fails
		return epoch, marked
	}
	for _, d := range candidates {
		if epoch, marked := marker(d); marked == o.Marked && (!marked || epoch == o.BrokerEpoch) {
			b.disk = d
			b.broker, err = inbox.Start(b.config, &journal.Disk{Disk: d, Trace: b.trace, Watcher: b.watch})
			return err
		}
	}
	epoch, marked := marker(b.disk)
	return fmt.Errorf("marker of a clean shutdown: there %t (broker epoch %d), here %t (broker epoch %d)", o.Marked, o.BrokerEpoch, marked, epoch)
}

func (b *broker) step(now replica.Time, m replica.Message) []replica.Message {
	return b.broker.Step(now, m, nil)
}

func (b *broker) deadline() replica.Time        { return b.broker.Deadline() }
func (b *broker) state(now replica.Time) []byte { return b.broker.AppendState(now, nil) }
func (b *broker) settled() error                { return nil }

func (b *broker) words() string {
	s := fmt.Sprintf("broker epoch %d, fenced %t", b.broker.Session().BrokerEpoch(), b.broker.Session().Fenced())
	for _, p := range b.broker.Partitions() {
		v, _ := b.broker.View(p)
		s += fmt.Sprintf("; %s %+v", p, v)
	}
	return s
}

func (b *broker) mark(m *journal.Mark) error {
	switch m.Event {
	case journal.Flushing:
		for i, h := range b.config.Hosted {
			b.flushing[i] = b.disk.Unsynced(h.Partition)
		}
	case journal.Flushed:
		if m.Error != "" {
			return nil // some may be flushed: as if it were still under way
		}
		for i, h := range b.config.Hosted {
			b.doubtful[i] = b.disk.Unsynced(h.Partition) - b.flushing[i]
			b.disk.FlushOldest(h.Partition, b.flushing[i])
			b.flushing[i] = -1
		}
	case journal.Checkpointing:
		b.hw = b.broker.HighWatermarks()
	case journal.Checkpointed:
		if m.Error == "" {
			_ = b.disk.Checkpoint(b.hw)
			b.hw = nil
		}
	case journal.FailAppend:
		b.broker.FailNextAppend()
	case journal.Stopping:
		return b.broker.Stop() // each of its steps is a point
	case journal.Stopped:
		if m.Error == "" {
			b.points, b.watch.remember = nil, nil
		}
	}
	return nil
}

func (b *broker) last() {
	b.points = []*memory.Disk{b.disk.Clone()}
	b.watch.points = 0
	b.watch.remember = func() { b.points = append(b.points, b.disk.Clone()) }
}

// next goes through the points from the last to the first.
func (b *broker) next(s *journal.Start) (int, *Difference, error) {
	points := b.points
	if points == nil {
		points = []*memory.Disk{b.disk}
	}
	var closest *Difference
	point, matching := 0, []*memory.Disk(nil)
	for i := len(points) - 1; i >= 0; i-- {
		disk := points[i]
		tries := []*memory.Disk{disk.Clone()}
		if b.hw != nil {
			written := disk.Clone()
			_ = written.Checkpoint(b.hw)
			tries = append(tries, written)
		}
		for _, d := range tries {
			differs, err := b.same(d, s)
			if err != nil {
				return 0, nil, err
			}
			if differs == nil {
				if matching == nil {
					point = i
				}
				matching = append(matching, d)
			} else if closest == nil {
				closest = differs
			}
		}
	}
	if matching != nil {
		b.disk, b.others = matching[0], matching[1:]
		return point, nil, nil
	}
	if len(points) > 1 {
		closest.What += fmt.Sprintf("; nor is it at any of the %d points before, at which the process may have ended", len(points)-1)
	}
	return 0, closest, nil
}

// damaged does to the disk what was done to the files: the ends of the logs that the process found are where they were cut.
func damaged(d *memory.Disk, s *journal.Start) error {
	for _, there := range s.Disk {
		l, err := d.Log(there.Partition)
		if err == nil && s.Damage.Cut {
			if there.End < l.End() {
				err = l.TruncateTo(there.End)
			}
			err = errors.Join(err, d.Flush(there.Partition))
		}
		if err == nil && s.Damage.Forgotten {
			d.CheckpointOne(there.Partition, 0)
			err = l.SetEpochs(nil)
		}
		if err != nil {
			return err
		}
	}
	if s.Damage.Cut {
		_, _, err := d.TakeCleanShutdown()
		return err
	}
	return nil
}

// same cuts the disk as damage and the power failure did, if there was one, and compares it with what the process found.
func (b *broker) same(d *memory.Disk, s *journal.Start) (*Difference, error) {
	if err := damaged(d, s); err != nil {
		return nil, err
	}
	if s.Power != nil {
		if differs := b.cut(d, s.Power); differs != nil {
			return differs, nil
		}
	}
	for _, there := range s.Disk {
		l, _ := d.Log(there.Partition) // never fails
		here, err := journal.Look(there.Partition, l)
		if err != nil {
			return nil, err
		}
		if here.Start != there.Start || here.End != there.End || here.HighWatermark != there.HighWatermark || here.Content != there.Content ||
			!slices.Equal(here.Epochs, there.Epochs) {
			return &Difference{What: "what the process found in the log of " + there.Partition.String(), There: found(there), Here: found(here)}, nil
		}
	}
	return nil, nil
}

func found(f journal.Found) string {
	var epochs []string
	for _, e := range f.Epochs {
		epochs = append(epochs, fmt.Sprintf("%d@%d", e.Epoch, e.Start))
	}
	return fmt.Sprintf("offsets [%d, %d), content %016x, high watermark %d, epochs %s", f.Start, f.End, f.Content, f.HighWatermark, strings.Join(epochs, " "))
}

// cut is the power failure, with the operations undone that it took there. That must be as many as the cut leaves no room for: the
// flushes that are known are the least that was durable, and those under way may have covered more.
func (b *broker) cut(d *memory.Disk, p *journal.Power) *Difference {
	cut := replica.Cut{}
	for _, c := range p.Cut {
		n, lost := d.Unsynced(c.Partition), 0
		for _, l := range p.Lost {
			if l.Partition == c.Partition {
				lost = l.Operations
			}
		}
		most, least := n-min(n, c.Keep), n-min(n, c.Keep+b.covered(c.Partition, n))
		if lost < least || lost > most {
			return &Difference{What: fmt.Sprintf("what a power failure that leaves %d unflushed operations takes from the log of %s", c.Keep, c.Partition),
				There: fmt.Sprintf("%d operations", lost), Here: fmt.Sprintf("%d to %d operations of %d", least, most, n)}
		}
		cut[c.Partition] = replica.LogCut{Keep: n - lost}
	}
	_, _ = d.Power(cut) // never fails
	return nil
}

// covered is how many operations beyond the known ones may be durable.
func (b *broker) covered(p replica.Partition, unsynced int) int {
	for i, h := range b.config.Hosted {
		if h.Partition == p {
			if b.flushing[i] >= 0 {
				return unsynced
			}
			return b.doubtful[i]
		}
	}
	return 0
}

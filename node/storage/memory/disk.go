package memory

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"tidemark/node/replica"
)

// ErrStale is the error of a log that was opened before a power failure: its broker is gone. Open the log again.
var ErrStale = errors.New("stale log")

// Disk is a broker's disk in memory. Its zero value is empty and ready, as is what [New] returns.
type Disk struct {
	logs    []state // in order of creation: an open log knows its place
	power   int     // power failures so far; logs opened under an earlier number are stale
	marker  bool    // a clean shutdown's marker is there
	stopped int64   // the broker epoch in it
}

var _ replica.Disk = (*Disk)(nil)

// state is one log with its checkpoints.
type state struct {
	name     replica.Partition
	start    int64
	batches  []replica.Batch      // elements are never overwritten, so that copies of the slice stay true
	unsynced []operation          // the same holds here
	epochs   []replica.EpochStart // never changed, only replaced
	hw       int64
}

// operation is an unsynced operation and the log as it was before.
type operation struct {
	Operation
	start  int64
	before []replica.Batch
	kept   int // how many of before are still there after the operation
}

// New returns an empty disk.
func New() *Disk { return &Disk{} }

// Log opens the partition's log. Several open logs of one partition are views of the same log. The error is always nil.
func (d *Disk) Log(p replica.Partition) (replica.Log, error) {
	return &log{disk: d, at: d.place(p), power: d.power}, nil
}

// Flush makes the partition's log durable up to its end. The error is always nil.
func (d *Disk) Flush(p replica.Partition) error {
	d.logs[d.place(p)].unsynced = nil
	return nil
}

// FlushOldest makes the oldest n of the partition's unsynced operations durable: a flush that began when there were no more.
func (d *Disk) FlushOldest(p replica.Partition, n int) {
	s := &d.logs[d.place(p)]
	s.unsynced = s.unsynced[min(max(n, 0), len(s.unsynced)):]
}

// Unsynced is the number of the partition's operations since its last flush: the largest Keep of a cut that means
// something, so that whoever chooses cuts can enumerate them.
func (d *Disk) Unsynced(p replica.Partition) int { return len(d.logs[d.place(p)].unsynced) }

// Checkpoint sets the high watermarks of the partitions named; the others keep theirs. The error is always nil.
func (d *Disk) Checkpoint(hw map[replica.Partition]int64) error {
	for _, p := range slices.SortedFunc(maps.Keys(hw), Compare) {
		d.CheckpointOne(p, hw[p])
	}
	return nil
}

// CheckpointOne is [Disk.Checkpoint] of one partition.
func (d *Disk) CheckpointOne(p replica.Partition, hw int64) { d.logs[d.place(p)].hw = hw }

// Power is a power failure. It says what was lost, in the order of the partitions, leaving out logs that lost nothing.
// The error is always nil.
func (d *Disk) Power(cut replica.Cut) ([]replica.Lost, error) {
	d.power++
	var lost []replica.Lost
	for i := range d.logs {
		s := &d.logs[i]
		fate := Decide(len(s.unsynced), func(i int) Operation { return s.unsynced[i].Operation }, cut[s.name])
		if fate.Operations > 0 {
			first := s.unsynced[fate.Keep]
			s.start, s.batches = first.start, slices.Clip(first.before)
			lost = append(lost, replica.Lost{
				Partition: s.name, Operations: fate.Operations, Bytes: fate.Bytes, End: s.end(),
			})
		}
		s.unsynced = nil // what a power failure left is on the disk
	}
	slices.SortFunc(lost, func(a, b replica.Lost) int { return Compare(a.Partition, b.Partition) })
	return lost, nil
}

// CleanShutdown leaves the marker of a clean shutdown. The error is always nil.
func (d *Disk) CleanShutdown(brokerEpoch int64) error {
	d.marker, d.stopped = true, brokerEpoch
	return nil
}

// TakeCleanShutdown returns the marker's broker epoch and removes the marker. The error is always nil.
func (d *Disk) TakeCleanShutdown() (brokerEpoch int64, ok bool, err error) {
	brokerEpoch, ok = d.stopped, d.marker
	d.marker, d.stopped = false, 0
	return brokerEpoch, ok, nil
}

// Clone returns a disk with the same content and a life of its own. Logs open on d stay logs of d: open them on the
// clone. It only reads d, so several goroutines may clone a disk that nobody changes.
func (d *Disk) Clone() *Disk {
	c := &Disk{}
	d.CloneTo(c)
	return c
}

// CloneTo makes c what [Disk.Clone] returns. What c was before is gone, logs open on it included; what room it had is used
// again.
func (d *Disk) CloneTo(c *Disk) {
	logs := append(c.logs[:0], d.logs...)
	*c = *d
	c.logs = logs
	for i := range c.logs {
		s := &c.logs[i]
		// The room behind the elements stays with d: whoever appends to a clipped slice copies it first.
		s.batches, s.unsynced = slices.Clip(s.batches), slices.Clip(s.unsynced)
	}
}

// Compare orders partitions by topic and index: the order of every list of partitions in reports and files.
func Compare(a, b replica.Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// place is the partition's index in logs; it makes an empty log where there is none.
func (d *Disk) place(p replica.Partition) int {
	for i := range d.logs {
		if d.logs[i].name == p {
			return i
		}
	}
	d.logs = append(d.logs, state{name: p})
	return len(d.logs) - 1
}

func (s *state) end() int64 {
	if n := len(s.batches); n > 0 {
		last := &s.batches[n-1]
		return last.Base + int64(last.Count)
	}
	return s.start
}

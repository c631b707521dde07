package journal

import (
	"tidemark/node/replica"
)

// Call is what a core asks of its disk.
type Call uint8

// The calls. Those from CallAppend on change the disk.
const (
	CallRead Call = iota
	CallAppend
	CallTruncate
	CallReset
	CallEpochs
	CallCheckpoint
	CallMarker // of a clean shutdown: left or taken
)

// Watcher is told of what the cores ask of their disk.
type Watcher interface {
	// Before is asked before each call of a log; with an error the call is not made.
	Before(Call) error
	// After has the outcome, the error of Before included.
	After(Call, error)
}

// Disk is a disk whose calls are traced and watched: the real one when a journal is written, one in memory when it is replayed.
type Disk struct {
	replica.Disk
	Trace *Trace
	Watcher
}

// Log opens the log.
func (d *Disk) Log(p replica.Partition) (replica.Log, error) {
	l, err := d.Disk.Log(p)
	if err != nil {
		return nil, err
	}
	return &watched{l, p, d}, nil
}

// Checkpoint writes the high watermarks.
func (d *Disk) Checkpoint(hw map[replica.Partition]int64) error {
	err := d.Disk.Checkpoint(hw)
	d.After(CallCheckpoint, err)
	return err
}

// CleanShutdown leaves the marker.
func (d *Disk) CleanShutdown(brokerEpoch int64) error {
	err := d.Disk.CleanShutdown(brokerEpoch)
	d.After(CallMarker, err)
	return err
}

// TakeCleanShutdown takes the marker.
func (d *Disk) TakeCleanShutdown() (int64, bool, error) {
	epoch, ok, err := d.Disk.TakeCleanShutdown()
	d.After(CallMarker, err)
	return epoch, ok, err
}

type watched struct {
	replica.Log
	name replica.Partition
	disk *Disk
}

func (l *watched) Append(b replica.Batch) error {
	l.disk.Trace.Append(l.name, b)
	err := l.disk.Before(CallAppend)
	if err == nil {
		err = l.Log.Append(b)
	}
	l.disk.After(CallAppend, err)
	return err
}

func (l *watched) TruncateTo(offset int64) error {
	l.disk.Trace.Cut(l.name, offset, false)
	err := l.disk.Before(CallTruncate)
	if err == nil {
		err = l.Log.TruncateTo(offset)
	}
	l.disk.After(CallTruncate, err)
	return err
}

func (l *watched) Reset(offset int64) error {
	l.disk.Trace.Cut(l.name, offset, true)
	err := l.disk.Before(CallReset)
	if err == nil {
		err = l.Log.Reset(offset)
	}
	l.disk.After(CallReset, err)
	return err
}

func (l *watched) SetEpochs(epochs []replica.EpochStart) error {
	l.disk.Trace.Epochs(l.name, epochs)
	err := l.disk.Before(CallEpochs)
	if err == nil {
		err = l.Log.SetEpochs(epochs)
	}
	l.disk.After(CallEpochs, err)
	return err
}

func (l *watched) Read(from int64, maxBytes int) ([]replica.Batch, error) {
	err := l.disk.Before(CallRead)
	var batches []replica.Batch
	if err == nil {
		batches, err = l.Log.Read(from, maxBytes)
	}
	l.disk.After(CallRead, err)
	return batches, err
}

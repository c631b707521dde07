package node

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"tidemark/node/control"
	"tidemark/node/replica"
)

// diskFaults are the faults of a broker's disk that commands ask for. A broker that takes no commands has none.
type diskFaults struct {
	mu     sync.Mutex
	fault  control.DiskFault
	left   map[replica.Partition]int // appends that are still to fail
	counts control.DiskCounts
}

// set replaces the faults and returns what those before them came to. Nil changes nothing.
func (f *diskFaults) set(d *control.DiskFault) control.DiskCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := f.counts
	if d != nil {
		f.fault, f.counts, f.left = *d, control.DiskCounts{}, map[replica.Partition]int{}
	}
	return counts
}

// append is the error of an append to a log, nil if it is to be made.
func (f *diskFaults) append(p replica.Partition) error {
	if err := f.write(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault.FailAppends == 0 {
		return nil
	}
	if _, known := f.left[p]; !known {
		f.left[p] = f.fault.FailAppends
	}
	if f.left[p] == 0 {
		return nil
	}
	f.left[p]--
	f.counts.Failed++
	return fmt.Errorf("append to %s: injected: %w", p, syscall.EIO)
}

// write is the error of a write that needs room.
func (f *diskFaults) write() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fault.Full {
		return nil
	}
	f.counts.Refused++
	return fmt.Errorf("injected: %w", syscall.ENOSPC)
}

// sync takes as long as a slow disk does.
func (f *diskFaults) sync() {
	f.mu.Lock()
	d := f.fault.SlowSync
	f.mu.Unlock()
	if d == 0 {
		return
	}
	began := time.Now()
	time.Sleep(d)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault.SlowSync == d {
		f.counts.Slowed++
		f.counts.SlowedFor += time.Since(began)
	}
}

// faultyDisk is a disk with faults.
type faultyDisk struct {
	replica.Disk
	faults *diskFaults
}

// Log opens a log with faults.
func (d *faultyDisk) Log(p replica.Partition) (replica.Log, error) {
	l, err := d.Disk.Log(p)
	if err != nil {
		return nil, err
	}
	return &faultyLog{Log: l, partition: p, faults: d.faults}, nil
}

// Flush makes the log durable, late if the disk is slow.
func (d *faultyDisk) Flush(p replica.Partition) error {
	d.faults.sync()
	return d.Disk.Flush(p)
}

// Checkpoint writes the high watermarks, if there is room.
func (d *faultyDisk) Checkpoint(hw map[replica.Partition]int64) error {
	if err := d.faults.write(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	d.faults.sync()
	return d.Disk.Checkpoint(hw)
}

// CleanShutdown leaves the marker, if there is room.
func (d *faultyDisk) CleanShutdown(brokerEpoch int64) error {
	if err := d.faults.write(); err != nil {
		return fmt.Errorf("clean shutdown: %w", err)
	}
	return d.Disk.CleanShutdown(brokerEpoch)
}

// faultyLog is a log with faults.
type faultyLog struct {
	replica.Log
	partition replica.Partition
	faults    *diskFaults
}

// Append appends, unless it is to fail.
func (l *faultyLog) Append(b replica.Batch) error {
	if err := l.faults.append(l.partition); err != nil {
		return err
	}
	return l.Log.Append(b)
}

// SetEpochs writes the epoch checkpoint, if there is room, late if the disk is slow.
func (l *faultyLog) SetEpochs(e []replica.EpochStart) error {
	if err := l.faults.write(); err != nil {
		return fmt.Errorf("leader epoch checkpoint of %s: %w", l.partition, err)
	}
	l.faults.sync()
	return l.Log.SetEpochs(e)
}

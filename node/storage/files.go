package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// Options are the sizes of a disk. The zero value is right for brokers; tests make segments small.
type Options struct {
	// SegmentBytes is the size at which a log goes on in a new file (log.segment.bytes), 16 MiB if 0. A batch larger
	// than it has a segment of its own.
	SegmentBytes int64
	// CacheBytes is how much of the newest batches each log keeps in memory for readers, 1 MiB if 0, nothing if
	// negative. Readers of the newest batches then cost no system call.
	CacheBytes int
}

// Files is a broker's disk in a folder. Its methods may be called by several goroutines at once, also while the owners
// of the logs use them; Power and Close end the logs and are for one who knows that the owners are gone.
type Files struct {
	fs      fileSystem
	dir     string
	options Options
	lock    io.Closer
	offsets *offsets

	mu     sync.Mutex
	logs   map[replica.Partition]*log
	closed bool
}

var _ replica.Disk = (*Files)(nil)

// Open opens the disk in dir, which is made if it does not exist. It opens no log, so that [Files.Power] can follow
// before anything is recovered. It fails if another process has the disk open or a checkpoint file is not readable.
func Open(dir string, options Options) (*Files, error) { return openFiles(osFiles{}, dir, options) }

func openFiles(fs fileSystem, dir string, options Options) (f *Files, err error) {
	if options.SegmentBytes == 0 {
		options.SegmentBytes = 16 << 20
	}
	if options.CacheBytes == 0 {
		options.CacheBytes = 1 << 20
	}
	if options.SegmentBytes < 1 || options.SegmentBytes > 1<<31-1 {
		return nil, fmt.Errorf("open disk %s: segment bytes %d, want 1 to %d", dir, options.SegmentBytes, 1<<31-1)
	}
	f = &Files{fs: fs, dir: dir, options: options, logs: map[replica.Partition]*log{}}
	if err := fs.mkdir(dir); err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	if f.lock, err = lockFolder(dir); err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	f.offsets = &offsets{fs: fs, dir: dir}
	if f.offsets.known, err = readOffsets(fs, dir); err == nil {
		err = f.removeTemporary()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open disk: %w", err), f.lock.Close())
	}
	return f, nil
}

func (f *Files) removeTemporary() error {
	names, err := f.fs.readDir(f.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name.Name(), temporary) {
			if err := f.fs.remove(filepath.Join(f.dir, name.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes every file and leaves the disk to others. It flushes nothing: what it leaves is what a kill leaves. Logs
// opened before are stale.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.retireAll(), f.lock.Close())
}

func (f *Files) retireAll() error {
	var errs []error
	for _, p := range sorted(f.logs) {
		errs = append(errs, f.logs[p].retire())
	}
	clear(f.logs)
	return errors.Join(errs...)
}

// Log opens the partition's log, an empty one if there is none. It is the same as long as it works; after a failure it
// is recovered from its files again, and the one opened before is stale.
func (f *Files) Log(p replica.Partition) (replica.Log, error) {
	l, err := f.log(p, true)
	if err != nil {
		return nil, err // not a nil *log in a Log that is not nil
	}
	return l, nil
}

// log opens the partition's log if it is not open, and if again is set also if it failed.
func (f *Files) log(p replica.Partition, again bool) (*log, error) {
	if err := checkName(p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("open %s: the disk %s is closed", p, f.dir)
	}
	if l := f.logs[p]; l != nil {
		if !again || l.works() {
			return l, nil
		}
		if err := l.retire(); err != nil {
			return nil, fmt.Errorf("open %s again: %w", p, err)
		}
		delete(f.logs, p)
	}
	l, _, err := f.recoverLog(p, nil)
	if err != nil {
		return nil, err
	}
	f.logs[p] = l
	return l, nil
}

// Flush makes the partition's log durable up to its end as it is when the call begins. Its owner may append, cut and
// read meanwhile: the log is not held up by the fsync. After an error the log failed, because nobody can know which of
// its bytes are on the disk.
func (f *Files) Flush(p replica.Partition) error {
	l, err := f.log(p, false)
	if err != nil {
		return err
	}
	return l.flush()
}

// Unsynced is the number of the partition's operations since its last flush: the largest Keep of a cut that means
// something.
func (f *Files) Unsynced(p replica.Partition) (int, error) {
	l, err := f.log(p, false)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.count, nil
}

// Recovery says what was found when the partition's log was opened last; ok is false if it was not.
func (f *Files) Recovery(p replica.Partition) (found Recovery, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[p]
	if l == nil {
		return Recovery{}, false
	}
	return l.recovery, true
}

// Partitions lists the partitions that have a folder on the disk, in order.
func (f *Files) Partitions() ([]replica.Partition, error) {
	names, err := f.fs.readDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	var partitions []replica.Partition
	for _, name := range names {
		p, err := replica.ParsePartition(name.Name())
		if err == nil && name.IsDir() && checkName(p) == nil && p.String() == name.Name() {
			partitions = append(partitions, p)
		}
	}
	slices.SortFunc(partitions, memory.Compare)
	return partitions, nil
}

// Checkpoint replaces the replication-offset-checkpoint and waits for the disk. Partitions that are not named keep what
// they have.
func (f *Files) Checkpoint(hw map[replica.Partition]int64) error {
	for _, p := range sorted(hw) {
		if err := checkName(p); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return f.open("checkpoint", func() error { return f.offsets.set(hw) })
}

// CleanShutdown leaves the marker of a clean shutdown. The caller has flushed and checkpointed everything.
func (f *Files) CleanShutdown(brokerEpoch int64) error {
	return f.open("clean shutdown", func() error { return writeMarker(f.fs, f.dir, brokerEpoch) })
}

// TakeCleanShutdown returns the marker's broker epoch and removes the marker durably; ok is false if there was none that
// can be read.
func (f *Files) TakeCleanShutdown() (brokerEpoch int64, ok bool, err error) {
	err = f.open("take clean shutdown", func() error {
		brokerEpoch, ok, err = takeMarker(f.fs, f.dir)
		return err
	})
	return brokerEpoch, ok, err
}

// open runs do if the disk is open, and names the call in its error.
func (f *Files) open(call string, do func() error) error {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return fmt.Errorf("%s: the disk %s is closed", call, f.dir)
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// Power is a power failure: it undoes what was not flushed, down to the cut, in the files of every partition on the
// disk, and recovers their logs. A broker does it at start, between [Open] and the first log, when the one before it
// was killed; a test does it to a running one. Logs opened before are stale. It says what was lost, in the order of the
// partitions, leaving out logs that lost nothing. If it is killed itself, it can be called again.
func (f *Files) Power(cut replica.Cut) ([]replica.Lost, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("power failure: the disk %s is closed", f.dir)
	}
	if err := f.retireAll(); err != nil {
		return nil, fmt.Errorf("power failure: %w", err)
	}
	partitions, err := f.Partitions()
	if err != nil {
		return nil, fmt.Errorf("power failure: %w", err)
	}
	var all []replica.Lost
	for _, p := range partitions {
		at := cut[p]
		l, lost, err := f.recoverLog(p, &at)
		if err != nil {
			return all, fmt.Errorf("power failure: %w", err)
		}
		f.logs[p] = l
		if lost.Operations > 0 {
			all = append(all, lost)
		}
	}
	return all, nil
}

// offsets is the replication-offset-checkpoint.
type offsets struct {
	fs      fileSystem
	dir     string
	writing sync.Mutex // held while the file is replaced
	mu      sync.Mutex // guards known
	known   map[replica.Partition]int64
}

func (o *offsets) get(p replica.Partition) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[p]
}

func (o *offsets) set(hw map[replica.Partition]int64) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	next := maps.Clone(o.known)
	o.mu.Unlock()
	maps.Copy(next, hw)
	if err := writeOffsets(o.fs, o.dir, next); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = next
	return nil
}

// legalTopic is Kafka's rule for topic names, which keeps them from leaving the folder.
var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func checkName(p replica.Partition) error {
	if !legalTopic.MatchString(p.Topic) || p.Topic == "." || p.Topic == ".." || p.Index < 0 {
		return fmt.Errorf("partition %q: want a topic of 1 to 249 letters, digits, dots, underscores and dashes, and an index from 0 on", p)
	}
	return nil
}

// sorted lists the partitions of a map in order.
func sorted[V any](m map[replica.Partition]V) []replica.Partition {
	return slices.SortedFunc(maps.Keys(m), memory.Compare)
}

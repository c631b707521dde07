package storage

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"tidemark/node/replica"
)

// Recovery says what opening a log found: evidence for reports of a run, of a power failure's torn bytes above all.
type Recovery struct {
	Partition replica.Partition
	Start     int64 // log start offset
	End       int64 // log end offset
	Segments  int
	Batches   int
	Unsynced  int   // operations that a power failure can still undo
	Verified  int64 // bytes whose CRC was compared, because they were written since the last flush
	Cut       int64 // bytes removed from the end, from the first torn or corrupt batch on
	Why       error // what was broken there: nil if Cut is 0, else it wraps ErrPartial, ErrCorrupt or ErrMagic
	// Journal says why the journal was given up: what is in the files then counts as flushed, and all of it was verified.
	Journal error
}

// recoverLog opens the partition's log from what is in its folder, which is made if there is none. With a cut the power
// failed, and lost says what that took.
func (f *Files) recoverLog(p replica.Partition, cut *replica.LogCut) (l *log, lost replica.Lost, err error) {
	l = &log{fs: f.fs, options: f.options, name: p, dir: filepath.Join(f.dir, p.String()), offsets: f.offsets}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open %s: %w", p, err)
			l.closeFiles()
		}
	}()
	if err := l.ensureFolder(f.dir); err != nil {
		return l, lost, err
	}
	if l.epochs, err = readEpochs(l.fs, l.dir); err != nil {
		return l, lost, err
	}
	folder, why, err := openFolder(l.fs, l.dir)
	if err != nil {
		return l, lost, err
	}
	l.journal = folder.journal
	l.recovery = Recovery{Partition: p, Journal: why}
	if cut != nil {
		if lost, err = folder.power(*cut); err != nil {
			return l, lost, err
		}
	}
	if err := l.load(folder); err != nil {
		return l, lost, err
	}
	if err := folder.clean(); err != nil {
		return l, lost, err
	}
	for r := range folder.removed {
		l.removed = append(l.removed, removal{&segment{base: r.base}, r.seq})
	}
	lost.Partition, lost.End = p, l.end()
	return l, lost, nil
}

// ensureFolder makes the folder durably.
func (l *log) ensureFolder(parent string) error {
	_, err := l.fs.readDir(l.dir)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := l.fs.mkdir(l.dir); err != nil {
		return err
	}
	return l.fs.syncDir(parent)
}

// load builds the index of every segment and cuts the log at the first broken batch.
func (l *log) load(d *folder) error {
	if len(d.live) == 0 {
		// A new log, or one that was killed while it was made.
		if err := d.create(0); err != nil {
			return err
		}
		if err := l.fs.syncDir(l.dir); err != nil {
			return err
		}
	}
	trusted, unsynced, found := d.trusted(), d.ops.len() > 0, &l.recovery
	l.renamed = unsynced
	for i, base := range slices.Sorted(maps.Keys(d.live)) {
		if i > 0 && found.Why == nil && base != l.end() {
			found.Why = fmt.Errorf("%w: %s begins where %d comes next", ErrCorrupt, segmentName(base), l.end())
		}
		if found.Why != nil {
			// What follows a cut goes, as in Kafka.
			found.Cut += d.live[base]
			if err := l.fs.remove(d.path(base)); err != nil {
				return err
			}
			continue
		}
		f, err := l.fs.open(d.path(base), os.O_RDWR)
		if err != nil {
			return err
		}
		s := &segment{base: base, file: f, size: d.live[base]}
		l.segments = append(l.segments, s)
		scan, err := s.scan(trusted)
		if err != nil {
			return err
		}
		found.Verified += scan.verified
		found.Cut, found.Why = scan.cut, scan.why
		s.dirty = unsynced || scan.verified > 0 || scan.cut > 0
		if scan.cut > 0 {
			if err := f.Truncate(s.size); err != nil {
				return err
			}
		}
	}
	if err := l.dropEmpty(); err != nil {
		return err
	}
	if found.Why != nil || l.journal.count == 0 && l.journal.trusted != l.end() {
		if err := l.settle(); err != nil {
			return err
		}
	}
	if found.Why == nil && d.why != nil {
		found.Cut, found.Why = d.cut, d.why
	}
	found.Start, found.End, found.Segments = l.segments[0].base, l.end(), len(l.segments)
	found.Unsynced = l.journal.count
	for _, s := range l.segments {
		found.Batches += len(s.index)
	}
	return nil
}

// dropEmpty removes the last segment if a cut left nothing of it, unless it is the first, which says where the log
// starts.
func (l *log) dropEmpty() error {
	last := l.active()
	if last.size > 0 || len(l.segments) == 1 {
		return nil
	}
	l.segments = l.segments[:len(l.segments)-1]
	return errors.Join(last.file.Close(), l.fs.remove(segmentPath(l.dir, last.base)))
}

// settle makes durable what recovery found or cut, so that it need not be looked at again: nothing of it can be undone.
func (l *log) settle() error {
	for _, s := range l.segments {
		if s.dirty {
			if err := s.file.Sync(); err != nil {
				return err
			}
			s.dirty = false
		}
	}
	if err := l.fs.syncDir(l.dir); err != nil {
		return err
	}
	return l.journal.rewrite(l.journal.count, l.end(), nil)
}

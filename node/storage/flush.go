package storage

import (
	"errors"
	"fmt"
	"path/filepath"
)

// flush makes durable what the log holds when it begins. Operations that come while it waits for the disk stay in the
// journal, behind a new beginning.
func (l *log) flush() error {
	l.flushing.Lock()
	defer l.flushing.Unlock()

	l.mu.Lock()
	if err := l.usable("flush"); err != nil {
		l.mu.Unlock()
		return err
	}
	count, size, end := l.journal.count, l.journal.size, l.end()
	if count == 0 && l.journal.trusted == end {
		l.mu.Unlock()
		return nil
	}
	var files []file
	for _, s := range l.segments {
		if s.dirty {
			s.dirty = false
			files = append(files, s.file)
		}
	}
	renamed := l.renamed
	l.renamed = false
	l.mu.Unlock()

	// A segment that is removed meanwhile stays open, because its removal is not flushed yet.
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Sync())
	}
	if renamed {
		errs = append(errs, l.fs.syncDir(l.dir))
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("flush"); err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil {
		return l.fail("flush", err)
	}
	if err := l.journal.forget(count, size, end); err != nil {
		return l.fail("flush", err)
	}
	return l.forgetRemoved()
}

// forgetRemoved deletes the segments whose removal is flushed.
func (l *log) forgetRemoved() error {
	var errs []error
	kept := l.removed[:0]
	for _, r := range l.removed {
		if r.seq >= l.journal.first {
			kept = append(kept, r)
			continue
		}
		errs = append(errs, r.close(), removeIfThere(l.fs, filepath.Join(l.dir, removedName(r.base, r.seq))))
	}
	l.removed = kept
	if err := errors.Join(errs...); err != nil {
		return l.fail("flush", fmt.Errorf("remove flushed segments: %w", err))
	}
	return nil
}

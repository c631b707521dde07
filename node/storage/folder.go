package storage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// folder is a partition's folder before its log is opened: names, sizes, and the journal. It brings the files and the
// journal to agree, and undoes what a power failure takes. Every step of it can be killed and begun again.
type folder struct {
	fs      fileSystem
	dir     string
	live    map[int64]int64   // segments by base offset: size
	removed map[removed]int64 // segments that an operation put out of the way: size
	journal *journal
	ops     operations
	cut     int64 // bytes of an append that a kill cut short
	why     error // and what was wrong with it, nil if there was none
}

type removed struct {
	base int64
	seq  uint64
}

// openFolder reads a folder, makes the one operation that a kill may have left half done whole or undone, and gives the
// journal up if it does not go with the files: then why says so, and all there is counts as flushed but not trusted.
func openFolder(fs fileSystem, dir string) (d *folder, why, err error) {
	d = &folder{fs: fs, dir: dir, live: map[int64]int64{}, removed: map[removed]int64{}}
	if err := d.list(); err != nil {
		return nil, nil, err
	}
	d.journal, d.ops, why, err = openJournal(fs, dir)
	if err == nil {
		err = d.finish()
	}
	if err == nil && why == nil {
		if why = d.fits(); why != nil {
			d.ops = operations{}
			err = d.journal.rewrite(d.journal.count, 0, nil)
		}
	}
	if err != nil {
		return nil, nil, d.close(err)
	}
	return d, why, nil
}

// close gives the folder up because of err.
func (d *folder) close(err error) error {
	if d.journal != nil {
		d.journal.file.Close()
	}
	return err
}

// list finds the segments, and removes what was to become another file.
func (d *folder) list() error {
	names, err := d.fs.readDir(d.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := name.Info()
		if err != nil {
			return err
		}
		if base, ok := parseSegment(name.Name()); ok {
			d.live[base] = info.Size()
		} else if base, seq, ok := parseRemoved(name.Name()); ok {
			d.removed[removed{base, seq}] = info.Size()
		} else if strings.HasSuffix(name.Name(), temporary) {
			if err := d.fs.remove(filepath.Join(d.dir, name.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *folder) path(base int64) string { return segmentPath(d.dir, base) }

func (d *folder) removedPath(r removed) string {
	return filepath.Join(d.dir, removedName(r.base, r.seq))
}

// seq is the sequence number of operation i.
func (d *folder) seq(i int) uint64 { return d.journal.first + uint64(i) }

// finish deals with the newest operation, the only one that a kill leaves half done: an append whose bytes are not all
// there is undone, because nobody has the bytes; a truncation or a reset is done again. If it was a power failure of
// ours that was killed, several appends can be undone already.
func (d *folder) finish() error {
	n := d.ops.len()
	for ; n > 0; n-- {
		op := d.ops.at(n - 1)
		size, ok := d.live[op.segment]
		if op.kind != memory.Append || ok && size >= op.at+op.length {
			break
		}
		if d.cut = size - op.at; d.cut > 0 {
			d.why = fmt.Errorf("%w: %s: byte %d: batch has %d bytes, %d are here",
				ErrPartial, segmentName(op.segment), op.at, op.length, d.cut)
		}
		if err := d.undo(n-1, 0); err != nil {
			return err
		}
	}
	if n == 0 || d.ops.at(n-1).kind == memory.Append {
		return nil
	}
	op := d.ops.at(n - 1)
	for _, base := range slices.Backward(op.removed) {
		if _, done := d.removed[removed{base, d.seq(n - 1)}]; done {
			continue
		}
		if _, ok := d.live[base]; !ok {
			continue // the files and the journal do not go together: fits says so
		}
		if err := d.putAway(removed{base, d.seq(n - 1)}); err != nil {
			return err
		}
	}
	size, ok := d.live[op.segment]
	switch {
	case op.kind == memory.Reset && !ok:
		return d.create(op.segment)
	case op.kind == memory.Truncate && ok && size > op.at:
		return d.resize(op.segment, op.at)
	}
	return nil
}

// fits walks back through the journal and compares what each operation must have left with what the files have. They
// part when somebody else changed the files, or when the machine itself lost power: the journal is not for that.
func (d *folder) fits() error {
	sizes := maps.Clone(d.live)
	for i := d.ops.len() - 1; i >= 0; i-- {
		op := d.ops.at(i)
		size, ok := sizes[op.segment]
		unfit := func(want int64) error {
			return fmt.Errorf("%s: after %s number %d segment %d must have %d bytes, has %d: somebody else changed it",
				filepath.Join(d.dir, journalName), op.kind, d.seq(i), op.segment, want, size)
		}
		switch op.kind {
		case memory.Append:
			if !ok || size != op.at+op.length {
				return unfit(op.at + op.length)
			}
			if sizes[op.segment] = op.at; op.created {
				delete(sizes, op.segment)
			}
		case memory.Truncate:
			if !ok || size != op.at {
				return unfit(op.at)
			}
			sizes[op.segment] = op.at + int64(len(op.tail))
		case memory.Reset:
			if !ok || size != 0 || len(sizes) != 1 {
				return unfit(0)
			}
			delete(sizes, op.segment)
		}
		for _, base := range op.removed {
			size, ok := d.removed[removed{base, d.seq(i)}]
			if !ok {
				return fmt.Errorf("%s: %s number %d removed segment %d, but it is not in %s: somebody else did",
					filepath.Join(d.dir, journalName), op.kind, d.seq(i), base, removedName(base, d.seq(i)))
			}
			sizes[base] = size
		}
	}
	return nil
}

// power undoes what the cut does not leave, newest first, and makes what is left the flushed state of the log.
func (d *folder) power(cut replica.LogCut) (replica.Lost, error) {
	fate := memory.Decide(d.ops.len(), func(i int) memory.Operation { return d.ops.at(i).operation() }, cut)
	for d.ops.len() > fate.Keep {
		from, torn := d.run(fate.Keep), int64(0)
		if from == fate.Keep {
			torn = int64(fate.Torn)
		}
		if err := d.undo(from, torn); err != nil {
			return replica.Lost{}, err
		}
	}
	trusted := d.trusted()
	d.ops = operations{}
	err := d.journal.rewrite(d.journal.count, trusted, nil)
	return replica.Lost{Operations: fate.Operations, Bytes: fate.Bytes}, err
}

// run is where the newest operations begin that can be undone in one go, not before keep: appends to one segment.
func (d *folder) run(keep int) int {
	from := d.ops.len() - 1
	for op := d.ops.at(from); from > keep && op.kind == memory.Append; from-- {
		if before := d.ops.at(from - 1); before.kind != memory.Append || before.segment != op.segment {
			break
		}
	}
	return from
}

// trusted is the offset below which batches are as they were when they were flushed.
func (d *folder) trusted() int64 {
	trusted := d.journal.trusted
	for i := range d.ops.len() {
		op := d.ops.at(i)
		if op.kind != memory.Append {
			trusted = min(trusted, op.offset)
		}
	}
	return trusted
}

// undo undoes the newest operations from number from on, which are one or a run of appends, and takes them out of the
// journal. Of the first it leaves torn bytes if it is an append.
func (d *folder) undo(from int, torn int64) error {
	op, seq := d.ops.at(from), d.seq(from)
	for _, base := range op.removed {
		if _, ok := d.removed[removed{base, seq}]; !ok {
			continue // it is back already
		}
		if err := d.bringBack(removed{base, seq}); err != nil {
			return err
		}
	}
	size, ok := d.live[op.segment]
	var err error
	switch {
	case op.kind == memory.Append && op.created && torn == 0,
		op.kind == memory.Reset && !slices.Contains(op.removed, op.segment):
		err = removeIfThere(d.fs, d.path(op.segment))
		delete(d.live, op.segment)
	case op.kind == memory.Append && ok && size > op.at+torn:
		err = d.resize(op.segment, op.at+torn)
	case op.kind == memory.Truncate && len(op.tail) > 0:
		err = d.write(op.segment, op.tail, op.at)
	}
	if err != nil {
		return err
	}
	d.ops.starts = d.ops.starts[:from]
	return d.journal.undone(op, from)
}

// clean removes segments that cannot come back any more, because the operation that removed them is flushed.
func (d *folder) clean() error {
	for r := range d.removed {
		if r.seq < d.journal.first || r.seq >= d.journal.next() {
			if err := removeIfThere(d.fs, d.removedPath(r)); err != nil {
				return err
			}
			delete(d.removed, r)
		}
	}
	return nil
}

func (d *folder) putAway(r removed) error {
	d.removed[r] = d.live[r.base]
	delete(d.live, r.base)
	return d.fs.rename(d.path(r.base), d.removedPath(r))
}

func (d *folder) bringBack(r removed) error {
	d.live[r.base] = d.removed[r]
	delete(d.removed, r)
	return d.fs.rename(d.removedPath(r), d.path(r.base))
}

func (d *folder) create(base int64) error {
	d.live[base] = 0
	f, err := d.fs.open(d.path(base), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	return f.Close()
}

func (d *folder) resize(base, size int64) error {
	d.live[base] = size
	f, err := d.fs.open(d.path(base), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

func (d *folder) write(base int64, data []byte, at int64) error {
	d.live[base] = at + int64(len(data))
	f, err := d.fs.open(d.path(base), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, at)
	return err
}

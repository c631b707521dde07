package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

var (
	orders   = replica.Partition{Topic: "orders"}
	payments = replica.Partition{Topic: "payments", Index: 3}
)

// errKilled is what a process sees of its own death: nothing it does afterwards happens.
var errKilled = errors.New("killed")

// faulty is the file system with faults: it dies in the middle of any write, or its disk fills up, when what it may
// still write is used up. Every byte counts one, and so does every change of a name or a size. It never waits for the
// disk: for a process that is killed that makes no difference.
type faulty struct {
	osFiles
	mu     sync.Mutex
	armed  bool
	budget int
	err    error // what then happens: errKilled to everything, other errors to what needs space only

	sync func(path string) error // in place of fsync, if set
	note func(call, path string) // told of fsyncs and renames, if set
	skip string                  // files with this suffix are not written
}

// arm lets the next n units happen and then err.
func (f *faulty) arm(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.budget, f.err = true, n, err
}

func (f *faulty) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
}

// spend takes n units and says how many there were.
func (f *faulty) spend(n int, path string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return n, nil
	}
	if f.budget >= n {
		f.budget -= n
		return n, nil
	}
	n, f.budget = f.budget, 0
	return n, &os.PathError{Op: "write", Path: path, Err: f.err}
}

func (f *faulty) dead() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed && f.budget == 0 && f.err == errKilled {
		return errKilled
	}
	return nil
}

func (f *faulty) open(path string, flag int) (file, error) {
	if err := f.dead(); err != nil {
		return nil, err
	}
	_, missing := os.Stat(path)
	if flag&os.O_TRUNC != 0 || flag&os.O_CREATE != 0 && missing != nil {
		if _, err := f.spend(1, path); err != nil {
			return nil, err
		}
	}
	inner, err := f.osFiles.open(path, flag)
	if err != nil {
		return nil, err
	}
	return &faultyFile{inner, f, path}, nil
}

func (f *faulty) mkdir(path string) error {
	if _, err := f.spend(1, path); err != nil {
		return err
	}
	return f.osFiles.mkdir(path)
}

func (f *faulty) rename(from, to string) error {
	if _, err := f.spend(1, from); err != nil {
		return err
	}
	if f.note != nil {
		f.note("rename", to)
	}
	return f.osFiles.rename(from, to)
}

func (f *faulty) remove(path string) error {
	if err := f.dead(); err != nil {
		return err
	}
	if _, err := f.spend(1, path); errors.Is(err, errKilled) {
		return err
	}
	return f.osFiles.remove(path)
}

func (f *faulty) syncDir(path string) error { return f.fsync(path) }

func (f *faulty) fsync(path string) error {
	if f.note != nil {
		f.note("fsync", path)
	}
	if f.sync != nil {
		return f.sync(path)
	}
	return f.dead()
}

type faultyFile struct {
	file
	fs   *faulty
	path string
}

func (f *faultyFile) ReadAt(data []byte, at int64) (int, error) {
	if err := f.fs.dead(); err != nil {
		return 0, err
	}
	return f.file.ReadAt(data, at)
}

func (f *faultyFile) WriteAt(data []byte, at int64) (int, error) {
	if f.fs.skip != "" && strings.HasSuffix(f.path, f.fs.skip) {
		return len(data), nil
	}
	n, fault := f.fs.spend(len(data), f.path)
	if _, err := f.file.WriteAt(data[:n], at); err != nil {
		return 0, err
	}
	return n, fault
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fs.spend(1, f.path); errors.Is(err, errKilled) {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error { return f.fs.fsync(f.path) }

// manyFiles is a folder for tests that make thousands of files: in memory where the system has a place for that.
func manyFiles(t require.TestingT) (dir string, remove func()) {
	dir, err := os.MkdirTemp("/dev/shm", "storage")
	if err != nil {
		dir, err = os.MkdirTemp("", "storage")
	}
	require.NoError(t, err)
	return dir, func() { require.NoError(t, os.RemoveAll(dir)) }
}

// small makes segments that hold three batches of one short record.
var small = Options{SegmentBytes: 250, CacheBytes: -1}

// openDisk opens a disk that must open, and closes it when the test ends.
func openDisk(t testing.TB, fs fileSystem, dir string, options Options) *Files {
	f, err := openFiles(fs, dir, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func openLog(t require.TestingT, d replica.Disk, p replica.Partition) replica.Log {
	l, err := d.Log(p)
	require.NoError(t, err)
	return l
}

// produced is a batch as a leader appends it: the bytes are the producer's, offset and epoch are the leader's.
func produced(base int64, count, epoch int32, size int) replica.Batch {
	b := encode(replica.Batch{Count: count, Epoch: -1, Producer: base + 1, Sequence: int32(base)}, size)
	b.Base, b.Epoch = base, epoch
	return b
}

// write appends n batches of one record each.
func write(t require.TestingT, l replica.Log, epoch int32, n int) {
	for range n {
		require.NoError(t, l.Append(produced(l.End(), 1, epoch, 10)))
	}
}

// epochs is the log as a list of the batches' leader epochs.
func epochs(t require.TestingT, l replica.Log) []int32 {
	batches, err := l.Read(l.Start(), 1<<30)
	require.NoError(t, err)
	list := []int32{}
	for _, b := range batches {
		list = append(list, b.Epoch)
	}
	return list
}

// same requires that two logs look the same, and that what the files hold are whole batches that say so themselves.
func same(t require.TestingT, want, got replica.Log) {
	require.Equal(t, want.Start(), got.Start())
	require.Equal(t, want.End(), got.End())
	require.Equal(t, want.Epochs(), got.Epochs())
	require.Equal(t, want.HighWatermark(), got.HighWatermark())
	wants, err := want.Read(want.Start(), 1<<30)
	require.NoError(t, err)
	gots, err := got.Read(got.Start(), 1<<30)
	require.NoError(t, err)
	require.Equal(t, len(wants), len(gots))
	for i, w := range wants {
		g := gots[i]
		stored, err := Header(g.Data)
		require.NoError(t, err)
		require.NoError(t, Verify(g.Data))
		require.Equal(t, g, stored, "what stands beside the bytes is in them")
		require.Equal(t, w.Data[patched:], g.Data[patched:])
		w.Data, g.Data = nil, nil
		require.Equal(t, w, g)
	}
}

// names lists the files in the partition's folder.
func names(t require.TestingT, dir string, p replica.Partition) []string {
	entries, err := os.ReadDir(filepath.Join(dir, p.String()))
	require.NoError(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func readText(t require.TestingT, path ...string) string {
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

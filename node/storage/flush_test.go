package storage

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/node/replica"
)

// slowDisk waits in every fsync of a segment until it is let go.
func slowDisk() (fs *faulty, waiting chan string, goOn chan error) {
	waiting, goOn = make(chan string), make(chan error)
	return &faulty{sync: func(path string) error {
		if !strings.HasSuffix(path, segmentSuffix) {
			return nil
		}
		waiting <- path
		return <-goOn
	}}, waiting, goOn
}

func TestAFlushDoesNotHoldUpTheLog(t *testing.T) {
	for _, c := range []struct {
		name string
		size int // of a record before the flush: what is cut of them is in the journal
	}{
		{"with a short journal, that goes on", 10},
		{"with a long journal, that is written anew", compactBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			fs, waiting, goOn := slowDisk()
			dir := t.TempDir()
			f := openDisk(t, fs, dir, Options{})
			l := openLog(t, f, orders)
			require.NoError(t, l.Append(produced(0, 1, 7, c.size)))
			require.NoError(t, l.TruncateTo(0))
			write(t, l, 1, 3)

			flushed := make(chan error)
			go func() { flushed <- f.Flush(orders) }()
			<-waiting
			// The disk is at it. The owner goes on: cuts what is being flushed, and writes.
			require.NoError(t, l.TruncateTo(1))
			write(t, l, 2, 2)
			assert.Equal(t, []int32{1, 2, 2}, epochs(t, l))
			goOn <- nil
			require.NoError(t, <-flushed)

			unsynced := func() int {
				n, err := f.Unsynced(orders)
				require.NoError(t, err)
				return n
			}
			assert.Equal(t, 3, unsynced(), "what came after the flush began is not flushed")
			assert.Less(t, len(readText(t, dir, "orders-0", journalName)), 1000)
			require.NoError(t, f.Close())
			f = openDisk(t, fs, dir, Options{})
			assert.Equal(t, []int32{1, 2, 2}, epochs(t, openLog(t, f, orders)), "a kill changes nothing")
			assert.Equal(t, 3, unsynced())

			fs.sync = nil
			lost, err := f.Power(replica.Cut{orders: {Keep: 1}})
			require.NoError(t, err)
			assert.Equal(t, 2, lost[0].Operations)
			assert.Equal(t, []int32{1}, epochs(t, openLog(t, f, orders)))

			require.NoError(t, openLog(t, f, orders).TruncateTo(0))
			_, err = f.Power(nil)
			require.NoError(t, err)
			assert.Equal(t, []int32{1}, epochs(t, openLog(t, f, orders)))
		})
	}
}

func TestTheFlushHasTheLogAsItWasWhenItBegan(t *testing.T) {
	defer goleak.VerifyNone(t)
	fs, waiting, goOn := slowDisk()
	f := openDisk(t, fs, t.TempDir(), small)
	l := openLog(t, f, orders)
	write(t, l, 1, 7)
	flushed := make(chan error)
	go func() { flushed <- f.Flush(orders) }()
	for range 3 { // segments, two of which are removed while they are flushed
		<-waiting
		require.NoError(t, l.TruncateTo(min(l.End(), 2)))
		goOn <- nil
	}
	require.NoError(t, <-flushed)
	assert.Equal(t, []int32{1, 1}, epochs(t, l))
	fs.sync = nil
	_, err := f.Power(nil)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 1, 1, 1, 1, 1, 1}, epochs(t, openLog(t, f, orders)))
}

func TestWhatIsSaidToBeDurableWasSynced(t *testing.T) {
	var calls []string
	dir := t.TempDir()
	fs := &faulty{note: func(call, path string) {
		path, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		calls = append(calls, call+" "+path)
	}}
	f := openDisk(t, fs, dir, small)
	l := openLog(t, f, orders)
	did := func(want ...string) {
		t.Helper()
		assert.Equal(t, want, calls)
		calls = nil
	}
	did("fsync .", "rename orders-0/unsynced.journal", "fsync orders-0")

	write(t, l, 1, 3)
	did()
	require.NoError(t, f.Flush(orders))
	did("fsync orders-0/00000000000000000000.log")
	require.NoError(t, f.Flush(orders))
	did() // nothing happened

	write(t, l, 1, 4)
	require.NoError(t, f.Flush(orders))
	did("fsync orders-0/00000000000000000003.log", "fsync orders-0/00000000000000000006.log", "fsync orders-0")

	require.NoError(t, l.TruncateTo(2))
	calls = nil
	require.NoError(t, f.Flush(orders))
	did("fsync orders-0/00000000000000000000.log", "fsync orders-0")

	require.NoError(t, l.SetEpochs(nil))
	did("fsync orders-0/leader-epoch-checkpoint.tmp", "rename orders-0/leader-epoch-checkpoint", "fsync orders-0")
	require.NoError(t, f.Checkpoint(nil))
	did("fsync replication-offset-checkpoint.tmp", "rename replication-offset-checkpoint", "fsync .")
	require.NoError(t, f.CleanShutdown(1))
	did("fsync .kafka_cleanshutdown.tmp", "rename .kafka_cleanshutdown", "fsync .")
	_, _, err := f.TakeCleanShutdown()
	require.NoError(t, err)
	did("fsync .")

	// What a killed broker left unsynced is synced by the flush of the next.
	write(t, l, 1, 1)
	require.NoError(t, l.TruncateTo(1))
	require.NoError(t, f.Close())
	f = openDisk(t, fs, dir, small)
	openLog(t, f, orders)
	calls = nil
	require.NoError(t, f.Flush(orders))
	did("fsync orders-0/00000000000000000000.log", "fsync orders-0")
}

func TestALogWhoseFsyncFailedIsOfNoUse(t *testing.T) {
	fs := &faulty{sync: func(path string) error {
		if strings.HasSuffix(path, segmentSuffix) {
			return syscall.EIO
		}
		return nil
	}}
	f := openDisk(t, fs, t.TempDir(), Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 1)
	err := f.Flush(orders)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "flush orders-0: ")
	require.ErrorIs(t, l.Append(produced(1, 1, 1, 10)), ErrFailed)
	write(t, openLog(t, f, payments), 1, 1) // other logs do not mind

	fs.sync = nil
	require.Equal(t, []int32{1}, epochs(t, openLog(t, f, orders)))
	unsynced, err := f.Unsynced(orders)
	require.NoError(t, err)
	require.Equal(t, 1, unsynced, "an fsync that failed flushed nothing")
}

func TestAPowerFailureDuringAFlush(t *testing.T) {
	defer goleak.VerifyNone(t)
	fs, waiting, goOn := slowDisk()
	f := openDisk(t, fs, t.TempDir(), Options{})
	write(t, openLog(t, f, orders), 1, 2)
	flushed := make(chan error)
	go func() { flushed <- f.Flush(orders) }()
	<-waiting
	fs.sync = func(string) error { return nil }
	_, err := f.Power(replica.Cut{orders: {Keep: 1}})
	require.NoError(t, err)
	goOn <- nil
	require.ErrorIs(t, <-flushed, ErrStale)
	require.Equal(t, []int32{1}, epochs(t, openLog(t, f, orders)))
}

// One goroutine owns each log; others flush and checkpoint all of them all the time. When the power then fails, each log
// has what it had when its last flush began.
func TestOwnersAndTheShellWorkAtTheSameTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := openDisk(t, osFiles{}, t.TempDir(), Options{SegmentBytes: 2000})
	begun := map[replica.Partition]*int64{orders: new(int64), payments: new(int64)}

	var owners, shell sync.WaitGroup
	done := make(chan struct{})
	for p, begun := range begun {
		l := openLog(t, f, p)
		owners.Go(func() {
			for i := range int64(300) {
				assert.NoError(t, l.Append(produced(l.End(), 1, 1, 10)))
				if i%50 == 49 {
					assert.NoError(t, l.SetEpochs([]replica.EpochStart{{Epoch: 1, Start: i}}))
				}
				if i%20 == 19 {
					assert.NoError(t, l.TruncateTo(l.End()-1))
				}
				_, err := l.Read(max(0, l.End()-5), 1000)
				assert.NoError(t, err)
			}
		})
		again := func(do func()) func() {
			return func() {
				for {
					do()
					select {
					case <-done:
						return
					default:
					}
				}
			}
		}
		shell.Go(again(func() {
			*begun = l.End()
			assert.NoError(t, f.Flush(p))
		}))
		shell.Go(again(func() {
			assert.NoError(t, f.Flush(p))
			assert.NoError(t, f.Checkpoint(map[replica.Partition]int64{p: 7}))
			_, err := f.Unsynced(p)
			assert.NoError(t, err)
		}))
	}
	owners.Wait()
	close(done)
	shell.Wait()
	_, err := f.Power(nil)
	require.NoError(t, err)
	for p, begun := range begun {
		l := openLog(t, f, p)
		assert.GreaterOrEqual(t, l.End(), *begun-1, "a truncation of one record may have come between")
		assert.Len(t, epochs(t, l), int(l.End()), "and nothing is missing before")
		assert.EqualValues(t, 7, l.HighWatermark())
	}
}

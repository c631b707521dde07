package storage

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

func TestALogIsAFolderOfKafkasSegments(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, small)
	l := openLog(t, f, orders)
	write(t, l, 1, 7)
	assert.Equal(t, []string{
		"00000000000000000000.log", "00000000000000000003.log", "00000000000000000006.log", "unsynced.journal",
	}, names(t, dir, orders))

	// The files are what a fetch answer is: batches one after the other.
	var want []replica.Batch
	for _, base := range []int64{0, 3, 6} {
		batches, err := Split([]byte(readText(t, segmentPath(filepath.Join(dir, "orders-0"), base))))
		require.NoError(t, err)
		require.Equal(t, base, batches[0].Base)
		want = append(want, batches...)
	}
	got, err := l.Read(0, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestRemovedSegmentsWaitForTheFlushThatForgetsThem(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, small)
	l := openLog(t, f, orders)
	write(t, l, 1, 7)
	require.NoError(t, f.Flush(orders))
	require.NoError(t, l.TruncateTo(3))
	require.NoError(t, l.Reset(20))
	away := []string{
		"00000000000000000000.log.8.removed",
		"00000000000000000003.log.7.removed",
		"00000000000000000006.log.7.removed",
		"00000000000000000020.log",
		"unsynced.journal",
	}
	assert.Equal(t, away, names(t, dir, orders))

	require.NoError(t, f.Close())
	f = openDisk(t, osFiles{}, dir, small)
	openLog(t, f, orders)
	assert.Equal(t, away, names(t, dir, orders), "a kill forgets nothing")

	require.NoError(t, f.Flush(orders))
	assert.Equal(t, []string{"00000000000000000020.log", "unsynced.journal"}, names(t, dir, orders))
}

func TestAppendNeverChangesTheCallersBytes(t *testing.T) {
	f := openDisk(t, osFiles{}, t.TempDir(), Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 3)
	b := produced(3, 2, 9, 10)
	came := string(b.Data)
	require.NoError(t, l.Append(b))
	assert.Equal(t, came, string(b.Data))
	for _, where := range []string{"in memory", "in the file"} {
		got, err := openLog(t, f, orders).Read(4, 0)
		require.NoError(t, err)
		require.Len(t, got, 1)
		stored, err := Header(got[0].Data)
		require.NoError(t, err)
		assert.EqualValues(t, 3, stored.Base, where)
		assert.EqualValues(t, 9, stored.Epoch, where)
		_, err = f.Power(replica.Cut{orders: {Keep: 4}})
		require.NoError(t, err)
	}
}

func TestWhatAReaderHoldsDoesNotChange(t *testing.T) {
	f := openDisk(t, osFiles{}, t.TempDir(), Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 3)
	held, err := l.Read(0, 1<<20)
	require.NoError(t, err)
	require.NoError(t, l.TruncateTo(1))
	write(t, l, 2, 5)
	for i, b := range held {
		stored, err := Header(b.Data)
		require.NoError(t, err)
		assert.EqualValues(t, i, stored.Base)
		assert.EqualValues(t, 1, stored.Epoch)
		assert.Equal(t, stored, b)
	}
}

func TestBatchesThatDoNotContinueTheLogAreRefusedAndDoNoHarm(t *testing.T) {
	f := openDisk(t, osFiles{}, t.TempDir(), Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 1)
	changed := func(change func(b *replica.Batch)) replica.Batch {
		b := produced(1, 2, 1, 10)
		change(&b)
		return b
	}
	for _, c := range []struct {
		batch replica.Batch
		says  string
	}{
		{produced(2, 1, 1, 10), "append to orders-0: batch has base offset 2, want the log end offset 1"},
		{changed(func(b *replica.Batch) { b.Count = 3 }), "batch at offset 1 has record count 2 in its bytes, 3 beside them"},
		{changed(func(b *replica.Batch) { b.Producer = 9 }), "has producer id 2 in its bytes, 9 beside them"},
		{changed(func(b *replica.Batch) { b.ProducerEpoch = 9 }), "has producer epoch 0 in its bytes, 9 beside them"},
		{changed(func(b *replica.Batch) { b.Sequence = 9 }), "has sequence 1 in its bytes, 9 beside them"},
		{changed(func(b *replica.Batch) { b.Data = append(b.Data, 0) }), "1 more behind it"},
		{changed(func(b *replica.Batch) { b.Data = b.Data[:70] }), "partial record batch"},
		{changed(func(b *replica.Batch) { b.Data = []byte("a") }), "partial record batch"},
	} {
		assert.ErrorContains(t, l.Append(c.batch), c.says)
	}
	assert.ErrorContains(t, l.Reset(-1), "reset orders-0: offset -1 is negative")
	_, err := l.Read(2, 1)
	assert.EqualError(t, err, "read orders-0: offset 2 is outside of the log, [0, 1]")
	write(t, l, 1, 1)
	assert.EqualValues(t, 2, l.End())
}

func TestAfterAFailedWriteTheLogTakesNothingUntilItIsOpenedAgain(t *testing.T) {
	for n := range 120 { // bytes that the disk still takes
		fs := &faulty{}
		f := openDisk(t, fs, t.TempDir(), small)
		l := openLog(t, f, orders)
		write(t, l, 1, 2)
		require.NoError(t, f.Flush(orders))
		write(t, l, 2, 1)

		fs.arm(n, syscall.ENOSPC)
		err := l.Append(produced(3, 1, 3, 10))
		fs.disarm()
		if err == nil {
			require.Greater(t, n, 78, "the batch has so many bytes")
			return
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "append to orders-0: ")
		require.ErrorContains(t, err, filepath.Join("orders-0", ""))

		// There is space again, but nobody knows what is in the file.
		err = l.Append(produced(3, 1, 3, 10))
		require.ErrorIs(t, err, ErrFailed, "KAFKA-10778")
		require.ErrorIs(t, err, syscall.ENOSPC, "it says why")
		require.ErrorIs(t, l.TruncateTo(0), ErrFailed)
		require.ErrorIs(t, l.Reset(0), ErrFailed)
		require.ErrorIs(t, l.SetEpochs(nil), ErrFailed)
		require.ErrorIs(t, f.Flush(orders), ErrFailed, "a flush does not open it again behind its owner's back")
		_, err = l.Read(0, 1)
		require.ErrorIs(t, err, ErrFailed)

		again := openLog(t, f, orders)
		require.Equal(t, []int32{1, 1, 2}, epochs(t, again))
		write(t, again, 4, 1)
		require.Equal(t, []int32{1, 1, 2, 4}, epochs(t, again))
		require.ErrorIs(t, l.Append(produced(4, 1, 3, 10)), ErrStale)
		_, err = f.Power(nil)
		require.NoError(t, err)
		require.Equal(t, []int32{1, 1}, epochs(t, openLog(t, f, orders)))
	}
	require.Fail(t, "the disk was always full")
}

func TestAnyFailedOperationLeavesALogThatCanBeOpenedAgain(t *testing.T) {
	dir, remove := manyFiles(t)
	defer remove()
	for i, s := range life {
		for n := range 40 {
			fs := &faulty{}
			f := openDisk(t, fs, filepath.Join(dir, fmt.Sprint(i, n)), small)
			for _, s := range life[:i] {
				require.NoError(t, s.do(f))
			}
			openLog(t, f, orders)
			fs.arm(n, syscall.ENOSPC)
			err := s.do(f)
			fs.disarm()
			if err == nil {
				require.NoError(t, f.Close())
				break
			}
			require.ErrorIs(t, err, syscall.ENOSPC, "%s with room for %d bytes", s.name, n)
			l := openLog(t, f, orders)
			write(t, l, 9, 1)
			require.NoError(t, f.Flush(orders))
			require.NoError(t, f.Close())
		}
	}
}

func TestReadsCrossSegmentsAndLeaveTheCacheWhereItEnds(t *testing.T) {
	size := len(produced(0, 1, 1, 10).Data)
	f := openDisk(t, osFiles{}, t.TempDir(), Options{SegmentBytes: int64(3 * size), CacheBytes: 4 * size})
	l := openLog(t, f, orders)
	write(t, l, 1, 12)
	for from := range int64(12) {
		for n := range 13 {
			batches, err := l.Read(from, n*size)
			require.NoError(t, err)
			require.Len(t, batches, min(max(n, 1), int(12-from)), "from %d, %d batches", from, n)
			for i, b := range batches {
				require.Equal(t, from+int64(i), b.Base)
				require.NoError(t, Verify(b.Data))
			}
		}
	}
}

func TestTheCacheHasTheNewestBatchesAndNoOthers(t *testing.T) {
	size := len(produced(0, 1, 1, 10).Data)
	f := openDisk(t, osFiles{}, t.TempDir(), Options{CacheBytes: 4 * size})
	opened, err := f.log(orders, false)
	require.NoError(t, err)
	held := func() string {
		s, bytes := "", 0
		for _, b := range opened.recent.batches[opened.recent.first:] {
			s += fmt.Sprintf("%d@%d ", b.Base, b.Epoch)
			bytes += len(b.Data)
		}
		require.Equal(t, bytes, opened.recent.bytes)
		return s
	}
	write(t, opened, 1, 10)
	assert.Equal(t, "6@1 7@1 8@1 9@1 ", held())
	require.NoError(t, opened.TruncateTo(8))
	write(t, opened, 2, 1)
	assert.Equal(t, "6@1 7@1 8@2 ", held())
	assert.Equal(t, []int32{1, 1, 1, 1, 1, 1, 1, 1, 2}, epochs(t, opened))
	require.NoError(t, opened.TruncateTo(2))
	assert.Equal(t, "", held())
	write(t, opened, 3, 6)
	assert.Equal(t, "4@3 5@3 6@3 7@3 ", held())
	require.NoError(t, opened.Reset(5))
	write(t, opened, 4, 1)
	assert.Equal(t, "5@4 ", held())
	assert.Equal(t, []int32{4}, epochs(t, opened))
	require.NoError(t, opened.Append(produced(6, 1, 5, 5*size)))
	assert.Equal(t, "", held(), "a batch larger than the cache")
	assert.Equal(t, []int32{4, 5}, epochs(t, opened))
}

func TestAStaleLogSaysSo(t *testing.T) {
	for name, end := range map[string]func(*Files) error{
		"power": func(f *Files) error { _, err := f.Power(nil); return err },
		"close": (*Files).Close,
	} {
		t.Run(name, func(t *testing.T) {
			f := openDisk(t, osFiles{}, t.TempDir(), small)
			l := openLog(t, f, orders)
			write(t, l, 1, 1)
			require.NoError(t, l.SetEpochs([]replica.EpochStart{{Epoch: 1}}))
			require.NoError(t, f.Checkpoint(map[replica.Partition]int64{orders: 1}))
			require.NoError(t, end(f))
			require.ErrorIs(t, l.Append(produced(1, 1, 1, 10)), ErrStale)
			require.ErrorIs(t, l.TruncateTo(0), ErrStale)
			require.ErrorIs(t, l.Reset(0), ErrStale)
			require.ErrorIs(t, l.SetEpochs(nil), ErrStale)
			_, err := l.Read(0, 1)
			require.ErrorIs(t, err, ErrStale)
			assert.Equal(t, "-1 -1 [] 0", fmt.Sprint(l.Start(), l.End(), l.Epochs(), l.HighWatermark()))
		})
	}
}

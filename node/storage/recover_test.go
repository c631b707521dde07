package storage

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

// damage changes a file behind the broker's back.
func damage(t *testing.T, path string, change func(data []byte) []byte) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(data), 0o644))
}

func TestEveryTornTailIsCutAtRecovery(t *testing.T) {
	size := len(produced(0, 1, 1, 10).Data)
	for torn := range size + 2 {
		f := openDisk(t, &faulty{}, t.TempDir(), small)
		l := openLog(t, f, orders)
		write(t, l, 1, 2)
		require.NoError(t, f.Flush(orders))
		write(t, l, 2, 2)

		lost, err := f.Power(replica.Cut{orders: {Keep: 1, Torn: torn}})
		require.NoError(t, err)
		require.Equal(t, []replica.Lost{{Partition: orders, Operations: 1, Bytes: int64(size), End: 3}}, lost)
		require.Equal(t, []int32{1, 1, 2}, epochs(t, openLog(t, f, orders)))

		found, ok := f.Recovery(orders)
		require.True(t, ok)
		stays := min(torn, size-1)
		require.EqualValues(t, stays, found.Cut, "a lost append is never whole")
		if stays > 0 {
			require.ErrorIs(t, found.Why, ErrPartial)
		} else {
			require.NoError(t, found.Why)
		}
		require.EqualValues(t, size, found.Verified, "what survived was not flushed, so it is looked at")
		require.NoError(t, f.Close())
	}
}

func TestWhatWasNotFlushedIsVerifiedAtStart(t *testing.T) {
	last := func(change func(data []byte)) func([]byte) []byte {
		return func(file []byte) []byte { change(file[len(file)-len(produced(0, 1, 1, 10).Data):]); return file }
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   []int32
		is     error
	}{
		{"a bit flipped in the records of the last batch", last(func(b []byte) { b[65] ^= 1 }), []int32{1, 2}, ErrCorrupt},
		{"a wrong base offset", last(func(b []byte) { b[7]++ }), []int32{1, 2}, ErrCorrupt},
		{"zeros in place of the last batch", last(func(b []byte) { clear(b) }), []int32{1, 2}, ErrMagic},
		{"a tail that nobody wrote", func(file []byte) []byte { return append(file, "nonsense"...) }, []int32{1, 2, 3}, ErrPartial},
		{"the batch before it broken: what follows goes, too", func(file []byte) []byte { file[len(file)/2+5]++; return file },
			[]int32{1}, ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := openDisk(t, osFiles{}, dir, Options{})
			l := openLog(t, f, orders)
			write(t, l, 1, 1)
			require.NoError(t, f.Flush(orders))
			write(t, l, 2, 1)
			write(t, l, 3, 1)
			require.NoError(t, f.Close())
			damage(t, segmentPath(filepath.Join(dir, "orders-0"), 0), c.change)

			f = openDisk(t, osFiles{}, dir, Options{})
			l = openLog(t, f, orders)
			assert.Equal(t, c.want, epochs(t, l))
			found, _ := f.Recovery(orders)
			require.ErrorIs(t, found.Why, c.is)
			assert.ErrorContains(t, found.Why, "00000000000000000000.log: byte ")
			assert.Positive(t, found.Cut)
			unsynced, err := f.Unsynced(orders)
			require.NoError(t, err)
			assert.Zero(t, unsynced, "a log that was cut is made durable as it is")

			write(t, l, 9, 1)
			lost, err := f.Power(nil)
			require.NoError(t, err)
			assert.Len(t, lost, 1)
			assert.Equal(t, c.want, epochs(t, openLog(t, f, orders)))
		})
	}
}

func TestAnAppendThatAKillCutShortIsUndoneAndTheRestCanStillBeLost(t *testing.T) {
	fs, dir := &faulty{}, t.TempDir()
	f := openDisk(t, fs, dir, Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 2)
	fs.arm(50, errKilled)
	require.ErrorIs(t, l.Append(produced(2, 1, 2, 10)), errKilled)
	fs.disarm()
	require.NoError(t, f.Close())

	f = openDisk(t, osFiles{}, dir, Options{})
	assert.Equal(t, []int32{1, 1}, epochs(t, openLog(t, f, orders)))
	found, _ := f.Recovery(orders)
	assert.ErrorIs(t, found.Why, ErrPartial)
	assert.EqualError(t, found.Why, "partial record batch: 00000000000000000000.log: byte 156: batch has 78 bytes, 36 are here")
	assert.EqualValues(t, 36, found.Cut)
	assert.Equal(t, 2, found.Unsynced)
}

func TestASegmentThatEndsEarlyTakesThoseAfterItAlong(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, small)
	l := openLog(t, f, orders)
	write(t, l, 1, 8)
	require.NoError(t, f.Flush(orders))
	require.NoError(t, f.Close())
	folder := filepath.Join(dir, "orders-0")
	damage(t, segmentPath(folder, 3), func(data []byte) []byte { return data[:len(data)-1] })

	f = openDisk(t, osFiles{}, dir, small)
	assert.EqualValues(t, 5, openLog(t, f, orders).End())
	found, _ := f.Recovery(orders)
	size := int64(len(produced(0, 1, 1, 10).Data))
	assert.Equal(t, 3*size-1, found.Cut)
	assert.Equal(t, 2, found.Segments)
	assert.Equal(t, 5, found.Batches)
	assert.Equal(t, []string{
		"00000000000000000000.log", "00000000000000000003.log", "unsynced.journal",
	}, names(t, dir, orders))

	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(segmentPath(folder, 0)))
	damage(t, segmentPath(folder, 3), func(data []byte) []byte { return data })
	f = openDisk(t, osFiles{}, dir, small)
	assert.EqualValues(t, 3, openLog(t, f, orders).Start(), "the first segment says where the log starts")
}

func TestASegmentThatIsMissingEndsTheLog(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, small)
	write(t, openLog(t, f, orders), 1, 8)
	require.NoError(t, f.Flush(orders))
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(segmentPath(filepath.Join(dir, "orders-0"), 3)))

	f = openDisk(t, osFiles{}, dir, small)
	assert.EqualValues(t, 3, openLog(t, f, orders).End())
	found, _ := f.Recovery(orders)
	assert.EqualError(t, found.Why, "corrupt record batch: 00000000000000000006.log begins where 3 comes next")
}

func TestFlushedBatchesAreFoundByTheirHeadersAlone(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	write(t, openLog(t, f, orders), 1, 100)
	require.NoError(t, f.Flush(orders))
	write(t, openLog(t, f, orders), 1, 2)
	require.NoError(t, f.Close())

	f = openDisk(t, osFiles{}, dir, Options{})
	require.EqualValues(t, 102, openLog(t, f, orders).End())
	found, _ := f.Recovery(orders)
	size := int64(len(produced(0, 1, 1, 10).Data))
	assert.Equal(t, Recovery{
		Partition: orders, End: 102, Segments: 1, Batches: 102, Unsynced: 2, Verified: 2 * size,
	}, found)
}

func TestWhatWasWrittenAfterATruncationIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	l := openLog(t, f, orders)
	write(t, l, 1, 4)
	require.NoError(t, f.Flush(orders))
	require.NoError(t, l.TruncateTo(1))
	write(t, l, 2, 3) // the offsets were flushed, the batches were not
	require.NoError(t, f.Close())
	damage(t, segmentPath(filepath.Join(dir, "orders-0"), 0), func(data []byte) []byte { data[3*78-1]++; return data })

	f = openDisk(t, osFiles{}, dir, Options{})
	assert.Equal(t, []int32{1, 2}, epochs(t, openLog(t, f, orders)))
}

func TestASegmentThatAPowerFailureLeavesNothingOfIsRemoved(t *testing.T) {
	for _, torn := range []int{0, 30} {
		dir := t.TempDir()
		f := openDisk(t, osFiles{}, dir, small)
		write(t, openLog(t, f, orders), 1, 3)
		require.NoError(t, f.Flush(orders))
		write(t, openLog(t, f, orders), 2, 1)
		_, err := f.Power(replica.Cut{orders: {Torn: torn}})
		require.NoError(t, err)
		found, _ := f.Recovery(orders)
		require.EqualValues(t, torn, found.Cut)
		require.Equal(t, []string{"00000000000000000000.log", "unsynced.journal"}, names(t, dir, orders))
		write(t, openLog(t, f, orders), 3, 1)
		require.Equal(t, []int32{1, 1, 1, 3}, epochs(t, openLog(t, f, orders)))
	}
}

func TestWhatAPowerFailureLeftIsVerifiedOnce(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, small)
	write(t, openLog(t, f, orders), 1, 5)
	_, err := f.Power(replica.Cut{orders: {Keep: 4}})
	require.NoError(t, err)
	found, _ := f.Recovery(orders)
	require.EqualValues(t, 4*78, found.Verified)
	require.NoError(t, f.Close())
	f = openDisk(t, osFiles{}, dir, small)
	require.EqualValues(t, 4, openLog(t, f, orders).End())
	found, _ = f.Recovery(orders)
	require.Zero(t, found.Verified)
}

func TestAJournalThatDoesNotGoWithTheFilesIsGivenUp(t *testing.T) {
	journal := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, folder string) { damage(t, filepath.Join(folder, journalName), change) }
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, folder string)
		says   string
	}{
		{"it is gone", func(t *testing.T, folder string) {
			require.NoError(t, os.Remove(filepath.Join(folder, journalName)))
		}, ""},
		{"it is empty", journal(func(data []byte) []byte { return nil }), ""},
		{"its beginning is torn", journal(func(data []byte) []byte { return data[:5] }), "torn journal record at its beginning"},
		{"its beginning is missing", journal(func(data []byte) []byte { return data[frameSize+4:] }), "byte 0: it begins with an operation"},
		{"its last record is missing", journal(func(data []byte) []byte { return data[:len(data)-1] }),
			"after append number 2 segment 0 must have 234 bytes, has 312: somebody else changed it"},
		{"it is of a later version", journal(func([]byte) []byte {
			later := record{}.append(nil)
			later[frameSize+1] = 2
			return seals(later)
		}), "version 2, want 1"},
		{"it was flushed further than it goes", journal(func(data []byte) []byte {
			return record{offset: 4, first: 9}.append(data)
		}), "flush up to number 9, but there are 0 to 4"},
		{"it has a record of a later version", journal(func(data []byte) []byte {
			r := record{kind: 7}.append(nil)
			return append(data, r...)
		}), "record of unknown kind 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := openDisk(t, osFiles{}, dir, Options{})
			write(t, openLog(t, f, orders), 1, 4)
			require.NoError(t, f.Close())
			c.damage(t, filepath.Join(dir, "orders-0"))

			f = openDisk(t, osFiles{}, dir, Options{})
			l := openLog(t, f, orders)
			assert.EqualValues(t, 4, l.End(), "the log itself is whole")
			found, _ := f.Recovery(orders)
			if c.says == "" {
				assert.NoError(t, found.Journal)
			} else {
				assert.ErrorContains(t, found.Journal, c.says)
			}
			assert.EqualValues(t, 4*78, found.Verified, "nothing is trusted")
			assert.Zero(t, found.Unsynced)
			lost, err := f.Power(nil)
			require.NoError(t, err)
			assert.Empty(t, lost, "what is there counts as flushed")
		})
	}
}

// seals gives a journal record that was changed the CRC that goes with it.
func seals(r []byte) []byte {
	binary.BigEndian.PutUint32(r[4:], crc32.Checksum(r[frameSize:], castagnoli))
	return r
}

func TestAJournalThatLacksARecordIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l replica.Log) error
		says string
	}{
		{"after a truncation", func(l replica.Log) error { return l.TruncateTo(1) },
			"after truncate number 2 segment 0 must have 78 bytes, has 156"},
		{"after a reset", func(l replica.Log) error { return l.Reset(1) },
			"after reset number 2 segment 1 must have 0 bytes, has 78"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := openDisk(t, osFiles{}, dir, Options{})
			l := openLog(t, f, orders)
			write(t, l, 1, 2)
			require.NoError(t, c.do(l))
			before := len(readText(t, dir, "orders-0", journalName))
			write(t, l, 2, 1)
			after := len(readText(t, dir, "orders-0", journalName))
			write(t, l, 3, 1)
			require.NoError(t, f.Close())
			damage(t, filepath.Join(dir, "orders-0", journalName), func(data []byte) []byte {
				return append(data[:before], data[after:]...)
			})
			f = openDisk(t, osFiles{}, dir, Options{})
			l = openLog(t, f, orders)
			found, _ := f.Recovery(orders)
			assert.ErrorContains(t, found.Journal, c.says)
			assert.EqualValues(t, 3, l.End())
			assert.Zero(t, found.Unsynced)
		})
	}
}

func TestALogThatWasKilledWhileItWasMadeIsMadeAgain(t *testing.T) {
	for n := range 60 {
		fs, dir := &faulty{}, t.TempDir()
		f := openDisk(t, fs, dir, small)
		fs.arm(n, errKilled)
		_, err := f.Log(orders)
		fs.disarm()
		require.NoError(t, f.Close())
		f = openDisk(t, osFiles{}, dir, small)
		write(t, openLog(t, f, orders), 1, 1)
		require.NoError(t, f.Close())
		if err == nil {
			return
		}
		require.ErrorIs(t, err, errKilled)
	}
	require.Fail(t, "the log was never made")
}

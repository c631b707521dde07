package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

// written is a closed disk with four batches in a log, flushed or not, all of whose segments have two, and with its checkpoints.
func written(t *testing.T, flushed bool) (dir string, size int64) {
	dir = t.TempDir()
	one := produced(0, 1, 3, 100)
	size = int64(len(one.Data))
	d, err := Open(dir, Options{SegmentBytes: 2*size + 1})
	require.NoError(t, err)
	l, err := d.Log(orders)
	require.NoError(t, err)
	for i := range int64(4) {
		require.NoError(t, l.Append(produced(i, 1, 3, 100)))
	}
	require.NoError(t, l.SetEpochs([]replica.EpochStart{{Epoch: 3, Start: 0}}))
	require.NoError(t, d.Checkpoint(map[replica.Partition]int64{orders: 4}))
	if flushed {
		require.NoError(t, d.Flush(orders))
	}
	require.NoError(t, d.CleanShutdown(7))
	require.NoError(t, d.Close())
	return dir, size
}

// reopened is where the log of a damaged disk ends after recovery, and whether the disk still says that it was left cleanly.
func reopened(t *testing.T, dir string) (end int64, clean bool) {
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Close()
	l, err := d.Log(orders)
	require.NoError(t, err)
	batches, err := l.Read(0, 1<<20)
	require.NoError(t, err)
	for _, b := range batches {
		require.NoError(t, Verify(b.Data))
	}
	_, clean, err = d.TakeCleanShutdown()
	require.NoError(t, err)
	return l.End(), clean
}

func TestDamageTakesFromALogWhatRecoveryThenMisses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  DamageKind
		bytes func(size int64) int64
		end   int64
	}{
		{"the last byte is gone", Chop, func(int64) int64 { return 1 }, 3},
		{"the last batch is gone", Chop, func(size int64) int64 { return size }, 3},
		{"a segment is gone, and no more", Chop, func(size int64) int64 { return 100 * size }, 2},
		{"a bit of the last byte is flipped", Flip, func(int64) int64 { return 1 }, 3},
		{"a bit of a segment's first header is flipped, where its checksum covers it", Flip, func(size int64) int64 { return 100 * size }, 2},
		{"a bit of the last header is flipped", Flip, func(size int64) int64 { return size - atEpoch }, 3},
	} {
		for _, flushed := range []bool{true, false} {
			t.Run(tc.name, func(t *testing.T) {
				dir, size := written(t, flushed)
				all, err := Damage(dir, tc.kind, tc.bytes(size))
				require.NoError(t, err)
				require.Len(t, all, 1)
				assert.Equal(t, "orders-0", all[0].Log)
				assert.NotEmpty(t, all[0].What)
				assert.EqualValues(t, 4, all[0].From)
				assert.Equal(t, tc.end, all[0].To)
				assert.Equal(t, (4-tc.end)*size, all[0].Bytes)
				end, clean := reopened(t, dir)
				assert.Equal(t, tc.end, end, "recovery finds what was told")
				assert.False(t, clean, "the disk is not as it was left")
			})
		}
	}
}

func TestCheckpointsAreForgottenAndNothingElse(t *testing.T) {
	dir, _ := written(t, true)
	all, err := Damage(dir, Forget, 0)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, d := range all {
		assert.Positive(t, d.Bytes)
		assert.Contains(t, d.What, "checkpoint removed")
	}
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	l, err := d.Log(orders)
	require.NoError(t, err)
	assert.Zero(t, l.HighWatermark())
	assert.Empty(t, l.Epochs())
	require.NoError(t, d.Close())
	end, clean := reopened(t, dir)
	assert.EqualValues(t, 4, end)
	assert.True(t, clean)

	all, err = Damage(dir, Forget, 0)
	require.NoError(t, err)
	assert.Empty(t, all, "there is nothing to forget any more")
}

func TestADiskThatIsOpenOrEmptyIsNotDamaged(t *testing.T) {
	dir, _ := written(t, true)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, "orders-0", segmentName(2)))
	require.NoError(t, err)
	_, err = Damage(dir, Chop, 10)
	require.Error(t, err)
	after, err := os.ReadFile(filepath.Join(dir, "orders-0", segmentName(2)))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.NoError(t, d.Close())

	empty := t.TempDir()
	d, err = Open(empty, Options{})
	require.NoError(t, err)
	_, err = d.Log(orders)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for _, kind := range []DamageKind{Chop, Flip, Forget} {
		all, err := Damage(empty, kind, 10)
		require.NoError(t, err, kind)
		assert.Empty(t, all, kind)
	}
}

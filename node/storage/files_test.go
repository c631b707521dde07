package storage

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

func TestCheckpointsAreInKafkasFormat(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	l := openLog(t, f, orders)
	require.NoError(t, l.SetEpochs([]replica.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 5, Start: 12}}))
	require.NoError(t, f.Checkpoint(map[replica.Partition]int64{payments: 7, orders: 12}))
	require.NoError(t, f.Checkpoint(map[replica.Partition]int64{orders: 13}))
	require.NoError(t, f.CleanShutdown(42))

	assert.Equal(t, "0\n2\n0 0\n5 12\n", readText(t, dir, "orders-0", "leader-epoch-checkpoint"))
	assert.Equal(t, "0\n2\norders 0 13\npayments 3 7\n", readText(t, dir, "replication-offset-checkpoint"))
	assert.Equal(t, `{"version":0,"brokerEpoch":42}`, readText(t, dir, ".kafka_cleanshutdown"))

	require.NoError(t, f.Close())
	f = openDisk(t, osFiles{}, dir, Options{})
	l = openLog(t, f, orders)
	assert.Equal(t, []replica.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 5, Start: 12}}, l.Epochs())
	assert.EqualValues(t, 13, l.HighWatermark(), "ahead of the log: clamping is the replica's")
	assert.EqualValues(t, 7, openLog(t, f, payments).HighWatermark())

	epoch, ok, err := f.TakeCleanShutdown()
	require.NoError(t, err)
	assert.True(t, ok)
	assert.EqualValues(t, 42, epoch)
	_, ok, err = f.TakeCleanShutdown()
	require.NoError(t, err)
	assert.False(t, ok)

	require.NoError(t, l.SetEpochs(nil))
	assert.Equal(t, "0\n0\n", readText(t, dir, "orders-0", "leader-epoch-checkpoint"))
}

func TestACheckpointOfKafkasIsRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/kafka")))
	f := openDisk(t, osFiles{}, dir, Options{})
	l := openLog(t, f, replica.Partition{Topic: "page-views", Index: 11})
	assert.EqualValues(t, 1234567890123, l.HighWatermark())
	assert.Equal(t, []replica.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 100}, {Epoch: 2147483647, Start: 1234567890122}}, l.Epochs())
	epoch, ok, err := f.TakeCleanShutdown()
	require.NoError(t, err)
	assert.True(t, ok)
	assert.EqualValues(t, 9, epoch)
}

func TestACheckpointThatWasTornIsNotSeen(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	require.NoError(t, openLog(t, f, orders).SetEpochs([]replica.EpochStart{{Epoch: 1}}))
	require.NoError(t, f.Checkpoint(map[replica.Partition]int64{orders: 3}))
	require.NoError(t, f.Close())
	torn := []string{
		filepath.Join(dir, "replication-offset-checkpoint.tmp"),
		filepath.Join(dir, ".kafka_cleanshutdown.tmp"),
		filepath.Join(dir, "orders-0", "leader-epoch-checkpoint.tmp"),
		filepath.Join(dir, "orders-0", "unsynced.journal.tmp"),
	}
	for _, path := range torn {
		require.NoError(t, os.WriteFile(path, []byte("0\n9\nord"), 0o644))
	}
	f = openDisk(t, osFiles{}, dir, Options{})
	l := openLog(t, f, orders)
	assert.Equal(t, []replica.EpochStart{{Epoch: 1}}, l.Epochs())
	assert.EqualValues(t, 3, l.HighWatermark())
	_, ok, err := f.TakeCleanShutdown()
	require.NoError(t, err)
	assert.False(t, ok)
	for _, path := range torn {
		assert.NoFileExists(t, path)
	}
}

func TestABrokenCheckpointIsNamedWithItsLine(t *testing.T) {
	for _, c := range []struct{ content, says string }{
		{"", `:1: version "", want 0;`},
		{"1\n0\n", `:1: version "1", want 0;`},
		{"0\n", ":2: the number of entries is missing;"},
		{"0\ntwo\n", `:2: number of entries "two", but 0 follow;`},
		{"0\n2\n1 1\n", `:2: number of entries "2", but 1 follow;`},
		{"0\n1\n1 1 1\n", `:3: "1 1 1" has 3 words, want 2;`},
		{"0\n2\n1 1\nx 1\n", `:4: "x 1": epoch "x", want a number from 0 on;`},
		{"0\n1\n1 -1\n", `:3: "1 -1": start offset "-1", want a number from 0 on;`},
		{"0\n1\n2147483648 1\n", `:3: "2147483648 1": epoch "2147483648", want a number from 0 on;`},
	} {
		dir := t.TempDir()
		f := openDisk(t, osFiles{}, dir, Options{})
		openLog(t, f, orders)
		require.NoError(t, f.Close())
		path := filepath.Join(dir, "orders-0", "leader-epoch-checkpoint")
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
		f = openDisk(t, osFiles{}, dir, Options{})
		_, err := f.Log(orders)
		assert.ErrorContains(t, err, "open orders-0: "+path+c.says)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "replication-offset-checkpoint"), []byte("0\n1\norders x 1\n"), 0o644))
	_, err := Open(dir, Options{})
	assert.ErrorContains(t, err, `:3: "orders x 1": partition "x", want a number from 0 on`)
	f := openDisk(t, osFiles{}, t.TempDir(), Options{})
	require.NoError(t, f.Close())
}

func TestAMarkerThatNobodyCanReadIsNone(t *testing.T) {
	for _, content := range []string{"", "{", `{"version":1,"brokerEpoch":5}`} {
		dir := t.TempDir()
		path := filepath.Join(dir, ".kafka_cleanshutdown")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		f := openDisk(t, osFiles{}, dir, Options{})
		_, ok, err := f.TakeCleanShutdown()
		require.NoError(t, err)
		assert.False(t, ok, "%q", content)
		assert.NoFileExists(t, path)
	}
}

func TestAFullDiskKeepsTheOldCheckpoints(t *testing.T) {
	for n := range 30 {
		fs, dir := &faulty{}, t.TempDir()
		f := openDisk(t, fs, dir, Options{})
		require.NoError(t, f.Checkpoint(map[replica.Partition]int64{orders: 3}))
		fs.arm(n, syscall.ENOSPC)
		err := f.Checkpoint(map[replica.Partition]int64{orders: 4})
		fs.disarm()
		if err == nil {
			assert.EqualValues(t, 4, openLog(t, f, orders).HighWatermark())
			return
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "checkpoint: ")
		require.EqualValues(t, 3, openLog(t, f, orders).HighWatermark())
		require.NoError(t, f.Close())
		require.EqualValues(t, 3, openLog(t, openDisk(t, osFiles{}, dir, Options{}), orders).HighWatermark())
	}
	require.Fail(t, "the disk was always full")
}

func TestADiskIsOpenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	f := openDisk(t, osFiles{}, dir, Options{})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "is in use by another broker: stop it, or give this one another folder")
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "closing twice is closing once")
	openDisk(t, osFiles{}, dir, Options{})
}

func TestAClosedDiskDoesNothing(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	require.NoError(t, f.Close())
	_, err := f.Log(orders)
	assert.ErrorContains(t, err, "open orders-0: the disk "+dir+" is closed")
	_, err = f.Power(nil)
	assert.ErrorContains(t, err, "power failure: the disk")
	_, err = f.Unsynced(orders)
	assert.ErrorContains(t, err, "is closed")
	_, _, err = f.TakeCleanShutdown()
	assert.ErrorContains(t, err, "take clean shutdown: the disk")
	assert.ErrorContains(t, f.Flush(orders), "is closed")
	assert.ErrorContains(t, f.CleanShutdown(1), "clean shutdown: the disk")
	assert.ErrorContains(t, f.Checkpoint(nil), "checkpoint: the disk")
	_, ok := f.Recovery(orders)
	assert.False(t, ok)
}

func TestNamesThatKafkaForbidsAreRefused(t *testing.T) {
	dir := t.TempDir()
	f := openDisk(t, osFiles{}, dir, Options{})
	for _, p := range []replica.Partition{
		{}, {Topic: "."}, {Topic: ".."}, {Topic: "../orders"}, {Topic: "a b"}, {Topic: "a", Index: -1},
		{Topic: strings.Repeat("a", 250)},
	} {
		_, err := f.Log(p)
		assert.ErrorContains(t, err, "want a topic of 1 to 249 letters", "%q", p)
		assert.ErrorContains(t, f.Flush(p), "want a topic")
		assert.ErrorContains(t, f.Checkpoint(map[replica.Partition]int64{p: 1}), "checkpoint: partition")
	}
	_, err := Open(dir, Options{SegmentBytes: -1})
	assert.ErrorContains(t, err, "segment bytes -1, want 1 to 2147483647")
}

func TestTheDiskKnowsItsPartitions(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"orders-10", "orders-9", "a-b-0", "lost+found", "orders-09", "nonsense", "x-0-delete"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file-0"), nil, 0o644))
	f := openDisk(t, osFiles{}, dir, Options{})
	openLog(t, f, payments)
	got, err := f.Partitions()
	require.NoError(t, err)
	assert.Equal(t, []replica.Partition{
		{Topic: "a-b"}, {Topic: "orders", Index: 9}, {Topic: "orders", Index: 10}, payments,
	}, got)
}

package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

var orders = replica.Partition{Topic: "orders"}

// open opens a log that must open.
func open(t require.TestingT, d *memory.Disk, p replica.Partition) replica.Log {
	l, err := d.Log(p)
	require.NoError(t, err)
	return l
}

// write appends one batch of one record for each value.
func write(t require.TestingT, l replica.Log, epoch int32, values ...string) {
	for _, v := range values {
		b := replica.Batch{Base: l.End(), Count: 1, Epoch: epoch, Producer: replica.NoProducer, Data: []byte(v)}
		require.NoError(t, l.Append(b))
	}
}

// content is the log as a person would write it down: "3: a b c".
func content(t require.TestingT, l replica.Log) string {
	s := fmt.Sprintf("%d:", l.Start())
	batches, err := l.Read(l.Start(), 1<<30)
	require.NoError(t, err)
	for _, b := range batches {
		s += " " + string(b.Data)
	}
	return s
}

func TestAPowerFailureLeavesAPrefixOfWhatWasNotFlushed(t *testing.T) {
	// a and b were flushed; then c was written, b and c were cut away, and B and C written in their place.
	prepare := func() *memory.Disk {
		d := memory.New()
		l := open(t, d, orders)
		write(t, l, 1, "a", "b")
		require.NoError(t, d.Flush(orders))
		write(t, l, 1, "c")
		require.NoError(t, l.TruncateTo(1))
		write(t, l, 2, "BB", "CCC")
		require.Equal(t, "0: a BB CCC", content(t, l))
		return d
	}
	for _, c := range []struct {
		name string
		cut  replica.LogCut
		want string
		lost []replica.Lost
	}{
		{"nothing unsynced survives, so the truncated record comes back", replica.LogCut{}, "0: a b",
			[]replica.Lost{{Partition: orders, Operations: 4, Bytes: 6, End: 2}}},
		{"the first append survives", replica.LogCut{Keep: 1}, "0: a b c",
			[]replica.Lost{{Partition: orders, Operations: 3, Bytes: 5, End: 3}}},
		{"the truncation survives", replica.LogCut{Keep: 2}, "0: a",
			[]replica.Lost{{Partition: orders, Operations: 2, Bytes: 5, End: 1}}},
		{"torn bytes of an append are no batch", replica.LogCut{Keep: 3, Torn: 2}, "0: a BB",
			[]replica.Lost{{Partition: orders, Operations: 1, Bytes: 3, End: 2}}},
		{"everything survives", replica.LogCut{Keep: 4}, "0: a BB CCC", nil},
		{"a cut beyond the end keeps everything", replica.LogCut{Keep: 9, Torn: 9}, "0: a BB CCC", nil},
		{"a negative cut keeps nothing", replica.LogCut{Keep: -1, Torn: -1}, "0: a b",
			[]replica.Lost{{Partition: orders, Operations: 4, Bytes: 6, End: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := prepare()
			require.Equal(t, 4, d.Unsynced(orders))
			lost, err := d.Power(replica.Cut{orders: c.cut})
			require.NoError(t, err)
			assert.Equal(t, c.lost, lost)
			assert.Equal(t, c.want, content(t, open(t, d, orders)))
			assert.Zero(t, d.Unsynced(orders), "what a power failure leaves is on the disk")
		})
	}
}

func TestAFlushCoversWhatWasThereWhenItBegan(t *testing.T) {
	d := memory.New()
	l := open(t, d, orders)
	write(t, l, 1, "a", "b")
	began := d.Unsynced(orders)
	write(t, l, 1, "c")
	d.FlushOldest(orders, began)
	require.Equal(t, 1, d.Unsynced(orders))
	_, err := d.Power(nil)
	require.NoError(t, err)
	assert.Equal(t, "0: a b", content(t, open(t, d, orders)))
	d.FlushOldest(orders, 5)
	assert.Zero(t, d.Unsynced(orders), "more than there is is all there is")
}

func TestAResetComesBackWholeWithItsStart(t *testing.T) {
	d := memory.New()
	l := open(t, d, orders)
	write(t, l, 1, "a", "b")
	require.NoError(t, d.Flush(orders))
	require.NoError(t, l.Reset(7))
	write(t, l, 2, "h")
	require.Equal(t, "7: h", content(t, l))

	_, err := d.Power(replica.Cut{orders: {Keep: 1}})
	require.NoError(t, err)
	require.Equal(t, "7:", content(t, open(t, d, orders)), "the reset survived, the append did not")

	require.NoError(t, open(t, d, orders).Reset(3))
	_, err = d.Power(nil)
	require.NoError(t, err)
	assert.Equal(t, "7:", content(t, open(t, d, orders)))
}

func TestCheckpointsAndTheMarkerAreDurableAtOnce(t *testing.T) {
	payments := replica.Partition{Topic: "payments", Index: 3}
	d := memory.New()
	l := open(t, d, orders)
	write(t, l, 4, "a", "b")
	epochs := []replica.EpochStart{{Epoch: 4, Start: 0}}
	require.NoError(t, l.SetEpochs(epochs))
	epochs[0].Start = 99 // the disk keeps no reference
	require.NoError(t, d.Checkpoint(map[replica.Partition]int64{orders: 2, payments: 5}))
	require.NoError(t, d.Checkpoint(map[replica.Partition]int64{payments: 6}))
	require.NoError(t, d.CleanShutdown(12))

	_, err := d.Power(nil)
	require.NoError(t, err)

	l = open(t, d, orders)
	assert.Zero(t, l.End(), "the records were not flushed")
	assert.Equal(t, []replica.EpochStart{{Epoch: 4, Start: 0}}, l.Epochs(), "ahead of the log: clamping is the replica's")
	assert.EqualValues(t, 2, l.HighWatermark(), "ahead of the log, too")
	assert.EqualValues(t, 6, open(t, d, payments).HighWatermark())
	epoch, ok, err := d.TakeCleanShutdown()
	require.NoError(t, err)
	assert.True(t, ok)
	assert.EqualValues(t, 12, epoch)
	_, ok, err = d.TakeCleanShutdown()
	require.NoError(t, err)
	assert.False(t, ok, "the marker is taken once")
}

func TestAKillKeepsEverything(t *testing.T) {
	d := memory.New()
	write(t, open(t, d, orders), 1, "a", "b")
	// The process dies here: nothing is called. Its successor opens the log.
	again := open(t, d, orders)
	assert.Equal(t, "0: a b", content(t, again))
	assert.Equal(t, 2, d.Unsynced(orders), "and what was not flushed can still be lost")
}

func TestALogOpenedBeforeAPowerFailureIsStale(t *testing.T) {
	d := memory.New()
	l := open(t, d, orders)
	write(t, l, 1, "a")
	_, err := d.Power(replica.Cut{orders: {Keep: 1}})
	require.NoError(t, err)

	_, err = l.Read(0, 1)
	require.ErrorIs(t, err, memory.ErrStale)
	require.ErrorIs(t, l.Append(replica.Batch{Base: 1, Count: 1}), memory.ErrStale)
	require.ErrorIs(t, l.TruncateTo(0), memory.ErrStale)
	require.ErrorIs(t, l.Reset(0), memory.ErrStale)
	require.ErrorIs(t, l.SetEpochs(nil), memory.ErrStale)
	assert.EqualError(t, l.SetEpochs(nil), "set epochs of orders-0: stale log; open it again")
	assert.EqualValues(t, -1, l.Start())
	assert.EqualValues(t, -1, l.End())
	assert.Nil(t, l.Epochs())
	assert.Zero(t, l.HighWatermark())
	assert.Equal(t, "0: a", content(t, open(t, d, orders)))
}

func TestTruncationCutsWholeBatches(t *testing.T) {
	for _, c := range []struct {
		offset int64
		want   string
		end    int64
	}{
		{20, "10: abc de f", 16},
		{16, "10: abc de f", 16},
		{15, "10: abc de", 15},
		{14, "10: abc", 13}, // in the middle of de
		{13, "10: abc", 13},
		{12, "10:", 10},
		{10, "10:", 10},
		{4, "4:", 4}, // below the start: the log goes on there
	} {
		t.Run(fmt.Sprint("to ", c.offset), func(t *testing.T) {
			d := memory.New()
			l := open(t, d, orders)
			require.NoError(t, l.Reset(10))
			for _, v := range []string{"abc", "de", "f"} {
				require.NoError(t, l.Append(replica.Batch{Base: l.End(), Count: int32(len(v)), Data: []byte(v)}))
			}
			before := d.Unsynced(orders)
			require.NoError(t, l.TruncateTo(c.offset))
			assert.Equal(t, c.want, content(t, l))
			assert.Equal(t, c.end, l.End())
			if c.offset >= 16 {
				assert.Equal(t, before, d.Unsynced(orders), "nothing was cut, so nothing can be undone")
			}
		})
	}
}

func TestReadReturnsWholeBatchesFromTheOneThatHoldsTheOffset(t *testing.T) {
	d := memory.New()
	l := open(t, d, orders)
	require.NoError(t, l.Reset(10))
	for _, v := range []string{"abc", "de", "f"} {
		require.NoError(t, l.Append(replica.Batch{Base: l.End(), Count: int32(len(v)), Data: []byte(v)}))
	}
	for _, c := range []struct {
		from int64
		max  int
		want []string
	}{
		{10, 100, []string{"abc", "de", "f"}},
		{12, 100, []string{"abc", "de", "f"}},
		{13, 100, []string{"de", "f"}},
		{10, 5, []string{"abc", "de"}},
		{10, 4, []string{"abc"}},
		{10, 0, []string{"abc"}},
		{14, -1, []string{"de"}},
		{16, 100, nil},
	} {
		batches, err := l.Read(c.from, c.max)
		require.NoError(t, err)
		var got []string
		for _, b := range batches {
			got = append(got, string(b.Data))
		}
		assert.Equal(t, c.want, got, "from %d, at most %d bytes", c.from, c.max)
	}
	for _, from := range []int64{9, 17} {
		_, err := l.Read(from, 1)
		assert.ErrorContains(t, err, "is outside of the log, [10, 16]")
	}
}

func TestAppendsThatDoNotContinueTheLogAreRefused(t *testing.T) {
	d := memory.New()
	l := open(t, d, orders)
	write(t, l, 1, "a")
	assert.EqualError(t, l.Append(replica.Batch{Base: 2, Count: 1}),
		"append to orders-0: batch has base offset 2, want the log end offset 1")
	assert.EqualError(t, l.Append(replica.Batch{Base: 1}),
		"append to orders-0: batch at 1 takes 0 offsets, want at least one")
	assert.EqualError(t, l.Reset(-1), "reset orders-0: offset -1 is negative")
	assert.Equal(t, 1, d.Unsynced(orders))
}

func TestTheCanonicalStateForgetsTheOrderOfOpening(t *testing.T) {
	other := replica.Partition{Topic: "orders", Index: 1}
	one, two := memory.New(), memory.New()
	for _, p := range []replica.Partition{orders, other} {
		write(t, open(t, one, p), 1, p.String())
	}
	for _, p := range []replica.Partition{{Topic: "never written"}, other, orders} {
		l := open(t, two, p)
		if p.Topic == "orders" {
			write(t, l, 1, p.String())
		}
	}
	assert.Equal(t, one.AppendState(nil), two.AppendState(nil))

	require.NoError(t, two.Flush(orders))
	assert.NotEqual(t, one.AppendState(nil), two.AppendState(nil), "what can be lost is part of the state")
}

package storage

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/node/replica"
)

// encode builds a batch of count records of size bytes each with kmsg, which knows the format from Kafka's definition.
func encode(b replica.Batch, size int) replica.Batch {
	var records []byte
	for i := range b.Count {
		r := kmsg.Record{OffsetDelta: i, Value: make([]byte, size)}
		for j := range r.Value {
			r.Value[j] = byte(b.Base + int64(i) + int64(j)) // records differ
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length of length 0 is one byte
		records = r.AppendTo(records)
	}
	v2 := kmsg.RecordBatch{
		FirstOffset: b.Base, PartitionLeaderEpoch: b.Epoch, Magic: 2, LastOffsetDelta: b.Count - 1,
		ProducerID: b.Producer, ProducerEpoch: b.ProducerEpoch, FirstSequence: b.Sequence,
		NumRecords: b.Count, Records: records,
	}
	data := v2.AppendTo(nil)
	binary.BigEndian.PutUint32(data[8:], uint32(len(data)-12))
	b.Data = seal(data)
	return b
}

// seal gives a batch that was changed the CRC that goes with it.
func seal(data []byte) []byte {
	binary.BigEndian.PutUint32(data[17:], crc32.Checksum(data[21:], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

func TestHeaderReadsWhatKafkasFormatSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := encode(replica.Batch{
			Base:          rapid.Int64Min(0).Draw(t, "base"),
			Count:         rapid.Int32Range(1, 20).Draw(t, "count"),
			Epoch:         rapid.Int32().Draw(t, "epoch"),
			Producer:      rapid.Int64().Draw(t, "producer"),
			ProducerEpoch: rapid.Int16().Draw(t, "producer epoch"),
			Sequence:      rapid.Int32().Draw(t, "sequence"),
		}, rapid.IntRange(0, 100).Draw(t, "size"))
		got, err := Header(append(want.Data, "what follows"...))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, Verify(got.Data))
	})
}

func TestSplitTakesASequenceApart(t *testing.T) {
	var data []byte
	var want []replica.Batch
	for base := int64(10); base < 16; base += 2 {
		b := encode(replica.Batch{Base: base, Count: 2, Epoch: 3, Producer: replica.NoProducer}, 10)
		data, want = append(data, b.Data...), append(want, b)
	}
	got, err := Split(data)
	require.NoError(t, err)
	require.Equal(t, want, got)

	size := len(want[0].Data)
	for cut := range data {
		got, err := Split(data[:cut])
		require.Equal(t, want[:cut/size], append([]replica.Batch{}, got...), "cut at byte %d", cut)
		if cut%size == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrPartial, "cut at byte %d", cut)
		}
	}
	got, err = Split(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestAppendingToASplitBatchDoesNotReachIntoTheNext(t *testing.T) {
	one, two := encode(replica.Batch{Count: 1}, 5), encode(replica.Batch{Base: 1, Count: 1}, 5)
	got, err := Split(append(one.Data, two.Data...))
	require.NoError(t, err)
	_ = append(got[0].Data, 0xff)
	require.Equal(t, two.Data, got[1].Data)
}

func TestABrokenBatchIsRefusedWithItsReason(t *testing.T) {
	put := func(at int, bytes ...byte) func([]byte) []byte {
		return func(data []byte) []byte { copy(data[at:], bytes); return data }
	}
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		is     error
		says   string
	}{
		{"a flipped bit in the records", put(70, 0xaa), ErrCorrupt, "batch at offset 7 has crc"},
		{"a flipped bit in the attributes", put(22, 7), ErrCorrupt, "has crc"},
		{"the format before v2", put(16, 1), ErrMagic, "magic 1 at offset 7"},
		{"a magic that never was", put(16, 9), ErrCorrupt, "magic 9 at offset 7"},
		{"a length that cannot hold the header", put(8, 0, 0, 0, 48), ErrCorrupt, "length 48 at offset 7, want 49 to 2147483635"},
		{"a length that no integer holds", put(8, 0x7f, 0xff, 0xff, 0xff), ErrCorrupt, "length 2147483647 at offset 7"},
		{"a negative length", put(8, 0xff, 0xff, 0xff, 0xff), ErrCorrupt, "length -1 at offset 7"},
		{"a length beyond the end", put(8, 0x7f, 0xff, 0xff, 0), ErrPartial, "batch at offset 7 has 2147483404 bytes"},
		{"a negative base offset", put(0, 0xff), ErrCorrupt, "is negative"},
		{"no records", put(57, 0, 0, 0, 0), ErrCorrupt, "record count 0 at offset 7"},
		{"fewer records than offsets", put(57, 0, 0, 0, 1), ErrCorrupt, "last offset delta 1 at offset 7 does not go with 1 records"},
		{"zeros, as some file systems leave behind", func(data []byte) []byte { return make([]byte, len(data)) }, ErrMagic, "magic 0"},
		{"a header that is cut off", func(data []byte) []byte { return data[:40] }, ErrPartial, "40 bytes, the header alone has 61"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := encode(replica.Batch{Base: 6, Count: 1}, 5)
			bad := c.damage(encode(replica.Batch{Base: 7, Count: 2, Producer: replica.NoProducer}, 10).Data)
			got, err := Split(append(good.Data, bad...))
			require.ErrorIs(t, err, c.is)
			assert.ErrorContains(t, err, "batch 2, at byte 73: ")
			assert.ErrorContains(t, err, c.says)
			assert.Equal(t, []replica.Batch{good}, got, "the batches before the broken one")
		})
	}
	require.ErrorIs(t, Verify(nil), ErrPartial)
}

func TestTheOffsetAndTheEpochLieOutsideOfTheCRC(t *testing.T) {
	b := encode(replica.Batch{Count: 3, Producer: 5, Sequence: 9}, 10)
	came := append([]byte{}, b.Data...)
	b.Base, b.Epoch = 1<<40, 77
	head := prefix(b)
	require.Equal(t, came, b.Data, "nobody changes the bytes that came")
	stored, err := Header(append(head[:], b.Data[len(head):]...))
	require.NoError(t, err)
	require.NoError(t, Verify(stored.Data))
	b.Data = stored.Data
	require.Equal(t, b, stored)
}

func FuzzSplit(f *testing.F) {
	whole := append(encode(replica.Batch{Base: 3, Count: 2}, 4).Data, encode(replica.Batch{Base: 5, Count: 1}, 0).Data...)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(make([]byte, 70))
	f.Fuzz(func(t *testing.T, data []byte) {
		batches, err := Split(data)
		n := 0
		for _, b := range batches {
			require.Equal(t, data[n:n+len(b.Data)], b.Data)
			n += len(b.Data)
			again, err := Header(b.Data)
			require.NoError(t, err)
			require.Equal(t, b, again)
			require.Positive(t, b.Count)
		}
		require.Equal(t, n == len(data), err == nil, "what is not a batch is an error")
	})
}

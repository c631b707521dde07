package batch_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/node/kafka/batch"
)

var created = time.UnixMilli(1_700_000_000_123)

func TestADecodedBatchHasWhatWasEncoded(t *testing.T) {
	data := batch.Encode([]string{"m0", "", "m2"}, batch.Producer{ID: 7, Epoch: 1, Sequence: 40}, created)
	got, err := batch.Decode(data)
	require.NoError(t, err)
	want := make([]batch.Record, 3)
	for i, value := range []string{"m0", "", "m2"} {
		want[i] = batch.Record{
			Offset: int64(i), Epoch: -1, Timestamp: created.UnixMilli(), Value: []byte(value),
			Producer: batch.Producer{ID: 7, Epoch: 1, Sequence: int32(40 + i)},
		}
	}
	assert.Equal(t, want, got)
}

func TestNoValuesMakeNoBatch(t *testing.T) {
	assert.Empty(t, batch.Encode(nil, batch.NotIdempotent, created))
	got, err := batch.Decode(nil)
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestTheLeaderPatchesOffsetAndEpochWithoutTouchingTheChecksum(t *testing.T) {
	data := batch.Encode([]string{"x", "y"}, batch.NotIdempotent, created)
	binary.BigEndian.PutUint64(data[0:], 41)
	binary.BigEndian.PutUint32(data[12:], 3)
	got, err := batch.Decode(data)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, []int64{41, 42}, []int64{got[0].Offset, got[1].Offset})
	assert.Equal(t, int32(3), got[1].Epoch)
	assert.Equal(t, batch.NotIdempotent, got[1].Producer)
}

func TestSequenceNumbersStartAgainAfterTheLargest(t *testing.T) {
	data := batch.Encode([]string{"x", "y"}, batch.Producer{ID: 1, Sequence: 1<<31 - 1}, created)
	got, err := batch.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, int32(0), got[1].Producer.Sequence)
}

func TestCompressedBatchesAreDecompressed(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{
		kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		compressor, err := kgo.DefaultCompressor(codec)
		require.NoError(t, err)
		plain := batch.Encode([]string{"tide", "mark", "tide", "mark"}, batch.NotIdempotent, created)
		var b kmsg.RecordBatch
		require.NoError(t, b.ReadFrom(plain))
		var compressed bytes.Buffer
		records, kind := compressor.Compress(&compressed, b.Records)
		b.Records, b.Attributes = records, int16(kind)
		b.Length += int32(len(records) - (len(plain) - 61))
		data := checksummed(b.AppendTo(nil))
		require.NotZero(t, b.Attributes, "codec %v did not compress", codec)

		got, err := batch.Decode(data)
		require.NoError(t, err, "codec %d", kind)
		require.Len(t, got, 4)
		assert.Equal(t, "mark", string(got[3].Value))
	}
}

func TestABatchThatIsCutOffAtTheEndIsLeftOut(t *testing.T) {
	first := batch.Encode([]string{"a"}, batch.NotIdempotent, created)
	second := batch.Encode([]string{"b"}, batch.NotIdempotent, created)
	for cut := range len(second) {
		got, err := batch.Decode(append(bytes.Clone(first), second[:cut]...))
		require.NoError(t, err, "cut at %d", cut)
		require.Len(t, got, 1)
		assert.Equal(t, "a", string(got[0].Value))
	}
}

func TestControlBatchesHaveNoRecords(t *testing.T) {
	data := batch.Encode([]string{"marker"}, batch.NotIdempotent, created)
	binary.BigEndian.PutUint16(data[21:], 0x20)
	got, err := batch.Decode(checksummed(data))
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestCorruptBatchesAreRefusedWithThePlace(t *testing.T) {
	good := batch.Encode([]string{"a", "b"}, batch.NotIdempotent, created)
	for name, tc := range map[string]struct {
		spoil func([]byte) []byte
		says  string
	}{
		"an old magic":            {func(b []byte) []byte { b[16] = 1; return b }, "magic is 1, want 2"},
		"a flipped bit":           {func(b []byte) []byte { b[len(b)-2] ^= 1; return b }, "crc is"},
		"a length below a header": {func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 3); return b }, "length 15 is less"},
		"more records than bytes": {func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 3); return checksummed(b) },
			"record 2 of 3"},
		"fewer records than bytes": {func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 1); return checksummed(b) },
			"bytes are left after 1 records"},
		"gzip that is none": {func(b []byte) []byte { binary.BigEndian.PutUint16(b[21:], 1); return checksummed(b) },
			"decompress with codec 1"},
	} {
		t.Run(name, func(t *testing.T) {
			data := append(bytes.Clone(good), tc.spoil(bytes.Clone(good))...)
			got, err := batch.Decode(data)
			require.ErrorIs(t, err, batch.ErrCorrupt)
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, fmt.Sprintf("at byte %d:", len(good)))
			assert.Len(t, got, 2, "the records of the good batch before it")
		})
	}
}

func TestEveryEncodedBatchReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.String(), 1, 80).Draw(t, "values")
		got, err := batch.Decode(batch.Encode(values, batch.NotIdempotent, created))
		require.NoError(t, err)
		require.Len(t, got, len(values))
		for i, r := range got {
			require.Equal(t, values[i], string(r.Value))
			require.Equal(t, int64(i), r.Offset)
		}
	})
}

func FuzzDecodeNeverPanics(f *testing.F) {
	f.Add(batch.Encode([]string{"a", "b"}, batch.NotIdempotent, created))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 61 {
			data = checksummed(data) // so that the fuzzer gets past the checksum
		}
		before := bytes.Clone(data)
		records, err := batch.Decode(data)
		if err != nil {
			require.ErrorIs(t, err, batch.ErrCorrupt)
		}
		require.Equal(t, before, data, "the input is only read")
		again, _ := batch.Decode(before)
		require.Equal(t, records, again)
	})
}

func checksummed(data []byte) []byte {
	data = bytes.Clone(data)
	end := min(len(data), 12+int(int32(binary.BigEndian.Uint32(data[8:]))))
	if end > 21 {
		binary.BigEndian.PutUint32(data[17:], crc32.Checksum(data[21:end], crc32.MakeTable(crc32.Castagnoli)))
	}
	return data
}

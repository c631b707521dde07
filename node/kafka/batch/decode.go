package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrCorrupt is wrapped by every error of [Decode]: the bytes are not what a producer made.
var ErrCorrupt = errors.New("corrupt record batch")

// Bits of a batch's attributes.
const (
	codecBits  = 0b000_0111
	controlBit = 0b010_0000
)

// Record is one record with what its batch says about it.
type Record struct {
	Offset    int64
	Epoch     int32    // leader epoch of the leader that appended it, -1 if it was never appended
	Timestamp int64    // milliseconds since 1970
	Producer  Producer // [NotIdempotent], or the record's own sequence number
	Key       []byte   // nil: none
	Value     []byte   // nil: a tombstone
}

var decompressor = kgo.DefaultDecompressor()

// Decode reads the records out of a run of batches, as a fetch answer has them: compressed ones are decompressed, each
// batch's checksum is verified, and a cut-off batch at the end is left out, because brokers may cut the last one where
// the answer was full. Control batches have no records of a producer and are passed over. The first batch may begin
// before the offset that was asked for: the caller passes over what it has already read.
//
// On an error it returns the records of the batches before the bad one. The records may share memory with data.
func Decode(data []byte) ([]Record, error) {
	var out []Record
	for at := 0; len(data)-at >= uncounted; {
		size := uncounted + int(int32(binary.BigEndian.Uint32(data[at+lengthAt:])))
		if size < headerSize {
			return out, fmt.Errorf("%w at byte %d: length %d is less than the header's", ErrCorrupt, at, size)
		}
		if size > len(data)-at {
			break
		}
		n := len(out)
		var err error
		if out, err = appendBatch(out, data[at:at+size]); err != nil {
			return out[:n], fmt.Errorf("%w at byte %d: %w", ErrCorrupt, at, err)
		}
		at += size
	}
	return out, nil
}

func appendBatch(out []Record, data []byte) ([]Record, error) {
	if data[magicAt] != magic {
		return out, fmt.Errorf("magic is %d, want %d", data[magicAt], magic)
	}
	if want, got := binary.BigEndian.Uint32(data[crcAt:]), crc32.Checksum(data[attributesAt:], castagnoli); want != got {
		return out, fmt.Errorf("crc is %08x, the header says %08x", got, want)
	}
	var b kmsg.RecordBatch
	if err := b.ReadFrom(data); err != nil {
		return out, err
	}
	if b.Attributes&controlBit != 0 {
		return out, nil
	}
	records, err := decompressor.Decompress(b.Records, kgo.CompressionCodecType(b.Attributes&codecBits))
	if err != nil {
		return out, fmt.Errorf("decompress with codec %d: %w", b.Attributes&codecBits, err)
	}
	rest := kbin.Reader{Src: records}
	for i := range b.NumRecords {
		start := rest.Src
		length := rest.Varint()
		prefix := len(start) - len(rest.Src)
		if length < 0 || int(length) > len(rest.Src) {
			return out, fmt.Errorf("record %d of %d: length %d, but %d bytes are left", i, b.NumRecords, length, len(rest.Src))
		}
		rest.Span(int(length))
		var r kmsg.Record
		if err := r.ReadFrom(start[:prefix+int(length)]); err != nil {
			return out, fmt.Errorf("record %d of %d: %w", i, b.NumRecords, err)
		}
		p := NotIdempotent
		if b.ProducerID >= 0 {
			p = Producer{ID: b.ProducerID, Epoch: b.ProducerEpoch, Sequence: addSequence(b.FirstSequence, r.OffsetDelta)}
		}
		out = append(out, Record{
			Offset:    b.FirstOffset + int64(r.OffsetDelta),
			Epoch:     b.PartitionLeaderEpoch,
			Timestamp: b.FirstTimestamp + r.TimestampDelta64,
			Producer:  p,
			Key:       r.Key,
			Value:     r.Value,
		})
	}
	if len(rest.Src) > 0 {
		return out, fmt.Errorf("%d bytes are left after %d records", len(rest.Src), b.NumRecords)
	}
	return out, nil
}

// addSequence counts as producers do: after the largest sequence number comes 0.
func addSequence(first, delta int32) int32 {
	return int32((int64(first) + int64(delta)) & 0x7fffffff)
}

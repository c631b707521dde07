package batch

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	headerSize = 61
	// uncounted is the part of the header that the length field does not count: base offset and the length itself.
	uncounted = 12
	magic     = 2

	lengthAt     = 8
	magicAt      = 16
	crcAt        = 17
	attributesAt = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Producer is what makes a batch idempotent (KIP-98): the producer's id and epoch, and the sequence number of the batch's
// first record in its partition.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// NotIdempotent is the producer of a batch that may be appended as often as it is sent.
var NotIdempotent = Producer{ID: -1, Epoch: -1, Sequence: -1}

// Encode makes one uncompressed batch with a record for each value, without keys and headers, all of them created at the
// same time (kept in milliseconds). It makes whole batches only: no values give an empty slice, since a batch without
// records is refused by every broker.
func Encode(values []string, p Producer, at time.Time) []byte {
	if len(values) == 0 {
		return []byte{}
	}
	var records []byte
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(value)}
		r.Length = recordLength(i, len(value))
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		Length:               int32(headerSize - uncounted + len(records)),
		PartitionLeaderEpoch: -1,
		Magic:                magic,
		LastOffsetDelta:      int32(len(values) - 1),
		FirstTimestamp:       at.UnixMilli(),
		MaxTimestamp:         at.UnixMilli(),
		ProducerID:           p.ID,
		ProducerEpoch:        p.Epoch,
		FirstSequence:        p.Sequence,
		NumRecords:           int32(len(values)),
		Records:              records,
	}
	out := b.AppendTo(make([]byte, 0, headerSize+len(records)))
	binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[attributesAt:], castagnoli))
	return out
}

// recordLength counts what follows a record's length field: attributes, timestamp delta 0, offset delta, no key, the
// value with its length, no headers.
func recordLength(delta, value int) int32 {
	const attributes, timestamp, key, headers = 1, 1, 1, 1
	return int32(attributes + timestamp + kbin.VarintLen(int32(delta)) + key + kbin.VarintLen(int32(value)) + value + headers)
}

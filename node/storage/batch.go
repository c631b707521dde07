package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"tidemark/node/replica"
)

// Errors of record batches; the errors returned wrap one of them and say what is wrong with which field.
var (
	// ErrPartial: the bytes end before the batch does. A fetch answer may end so, because Kafka cuts it at a number of
	// bytes; the reader drops the rest. In a produce request it is Kafka's CORRUPT_MESSAGE.
	ErrPartial = errors.New("partial record batch")
	// ErrCorrupt: the CRC does not match, or a field has a value that it cannot have (Kafka's CORRUPT_MESSAGE).
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrMagic: the batch has a message format other than v2 (Kafka's UNSUPPORTED_FOR_MESSAGE_FORMAT).
	ErrMagic = errors.New("record batch is not in message format v2")
)

// Where the fields of a batch in message format v2 are (KIP-98). The CRC covers everything from the attributes on, so
// that the broker can set base offset and leader epoch without computing it again.
const (
	atBase          = 0  // int64
	atLength        = 8  // int32: bytes after this field
	atEpoch         = 12 // int32: partition leader epoch
	atMagic         = 16 // int8
	atCRC           = 17 // uint32, CRC-32C
	atAttributes    = 21 // int16
	atLastDelta     = 23 // int32: last offset delta
	atProducer      = 43 // int64
	atProducerEpoch = 51 // int16
	atSequence      = 53 // int32
	atCount         = 57 // int32: records
	headerSize      = 61

	patched  = 16                    // bytes before the magic: base offset, length and leader epoch
	lengthAt = atLength + 4          // where what the length counts begins
	minimum  = headerSize - lengthAt // the least length of a batch
	maximum  = 1<<31 - 1 - lengthAt  // the largest one, so that a batch's size is an int32 too
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header reads the header of the batch that data begins with. The batch's Data is its part of data, not a copy. It
// checks everything that the header can tell, but not the CRC; see [Verify].
func Header(data []byte) (replica.Batch, error) {
	b, size, err := parse(data)
	if err != nil {
		return replica.Batch{}, err
	}
	if len(data) < size {
		return replica.Batch{}, fmt.Errorf("%w: batch at offset %d has %d bytes, %d are here", ErrPartial, b.Base, size, len(data))
	}
	b.Data = data[:size:size]
	return b, nil
}

// Verify compares a whole batch, as in a batch's Data, with its CRC.
func Verify(data []byte) error {
	if len(data) < headerSize {
		return fmt.Errorf("%w: %d bytes, the header alone has %d", ErrPartial, len(data), headerSize)
	}
	want, got := binary.BigEndian.Uint32(data[atCRC:]), crc32.Checksum(data[atAttributes:], castagnoli)
	if got != want {
		return fmt.Errorf("%w: batch at offset %d has crc %08x, its bytes give %08x",
			ErrCorrupt, int64(binary.BigEndian.Uint64(data)), want, got)
	}
	return nil
}

// Split takes a sequence of batches apart, as in a produce request or a fetch answer, and verifies each. The batches
// share data's bytes. With an error it returns the batches before the place of the error too: after [ErrPartial] in a
// fetch answer they are all there is, and the rest is fetched again.
func Split(data []byte) ([]replica.Batch, error) {
	var batches []replica.Batch
	for at := 0; at < len(data); {
		b, err := Header(data[at:])
		if err == nil {
			err = Verify(b.Data)
		}
		if err != nil {
			return batches, fmt.Errorf("batch %d, at byte %d: %w", len(batches)+1, at, err)
		}
		batches = append(batches, b)
		at += len(b.Data)
	}
	return batches, nil
}

// parse reads a header without asking whether the whole batch is there; size is what the batch has in all.
func parse(head []byte) (b replica.Batch, size int, err error) {
	if len(head) <= atMagic {
		return b, 0, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrPartial, len(head), headerSize)
	}
	be := binary.BigEndian
	b.Base = int64(be.Uint64(head[atBase:]))
	length := int32(be.Uint32(head[atLength:]))
	// The magic first: other formats put other things behind it. A length is theirs and ours alike.
	if magic := int8(head[atMagic]); magic != 2 {
		if magic == 0 || magic == 1 {
			return b, 0, fmt.Errorf("%w: magic %d at offset %d", ErrMagic, magic, b.Base)
		}
		return b, 0, fmt.Errorf("%w: magic %d at offset %d", ErrCorrupt, magic, b.Base)
	}
	if length < minimum || length > maximum {
		return b, 0, fmt.Errorf("%w: length %d at offset %d, want %d to %d", ErrCorrupt, length, b.Base, minimum, maximum)
	}
	if len(head) < headerSize {
		return b, 0, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrPartial, len(head), headerSize)
	}
	delta, count := int32(be.Uint32(head[atLastDelta:])), int32(be.Uint32(head[atCount:]))
	switch {
	case b.Base < 0:
		err = fmt.Errorf("%w: base offset %d is negative", ErrCorrupt, b.Base)
	case count < 1:
		err = fmt.Errorf("%w: record count %d at offset %d, the least is 1", ErrCorrupt, count, b.Base)
	case delta != count-1:
		// A compacted batch may have holes; nothing here compacts, and no producer leaves holes.
		err = fmt.Errorf("%w: last offset delta %d at offset %d does not go with %d records", ErrCorrupt, delta, b.Base, count)
	}
	b.Count = count
	b.Epoch = int32(be.Uint32(head[atEpoch:]))
	b.Producer = int64(be.Uint64(head[atProducer:]))
	b.ProducerEpoch = int16(be.Uint16(head[atProducerEpoch:]))
	b.Sequence = int32(be.Uint32(head[atSequence:]))
	return b, lengthAt + int(length), err
}

// prefix is what the log writes in place of the batch's first bytes: the fields hold, not the bytes that came.
func prefix(b replica.Batch) (head [patched]byte) {
	copy(head[:], b.Data)
	binary.BigEndian.PutUint64(head[atBase:], uint64(b.Base))
	binary.BigEndian.PutUint32(head[atEpoch:], uint32(b.Epoch))
	return head
}

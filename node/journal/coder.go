package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"tidemark/node/replica"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is wrapped by the error about bytes that are not what was written.
var ErrDamaged = errors.New("damaged journal")

// coder writes values, or reads the same values: one function says for both what a message is made of.
type coder struct {
	b       []byte // what was written; or what is left to read
	reading bool
	// digest: batches are written as their CRC, for a hash.
	digest bool
	err    error
	topics map[string]string // of a reader: names once instead of once a message
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
	}
	c.b = nil
}

// integer is any number, as a varint.
func integer[T ~int | ~int64 | ~int32 | ~int16 | ~uint8 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	n, size := binary.Varint(c.b)
	if size <= 0 || int64(T(n)) != n {
		c.fail("%d bytes from the end a number is expected", len(c.b))
		return
	}
	*v, c.b = T(n), c.b[size:]
}

func (c *coder) bool(v *bool) {
	n := uint8(0)
	if *v {
		n = 1
	}
	integer(c, &n)
	if n > 1 {
		c.fail("%d where yes or no is expected", n)
	}
	*v = n == 1
}

func (c *coder) text(v *string) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, uint64(len(*v)))
		c.b = append(c.b, *v...)
		return
	}
	*v = string(c.take(c.length()))
}

// topic is a text of which there are few.
func (c *coder) topic(v *string) {
	if !c.reading || c.topics == nil {
		c.text(v)
		return
	}
	data := c.take(c.length())
	known, ok := c.topics[string(data)]
	if !ok {
		known = string(data)
		c.topics[known] = known
	}
	*v = known
}

// length reads how many elements or bytes follow. There cannot be more than bytes are left.
func (c *coder) length() int {
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > uint64(len(c.b)-size) {
		c.fail("%d bytes from the end a length is expected", len(c.b))
		return 0
	}
	c.b = c.b[size:]
	return int(n)
}

// take reads bytes, which are the reader's own afterwards.
func (c *coder) take(n int) []byte {
	data := c.b[:n:n]
	c.b = c.b[n:]
	return data
}

// list is a slice: none at all differs from an empty one, except in a hash, because disks do not agree there.
func list[T any](c *coder, v *[]T, element func(*coder, *T)) {
	if !c.reading {
		n := 0
		if *v != nil && !(c.digest && len(*v) == 0) {
			n = len(*v) + 1
		}
		c.b = binary.AppendUvarint(c.b, uint64(n))
		for i := range *v {
			element(c, &(*v)[i])
		}
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > uint64(len(c.b)-size)+1 {
		c.fail("%d bytes from the end a number of elements is expected", len(c.b))
		return
	}
	c.b = c.b[size:]
	*v = nil
	if n == 0 {
		return
	}
	*v = make([]T, n-1)
	for i := range *v {
		element(c, &(*v)[i])
	}
}

// optional is a pointer.
func optional[T any](c *coder, v **T, content func(*coder, *T)) {
	there := *v != nil
	if c.bool(&there); !there {
		*v = nil
		return
	}
	if c.reading {
		*v = new(T)
	}
	content(c, *v)
}

func id(c *coder, v *replica.ID) { integer(c, v) }

func partition(c *coder, v *replica.Partition) {
	c.topic(&v.Topic)
	integer(c, &v.Index)
}

// patched is how many bytes of a batch in message format v2 the log writes by the fields: base offset, length, leader epoch.
const patched = 16

// checksum is the CRC of what a batch's fields do not say.
func checksum(data []byte) uint32 {
	if len(data) > patched {
		data = data[patched:]
	}
	return crc32.Checksum(data, castagnoli)
}

func batch(c *coder, v *replica.Batch) {
	integer(c, &v.Base)
	integer(c, &v.Count)
	integer(c, &v.Epoch)
	integer(c, &v.Producer)
	integer(c, &v.ProducerEpoch)
	integer(c, &v.Sequence)
	switch {
	case c.reading:
		if n := c.length(); n > 0 {
			v.Data = c.take(n)
		}
	case c.digest:
		c.b = binary.AppendUvarint(c.b, uint64(len(v.Data)))
		c.b = binary.LittleEndian.AppendUint32(c.b, checksum(v.Data))
	default:
		c.b = binary.AppendUvarint(c.b, uint64(len(v.Data)))
		c.b = append(c.b, v.Data...)
	}
}

// count writes or reads how many of something follow, at most the bytes that are left.
func (c *coder) count(n int) int {
	if c.reading {
		return c.length()
	}
	c.b = binary.AppendUvarint(c.b, uint64(n))
	return n
}

func (c *coder) uint32(v *uint32) {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint32(c.b, *v)
		return
	}
	if len(c.b) < 4 {
		c.fail("%d bytes from the end four are expected", len(c.b))
		return
	}
	*v = binary.LittleEndian.Uint32(c.take(4))
}

// end says whether a reader has read everything, and well.
func (c *coder) end() error {
	if c.err == nil && len(c.b) > 0 {
		c.fail("%d bytes too many", len(c.b))
	}
	return c.err
}

const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

// fold is FNV-1a, eight bytes at a time: the chained hash of a trace is taken for each step.
func fold(sum uint64, data []byte) uint64 {
	for len(data) >= 8 {
		sum = (sum ^ binary.LittleEndian.Uint64(data)) * fnvPrime
		sum ^= sum >> 29
		data = data[8:]
	}
	for _, x := range data {
		sum = (sum ^ uint64(x)) * fnvPrime
	}
	return sum
}

// short is the part of a hash that is written down.
func short(sum uint64) uint32 { return uint32(sum>>32) ^ uint32(sum&math.MaxUint32) }

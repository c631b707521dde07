package history

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

// quick decodes the line of an operation that is spelt as [Writer] spells it: these keys, in this order, no white space, texts of plain
// ASCII. Nine lines in ten of a history are such, and what is known beforehand need only be compared and not be scanned. Of any other line
// it says false, and the decoder that takes all spellings decides, and finds the words for what is wrong.
//
// If share is set, texts and slices of e.Op stand in the line and in buffers of the decoder.
func (d *decoder) quick(line []byte, e *Event, share bool) bool {
	c := cursor{b: line}
	c.skip(`{"seq":`)
	seq := c.number()
	c.skip(`,"time":`)
	at := c.number()
	c.skip(`,"kind":"`)
	var kind Kind
	switch {
	case c.take(`invoke"`):
		kind = Invoke
	case c.take(`ok"`):
		kind = OK
	case c.take(`info"`):
		kind = Info
	case c.take(`fail"`):
		kind = Fail
	default:
		return false
	}
	c.skip(`,"process":`)
	process := c.number()
	c.skip(`,"op":"`)
	var op OpType
	switch {
	case c.take(`produce"`):
		op = Produce
	case c.take(`fetch"`):
		op = Fetch
	case c.take(`end"`):
		op = End
	default:
		return false
	}
	c.skip(`,"partition":"`)
	part := c.text()
	if c.bad || seq < 1 || len(part) == 0 {
		return false
	}
	*e = Event{Seq: seq, Time: at, Kind: kind, Process: process}
	o := &e.Op
	o.Type, o.Partition = op, d.known(part)
	switch {
	case kind == Invoke && op == Produce:
		d.quickValues(&c, o, share)
		c.skip(`,"acks":`)
		acks := c.number()
		c.bad = c.bad || acks < -1 || acks > 1
		o.Acks = int16(acks)
	case kind == Info || kind == Fail:
		if c.take(`,"error":"`) {
			o.Error = d.word(c.text())
		}
	case op == Produce:
		c.skip(`,"offset":`)
		o.Offset = c.number()
	case kind == Invoke:
		if op == Fetch {
			c.skip(`,"from":`)
			o.From = c.number()
		}
		d.quickNode(&c, o)
	case op == End:
		c.skip(`,"offset":`)
		o.Offset = c.number()
		d.quickNode(&c, o)
	default:
		d.quickRecords(&c, o, share)
		c.skip(`,"hw":`)
		o.HighWatermark = c.number()
		d.quickNode(&c, o)
	}
	c.skip(`}`)
	return !c.bad && c.i == len(c.b)
}

func (d *decoder) quickNode(c *cursor, o *Op) {
	c.skip(`,"node":`)
	o.Node = c.small()
	o.Final = c.take(`,"final":true`)
}

func (d *decoder) quickValues(c *cursor, o *Op, share bool) {
	values := d.values[:0]
	if !share {
		values = nil
	}
	c.skip(`,"values":["`)
	for {
		values = append(values, textOf(c.text(), share))
		if !c.take(`,"`) {
			break
		}
	}
	c.skip(`]`)
	if o.Values = values; share {
		d.values = values
	}
}

func (d *decoder) quickRecords(c *cursor, o *Op, share bool) {
	rs := d.fetched[:0]
	if !share {
		rs = nil
	}
	c.skip(`,"records":[`)
	if c.take(`]`) {
		return
	}
	for !c.bad {
		c.skip(`[`)
		offset := c.number()
		c.skip(`,`)
		epoch := c.small()
		c.skip(`,"`)
		rs = append(rs, Record{Offset: offset, Epoch: epoch, Value: textOf(c.text(), share)})
		c.skip(`]`)
		if !c.take(`,`) {
			break
		}
	}
	c.skip(`]`)
	if o.Records = rs; share {
		d.fetched = rs
	}
}

// textOf makes a string of bytes: one that stands in them if they may be shared, a copy otherwise.
func textOf(b []byte, share bool) string {
	if share && len(b) > 0 {
		return unsafe.String(&b[0], len(b))
	}
	return string(b)
}

// known keeps the names of partitions; a table by the last byte spares most look-ups.
func (d *decoder) known(b []byte) string {
	at := &d.parts[b[len(b)-1]%uint8(len(d.parts))]
	if *at != string(b) {
		*at = d.word(b)
	}
	return *at
}

// cursor goes over a line. Once something is not as it expects it is bad and stays so, and what it returns means nothing.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

func (c *cursor) take(s string) bool {
	if len(c.b)-c.i < len(s) || string(c.b[c.i:c.i+len(s)]) != s {
		return false
	}
	c.i += len(s)
	return true
}

func (c *cursor) skip(s string) { c.bad = !c.take(s) || c.bad }

// number reads an integer of at most 18 digits: one that cannot overflow.
func (c *cursor) number() int64 {
	b, i := c.b, c.i
	neg := i < len(b) && b[i] == '-'
	if neg {
		i++
	}
	first, v := i, int64(0)
	for ; i < len(b); i++ {
		digit := b[i] - '0'
		if digit > 9 {
			break
		}
		v = v*10 + int64(digit)
	}
	if n := i - first; n == 0 || n > 18 || n > 1 && b[first] == '0' {
		c.bad = true
	}
	c.i = i
	if neg {
		return -v
	}
	return v
}

func (c *cursor) small() int32 {
	v := c.number()
	c.bad = c.bad || v < math.MinInt32 || v > math.MaxInt32
	return int32(v)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text reads up to the closing quote, behind which the cursor then stands. Eight bytes at a time are looked at for what ends it or is not
// plain: a byte is zero after the xor if it is the one looked for, and (x - ones) &^ x has the highest bit of a zero byte set. Below the first
// such byte, which is all that is used, this is exact.
func (c *cursor) text() []byte {
	b, i := c.b, c.i
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, escape := w^(ones*'"'), w^(ones*'\\')
		odd := ((quote-ones)&^quote | (escape-ones)&^escape | (w-ones*' ')&^w | w) & highs
		if odd != 0 {
			i += bits.TrailingZeros64(odd) / 8
			return c.closed(i)
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < 0x80 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return c.closed(i)
}

// closed ends a text at i, where a quote must be.
func (c *cursor) closed(i int) []byte {
	if i >= len(c.b) || c.b[i] != '"' {
		c.bad = true
		return nil
	}
	text := c.b[c.i:i]
	c.i = i + 1
	return text
}

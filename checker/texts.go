package checker

import (
	"encoding/binary"
	"unsafe"

	"tidemark/checker/history"
)

// texts keeps the values, one behind the other in large pieces: a header of two words and an object of its own for each would be more than most
// values are long.
type texts struct {
	pieces [][]byte
}

// textRef says where a text is: the piece in the high and the place in the low bits.
type textRef uint32

const (
	// textUnit: texts begin at multiples of it, so that 32 bits lead through 16 GB.
	textUnit = 4
	// textBits of a reference are the place in a piece, of at most 256 KB.
	textBits  = 16
	textPiece = textUnit << textBits
	// firstPiece is the size of the first piece: there may be many small partitions.
	firstPiece = 4 << 10
)

func (t *texts) add(s string) textRef {
	need := len(s) + binary.MaxVarintLen32
	n := len(t.pieces)
	if n == 0 || cap(t.pieces[n-1])-len(t.pieces[n-1]) < need+textUnit {
		size := textPiece
		if n == 0 {
			size = firstPiece
		}
		// A text that is longer than a piece has one of its own.
		t.pieces = append(t.pieces, make([]byte, 0, max(size, need+textUnit)))
		n++
	}
	b := t.pieces[n-1]
	at := (len(b) + textUnit - 1) / textUnit * textUnit
	ref := textRef((n-1)<<textBits | at/textUnit)
	b = binary.AppendUvarint(b[:at], uint64(len(s)))
	t.pieces[n-1] = append(b, s...)
	return ref
}

// get returns a text without a copy: what is in a piece never changes.
func (t *texts) get(r textRef) string {
	b := t.pieces[r>>textBits][r&(1<<textBits-1)*textUnit:]
	n, w := binary.Uvarint(b)
	if n == 0 {
		return ""
	}
	return unsafe.String(&b[w], int(n))
}

// nobodys is a value that nobody produced and nobody saw.
var nobodys = value{op: none, epoch: history.Unknown, offset: none, seenBy: none, read: none, final: none}

// addValue adds a value at its place in the index.
func (p *partition) addValue(text string, op int32, at place) int32 {
	v := p.values.push()
	*v = nobodys
	v.op, v.text = op, p.arena.add(text)
	id := p.values.len() - 1
	p.ids.add(at, id)
	return id
}

// valueOf is the number of a record's value. Most records are where their value was acknowledged or seen before, which is quicker to find than
// the value.
func (p *partition) valueOf(r *history.Record) int32 {
	if v := p.slots.get(r.Offset); v != none && p.text(v) == r.Value {
		return v
	}
	v, at := p.find(r.Value)
	if v == none {
		v = p.addValue(r.Value, none, at)
	}
	return v
}

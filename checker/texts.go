package checker

import (
	"encoding/binary"
	"hash/maphash"
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
	// textBits of a reference are the place in a piece, of at most 1 MB.
	textBits  = 18
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

// index finds values by their texts: an open hash table whose entries are a number plus one, zero being empty, and above it 32 bits of the
// text's hash, which spare most looks at texts and all when the table grows. That two texts are the same is never concluded from their hashes.
type index struct {
	table []uint64
	n     int
}

// seed makes hashes differ from run to run; nothing is ever done in the order of the table.
var seed = maphash.MakeSeed()

const hashBits = 0xffffffff << 32

func (x *index) put(slot int, hash uint64, v int32) { x.table[slot] = hash&hashBits | uint64(v+1) }

// find returns the value with a text, or none, the text's hash, and its place in the table, or the one that it would have.
func (p *partition) find(text string) (v int32, hash uint64, slot int) {
	x := &p.ids
	if 4*x.n >= 3*len(x.table) {
		x.grow()
	}
	hash = maphash.String(seed, text)
	for slot = x.home(hash); x.table[slot] != 0; slot = x.next(slot) {
		if x.table[slot]&hashBits == hash&hashBits {
			if v := int32(uint32(x.table[slot])) - 1; p.text(v) == text {
				return v, hash, slot
			}
		}
	}
	return none, hash, slot
}

// home is where an entry is looked for first. The table's size is a power of two.
func (x *index) home(hash uint64) int { return int(hash>>32) & (len(x.table) - 1) }

func (x *index) next(slot int) int { return (slot + 1) & (len(x.table) - 1) }

func (x *index) grow() {
	old := x.table
	x.table = make([]uint64, max(64, 2*len(old)))
	for _, entry := range old {
		if entry == 0 {
			continue
		}
		slot := x.home(entry)
		for x.table[slot] != 0 {
			slot = x.next(slot)
		}
		x.table[slot] = entry
	}
}

// nobodys is a value that nobody produced and nobody saw.
var nobodys = value{op: none, epoch: history.Unknown, offset: none, seenBy: none, read: none, final: none}

// addValue adds a value at its place in the index.
func (p *partition) addValue(text string, op int32, hash uint64, slot int) int32 {
	v := p.values.push()
	*v = nobodys
	v.op, v.text = op, p.arena.add(text)
	id := p.values.len() - 1
	p.ids.put(slot, hash, id)
	p.ids.n++
	return id
}

// valueOf is the number of a record's value. Most records are where their value was acknowledged or seen before, which is quicker to find than
// the value.
func (p *partition) valueOf(r *history.Record) int32 {
	if v := p.slots.get(r.Offset); v != none && p.text(v) == r.Value {
		return v
	}
	v, hash, slot := p.find(r.Value)
	if v == none {
		v = p.addValue(r.Value, none, hash, slot)
	}
	return v
}

package checker

import "hash/maphash"

// index finds values by their texts, by extendible hashing (Fagin et al., 1979): a directory leads from the first bits of a text's hash to a
// page, and a page that is full is split into two. So the table grows page by page, and no old one stands beside a new one of twice its size.
//
// An entry of a page is the value's number plus one, zero being empty, and above it 32 bits of the hash, which spare most looks at texts and
// all when a page is split. That two texts are the same is never concluded from their hashes.
type index struct {
	// directory has 2^depth places; a page that knows fewer bits stands in several.
	directory []*indexPage
	depth     uint
}

type indexPage struct {
	entries [indexEntries]uint64
	n       int
	depth   uint
}

const (
	indexBits    = 8
	indexEntries = 1 << indexBits
	// fullPage keeps the ways within a page short.
	fullPage = indexEntries * 7 / 8
)

// place is where a text's entry is or would be.
type place struct {
	hash uint64
	page *indexPage
	slot uint32
}

// seed makes hashes differ from run to run; nothing is ever done in the order of the table.
var seed = maphash.MakeSeed()

const hashBits = 0xffffffff << 32

// find returns the value with a text, or none, and the place of its entry, which is good until the next one is added.
func (p *partition) find(text string) (int32, place) {
	x := &p.ids
	hash := maphash.String(seed, text)
	if x.directory == nil {
		x.directory = []*indexPage{{}}
	}
	at := place{hash, x.directory[hash>>(64-x.depth)], home(hash)}
	for ; at.page.entries[at.slot] != 0; at.slot = following(at.slot) {
		if entry := at.page.entries[at.slot]; entry&hashBits == hash&hashBits {
			if v := int32(uint32(entry)) - 1; p.text(v) == text {
				return v, at
			}
		}
	}
	return none, at
}

// home is where an entry is looked for first: the last of its bits, while the directory goes by the first.
func home(hash uint64) uint32 { return uint32(hash>>32) % indexEntries }

func following(slot uint32) uint32 { return (slot + 1) % indexEntries }

// set gives an entry another value.
func (x *index) set(at place, v int32) { at.page.entries[at.slot] = at.hash&hashBits | uint64(v+1) }

// add fills an empty place.
func (x *index) add(at place, v int32) {
	x.set(at, v)
	if at.page.n++; at.page.n == fullPage {
		x.split(at.page, at.hash)
	}
}

// split makes two pages of one, which hash leads to.
func (x *index) split(full *indexPage, hash uint64) {
	if full.depth == x.depth {
		wider := make([]*indexPage, 2*len(x.directory))
		for i, page := range x.directory {
			wider[2*i], wider[2*i+1] = page, page
		}
		x.directory = wider
		x.depth++
	}
	halves := [2]*indexPage{{depth: full.depth + 1}, {depth: full.depth + 1}}
	for _, entry := range full.entries {
		if entry == 0 {
			continue
		}
		half := halves[entry<<full.depth>>63]
		slot := home(entry)
		for half.entries[slot] != 0 {
			slot = following(slot)
		}
		half.entries[slot] = entry
		half.n++
	}
	// The places of the full page are neighbours; the half of them that follows the bit which is now known goes to the second page.
	same := 1 << (x.depth - full.depth)
	first := int(hash>>(64-x.depth)) &^ (same - 1)
	for i := range same {
		x.directory[first+i] = halves[2*i/same]
	}
	for bit, half := range halves {
		// Seldom all go into one half, which then is full too.
		if half.n >= fullPage {
			x.split(half, hash>>(64-full.depth)<<(64-full.depth)|uint64(bit)<<(63-full.depth))
		}
	}
}

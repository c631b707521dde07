package checker

import "iter"

// column is a slice that grows in pieces: what it holds is never copied, so that while a history is taken in no second copy of it
// stands beside the first.
type column[T any] struct {
	pieces []*[pieceSize]T
	n      int32
}

const (
	// pieceBits are few, for there may be many small partitions.
	pieceBits = 8
	pieceSize = 1 << pieceBits
)

// at gives the i-th element; the pointer stays good.
func (c *column[T]) at(i int32) *T { return &c.pieces[uint32(i)>>pieceBits][uint32(i)%pieceSize] }

func (c *column[T]) len() int32 { return c.n }

// push adds an element and returns it, zero.
func (c *column[T]) push() *T {
	if c.n&(pieceSize-1) == 0 {
		c.pieces = append(c.pieces, new([pieceSize]T))
	}
	c.n++
	return c.at(c.n - 1)
}

// all iterates over the elements.
func (c *column[T]) all() iter.Seq2[int32, T] {
	return func(yield func(int32, T) bool) {
		for i := range c.n {
			if !yield(i, *c.at(i)) {
				return
			}
		}
	}
}

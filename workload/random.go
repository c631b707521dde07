package workload

import "math/bits"

// random is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). It is written out here
// because a seed that is stored with a run must ask the same questions for ever, while the standard library promises neither
// the same numbers from one release to the next nor the same way of bringing them into a range.
type random uint64

// golden is 2^64 divided by the golden ratio, made odd: steps of it visit every state once.
const golden = 0x9e3779b97f4a7c15

// stream is the stream of one process of a run. Streams of neighbouring seeds and processes start at places that have nothing to
// do with each other.
func stream(seed uint64, process int64) random {
	return random(scramble(scramble(seed+golden) + uint64(process)*golden))
}

func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	*r += golden
	return scramble(uint64(*r))
}

// below draws from [0, n). It favours some numbers by n/2^64, which nobody will notice, and always takes one step of the stream.
func (r *random) below(n int64) int64 {
	high, _ := bits.Mul64(r.next(), uint64(n))
	return int64(high)
}

// chance is a share between 0 and 1 in the form in which it is drawn.
type chance uint64

const certain chance = 1 << 32

func chanceOf(share float64) chance { return chance(share * float64(certain)) }

func (r *random) hits(c chance) bool { return chance(r.next()>>32) < c }

package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The numbers are those of the reference implementation (Vigna's splitmix64.c) for the state 1234567: a stored seed must give them
// in every release.
func TestRandomNumbersAreThoseOfSplitMix64(t *testing.T) {
	r := random(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		assert.Equal(t, want, r.next())
	}
}

func TestStreamsOfNeighboursHaveNothingInCommon(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(20) {
		for process := range int64(20) {
			r := stream(seed, process)
			for range 100 {
				seen[r.next()] = true
			}
		}
	}
	assert.Len(t, seen, 20*20*100)
}

func TestNumbersBelowABoundFillItEvenly(t *testing.T) {
	r := stream(1, 1)
	var counts [7]int
	for range 70_000 {
		counts[r.below(7)]++
	}
	for n, count := range counts {
		assert.InDelta(t, 10_000, count, 500, "number %d", n)
	}
	assert.Zero(t, r.below(1))
}

func TestAChanceHitsAsOftenAsItSays(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		r, hits := stream(2, 2), 0
		for range 10_000 {
			if r.hits(chanceOf(share)) {
				hits++
			}
		}
		assert.InDelta(t, share*10_000, hits, 200, "share %v", share)
		if share == 0 || share == 1 {
			assert.EqualValues(t, share*10_000, hits, "never and always are exact")
		}
	}
}

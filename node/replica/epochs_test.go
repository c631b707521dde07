package replica

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// cache writes a cache as pairs of epoch and start offset.
func cache(pairs ...int64) epochCache {
	c := epochCache{}
	for i := 0; i < len(pairs); i += 2 {
		c = append(c, EpochStart{int32(pairs[i]), pairs[i+1]})
	}
	return c
}

func TestAssignBeginsAnEpoch(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  epochCache
		epoch   int32
		at      int64
		after   epochCache
		changed bool
	}{
		{"the first epoch of all", nil, 0, 0, cache(0, 0), true},
		{"epoch 0 is an epoch like others (KAFKA-10432)", nil, 0, 7, cache(0, 7), true},
		{"a later epoch further on", cache(0, 0), 2, 5, cache(0, 0, 2, 5), true},
		{"another batch of the newest epoch", cache(0, 0, 2, 5), 2, 6, cache(0, 0, 2, 5), false},
		{"the newest epoch, at the very place", cache(0, 0, 2, 5), 2, 5, cache(0, 0, 2, 5), false},
		{"the newest epoch, but it began before it is said to have", cache(0, 0, 2, 5), 2, 4, cache(0, 0, 2, 4), true},
		{"an election at the place where nothing was written since the last one", cache(0, 0, 2, 5), 3, 5, cache(0, 0, 3, 5), true},
		{"three elections in a row with nothing written", cache(0, 0, 2, 5), 4, 5, cache(0, 0, 4, 5), true},
		{"an epoch that begins before others did", cache(0, 0, 2, 5, 3, 8), 4, 4, cache(0, 0, 4, 4), true},
		{"an older epoch than the newest, as a diverged log gives", cache(0, 0, 2, 5, 3, 8), 1, 9, cache(0, 0, 1, 9), true},
		{"an epoch that begins where the first did", cache(3, 0), 4, 0, cache(4, 0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, changed := c.before.assigned(c.epoch, c.at)
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.changed, changed)
		})
	}
}

func TestTruncatingFromTheEndForgetsWhatBeganThere(t *testing.T) {
	before := cache(0, 0, 2, 5, 4, 9)
	for _, c := range []struct {
		name string
		end  int64
		want epochCache
	}{
		{"behind everything", 10, cache(0, 0, 2, 5, 4, 9)},
		{"where an election left its entry, though the log is not cut (KAFKA-10706)", 9, cache(0, 0, 2, 5)},
		{"inside an epoch", 7, cache(0, 0, 2, 5)},
		{"at an epoch's start", 5, cache(0, 0)},
		{"one after the first start", 1, cache(0, 0)},
		{"everything", 0, cache()},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, changed := before.truncatedFromEnd(c.end)
			assert.Equal(t, c.want, after)
			assert.Equal(t, len(c.want) < len(before), changed)
			assert.Equal(t, cache(0, 0, 2, 5, 4, 9), before, "the cache that was truncated is as it was")
		})
	}
}

func TestTruncatingFromTheStartKeepsTheEpochThatReachesOver(t *testing.T) {
	before := cache(0, 0, 2, 5, 4, 9)
	for _, c := range []struct {
		name  string
		start int64
		want  epochCache
	}{
		{"nothing", 0, cache(0, 0, 2, 5, 4, 9)},
		{"inside the first epoch", 3, cache(0, 3, 2, 5, 4, 9)},
		{"where the second begins", 5, cache(2, 5, 4, 9)},
		{"inside the second", 6, cache(2, 6, 4, 9)},
		{"inside the last", 12, cache(4, 12)},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, changed := before.truncatedFromStart(c.start)
			assert.Equal(t, c.want, after)
			assert.Equal(t, c.start != 0, changed)
			assert.Equal(t, cache(0, 0, 2, 5, 4, 9), before, "the cache that was truncated is as it was")
		})
	}
	late := cache(3, 4)
	after, changed := late.truncatedFromStart(2)
	assert.False(t, changed, "the log starts before the first epoch known: there is nothing to move")
	assert.Equal(t, cache(3, 4), after)
	after, changed = epochCache(nil).truncatedFromStart(2)
	assert.False(t, changed)
	assert.Empty(t, after)
}

func TestWhereAnEpochEnds(t *testing.T) {
	const leo = 12
	known := cache(1, 0, 3, 5, 4, 9)
	for _, c := range []struct {
		name  string
		known epochCache
		of    int32
		epoch int32
		end   int64
	}{
		{"the newest ends where the log does", known, 4, 4, leo},
		{"one in the middle ends where the next begins", known, 3, 3, 9},
		{"the first ends where the second begins", known, 1, 1, 5},
		{"one that is not there: the largest below it, and where the next above it begins", known, 2, 1, 5},
		{"one below all that are there ends where the first begins", known, 0, 0, 0},
		{"one above all that are there is not known", known, 5, NoEpoch, NoOffset},
		{"no epoch has no end", known, NoEpoch, NoEpoch, NoOffset},
		{"an empty cache knows nothing", nil, 0, NoEpoch, NoOffset},
		{"one epoch only, asked about itself", cache(7, 3), 7, 7, leo},
		{"one epoch only, asked about one below", cache(7, 3), 6, 6, 3},
		{"an election at the end of the log: the epoch before ends there", cache(1, 0, 5, leo), 1, 1, leo},
		{"an election at the end of the log: the epoch has no record, and ends there too", cache(1, 0, 5, leo), 5, 5, leo},
	} {
		t.Run(c.name, func(t *testing.T) {
			epoch, end := c.known.endOffsetFor(c.of, leo)
			assert.Equal(t, c.epoch, epoch, "epoch")
			assert.Equal(t, c.end, end, "end offset")
		})
	}
}

// What the epoch checkpoint says of a log after a power failure that has taken or brought back some of it.
func TestTheLogIsRightWhereTheCheckpointContradictsIt(t *testing.T) {
	// Epochs of one record each, from offset 0 on.
	log := func(epochs ...int32) []Batch {
		var batches []Batch
		for i, e := range epochs {
			batches = append(batches, Batch{Base: int64(i), Count: 1, Epoch: e})
		}
		return batches
	}
	for _, c := range []struct {
		name   string
		stored epochCache
		log    []Batch
		want   epochCache
	}{
		{"it does not", cache(0, 0, 2, 2), log(0, 0, 2, 2), cache(0, 0, 2, 2)},
		{"a truncated record is back in the place of a newer epoch", cache(0, 0, 2, 1), log(0, 0), cache(0, 0)},
		{"a whole truncated tail is back", cache(0, 0, 5, 1), log(0, 1, 3, 3), cache(0, 0, 1, 1, 3, 2)},
		{"the newer epoch began where the old log did", cache(5, 0), log(3, 4), cache(3, 0, 4, 1)},
		{"an epoch that the checkpoint does not have", cache(0, 0), log(0, 1), cache(0, 0, 1, 1)},
		{"no checkpoint at all", nil, log(0, 0, 4), cache(0, 0, 4, 2)},
		{"epochs that go down, as truncating to the high watermark can leave them", cache(0, 0, 1, 3), log(0, 0, 2, 1), cache(0, 0, 1, 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := c.stored.truncatedFromEnd(int64(len(c.log)))
			for _, b := range c.log {
				got = got.corrected(b)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// The lookup against one that is too simple to be wrong, on caches that came about by assigning and truncating.
func TestTheEpochCacheRisesAndItsLookupIsTheOneOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c epochCache
		var leo int64
		var epoch int32
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"append", "elect", "cut", "delete"}).Draw(t, "step") {
			case "append":
				epoch = max(epoch, c.last()) + rapid.Int32Range(0, 2).Draw(t, "newer")
				c, _ = c.assigned(epoch, leo)
				leo += rapid.Int64Range(1, 3).Draw(t, "count")
			case "elect":
				epoch = max(epoch, c.last()) + rapid.Int32Range(1, 3).Draw(t, "newer")
				c, _ = c.assigned(epoch, leo)
			case "cut":
				leo = rapid.Int64Range(0, leo).Draw(t, "to")
				c, _ = c.truncatedFromEnd(leo)
			case "delete":
				if len(c) > 0 && c[0].Start < leo {
					c, _ = c.truncatedFromStart(rapid.Int64Range(c[0].Start, leo-1).Draw(t, "start"))
				}
			}
			for i := 1; i < len(c); i++ {
				require.Less(t, c[i-1].Epoch, c[i].Epoch, "%v", c)
				require.Less(t, c[i-1].Start, c[i].Start, "%v", c)
			}
			for of := NoEpoch; of <= c.last()+1; of++ {
				wantEpoch, wantEnd := endByDefinition(c, of, leo)
				gotEpoch, gotEnd := c.endOffsetFor(of, leo)
				require.Equal(t, fmt.Sprint(wantEpoch, wantEnd), fmt.Sprint(gotEpoch, gotEnd), "end of epoch %d in %v, which ends at %d", of, c, leo)
			}
		}
	})
}

// endByDefinition is what protocol.md says, word by word.
func endByDefinition(c epochCache, of int32, leo int64) (int32, int64) {
	switch {
	case of == NoEpoch, len(c) == 0:
		return NoEpoch, NoOffset
	case of == c[len(c)-1].Epoch:
		return of, leo
	}
	end := NoOffset
	for _, e := range c {
		if e.Epoch > of {
			end = e.Start
			break
		}
	}
	if end == NoOffset {
		return NoEpoch, NoOffset
	}
	floor := of // below the first entry the epoch asked for stands for itself
	for _, e := range c {
		if e.Epoch <= of {
			floor = e.Epoch
		}
	}
	return floor, end
}

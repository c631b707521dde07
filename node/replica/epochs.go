package replica

import "slices"

// epochCache is the leader epoch cache (KIP-101): for each epoch known, the offset at which its leader began. It is what
// the log implies, plus (rule epoch-at-election) the entry that a leader makes when it is elected. Entries rise in both
// epoch and start offset.
type epochCache []EpochStart

// last is the newest epoch known, NoEpoch if there is none.
func (c epochCache) last() int32 {
	if len(c) == 0 {
		return NoEpoch
	}
	return c[len(c)-1].Epoch
}

// assigned is the cache after epoch e began at offset o, and whether that changed it.
func (c epochCache) assigned(e int32, o int64) (epochCache, bool) {
	if n := len(c); n > 0 && c[n-1].Epoch == e && c[n-1].Start <= o {
		return c, false
	}
	keep := len(c)
	for keep > 0 && (c[keep-1].Epoch >= e || c[keep-1].Start >= o) {
		keep--
	}
	after := make(epochCache, keep+1)
	copy(after, c[:keep])
	after[keep] = EpochStart{e, o}
	return after, true
}

// truncatedFromEnd is the cache of a log that ends at offset o. It has to run also when the log itself was not cut: an
// entry made at an election can lie at the log's end (KAFKA-10706).
func (c epochCache) truncatedFromEnd(o int64) (epochCache, bool) {
	keep := len(c)
	for keep > 0 && c[keep-1].Start >= o {
		keep--
	}
	return c[:keep:keep], keep < len(c)
}

// truncatedFromStart is the cache of a log that starts at offset o: the epoch that reaches over o starts there now.
func (c epochCache) truncatedFromStart(o int64) (epochCache, bool) {
	drop := 0
	for drop < len(c) && c[drop].Start <= o {
		drop++
	}
	if drop == 0 || drop == 1 && c[0].Start == o {
		return c, false
	}
	return append(epochCache{{c[drop-1].Epoch, o}}, c[drop:]...), true
}

// corrected is the cache after a look at one of the log's batches, all of which are looked at in order: where the cache has
// another epoch for the batch, that entry and the later ones are not true of this log.
func (c epochCache) corrected(b Batch) epochCache {
	if until, _ := c.truncatedFromEnd(b.Base + 1); until.last() == b.Epoch {
		return c
	}
	before, _ := c.truncatedFromEnd(b.Base)
	after, _ := before.assigned(b.Epoch, b.Base)
	return after
}

// endOffsetFor is the largest epoch known that is at most e, and the offset where it ends in a log that ends at leo. The
// two are one lookup: the end is where the first larger epoch starts. An epoch below the first entry ends where that
// entry starts (KAFKA-7415 and later). NoEpoch and NoOffset mean undefined: nothing larger than e is known, so that e's
// end cannot be told.
func (c epochCache) endOffsetFor(e int32, leo int64) (int32, int64) {
	if e == NoEpoch || len(c) == 0 {
		return NoEpoch, NoOffset
	}
	if e == c.last() {
		return e, leo
	}
	larger, _ := slices.BinarySearchFunc(c, e, func(s EpochStart, e int32) int {
		if s.Epoch <= e {
			return -1
		}
		return 1
	})
	switch {
	case larger == len(c):
		return NoEpoch, NoOffset
	case larger == 0:
		return e, c[0].Start
	}
	return c[larger-1].Epoch, c[larger].Start
}

// setEpochs makes a changed cache durable. It reports false after an error of the log, which took the replica offline.
func (r *Replica) setEpochs(c epochCache, changed bool) bool {
	if !changed {
		return true
	}
	if err := r.log.SetEpochs(c); err != nil {
		return r.fail("writing the leader epoch checkpoint", err)
	}
	r.epochs = c
	return true
}

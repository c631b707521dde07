package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// life is one of everything that can happen to a log, with rolls, cuts in the middle of a segment and across segments.
var life = []step{
	appendTo(orders, 1, 1, 10),
	appendTo(orders, 2, 1, 10),
	flush(orders),
	appendTo(orders, 1, 1, 10),
	appendTo(orders, 1, 2, 120), // a new segment
	appendTo(orders, 3, 2, 1),   // and one more
	truncate(orders, 1),         // all of the last segment
	appendTo(orders, 1, 3, 10),
	setEpochs(orders, replica.EpochStart{Epoch: 1, Start: 0}, replica.EpochStart{Epoch: 3, Start: 5}),
	truncate(orders, 4), // two segments and part of the first, flushed before
	appendTo(orders, 1, 4, 10),
	reset(orders, 0), // the new segment has the old one's name
	appendTo(orders, 1, 5, 10),
	reset(orders, 7),
	appendTo(orders, 1, 6, 10),
	checkpoint(map[replica.Partition]int64{orders: 8}),
	flush(orders),
	truncate(orders, 9), // below the log start
	appendTo(orders, 1, 7, 10),
}

// copied is a twin of w with files of its own.
func (w *twins) copied(t *testing.T, dir string) *twins {
	require.NoError(t, os.CopyFS(dir, os.DirFS(w.dir)))
	c := &twins{fs: &faulty{}, dir: dir, options: w.options, memory: w.memory.Clone()}
	c.reopen(t)
	return c
}

func (w *twins) end(t *testing.T) {
	require.NoError(t, w.files.Close())
	require.NoError(t, os.RemoveAll(w.dir))
}

// A broker that is killed at any byte, or between any two changes in the file system, finds the operation done or not
// done, and a power failure then leaves what it leaves in memory, wherever it cuts.
func TestKilledAtAnyByte(t *testing.T) {
	dir, remove := manyFiles(t)
	defer remove()
	w := &twins{fs: &faulty{}, dir: filepath.Join(dir, "life"), options: small, memory: memory.New()}
	w.reopen(t)
	for i, s := range life {
		w.check(t)
		outcomes := map[string]int{}
		for n, last := 0, ""; last != "finished"; n++ {
			c := w.copied(t, filepath.Join(dir, "killed"))
			before := c.memory
			c.kill(t, s, n)
			outcome := "done"
			switch {
			case !c.killed:
				outcome = "finished"
			case c.memory == before:
				outcome = "not done"
			}
			// Bytes in the middle of a write are much the same to power failures.
			if outcome != last || n%16 == 0 {
				c.everyCut(t, filepath.Join(dir, "cut"))
			}
			c.end(t)
			outcomes[outcome]++
			last = outcome
		}
		require.NotZero(t, outcomes["not done"], "step %d, %s: a kill before the first byte", i, s.name)
		if s.name == "truncate" || s.name == "reset" {
			require.NotZero(t, outcomes["done"], "step %d, %s: a kill after the journal has it", i, s.name)
		}
		require.NoError(t, s.do(w.memory))
		require.NoError(t, s.do(w.files))
	}
	w.end(t)
}

// everyCut compares what a power failure leaves in copies of the two disks, for every cut and some torn bytes.
func (w *twins) everyCut(t *testing.T, dir string) {
	for keep := range w.memory.Unsynced(orders) + 1 {
		c := w.copied(t, dir)
		cut := replica.Cut{orders: {Keep: keep, Torn: keep}}
		want, err := c.memory.Power(cut)
		require.NoError(t, err)
		got, err := c.files.Power(cut)
		require.NoError(t, err)
		require.Equal(t, want, got)
		c.check(t)
		c.end(t)
	}
}

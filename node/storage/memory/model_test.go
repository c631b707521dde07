package memory_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// world is a disk with a model of it that is too simple to be wrong: for each log, a full copy of its content after
// every operation since the last flush.
type world struct {
	disk *memory.Disk
	logs map[replica.Partition][]version
}

type version struct {
	start   int64
	batches []replica.Batch
}

func (v version) end() int64 {
	if n := len(v.batches); n > 0 {
		return v.batches[n-1].End()
	}
	return v.start
}

func (w world) now(p replica.Partition) version {
	if vs := w.logs[p]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return version{}
}

func (w world) did(p replica.Partition, v version) {
	if len(w.logs[p]) == 0 {
		w.logs[p] = []version{{}}
	}
	w.logs[p] = append(w.logs[p], version{v.start, slices.Clone(v.batches)})
}

func (w world) clone() world {
	c := world{w.disk.Clone(), map[replica.Partition][]version{}}
	for p, vs := range w.logs {
		c.logs[p] = slices.Clone(vs)
	}
	return c
}

func (w world) check(t *rapid.T) {
	for p, vs := range w.logs {
		now := w.now(p)
		l := open(t, w.disk, p)
		require.Equal(t, now.start, l.Start())
		require.Equal(t, now.end(), l.End())
		batches, err := l.Read(l.Start(), 1<<30)
		require.NoError(t, err)
		require.Equal(t, len(now.batches), len(batches))
		for i := range batches {
			require.Equal(t, now.batches[i], batches[i])
		}
		require.Equal(t, len(vs)-1, w.disk.Unsynced(p))
	}
}

// Whatever happens to a family of disks that are clones of each other, each behaves as if it were alone.
func TestDisksAndTheirClonesBehaveLikeFullCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := []replica.Partition{{Topic: "a"}, {Topic: "a", Index: 1}}
		worlds := []world{{memory.New(), map[replica.Partition][]version{}}}
		values := 0
		pick := func(t *rapid.T) (world, replica.Partition, replica.Log) {
			w := rapid.SampledFrom(worlds).Draw(t, "disk")
			p := rapid.SampledFrom(partitions).Draw(t, "partition")
			return w, p, open(t, w.disk, p)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				w, p, l := pick(t)
				values++
				now := w.now(p)
				b := replica.Batch{Base: l.End(), Count: rapid.Int32Range(1, 3).Draw(t, "count"),
					Data: fmt.Appendf(nil, "v%d", values)}
				require.NoError(t, l.Append(b))
				w.did(p, version{now.start, append(slices.Clone(now.batches), b)})
			},
			"truncate": func(t *rapid.T) {
				w, p, l := pick(t)
				to := rapid.Int64Range(max(0, l.Start()-1), l.End()+1).Draw(t, "to")
				now := w.now(p)
				require.NoError(t, l.TruncateTo(to))
				switch {
				case to >= now.end():
					return
				case to < now.start:
					w.did(p, version{start: to})
				default:
					w.did(p, version{now.start, slices.DeleteFunc(slices.Clone(now.batches),
						func(b replica.Batch) bool { return b.End() > to })})
				}
				require.LessOrEqual(t, l.End(), to)
			},
			"reset": func(t *rapid.T) {
				w, p, l := pick(t)
				to := rapid.Int64Range(0, 20).Draw(t, "to")
				require.NoError(t, l.Reset(to))
				w.did(p, version{start: to})
			},
			"flush": func(t *rapid.T) {
				w, p, _ := pick(t)
				require.NoError(t, w.disk.Flush(p))
				w.logs[p] = []version{w.now(p)}
			},
			"power": func(t *rapid.T) {
				w, _, _ := pick(t)
				cut := replica.Cut{}
				for _, p := range partitions {
					vs := w.logs[p]
					if len(vs) == 0 {
						continue
					}
					keep := rapid.IntRange(0, len(vs)-1).Draw(t, "keep")
					cut[p] = replica.LogCut{Keep: keep, Torn: 1}
					w.logs[p] = []version{vs[keep]}
				}
				_, err := w.disk.Power(cut)
				require.NoError(t, err)
			},
			"clone": func(t *rapid.T) {
				w, _, _ := pick(t)
				c := w.clone()
				require.Equal(t, w.disk.AppendState(nil), c.disk.AppendState(nil))
				if len(worlds) < 4 {
					worlds = append(worlds, c)
				} else {
					worlds[rapid.IntRange(0, 3).Draw(t, "replace")] = c
				}
			},
			"": func(t *rapid.T) {
				for _, w := range worlds {
					w.check(t)
				}
			},
		})
	})
}

// What search pays for each state that it visits.
func BenchmarkCloneAndAppend(b *testing.B) {
	d := memory.New()
	l := open(b, d, orders)
	write(b, l, 1, "a", "b", "c", "d")
	batch := replica.Batch{Base: 4, Count: 1, Data: []byte("e")}
	b.ReportAllocs()
	for b.Loop() {
		c, _ := d.Clone().Log(orders)
		_ = c.Append(batch)
	}
}

func BenchmarkAppendState(b *testing.B) {
	d := memory.New()
	l := open(b, d, orders)
	write(b, l, 1, "a", "b", "c", "d")
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = d.AppendState(out[:0])
	}
}

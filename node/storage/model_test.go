package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// twins are a disk in files and one in memory that the same things happen to.
type twins struct {
	fs      *faulty
	dir     string
	options Options
	files   *Files
	memory  *memory.Disk
	killed  bool // whether the last kill came before the end of the step
}

func (w *twins) reopen(t require.TestingT) {
	if w.files != nil {
		require.NoError(t, w.files.Close())
	}
	var err error
	w.files, err = openFiles(w.fs, w.dir, w.options)
	require.NoError(t, err)
}

var partitions = []replica.Partition{orders, payments}

func (w *twins) check(t require.TestingT) {
	for _, p := range partitions {
		same(t, openLog(t, w.memory, p), openLog(t, w.files, p))
		unsynced, err := w.files.Unsynced(p)
		require.NoError(t, err)
		require.Equal(t, w.memory.Unsynced(p), unsynced)
		if unsynced == 0 {
			require.NotContains(t, strings.Join(names(t, w.dir, p), " "), removedSuffix, "nothing can come back")
		}
	}
}

// step is an operation on a disk.
type step struct {
	name string
	do   func(replica.Disk) error
}

func appendTo(p replica.Partition, count, epoch int32, size int) step {
	return step{"append", func(d replica.Disk) error {
		l, err := d.Log(p)
		if err != nil {
			return err
		}
		return l.Append(produced(l.End(), count, epoch, size))
	}}
}

func truncate(p replica.Partition, back int64) step {
	return step{"truncate", func(d replica.Disk) error {
		l, err := d.Log(p)
		if err != nil {
			return err
		}
		return l.TruncateTo(max(0, l.End()-back))
	}}
}

func reset(p replica.Partition, offset int64) step {
	return step{"reset", func(d replica.Disk) error {
		l, err := d.Log(p)
		if err != nil {
			return err
		}
		return l.Reset(offset)
	}}
}

func flush(p replica.Partition) step {
	return step{"flush", func(d replica.Disk) error { return d.Flush(p) }}
}

func setEpochs(p replica.Partition, starts ...replica.EpochStart) step {
	return step{"set epochs", func(d replica.Disk) error {
		l, err := d.Log(p)
		if err != nil {
			return err
		}
		return l.SetEpochs(starts)
	}}
}

func checkpoint(hw map[replica.Partition]int64) step {
	return step{"checkpoint", func(d replica.Disk) error { return d.Checkpoint(hw) }}
}

// kill lets the step go on for n more units (see faulty) and then kills the broker, n times again while it recovers. It
// requires that the step happened or did not, and nothing in between, and lets memory follow.
func (w *twins) kill(t require.TestingT, s step, n int, again ...int) {
	w.check(t) // the logs are open
	w.fs.arm(n, errKilled)
	err := s.do(w.files)
	if w.killed = err != nil; w.killed {
		require.ErrorIs(t, err, errKilled)
	}
	for _, n := range again {
		w.fs.disarm()
		w.reopen(t)
		w.fs.arm(n, errKilled)
		for _, p := range partitions {
			if _, err := w.files.Log(p); err != nil {
				require.ErrorIs(t, err, errKilled)
			}
		}
	}
	w.fs.disarm()
	w.reopen(t)

	after := w.memory.Clone()
	require.NoError(t, s.do(after))
	if !w.killed {
		w.memory = after
		w.check(t)
		return
	}
	before := w.memory
	if w.agree() {
		return
	}
	w.memory = after
	if !w.agree() {
		w.memory = before
		w.check(t) // says what errDiffers
	}
}

// agree is check for one who wants to know.
func (w *twins) agree() (ok bool) {
	defer func() {
		if e := recover(); e != nil && e != errDiffers {
			panic(e)
		}
	}()
	w.check(mute{})
	return true
}

// mute is a test that fails without a word.
type mute struct{}

var errDiffers = errors.New("errDiffers")

func (mute) Errorf(string, ...any) {}
func (mute) FailNow()              { panic(errDiffers) }

// The disk in files and the disk in memory look the same whatever happens to them, and a broker that is killed at any
// byte of any operation finds it done or not done.
func TestFilesBehaveLikeMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, remove := manyFiles(t)
		defer remove()
		w := &twins{
			fs: &faulty{}, dir: dir, memory: memory.New(),
			options: Options{
				SegmentBytes: rapid.Int64Range(1, 400).Draw(t, "segment bytes"),
				CacheBytes:   rapid.SampledFrom([]int{-1, 200, 1000}).Draw(t, "cache bytes"),
			},
		}
		w.reopen(t)
		defer func() { require.NoError(t, w.files.Close()) }()

		p := rapid.SampledFrom(partitions)
		steps := rapid.Custom(func(t *rapid.T) step {
			p := p.Draw(t, "partition")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2:
				return truncate(p, rapid.Int64Range(0, 12).Draw(t, "back"))
			case 3:
				return reset(p, rapid.Int64Range(0, 5).Draw(t, "offset"))
			case 4:
				return flush(p)
			case 5:
				return setEpochs(p, replica.EpochStart{Epoch: rapid.Int32Range(0, 9).Draw(t, "epoch"), Start: 1})
			case 6:
				return checkpoint(map[replica.Partition]int64{p: rapid.Int64Range(0, 9).Draw(t, "hw")})
			}
			return appendTo(p, rapid.Int32Range(1, 3).Draw(t, "count"), rapid.Int32Range(0, 9).Draw(t, "epoch"),
				rapid.IntRange(0, 60).Draw(t, "size"))
		})
		happens := func(t *rapid.T) {
			s := steps.Draw(t, "what")
			require.NoError(t, s.do(w.memory))
			require.NoError(t, s.do(w.files), s.name)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.check(t) },
			// Three names, so that it happens more often than the faults.
			"step": happens, "next step": happens, "one more step": happens,
			"read in the middle": func(t *rapid.T) {
				p := p.Draw(t, "partition")
				m, f := openLog(t, w.memory, p), openLog(t, w.files, p)
				from := rapid.Int64Range(m.Start()-1, m.End()+1).Draw(t, "from")
				maxBytes := rapid.IntRange(0, 500).Draw(t, "max bytes")
				want, wantErr := m.Read(from, maxBytes)
				got, err := f.Read(from, maxBytes)
				require.Equal(t, wantErr == nil, err == nil)
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.Equal(t, want[i].Base, got[i].Base)
				}
			},
			"kill": func(t *rapid.T) { w.reopen(t) },
			"kill in the middle": func(t *rapid.T) {
				units := rapid.IntRange(0, 400)
				again := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 3).Draw(t, "and in recovery after")
				w.kill(t, steps.Draw(t, "what"), units.Draw(t, "after"), again...)
			},
			"power": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "killed before") {
					w.reopen(t)
				}
				cut := replica.Cut{}
				for _, p := range partitions {
					cut[p] = replica.LogCut{
						Keep: rapid.IntRange(-1, w.memory.Unsynced(p)+1).Draw(t, "keep"),
						Torn: rapid.IntRange(0, 200).Draw(t, "torn"),
					}
				}
				want, err := w.memory.Power(cut)
				require.NoError(t, err)
				if rapid.Bool().Draw(t, "killed while the power fails") {
					w.fs.arm(rapid.IntRange(0, 100).Draw(t, "after"), errKilled)
					if _, err := w.files.Power(cut); err != nil {
						require.ErrorIs(t, err, errKilled)
					}
					w.fs.disarm()
					w.reopen(t)
					_, err = w.files.Power(cut)
					require.NoError(t, err)
					return
				}
				got, err := w.files.Power(cut)
				require.NoError(t, err)
				require.Equal(t, want, got)
			},
			"clean shutdown": func(t *rapid.T) {
				epoch := rapid.Int64().Draw(t, "broker epoch")
				require.NoError(t, w.memory.CleanShutdown(epoch))
				require.NoError(t, w.files.CleanShutdown(epoch))
			},
			"take clean shutdown": func(t *rapid.T) {
				wantEpoch, want, _ := w.memory.TakeCleanShutdown()
				gotEpoch, got, err := w.files.TakeCleanShutdown()
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, wantEpoch, gotEpoch)
			},
		})
	})
}

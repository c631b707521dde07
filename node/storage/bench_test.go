package storage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

// sizes of one record's value: a small record, and one whose bytes cost more than the call.
var sizes = []int{100, 10_000}

// fill appends batches of one record until the log has that many bytes.
func fill(b *testing.B, l replica.Log, size, total int) int {
	batch, n := produced(0, 1, 1, size), 0
	for written := 0; written < total; written += len(batch.Data) {
		batch.Base = l.End()
		require.NoError(b, l.Append(batch))
		n++
	}
	return n
}

// What an append costs, with what keeps newest batches for readers and what makes power failures exact, and without.
func BenchmarkAppend(b *testing.B) {
	for _, size := range sizes {
		for _, c := range []struct {
			name    string
			fs      fileSystem
			options Options
		}{
			{"journal=yes/cache=yes", osFiles{}, Options{}},
			{"journal=yes/cache=no", osFiles{}, Options{CacheBytes: -1}},
			{"journal=no/cache=yes", &faulty{skip: journalName}, Options{}},
		} {
			b.Run(fmt.Sprintf("record=%d/%s", size, c.name), func(b *testing.B) {
				f := openDisk(b, c.fs, b.TempDir(), c.options)
				l := openLog(b, f, orders)
				batch := produced(0, 1, 1, size)
				b.SetBytes(int64(len(batch.Data)))
				b.ReportAllocs()
				written := 0
				for b.Loop() {
					if err := l.Append(batch); err != nil {
						b.Fatal(err)
					}
					batch.Base++
					if written += len(batch.Data); written > 256<<20 {
						b.StopTimer() // so as not to fill the disk
						written, batch.Base = 0, 0
						require.NoError(b, l.Reset(0))
						require.NoError(b, f.Flush(orders))
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			})
		}
	}
}

// What the owner of a log pays while another goroutine flushes it all the time.
func BenchmarkAppendDuringFlushes(b *testing.B) {
	f := openDisk(b, osFiles{}, b.TempDir(), Options{})
	l := openLog(b, f, orders)
	batch := produced(0, 1, 1, 100)
	done, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				stopped <- n
				return
			default:
				n++
				if err := f.Flush(orders); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	for b.Loop() {
		if err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
		batch.Base++
	}
	elapsed := b.Elapsed().Seconds()
	close(done)
	b.ReportMetric(float64(<-stopped)/elapsed, "flushes/s")
	b.ReportMetric(float64(b.N)/elapsed, "appends/s")
}

// What a follower that is one batch behind pays, and one that reads a long way back, one MiB at a time.
func BenchmarkRead(b *testing.B) {
	for _, size := range sizes {
		f := openDisk(b, osFiles{}, b.TempDir(), Options{})
		l := openLog(b, f, orders)
		fill(b, l, size, 64<<20)
		for _, c := range []struct {
			name     string
			from     func(i int64) int64
			maxBytes int
		}{
			{"newest batch", func(i int64) int64 { return l.End() - 1 }, 1 << 20},
			{"one old batch", func(i int64) int64 { return i % (l.End() / 2) }, 1},
			{"1 MiB of old batches", func(i int64) int64 { return i % (l.End() / 2) }, 1 << 20},
		} {
			b.Run(fmt.Sprintf("record=%d/%s", size, c.name), func(b *testing.B) {
				b.ReportAllocs()
				i, bytes := int64(0), 0
				for b.Loop() {
					batches, err := l.Read(c.from(i), c.maxBytes)
					if err != nil {
						b.Fatal(err)
					}
					for _, batch := range batches {
						bytes += len(batch.Data)
					}
					i++
				}
				b.SetBytes(int64(bytes / b.N))
			})
		}
	}
}

// How fast a broker that was killed opens a log of 256 MiB: flushed, so that headers are enough, or all to be verified.
func BenchmarkRecovery(b *testing.B) {
	for _, size := range sizes {
		for _, flushed := range []bool{true, false} {
			b.Run(fmt.Sprintf("record=%d/flushed=%t", size, flushed), func(b *testing.B) {
				dir := b.TempDir()
				f := openDisk(b, osFiles{}, dir, Options{})
				batches := fill(b, openLog(b, f, orders), size, 256<<20)
				if flushed {
					require.NoError(b, f.Flush(orders))
				}
				b.SetBytes(256 << 20)
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, f.Close())
					var err error
					f, err = Open(dir, Options{})
					require.NoError(b, err)
					l := openLog(b, f, orders)
					require.EqualValues(b, batches, l.End())
				}
				b.ReportMetric(float64(batches)*float64(b.N)/b.Elapsed().Seconds(), "batches/s")
				require.NoError(b, f.Close())
			})
		}
	}
}

// What the parts of a flush other than the fsync of the segment cost, and one with it.
func BenchmarkFlush(b *testing.B) {
	for name, fs := range map[string]fileSystem{"fsync=no": &faulty{}, "fsync=yes": osFiles{}} {
		b.Run(name, func(b *testing.B) {
			f := openDisk(b, fs, b.TempDir(), Options{})
			l := openLog(b, f, orders)
			batch := produced(0, 1, 1, 100)
			for b.Loop() {
				require.NoError(b, l.Append(batch))
				batch.Base++
				require.NoError(b, f.Flush(orders))
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("record=%d", size), func(b *testing.B) {
			var data []byte
			for base := int64(0); len(data) < 1<<20; base++ {
				data = append(data, produced(base, 1, 1, size).Data...)
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Split(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

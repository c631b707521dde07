package history_test

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

// pair is a produce and a fetch as a workload records them: four events.
func pair(i int) []history.Event {
	v := "p12-" + strconv.Itoa(i)
	o := int64(i)
	return []history.Event{
		{Kind: history.Invoke, Process: 12, Op: history.Op{Type: history.Produce, Partition: "orders-3", Values: []string{v}, Acks: -1}},
		{Kind: history.OK, Process: 12, Op: history.Op{Type: history.Produce, Partition: "orders-3", Offset: o}},
		{Kind: history.Invoke, Process: 13, Op: history.Op{Type: history.Fetch, Partition: "orders-3", From: o, Node: 2}},
		{Kind: history.OK, Process: 13, Op: history.Op{Type: history.Fetch, Partition: "orders-3", Node: 2, HighWatermark: o + 1,
			Records: []history.Record{{Offset: o, Epoch: 3, Value: v}}}},
	}
}

// BenchmarkAppend is what recording costs a client: 100 of them append at once.
func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{1, 100} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			w, err := history.NewWriter(io.Discard, history.Header{}, history.Since(time.Now()))
			require.NoError(b, err)
			events := pair(1 << 20)
			b.ReportAllocs()
			b.SetParallelism(clients)
			b.RunParallel(func(pb *testing.PB) {
				mine := append([]history.Event(nil), events...)
				for i := 0; pb.Next(); i++ {
					if err := w.Append(&mine[i%len(mine)]); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkNext is what reading a stored history back costs.
func BenchmarkNext(b *testing.B) {
	const pairs = 10000
	var buf bytes.Buffer
	w, err := history.NewWriter(&buf, history.Header{}, nil)
	require.NoError(b, err)
	for i := range pairs {
		for _, e := range pair(i) {
			require.NoError(b, w.Append(&e))
		}
	}
	require.NoError(b, w.Close())
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%t", shared), func(b *testing.B) {
			b.SetBytes(int64(buf.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r, err := history.NewReader(bytes.NewReader(buf.Bytes()))
				require.NoError(b, err)
				next := r.Next
				if shared {
					next = r.NextShared
				}
				n := 0
				var e history.Event
				for err = next(&e); err == nil; err = next(&e) {
					n++
				}
				require.ErrorIs(b, err, io.EOF)
				require.Equal(b, 4*pairs, n)
			}
			b.ReportMetric(float64(4*pairs*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

package checker_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

// spoil changes a few things of a history, event by event: bytes changed at random seldom leave anything that can be read.
func spoil(r *rand.Rand, events []history.Event) {
	number := func(v *int64) { *v = max(-1, *v+r.Int64N(5)-2) }
	small := func(v *int32) { *v = max(-1, *v+r.Int32N(3)-1) }
	for range r.IntN(6) {
		e := &events[r.IntN(len(events))]
		switch {
		case e.Node != nil:
			n := *e.Node
			for _, f := range []*int64{&n.From, &n.To, &n.HW} {
				number(f)
			}
			for _, f := range []*int32{&n.Node, &n.Epoch, &n.PartitionEpoch, &n.Leader} {
				small(f)
			}
			if r.IntN(3) == 0 {
				n.What = []history.What{history.PowerLoss, history.Truncated, history.Append, history.Elected, history.Ack, "odd"}[r.IntN(6)]
			}
			n.Unclean = r.IntN(4) == 0
			e.Node = &n
		case e.Replica != nil:
			p := *e.Replica
			number(&p.HW)
			number(&p.LEO)
			p.Entries = p.Entries[:r.IntN(len(p.Entries)+1)]
			e.Replica = &p
		case e.Settled != nil:
			e.Settled = &history.Settled{Partition: e.Settled.Partition, OK: r.IntN(2) == 0, Why: "it is spoilt"}
		case e.Kind <= history.Info:
			number(&e.Op.Offset)
			number(&e.Op.HighWatermark)
			number(&e.Op.From)
			e.Op.Final = r.IntN(3) == 0
			e.Op.Acks = int16(r.IntN(3) - 1)
			if e.Kind != history.Invoke {
				e.Kind = []history.Kind{history.OK, history.OK, history.Fail, history.Info}[r.IntN(4)]
			}
			rs := append([]history.Record(nil), e.Op.Records...)
			for i := range rs {
				number(&rs[i].Offset)
				small(&rs[i].Epoch)
				rs[i].Value = []string{rs[i].Value, rs[0].Value, "x", "new"}[r.IntN(4)]
			}
			e.Op.Records = rs
		}
	}
	if r.IntN(4) == 0 {
		i := r.IntN(len(events))
		copy(events[i:], events[i+1:])
		events[len(events)-1] = history.Event{Kind: history.KindSettled, Settled: &history.Settled{Partition: orders}}
		for j := range events {
			events[j].Seq = int64(j) + 1
		}
	}
}

// FuzzCheck judges whatever can be read as a history: it must come to a verdict or say what is wrong, the two checkers must agree, and the
// report must be the same each time.
func FuzzCheck(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		for seed := range uint64(40) {
			f.Add(b, seed)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		r, err := history.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		var events []history.Event
		for e, err := range r.All() {
			if err != nil {
				return
			}
			events = append(events, e)
		}
		if len(events) > 0 {
			spoil(rand.New(rand.NewPCG(seed, 0)), events)
		}
		judge := func() string {
			res, err := checker.Check(context.Background(), checker.Events(r.Header(), events), checker.Options{
				Porcupine: checker.Limits{Operations: 30, Timeout: time.Second}})
			var disagreement *checker.DisagreementError
			require.False(t, errors.As(err, &disagreement), "%v", err)
			if err != nil {
				return err.Error()
			}
			require.NotEmpty(t, res.Verdict)
			for _, f := range res.Findings {
				require.NotEmpty(t, f.Sentence)
			}
			var text bytes.Buffer
			require.NoError(t, res.WriteText(&text))
			return text.String()
		}
		require.Equal(t, judge(), judge())
	})
}

package virtual

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis"
	"tidemark/node/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// traced makes a trial and gives the trace after each of its events.
func traced(t *testing.T, trial Trial) ([]uint64, *Tried) {
	var traces []uint64
	trial.Traced = func(n int64, trace uint64) {
		require.EqualValues(t, len(traces)+1, n)
		traces = append(traces, trace)
	}
	r, err := trial.Run(t.Context())
	require.NoError(t, err)
	return traces, r
}

// parted is the number of the first event in which two simulations differ, 0 if they are the same. Traces are chained, so that they
// differ from there on: the first is found by halves.
func parted(a, b []uint64) int {
	low, high := 0, min(len(a), len(b))
	if len(a) == len(b) && (high == 0 || a[high-1] == b[high-1]) {
		return 0
	}
	for low < high {
		middle := (low + high) / 2
		if a[middle] == b[middle] {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low + 1
}

func TestASeedIsOneRunEventByEvent(t *testing.T) {
	for i, b := range benches(t) {
		for n := range 3 {
			b.trial.Seed, b.trial.Nodes = uint64(100*i+n), true
			one, first := traced(t, b.trial)
			two, second := traced(t, b.trial)
			require.Zero(t, parted(one, two), "%s, seed %d: the two runs part at this event", b.name, b.trial.Seed)
			require.Equal(t, first, second, "%s, seed %d", b.name, b.trial.Seed)
		}
	}
}

func TestWhereTwoRunsPartIsFound(t *testing.T) {
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(t, err)
	trial := Trial{Rules: set, Seed: 1, Faults: nemesis.Basic()}
	one, _ := traced(t, trial)
	for _, at := range []int{0, 1, len(one) / 2, len(one) - 1} {
		other := slices.Clone(one)
		for i := at; i < len(other); i++ {
			other[i]++
		}
		assert.Equal(t, at+1, parted(one, other))
	}
	trial.Seed = 2
	two, _ := traced(t, trial)
	assert.Equal(t, 1, parted(one, two), "another seed is another run from its first event on")
}

// Each kind of promise that the truth knows, broken by hand.
func TestTheTruthTellsEachWayToBreakAPromise(t *testing.T) {
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(t, err)
	k := calm(t, set, nil)
	truth := func(change func(x *known)) Fact {
		kept := k.truth.parts[0]
		defer func() { k.truth.parts[0] = kept }()
		last := *kept.last
		r := &known{promises: slices.Clone(kept.promises), last: &last}
		change(r)
		k.truth.parts[0] = *r
		return k.Judge(0)
	}
	require.Equal(t, Fact{Read: true}, truth(func(*known) {}))
	ack := func(x *known) *promise {
		return &x.promises[slices.IndexFunc(x.promises, func(p promise) bool { return p.from > 3 && p.to == p.from+1 })]
	}
	for _, tc := range []struct {
		want   string
		change func(x *known)
	}{
		{"the final log ends at", func(x *known) { x.last.end -= 2 }},
		{"in the end there is another", func(x *known) {
			p := ack(x)
			p.batches = slices.Clone(p.batches)
			p.batches[p.from].Data = p.batches[0].Data
		}},
		{"beyond the end", func(x *known) { p := ack(x); p.end = p.from }},
		{"epochs go down", func(x *known) { ack(x).fell = true }},
		{"got nothing at an offset below", func(x *known) { ack(x).hollow = true }},
		{"that was told before it was produced", func(x *known) { x.promises[0].end = x.last.end }},
		{"is at 0 and at 1", func(x *known) {
			x.last.batches = slices.Clone(x.last.batches)
			x.last.batches[1].Data = x.last.batches[0].Data
			x.promises = nil
		}},
		{"failed for certain", func(x *known) { k.produced[number(x.last.batches[0].Data)].failed = true }},
	} {
		assert.Contains(t, truth(tc.change).Broken, tc.want)
	}
	k.produced[number(k.truth.parts[0].last.batches[0].Data)].failed = false
	hidden := truth(func(x *known) { // an end was told, of a log with another record at 0, of which nobody has heard
		p := *ack(x)
		p.from, p.to = 0, 0
		p.batches = slices.Clone(p.batches)
		p.batches[0].Data = p.batches[1].Data
		x.promises = append(x.promises, p)
	})
	assert.Equal(t, Fact{Read: true, Hidden: 1}, hidden)
	assert.Equal(t, Fact{}, truth(func(x *known) { x.last = nil }), "without the end nothing is known")
}

func TestATrialTellsItsStory(t *testing.T) {
	set, err := rules.Parse(rules.KIP966, nil, nil)
	require.NoError(t, err)
	trial := Trial{Rules: set, Seed: 3, Faults: nemesis.Basic(), Nodes: true}
	r, err := trial.Run(t.Context())
	require.NoError(t, err)
	faults, nodes := 0, 0
	for _, e := range r.Events {
		switch e.Kind {
		case history.KindFault:
			faults++
		case history.KindNode:
			nodes++
		}
	}
	planned := 0
	for _, s := range trial.Plan() {
		switch {
		case s.IsOfLinks():
			planned++
		case s.IsFault():
			planned += len(s.Nodes) // each node is a fault of its own
		}
	}
	assert.NotZero(t, planned)
	assert.Equal(t, 2*planned, faults, "begin and end of each")
	assert.Greater(t, nodes, 50)
	assert.True(t, r.Rested, r.Why)
	res, err := r.Check(t.Context(), checker.Options{})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, res.Partitions[0].Level, checker.CommittedLog)
	assert.Equal(t, checker.Ok, res.Porcupine, fmt.Sprint(res.Partitions))
}

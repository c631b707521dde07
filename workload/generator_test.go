package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/checker/history"
)

func generate(t require.TestingT, c Config, process int64) *Generator {
	c.Topics = []history.Topic{orders(3), {Name: "payments", Partitions: 1}}
	g, err := NewGenerator(c, process)
	require.NoError(t, err)
	return g
}

// show is an operation in a line.
func show(op Operation) string {
	s := fmt.Sprintf("%s %d", op.Type, op.Partition)
	switch op.Type {
	case history.Produce:
		s += " " + strings.Join(op.Values, ",")
	case history.Fetch:
		s += fmt.Sprintf(" from %d", op.From)
	}
	if op.Follower {
		s += fmt.Sprintf(" at follower %d", op.Pick%100)
	}
	return s
}

// A stored run can be asked again only if its seed means the same in every release: these lines must not change, unless the
// meaning of seeds is changed on purpose.
func TestASeedMeansTheSameForEver(t *testing.T) {
	g := generate(t, Config{Seed: 42, BatchShare: 0.5}, 3)
	var lines []string
	for i := range int64(16) {
		op := g.Next()
		lines = append(lines, show(op))
		a := readAt(op.From, 2, 20*i)
		a.Offset = 10 * i
		g.Learn(op, a)
	}
	assert.Equal(t, []string{
		"fetch 1 from 0", "fetch 1 from 2", "produce 2 d0,d1,d2,d3,d4", "produce 1 d5", "fetch 3 from 0", "fetch 0 from 0",
		"fetch 0 from 2", "fetch 2 from 0 at follower 4", "produce 2 d6,d7,d8", "produce 1 d9", "produce 1 d10",
		"fetch 3 from 2", "fetch 3 from 4", "end 0", "fetch 1 from 4", "produce 1 d11,d12",
	}, lines)
}

func TestTheSameAnswersAreFollowedByTheSameQuestions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Seed: rapid.Uint64().Draw(t, "seed"), BatchShare: rapid.Float64Range(0, 1).Draw(t, "batch share")}
		process := rapid.Int64Range(0, maxProcess-1).Draw(t, "process")
		one, other := generate(t, c, process), generate(t, c, process)
		for range 50 {
			op := one.Next()
			require.Equal(t, op, other.Next())
			end := rapid.Int64Range(0, 1000).Draw(t, "end")
			a := Answer{
				Kind:          rapid.SampledFrom([]history.Kind{history.OK, history.Fail}).Draw(t, "kind"),
				Offset:        end,
				HighWatermark: end,
			}
			a.OutOfRange = a.Kind == history.Fail && rapid.Bool().Draw(t, "out of range")
			for i := range rapid.IntRange(0, 3).Draw(t, "records") {
				a.Records = append(a.Records, history.Record{Offset: op.From + int64(i)})
			}
			one.Learn(op, a)
			other.Learn(op, a)
		}
	})
}

func TestNoValueIsProducedTwice(t *testing.T) {
	seen := map[string]bool{}
	for process := range int64(800) {
		g := generate(t, Config{Seed: 7, Mix: Mix{Produce: 1}, BatchShare: 0.3}, process)
		for range 50 {
			for _, v := range g.Next().Values {
				require.False(t, seen[v], "value %q", v)
				seen[v] = true
			}
		}
	}
}

func TestProcessesHaveNamesOfTheirOwn(t *testing.T) {
	for process, want := range map[int64]string{0: "a", 25: "z", 26: "aa", 27: "ab", 701: "zz", 702: "aaa", maxProcess - 1: "cliqill"} {
		assert.Equal(t, want, processName(process))
	}
}

// shares counts what 20,000 operations are, with a log that grows by one record an operation and whose reads are answered.
func shares(g *Generator) map[string]float64 {
	const n = 20_000
	counts := map[string]float64{}
	count := func(what string) { counts[what] += 1.0 / n }
	end := int64(0)
	for range n {
		op := g.Next()
		count(op.Type.String())
		end++
		a := Answer{Kind: history.OK, Offset: end, HighWatermark: end}
		switch {
		case op.Type == history.Produce && len(op.Values) > 1:
			count("batch")
		case op.Type != history.Fetch:
		default:
			if op.Follower {
				count("follower")
			}
			p := g.partitions[op.Partition]
			switch {
			case op.From == p.position:
				count("on")
			case op.From == 0:
				count("beginning")
			case op.From == p.end:
				count("the end")
			case op.From >= p.end-tail:
				count("tail")
			default:
				count("earlier")
			}
			for i := op.From; i < min(end, op.From+20); i++ {
				a.Records = append(a.Records, history.Record{Offset: i})
			}
		}
		g.Learn(op, a)
	}
	return counts
}

func TestOperationsAreMixed(t *testing.T) {
	got := shares(generate(t, Config{Seed: 5, BatchShare: 0.2}, 1))
	for what, want := range map[string]float64{"produce": 0.45, "fetch": 0.5, "end": 0.05, "batch": 0.45 * 0.2, "follower": 0.05,
		"on": 0.3, "tail": 0.1, "earlier": 0.05, "beginning": 0.025, "the end": 0.025} {
		assert.InDelta(t, want, got[what], 0.01, what)
	}
}

func TestAMixCanLeaveOperationsOut(t *testing.T) {
	got := shares(generate(t, Config{Seed: 5, Mix: Mix{Fetch: 1}, FollowerReads: -1}, 1))
	assert.InDelta(t, 1, got["fetch"], 1e-9)
	assert.Zero(t, got["follower"], "less than 0 is none")
}

// reading is a generator that only reads one partition.
func reading(t *testing.T) *Generator {
	g, err := NewGenerator(Config{Topics: []history.Topic{orders(1)}, Seed: 9, Mix: Mix{Fetch: 1}}, 0)
	require.NoError(t, err)
	return g
}

func readAt(from int64, n int, hw int64) Answer {
	a := Answer{Kind: history.OK, HighWatermark: hw}
	for i := range n {
		a.Records = append(a.Records, history.Record{Offset: from + int64(i)})
	}
	return a
}

func TestAProcessReadsOnFromWhereItIs(t *testing.T) {
	g := reading(t)
	op := g.Next()
	assert.Zero(t, op.From, "it begins at the beginning")
	g.Learn(op, readAt(0, 5, 40))
	assert.EqualValues(t, 5, g.partitions[0].position)

	g.Learn(Operation{Type: history.Fetch, From: 30}, readAt(30, 3, 40))
	assert.EqualValues(t, 5, g.partitions[0].position, "to read something else does not move it")
	g.Learn(Operation{Type: history.Fetch, From: 5}, Answer{Kind: history.Fail})
	assert.EqualValues(t, 5, g.partitions[0].position, "nor does a failure")
}

func TestAProcessThatIsFarBehindGoesOnNearTheEnd(t *testing.T) {
	g := reading(t)
	g.Learn(g.Next(), readAt(0, 5, 10_000))
	on := map[int64]bool{}
	for range 100 {
		on[g.Next().From] = true
	}
	assert.True(t, on[10_000-tail])
	assert.False(t, on[5])
}

func TestAProcessWhoseOffsetIsGoneStartsAgain(t *testing.T) {
	g := reading(t)
	g.Learn(g.Next(), readAt(0, 50, 60))
	gone := Answer{Kind: history.Fail, OutOfRange: true}
	g.Learn(Operation{Type: history.Fetch, From: 50, Follower: true}, gone)
	assert.EqualValues(t, 50, g.partitions[0].position, "a follower may just be behind")
	g.Learn(Operation{Type: history.Fetch, From: 50}, gone)
	op := g.Next()
	assert.Zero(t, op.From)
	g.Learn(op, readAt(0, 4, 4))
	for range 100 {
		assert.LessOrEqual(t, g.Next().From, int64(4), "the old end is forgotten")
	}
}

func TestPadding(t *testing.T) {
	for _, tc := range []struct {
		name       string
		value      string
		size       int
		wire, back string
	}{
		{"no size", "a7", 0, "a7", "a7"},
		{"a short value is filled up", "a7", 6, "a7....", "a7"},
		{"a value as large as asked is left alone", "abc123", 6, "abc123", "abc123"},
		{"a larger one too", "abc1234", 6, "abc1234", "abc1234"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.wire, pad(tc.value, tc.size))
			assert.Equal(t, tc.back, unpad([]byte(pad(tc.value, tc.size)), tc.size))
		})
	}
	assert.Equal(t, "a7...", unpad([]byte("a7..."), 6), "what lost a byte is not the value")
	assert.Equal(t, `"\xff\xfe"`, unpad([]byte{0xff, 0xfe}, 0), "what is not text is quoted")
}

func TestGeneratorsRefuseWhatMakesNoSense(t *testing.T) {
	_, err := NewGenerator(Config{Topics: []history.Topic{orders(1)}}, -1)
	assert.ErrorIs(t, err, ErrConfig)
	_, err = NewGenerator(Config{}, 0)
	assert.ErrorIs(t, err, ErrConfig)
}

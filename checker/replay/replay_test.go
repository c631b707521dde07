package replay_test

import (
	"go/parser"
	"go/token"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/replay"
)

type log []replay.Operation

func (l log) Len() int                        { return len(l) }
func (l log) At(i int32, o *replay.Operation) { *o = l[i] }

// good is: a is produced, a fetch sees it, b is produced without an answer, an end sees both.
func good() log {
	return log{
		{Kind: replay.Produce, Outcome: replay.Happened, Call: 1, Return: 2, Offset: 0, Values: []int32{10}},
		{Kind: replay.Fetch, Outcome: replay.Happened, Exact: true, Call: 3, Return: 4, HW: 1, Values: []int32{10}},
		{Kind: replay.Produce, Outcome: replay.Unknown, Call: 3, Return: math.MaxInt64, Offset: -1, Values: []int32{11}},
		{Kind: replay.End, Outcome: replay.Happened, Exact: true, Call: 5, Return: 6, Offset: 2},
		{Kind: replay.Produce, Outcome: replay.Failed, Call: 5, Return: 6, Offset: -1, Values: []int32{12}},
		{Kind: replay.Fetch, Outcome: replay.Unknown, Call: 7, Return: math.MaxInt64},
	}
}

func TestAnOrderThatExplainsEveryAnswerIsAccepted(t *testing.T) {
	require.NoError(t, replay.Replay(good(), []int32{0, 1, 2, 3}, true))
	require.NoError(t, replay.Replay(log{}, nil, true), "nothing happened, nothing is to be explained")
	stale := append(good(), replay.Operation{Kind: replay.Fetch, Outcome: replay.Happened, Call: 7, Return: 8, HW: 1, Offset: 1})
	require.NoError(t, replay.Replay(stale, []int32{0, 1, 2, 3, 6}, true), "a stale answer, where it is allowed")
	require.NoError(t, replay.Replay(good()[:3], []int32{0, 1}, true), "what nobody knows may be left out")
	swapped := good()
	swapped[0].Call, swapped[0].Return = 8, 9
	require.NoError(t, replay.Replay(swapped, []int32{0, 1, 2, 3}, false), "where time does not count")
}

func TestAnOrderThatDoesNotIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(log)
		order  []int32
	}{
		"an answer too early":          {func(log) {}, []int32{1, 0, 2, 3}},
		"one that is missing":          {func(log) {}, []int32{0, 1, 2}},
		"one done twice":               {func(log) {}, []int32{0, 1, 1, 2, 3}},
		"one that failed":              {func(l log) { l[4].Offset = 2 }, []int32{0, 1, 2, 3, 4}},
		"a produce elsewhere":          {func(l log) { l[0].Offset = 1 }, []int32{0, 1, 2, 3}},
		"another value":                {func(l log) { l[1].Values = []int32{11} }, []int32{0, 1, 2, 3}},
		"records with gaps":            {func(l log) { l[1].Gaps = true }, []int32{0, 1, 2, 3}},
		"a record above the watermark": {func(l log) { l[1].HW, l[1].Exact = 0, false }, []int32{0, 1, 2, 3}},
		"nothing below the watermark":  {func(l log) { l[1].Values = nil }, []int32{0, 1, 2, 3}},
		"a watermark above the log":    {func(l log) { l[1].HW, l[1].Exact = 2, false }, []int32{0, 1, 2, 3}},
		"a stale watermark":            {func(l log) { l[1].Call, l[1].Return = 4, 9 }, []int32{0, 2, 1, 3}},
		"a stale end":                  {func(l log) { l[3].Offset = 1 }, []int32{0, 1, 2, 3}},
		"an end above the log":         {func(l log) { l[3].Offset, l[3].Exact = 3, false }, []int32{0, 1, 2, 3}},
		"against real time":            {func(l log) { l[0].Call, l[0].Return = 5, 6 }, []int32{0, 1, 2, 3}},
		"an operation of no kind":      {func(l log) { l[1].Kind = 0 }, []int32{0, 1, 2, 3}},
	} {
		l := good()
		c.change(l)
		require.ErrorIs(t, replay.Replay(l, c.order, true), replay.ErrRefused, name)
	}
}

func TestTheKernelImportsNothingOfTheChecker(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "replay.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, i := range f.Imports {
		assert.False(t, strings.Contains(i.Path.Value, "tidemark"), i.Path.Value)
	}
}

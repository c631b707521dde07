package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/checker/history"
	"tidemark/checker/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTwoCheckersThatDisagreeAreAnErrorAndNoVerdict(t *testing.T) {
	lost := []action{
		{kind: history.Produce, values: []int{0}, call: 1, ret: 2, out: happened},
		{kind: history.Fetch, call: 3, ret: 4, out: happened, final: true},
	}
	in := &intake{nodes: map[string]*nodeIndex{}}
	newJudge := func(o Options) *judge {
		return &judge{in: in, bar: CommittedLog, limits: o.Porcupine.withDefaults(), res: &Result{Porcupine: Ok}}
	}
	agreed := newJudge(Options{})
	require.NoError(t, agreed.partition(context.Background(), load(lost)), "as they are they agree")
	require.Len(t, agreed.res.Slices, 1)

	blind := load(lost)
	blind.returned = column[int32]{} // the exact check goes blind: it sees nothing proved
	err := newJudge(Options{}).partition(context.Background(), blind)
	var d *DisagreementError
	require.ErrorAs(t, err, &d)
	assert.EqualError(t, err, "checker: on orders-0 level committed log holds by the exact check and is broken by porcupine; "+
		"keep the history and report it: this is a bug of the checker")

	// Where porcupine is not asked the kernel notices.
	blind = load(lost)
	blind.returned = column[int32]{}
	err = newJudge(Options{Porcupine: Limits{Operations: -1}}).partition(context.Background(), blind)
	require.ErrorAs(t, err, &d)
	assert.Equal(t, "the kernel that replays its order", d.By)
	assert.True(t, d.Exact)
	assert.Contains(t, d.Detail, replay.ErrRefused.Error())

	// A rejection of what is good has no slice that porcupine rejects too.
	lost[1].hw, lost[1].read, lost[1].offsets = 1, []int{0}, []int64{0}
	good := load(lost)
	good.settle()
	err = newJudge(Options{}).cutSlices(context.Background(), good, []clue{{anomaly: StaleRead, ops: []int32{0, 1}, breaks: Linearizable, lost: none, prover: none}})
	require.ErrorAs(t, err, &d)
	assert.False(t, d.Exact)
	assert.True(t, d.Porcupine)

	dir := filepath.Join(t.TempDir(), "report")
	files, err := d.WriteFiles(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "disagreement.json"), filepath.Join(dir, "orders-0.jsonl")}, files)
	r, err := history.Open(files[1])
	require.NoError(t, err)
	defer r.Close()
	res, err := Check(context.Background(), r, Options{})
	require.NoError(t, err)
	assert.Equal(t, Linearizable, res.Level(), "the partition is judged again from the file")
	assert.Equal(t, 2, res.Partitions[0].Operations)
}

func TestSlotsAreAMapOfOffsets(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	var s slots
	want := map[int64]int32{}
	for i := range int32(3000) {
		offset := r.Int64N(4000)
		if i%100 == 0 {
			offset = r.Int64N(1 << 40)
		}
		if _, ok := want[offset]; !ok {
			s.set(offset, i)
			want[offset] = i
		}
		probe := r.Int64N(4000)
		v, ok := want[probe]
		if !ok {
			v = none
		}
		require.Equal(t, v, s.get(probe))
	}
	for _, end := range []int64{0, 1, 511, 512, 513, 2000, 4000} {
		var holes []int64
		below := int64(0)
		for o := range end {
			if _, ok := want[o]; ok {
				below++
			} else {
				holes = append(holes, o)
			}
		}
		assert.Equal(t, below, s.below(end))
		assert.Equal(t, holes, slices.Collect(s.holes(end)))
	}
	for range s.holes(1 << 50) {
		break // a far end costs nothing until its holes are asked for
	}
}

func TestEveryEntryOfAModelsLogIsFound(t *testing.T) {
	var logs []*entry
	var log *entry
	for i := range int32(300) {
		log = log.push(i * 3)
		logs = append(logs, log)
	}
	for n, log := range logs {
		require.Equal(t, int64(n)+1, log.len())
		for o := range int64(n) + 1 {
			require.Equal(t, int32(o)*3, log.at(o))
		}
	}
	m := model(context.Background())
	again := (*entry)(nil).push(0).push(3)
	assert.True(t, m.Equal(again, logs[1]), "equal logs are equal however they came about")
	assert.Equal(t, m.Hash(again), m.Hash(logs[1]))
	assert.False(t, m.Equal((*entry)(nil).push(3).push(0), logs[1]))
	assert.False(t, m.Equal((*entry)(nil), logs[0]))
	assert.True(t, m.Equal((*entry)(nil), (*entry)(nil)))
}

func TestLevelsReadBackWhatTheyWrite(t *testing.T) {
	for l := Broken; l <= Linearizable; l++ {
		b, err := l.MarshalText()
		require.NoError(t, err)
		var back Level
		require.NoError(t, back.UnmarshalText(b))
		assert.Equal(t, l, back)
	}
	l, err := ParseLevel("monotonic-end")
	require.NoError(t, err)
	assert.Equal(t, MonotonicEnd, l)
	require.ErrorIs(t, l.UnmarshalText([]byte("serial")), ErrLevel)
	_, err = ParseLevel("none")
	require.ErrorIs(t, err, ErrLevel, "nobody can ask for nothing")
	assert.Equal(t, "level(9)", Level(9).String())
}

func TestProcessesAreFoundByAnyNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	var ps processes
	want := map[int64]int32{}
	for i := range int32(20_000) {
		id := r.Int64N(3000)
		if i < 2000 {
			id = r.Int64N(int64(i)/2+300) + 200
		}
		if i%50 == 0 {
			id = int64(r.Uint64())
		}
		p := ps.get(id)
		require.Equal(t, want[id], p.op, "process %d", id)
		p.op, want[id] = i, i
	}
	assert.NotEmpty(t, ps.far)
	assert.Len(t, ps.near, 12)
}

func TestAColumnKeepsItsElementsWhereTheyAre(t *testing.T) {
	var c column[int]
	first := c.push()
	for i := range 3 * pieceSize {
		*c.push() = i
	}
	*first = 7
	assert.Equal(t, int32(3*pieceSize+1), c.len())
	assert.Equal(t, 7, *c.at(0))
	for i, v := range c.all() {
		if i > 0 {
			require.Equal(t, int(i)-1, v)
		}
	}
}

func TestTextsComeBackAsTheyWere(t *testing.T) {
	p := newPartition("orders-0", &labels{})
	texts := []string{"", "a", strings.Repeat("long", textPiece/4), "b"}
	for i := range 100_000 {
		texts = append(texts, strings.Repeat("x", i%40)+strconv.Itoa(i))
	}
	for i, text := range texts {
		v, at := p.find(text)
		require.Equal(t, int32(none), v)
		require.Equal(t, int32(i), p.addValue(text, none, at))
	}
	for i, text := range texts {
		require.Equal(t, text, p.text(int32(i)))
		v, _ := p.find(text)
		require.Equal(t, int32(i), v)
	}
	assert.Greater(t, len(p.arena.pieces), 2)
	assert.Greater(t, p.ids.depth, uint(8))
}

// What is wide is as exact as what is not: numbers of processes and brokers, high watermarks, and the history's own numbers of events.
func TestWhatDoesNotFitIntoAnOperationIsKeptBesideIt(t *testing.T) {
	const far = int64(1) << 50
	seqs := []int64{7, 8, far, far + 1, far + 1000, far + 1001}
	events := []history.Event{
		{Kind: history.Invoke, Process: -5, Op: history.Op{Type: history.Produce, Values: []string{"a"}, Acks: -1}},
		{Kind: history.OK, Process: -5, Op: history.Op{Type: history.Produce, Offset: far}},
		{Kind: history.Invoke, Process: far, Op: history.Op{Type: history.Fetch, From: 3}},
		{Kind: history.OK, Process: far, Op: history.Op{Type: history.Fetch, HighWatermark: far + 1, Node: 70_000}},
		{Kind: history.Invoke, Process: 1, Op: history.Op{Type: history.End}},
		{Kind: history.OK, Process: 1, Op: history.Op{Type: history.End, Offset: far + 1, Node: history.Unknown}},
	}
	for i := range events {
		events[i].Seq, events[i].Op.Partition = seqs[i], "orders-0"
	}
	in, err := take(context.Background(), Events(history.Header{}, events), nil)
	require.NoError(t, err)
	p := in.partition("orders-0")
	var processes, hws, calls, rets []int64
	var nodes []int32
	for i := range p.ops.len() {
		o := p.ops.at(i)
		processes, nodes = append(processes, p.processOf(o)), append(nodes, p.nodeOf(o))
		calls, rets = append(calls, p.callSeq(o)), append(rets, p.retSeq(o))
		hws = append(hws, p.hw(o))
	}
	assert.Equal(t, []int64{-5, far, 1}, processes)
	assert.Equal(t, []int32{70_000, history.Unknown}, nodes[1:])
	assert.Equal(t, far+1, hws[1])
	assert.Equal(t, []int64{7, far, far + 1000}, calls)
	assert.Equal(t, []int64{8, far + 1, far + 1001}, rets)

	events[5].Op.Offset = -1
	_, err = take(context.Background(), Events(history.Header{}, events), nil)
	assert.ErrorContains(t, err, fmt.Sprintf("event %d", far+1001), "errors name the history's own number")

	var l nodeLabels
	for n := range int32(mostNodes) {
		_, fits := l.narrow(1<<20 + n)
		require.True(t, fits)
	}
	_, fits := l.narrow(1 << 30)
	assert.False(t, fits)
}

func TestAnOperationIsSmall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(op{}), uintptr(48))
	assert.LessOrEqual(t, unsafe.Sizeof(value{}), uintptr(32))
}

package checker

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

var (
	oracleRuns = flag.Int("oracle.runs", 200_000, "random histories that are compared with porcupine")
	oracleSeed = flag.Uint64("oracle.seed", 1, "seed of the random histories")
)

// action is one operation of a random history, as simple as it can be, so that what feeds the oracle shares nothing with what feeds the
// exact check.
type action struct {
	kind      history.OpType
	values    []int // produced
	at, hw    int64
	offsets   []int64 // of the records that were read
	read      []int
	call, ret int64
	effect    int64
	out       outcome
	final     bool
}

func (a action) String() string {
	s := fmt.Sprintf("[%d,%d] %v", a.call, a.ret, a.kind)
	if a.final {
		s = "final " + s
	}
	switch a.kind {
	case history.Produce:
		return fmt.Sprintf("%s %v -> %d (%v)", s, a.values, a.at, []string{"open", "ok", "fail", "unknown"}[a.out])
	case history.End:
		return fmt.Sprintf("%s -> %d", s, a.at)
	}
	return fmt.Sprintf("%s from %d -> %v at %v, hw %d", s, a.at, a.read, a.offsets, a.hw)
}

// show prints a history for people, and as a test can hold it.
func show(as []action) string {
	var b strings.Builder
	literal := "[]action{"
	for _, a := range as {
		fmt.Fprintln(&b, a)
		literal += strings.ReplaceAll(fmt.Sprintf("%#v, ", a), "checker.", "")
	}
	return b.String() + literal + "}"
}

// generate makes the history of a log that keeps its word: each operation takes effect at one moment within its interval. Times are so
// few that ties are common. Stale answers, unless strict, unknown and failed produces, batches and final reads occur.
func generate(r *rand.Rand) []action {
	const span = 12
	n := 2 + r.IntN(7)
	strict := r.IntN(2) == 0
	batches := r.IntN(3) == 0
	value := 0
	as := make([]action, n)
	for i := range as {
		a := &as[i]
		a.call = r.Int64N(span)
		a.ret = a.call + r.Int64N(5)
		a.effect = a.call + r.Int64N(a.ret-a.call+1)
		a.kind = []history.OpType{history.Produce, history.Produce, history.Fetch, history.End}[r.IntN(4)]
		a.out = happened
		if a.kind == history.Produce {
			for range 1 + r.IntN(1+2*b2i(batches)) {
				a.values = append(a.values, value)
				value++
			}
			switch r.IntN(8) {
			case 0, 1:
				a.out, a.ret, a.effect = unknown, never, a.call+r.Int64N(span)
				if r.IntN(3) == 0 {
					a.effect = never
				}
			case 2:
				a.out, a.effect = failed, never
			}
		}
	}
	if r.IntN(3) > 0 {
		for range 1 + r.IntN(2) {
			as = append(as, action{kind: history.Fetch, call: 2*span + 5, ret: 2*span + 6, effect: 2*span + 5, out: happened, final: true})
		}
	}
	order := make([]int, len(as))
	for i := range order {
		order[i] = i
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(i, j int) int { return int(min(as[i].effect, 1000) - min(as[j].effect, 1000)) })
	var log []int
	for _, i := range order {
		a := &as[i]
		if a.effect == never {
			continue
		}
		end := int64(len(log))
		if !strict && !a.final && r.IntN(3) == 0 {
			end = r.Int64N(end + 1)
		}
		switch a.kind {
		case history.Produce:
			a.at = end
			if a.out == happened && end != int64(len(log)) {
				a.at = int64(len(log))
			}
			log = append(log, a.values...)
		case history.End:
			a.at = end
		case history.Fetch:
			a.hw = end
			if !a.final || r.IntN(3) == 0 {
				a.at = r.Int64N(end + 2)
			}
			for o := a.at; o < end; o++ {
				if o > a.at && r.IntN(4) == 0 {
					break
				}
				a.offsets, a.read = append(a.offsets, o), append(a.read, log[o])
			}
		}
	}
	return as
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mutate breaks a history in one of the ways in which logs, clients and recorders break. The result may still be good.
func mutate(r *rand.Rand, as []action) []action {
	i := r.IntN(len(as))
	a := &as[i]
	other := &as[r.IntN(len(as))]
	switch r.IntN(12) {
	case 0: // swap values
		if len(a.read) > 0 && len(other.read) > 0 {
			a.read[0], other.read[len(other.read)-1] = other.read[len(other.read)-1], a.read[0]
		}
	case 1: // drop an operation
		return slices.Delete(as, i, i+1)
	case 2: // a stale or future answer
		a.hw = max(0, a.hw+r.Int64N(5)-2)
	case 3: // a shifted offset
		a.at = max(0, a.at+r.Int64N(3)-1)
	case 4: // shifted times
		by := r.Int64N(9) - 4
		a.call += by
		if a.ret != never {
			a.ret += by
		}
	case 5: // a lost acknowledgement
		if a.kind == history.Produce && a.out == happened {
			a.out, a.ret = unknown, never
		}
	case 6: // swapped acknowledgements
		if a.kind == history.Produce && other.kind == history.Produce {
			a.at, other.at = other.at, a.at
		}
	case 7: // a claimed failure
		if a.kind == history.Produce && a.out != failed {
			a.out, a.ret = failed, a.call+1
		}
	case 8: // a shrunk interval
		if a.ret != never {
			a.call += r.Int64N(a.ret - a.call + 1)
			a.ret = a.call + r.Int64N(a.ret-a.call+1)
		}
	case 9: // a truncated answer
		if len(a.read) > 0 {
			a.read, a.offsets = a.read[:len(a.read)-1], a.offsets[:len(a.offsets)-1]
		}
	case 10: // a lost tail
		if a.final && a.hw > 0 {
			a.hw--
			if n := len(a.read); n > 0 && a.offsets[n-1] >= a.hw {
				a.read, a.offsets = a.read[:n-1], a.offsets[:n-1]
			}
		}
	case 11: // a record at another place
		if len(a.offsets) > 0 {
			a.offsets[r.IntN(len(a.offsets))] += r.Int64N(3) - 1
			a.offsets = slices.DeleteFunc(a.offsets, func(o int64) bool { return o < 0 })
			a.read = a.read[:len(a.offsets)]
		}
	}
	return as
}

// oracle lets porcupine judge a history at a level, by a model of its own that holds the log as a plain slice.
func oracle(as []action, level Level) bool {
	type log = []int
	m := porcupine.Model{
		Init: func() any { return log(nil) },
		Step: func(state, input, _ any) (bool, any) {
			l, a := state.(log), input.(*action)
			n := int64(len(l))
			exact := a.final || level == Linearizable || level == MonotonicEnd && a.kind == history.End
			switch a.kind {
			case history.Produce:
				if a.out == happened && a.at != n {
					return false, l
				}
				return true, append(l[:n:n], a.values...)
			case history.End:
				return a.at == n || a.at < n && !exact, l
			}
			if a.hw > n || exact && a.hw != n || len(a.read) == 0 && a.at < a.hw {
				return false, l
			}
			for i, v := range a.read {
				if o := a.offsets[i]; o != a.at+int64(i) || o >= a.hw || l[o] != v {
					return false, l
				}
			}
			return true, l
		},
		Equal: func(a, b any) bool { return slices.Equal(a.(log), b.(log)) },
		Hash: func(s any) uint64 {
			h := uint64(14695981039346656037)
			for _, v := range s.(log) {
				h = (h ^ uint64(v)) * 1099511628211
			}
			return h
		},
	}
	var ops []porcupine.Operation
	for i := range as {
		if a := &as[i]; a.out != failed {
			ops = append(ops, porcupine.Operation{Input: a, Call: a.call, Return: min(a.ret, 1_000_000)})
		}
	}
	return porcupine.CheckOperations(m, ops)
}

// early keeps the numbers of events above zero, where mutations have moved them before it.
const early = 1000

// load gives a history to the exact check, with its ties.
func load(as []action) *partition {
	type stamp struct {
		at  int64
		ret bool
		i   int
	}
	var stamps []stamp
	for i, a := range as {
		stamps = append(stamps, stamp{a.call, false, i})
		if a.ret != never || a.out == unknown {
			stamps = append(stamps, stamp{a.ret, true, i})
		}
	}
	slices.SortStableFunc(stamps, func(a, b stamp) int {
		switch {
		case a.at != b.at:
			return int(min(a.at, 1_000_000) - min(b.at, 1_000_000))
		case a.ret != b.ret && b.ret:
			return -1
		case a.ret != b.ret:
			return 1
		}
		return 0
	})
	p := newPartition("orders-0", &labels{})
	ids := make([]int32, len(as))
	for _, s := range stamps {
		a := &as[s.i]
		e := &history.Event{Seq: s.at + early, Process: int64(s.i), Op: history.Op{Type: a.kind, Partition: p.name, Acks: -1, Final: a.final}}
		if !s.ret {
			for _, v := range a.values {
				e.Op.Values = append(e.Op.Values, fmt.Sprint(v))
			}
			e.Op.From = a.at
			ids[s.i], _, _ = p.invoke(e)
			continue
		}
		e.Kind = map[outcome]history.Kind{happened: history.OK, failed: history.Fail, unknown: history.Info}[a.out]
		e.Op.Offset, e.Op.HighWatermark = a.at, a.hw
		for i, v := range a.read {
			e.Op.Records = append(e.Op.Records, history.Record{Offset: a.offsets[i], Epoch: history.Unknown, Value: fmt.Sprint(v)})
		}
		p.ret(ids[s.i], e, unknownNode)
	}
	p.settle()
	return p
}

// tally counts how often porcupine accepted and rejected.
type tally struct {
	accepted, rejected [Linearizable + 1]atomic.Int64
}

// TestTheExactCheckAgreesWithPorcupine is the theorem of the package comment, tried: at each level the exact check accepts exactly what
// porcupine accepts, it has a name for everything that it rejects, the kernel can replay what holds and nothing else, and slices show
// what does not hold and nothing else.
func TestTheExactCheckAgreesWithPorcupine(t *testing.T) {
	const shards = 8
	if testing.Short() {
		*oracleRuns = min(*oracleRuns, 20_000)
	}
	var n tally
	t.Run("shards", func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(*oracleSeed, shard))
				for run := range *oracleRuns / shards {
					as := generate(r)
					for range r.IntN(4) {
						if len(as) > 0 {
							as = mutate(r, as)
						}
					}
					if why := n.compare(r, as, run%10 == 0); why != "" {
						t.Fatalf("run %d: %s\n%s", run, why, show(as))
					}
				}
			})
		}
	})
	for _, l := range []Level{CommittedLog, MonotonicEnd, Linearizable} {
		accepted, rejected := n.accepted[l].Load(), n.rejected[l].Load()
		t.Logf("%v: %d accepted, %d rejected", l, accepted, rejected)
		require.Greater(t, accepted, int64(*oracleRuns/30))
		require.Greater(t, rejected, int64(*oracleRuns/30))
	}
}

// compare judges a history by all and returns in what they differ. As each level implies those below it, porcupine is asked only of the
// strongest that the exact check finds to hold and of the one above; thorough asks it of all, and also judges what it is fed in a check and
// the slices.
func (n *tally) compare(r *rand.Rand, as []action, thorough bool) string {
	p := load(as)
	level, res, s := p.decide()
	if res.limit {
		return "the search for produces that fill holes was given up"
	}
	clues := p.clues(res, s)
	packed := slices.ContainsFunc(as, func(a action) bool { return a.out == unknown && len(a.values) > 1 })
	if disagree := slices.ContainsFunc(clues, func(c clue) bool { return c.breaks <= Agreement }); disagree != (level < Agreement) {
		return fmt.Sprintf("the exact check holds %v, the anomalies are %+v", level, clues)
	}
	for _, l := range []Level{CommittedLog, MonotonicEnd, Linearizable} {
		if res.short && l > CommittedLog && packed {
			// Batches that fill holes are placed for level committed log only.
			continue
		}
		holds := level >= l
		if named := slices.ContainsFunc(clues, func(c clue) bool { return c.breaks <= l }); named == holds {
			return fmt.Sprintf("the exact check holds %v, the anomalies are %+v", level, clues)
		}
		if err := p.certify(l); (err == nil) != holds {
			return fmt.Sprintf("the exact check holds %v, the kernel says at level %v: %v", level, l, err)
		}
		if !thorough && l != level && l != max(level+1, CommittedLog) {
			continue
		}
		if want := oracle(as, l); want != holds {
			return fmt.Sprintf("porcupine says %t at level %v, the exact check holds %v (%+v, %+v)", want, l, level, res, s)
		} else if want {
			n.accepted[l].Add(1)
		} else {
			n.rejected[l].Add(1)
		}
		if !thorough {
			continue
		}
		if why := cutAndFeed(r, p, l, holds, res, clues, packed); why != "" {
			return why
		}
	}
	return ""
}

// cutAndFeed compares what slices, and porcupine as a check feeds it, say.
func cutAndFeed(r *rand.Rand, p *partition, l Level, holds bool, res resolved, clues []clue, packed bool) string {
	if holds {
		some := slices.DeleteFunc(everything(p), func(int32) bool { return r.IntN(3) == 0 })
		if p.cut(some, l, nil).judge() == Illegal {
			return fmt.Sprintf("level %v holds, and the slice %v is said to break it", l, some)
		}
		closed := slices.Collect(p.slots.unfilled(p.longest(), p.assigned))
		if p.cut(everything(p), l, closed).judge() == Illegal {
			return fmt.Sprintf("level %v holds, and the slice of everything is said to break it", l)
		}
	}
	for _, c := range clues {
		if holds || c.breaks > l || c.anomaly == Hole && packed {
			continue
		}
		if s, cut := p.slice(context.Background(), &c, l); cut != Illegal || len(s.Operations) > maxSlice {
			return fmt.Sprintf("no slice shows %+v at level %v", c, l)
		}
	}
	if fed := p.ask(context.Background(), l, res.short, Limits{}.withDefaults()); fed.outcome == NotRun || (fed.outcome == Ok) != holds {
		return fmt.Sprintf("at level %v the exact check says %t, porcupine as it is fed says %+v", l, holds, fed)
	}
	return ""
}

func everything(p *partition) []int32 {
	ids := make([]int32, int(p.ops.len()))
	for i := range ids {
		ids[i] = int32(i)
	}
	return ids
}

package virtual

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis"
	"tidemark/node/rules"
)

var judgeRuns = flag.Int("judge.runs", 100_000, "simulated runs in which the checker is compared with the truth")

// bench is a protocol, good or bad, under which the checker is judged.
type bench struct {
	name   string
	trial  Trial
	within bool // no fault of it is more than the protocol promises to survive: nothing may be broken
}

// benches are the protocols as they were, with restarts inside the session too, and the newest with each rule taken away.
func benches(t *testing.T) []bench {
	parse := func(p rules.Protocol, without, set []string) rules.Set {
		s, err := rules.Parse(p, without, set)
		require.NoError(t, err)
		return s
	}
	sane := []nemesis.Fault{nemesis.Kill, nemesis.Pause, nemesis.Partition}
	var all []bench
	for _, p := range rules.Protocols() {
		all = append(all, bench{string(p), Trial{Rules: parse(p, nil, nil), Faults: nemesis.Basic(), BatchShare: 0.2}, false},
			bench{string(p) + " without power failures", Trial{Rules: parse(p, nil, nil), Faults: sane, BatchShare: 0.2}, p.Index() >= rules.KIP320.Index()})
		if p != rules.KIP966 {
			zk := parse(p, nil, []string{"registration=zk"})
			all = append(all, bench{string(p) + " zk", Trial{Rules: zk, Faults: nemesis.Basic(), BatchShare: 0.1}, false},
				bench{string(p) + " zk, acks=1", Trial{Rules: zk, Faults: nemesis.Basic(), Acks: "1"}, false},
				bench{string(p) + " zk, min.insync.replicas=1", Trial{Rules: zk, Faults: nemesis.Basic(), MinISR: 1}, false},
				bench{string(p) + " zk, two brokers", Trial{Rules: zk, Faults: nemesis.Basic(), Brokers: 2, MinISR: 1}, false})
		}
	}
	for _, r := range rules.Rules() {
		without := []string{r.Name}
		if s, err := rules.Parse(rules.KIP966, without, nil); err == nil {
			all = append(all, bench{"kip966 without " + r.Name, Trial{Rules: s, Faults: nemesis.Basic(), MinISR: 1}, false})
		}
	}
	return all
}

// score counts what the checker and the truth said of the same runs.
type score struct {
	runs, broken, hidden, unread, unrested int
	wrong                                  []string // misses and false alarms, told
	operations, events                     int64
}

func (s *score) add(o score) {
	s.runs += o.runs
	s.broken += o.broken
	s.hidden += o.hidden
	s.unread += o.unread
	s.unrested += o.unrested
	s.operations += o.operations
	s.events += o.events
	s.wrong = append(s.wrong, o.wrong...)
}

// quick is the checker without those who confirm it.
var quick = checker.Options{Porcupine: checker.Limits{Operations: -1}, Uncertified: true}

// compare judges one run by its history, and that by the truth.
func (s *score) compare(ctx context.Context, b bench, r *Tried, o checker.Options) error {
	res, err := r.Check(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: seed %d: %w\n%s", b.name, b.trial.Seed, err, text(r))
	}
	s.runs++
	s.events += r.Counts.Events
	if !r.Rested {
		s.unrested++
	}
	for i, f := range r.Facts {
		if !f.Read {
			s.unread++
			continue
		}
		p := res.Partitions[i]
		s.operations += int64(p.Operations)
		s.hidden += f.Hidden
		holds := p.Level >= checker.CommittedLog
		if f.Broken != "" {
			s.broken++
		}
		switch {
		case holds && f.Broken != "":
			s.wrong = append(s.wrong, fmt.Sprintf("MISS: %s, seed %d: %s; the checker finds nothing\n%s", b.name, b.trial.Seed, f.Broken, text(r)))
		case !holds && f.Broken == "":
			s.wrong = append(s.wrong, fmt.Sprintf("FALSE ALARM: %s, seed %d: %s\n%s", b.name, b.trial.Seed, res.Findings[0].Sentence, text(r)))
		case b.within && f.Broken != "":
			s.wrong = append(s.wrong, fmt.Sprintf("BROKEN: %s, seed %d: %s\n%s", b.name, b.trial.Seed, f.Broken, text(r)))
		}
	}
	return nil
}

// text is a run's history as a test can hold it.
func text(r *Tried) string {
	var b bytes.Buffer
	w, err := history.NewWriter(&b, r.Header, nil)
	for i := range r.Events {
		if err == nil {
			err = w.Append(&r.Events[i])
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// certified is how often the whole checker judges, porcupine and the certificates included.
const certified = 50

// The checker sees what clients saw. The simulation knows what was in the logs when they were told so, and what is there in the end.
// Both must say the same of the committed log, in every run.
func TestTheCheckerFindsWhatTheSimulationKnowsAndNothingElse(t *testing.T) {
	runs := *judgeRuns
	switch {
	case raced:
		runs /= 100 // there are no goroutines to race in here
	case testing.Short():
		runs /= 10
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // many small runs: the heap stays small
	all := benches(t)
	workers := max(1, min(runtime.GOMAXPROCS(0), 4))
	scores := make([][]score, workers)
	var wg sync.WaitGroup
	for w := range workers {
		scores[w] = make([]score, len(all))
		wg.Go(func() {
			for n := w; n < runs; n += workers {
				b := all[n%len(all)]
				b.trial.Seed = uint64(n)
				options := quick
				if n/len(all)%certified == 0 {
					options = checker.Options{}
				}
				r, err := b.trial.Run(t.Context())
				if err == nil {
					err = scores[w][n%len(all)].compare(t.Context(), b, r, options)
				}
				if !assert.NoError(t, err, "%s, seed %d", b.name, n) {
					return
				}
			}
		})
	}
	wg.Wait()
	var total score
	for i, b := range all {
		var s score
		for w := range workers {
			s.add(scores[w][i])
		}
		t.Logf("%-40s %6d runs, %4d broken, %5d changes that nobody could see, %d not at rest", b.name, s.runs, s.broken, s.hidden, s.unrested)
		total.add(s)
	}
	t.Logf("%d runs of %.1f operations and %.0f events: %d broken, %d not read", total.runs, float64(total.operations)/float64(total.runs),
		float64(total.events)/float64(total.runs), total.broken, total.unread)
	for i, wrong := range total.wrong {
		if i < 3 {
			t.Error(wrong)
		}
	}
	require.Empty(t, len(total.wrong), "misses, false alarms and broken promises")
	assert.Equal(t, runs, total.runs)
	assert.Greater(t, total.broken, runs/200, "too few runs broke anything to judge by")
	assert.Less(t, total.unread, runs/1000+1, "the end of too many runs is not known")
}

// A judge that cannot see makes the comparison fail: with histories that leave something out, and with a truth that is another.
func TestABlindCheckerIsSeenToMiss(t *testing.T) {
	set, err := rules.Parse(rules.HW, nil, []string{"registration=zk"})
	require.NoError(t, err)
	b := bench{name: "hw zk", trial: Trial{Rules: set, Faults: nemesis.Basic()}}
	found := 0
	for seed := uint64(0); found < 5 && seed < 2000; seed++ {
		b.trial.Seed = seed
		r, err := b.trial.Run(t.Context())
		require.NoError(t, err)
		if r.Facts[0].Broken == "" {
			continue
		}
		found++
		var sharp, blind, wolf score
		require.NoError(t, sharp.compare(t.Context(), b, r, quick))
		assert.Empty(t, sharp.wrong)

		unblind := r.Events
		r.Events = nil // nothing was asked, nothing is wrong
		for _, e := range unblind {
			if e.Op.Final {
				r.Events = append(r.Events, e)
			}
		}
		r.Events = r.Events[:2]
		r.Events[1].Op.HighWatermark, r.Events[1].Op.Records = 0, nil
		require.NoError(t, blind.compare(t.Context(), b, r, quick))
		require.Len(t, blind.wrong, 1)
		assert.Contains(t, blind.wrong[0], "MISS: hw zk, seed "+fmt.Sprint(seed))
		assert.Contains(t, blind.wrong[0], `"final":true`, "the history is there to be held by a test")

		r.Events, r.Facts[0].Broken = unblind, ""
		require.NoError(t, wolf.compare(t.Context(), b, r, quick))
		require.Len(t, wolf.wrong, 1)
		assert.Contains(t, wolf.wrong[0], "FALSE ALARM: hw zk, seed "+fmt.Sprint(seed))
	}
	assert.Equal(t, 5, found)
}

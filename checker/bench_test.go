package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/checker/history"
)

// workload makes the history of a good run on one partition: clients that produce, fetch the tail and ask for the end, one in a
// hundred produces of unknown outcome (and seen), and one final read. An operation takes effect at a random moment between its call and
// its return, while the others go on.
func workload(operations, clients int, lostTail bool) []history.Event {
	var events []history.Event
	produceHistory(operations, clients, 1, lostTail, func(e *history.Event) { events = append(events, *e) })
	return events
}

// produceHistory is workload without keeping what it makes: unknown in a hundred produces have no known outcome, and the final log is read in
// pieces of a thousand.
func produceHistory(operations, clients, unknown int, lostTail bool, to func(*history.Event)) {
	const name = "orders-0"
	r := rand.New(rand.NewPCG(uint64(operations), uint64(clients)))
	type client struct {
		process int64
		next    func(*client)
		op      history.Op
		unknown bool
	}
	var log []history.Record
	process, done, events := int64(0), 0, int64(0)
	add := func(k history.Kind, c *client, op history.Op) {
		op.Partition = name
		events++
		to(&history.Event{Seq: events, Time: events * 1000, Kind: k, Process: c.process, Op: op})
	}
	var call, effect, answer func(*client)
	call = func(c *client) {
		c.next, c.op, c.unknown = effect, history.Op{Type: history.Produce, Acks: -1}, false
		switch r.IntN(10) {
		case 0:
			c.op = history.Op{Type: history.End}
		case 1, 2, 3, 4:
			c.op = history.Op{Type: history.Fetch, From: max(0, int64(len(log))-4)}
		default:
			c.op.Values = []string{"v" + strconv.FormatInt(events, 10)}
			c.unknown = r.IntN(100) < unknown
		}
		add(history.Invoke, c, c.op)
	}
	effect = func(c *client) {
		c.next = answer
		end := int64(len(log))
		switch c.op.Type {
		case history.Produce:
			log = append(log, history.Record{Offset: end, Value: c.op.Values[0]})
			c.op.Offset = end
		case history.End:
			c.op.Offset = end
		case history.Fetch:
			c.op.HighWatermark, c.op.Records = end, log[c.op.From:end:end]
		}
	}
	answer = func(c *client) {
		c.next = call
		done++
		if c.unknown {
			add(history.Info, c, c.op)
			c.process, process = process, process+1
			return
		}
		add(history.OK, c, c.op)
	}
	cs := make([]client, clients)
	for i := range cs {
		cs[i].process, process = process, process+1
		cs[i].next = call
	}
	for done < operations {
		c := &cs[r.IntN(clients)]
		c.next(c)
	}
	last := &client{process: process}
	if lostTail {
		log = log[:len(log)-1]
	}
	const piece = 1000
	for from := 0; from == 0 || from < len(log); from += piece {
		add(history.Invoke, last, history.Op{Type: history.Fetch, Final: true, From: int64(from)})
		add(history.OK, last, history.Op{Type: history.Fetch, Final: true, From: int64(from), HighWatermark: int64(len(log)),
			Records: log[from:min(from+piece, len(log))]})
	}
}

// peak runs f and returns how much the heap, garbage included, grew by while it ran. It looks every 5 ms and at the end.
func peak(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var m uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for running := true; running; {
			select {
			case <-stop:
				running = false
			case <-tick.C:
			}
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			m = max(m, now.HeapAlloc)
		}
		most <- m
	}()
	f()
	close(stop)
	return max(<-most, before.HeapAlloc) - before.HeapAlloc
}

// BenchmarkCheck is a whole check of a history in memory by the exact check alone.
func BenchmarkCheck(b *testing.B) {
	for _, operations := range []int{1e3, 1e4, 1e5, 1e6} {
		for _, clients := range []int{5, 100} {
			b.Run(fmt.Sprintf("operations=%d/clients=%d", operations, clients), func(b *testing.B) {
				events := workload(operations, clients, false)
				judge := func() {
					res, err := Check(context.Background(), Events(history.Header{}, events), Options{Porcupine: Limits{Operations: -1}})
					if err != nil || res.Verdict != Consistent {
						b.Fatal(res.Summary(), res.Details, err)
					}
				}
				grown := peak(judge)
				for b.Loop() {
					judge()
				}
				b.ReportMetric(float64(operations*b.N)/b.Elapsed().Seconds(), "operations/s")
				b.ReportMetric(float64(grown)/float64(operations), "peak-B/operation")
			})
		}
	}
}

// processor is the time that this process has spent on all processors.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFile is everything from a file on disk to the verdict, certificates and all. Beside the clock's time stands that of the processors, which
// other work on the machine changes less.
func BenchmarkFile(b *testing.B) {
	for _, operations := range []int{1e5, 1e6, 1e7} {
		for _, clients := range []int{5, 100} {
			for _, unknown := range []int{0, 5} {
				b.Run(fmt.Sprintf("operations=%d/clients=%d/unknown=%d%%", operations, clients, unknown), func(b *testing.B) {
					path := filepath.Join(b.TempDir(), "history.jsonl")
					w, err := history.Create(path, history.Header{}, nil)
					if err != nil {
						b.Fatal(err)
					}
					produceHistory(operations, clients, unknown, false, func(e *history.Event) {
						if err := w.Append(e); err != nil {
							b.Fatal(err)
						}
					})
					if err := w.Close(); err != nil {
						b.Fatal(err)
					}
					judge := func() {
						r, err := history.Open(path)
						if err != nil {
							b.Fatal(err)
						}
						defer r.Close()
						res, err := Check(context.Background(), r, Options{Porcupine: Limits{Operations: -1}})
						if err != nil || res.Verdict != Consistent || !res.Partitions[0].Replayed {
							b.Fatal(res.Summary(), res.Details, err)
						}
					}
					grown := peak(judge)
					began := processor(b)
					b.ResetTimer()
					for range b.N {
						judge()
					}
					spent := processor(b) - began
					b.ReportMetric(float64(operations*b.N)/b.Elapsed().Seconds(), "operations/s")
					b.ReportMetric(float64(operations*b.N)/spent.Seconds(), "operations/cpu-s")
					b.ReportMetric(float64(grown)/float64(operations), "peak-B/operation")
				})
			}
		}
	}
}

// BenchmarkJudges sets the exact check and porcupine side by side on what both have already taken in: only the decision is measured.
// What porcupine cannot do in 20 s is left out.
func BenchmarkJudges(b *testing.B) {
	for _, c := range []struct {
		operations, clients int
		level               Level
		lost, porcupine     bool
	}{
		{1e3, 5, CommittedLog, false, true},
		{1e4, 5, CommittedLog, false, true},
		{1e4, 5, CommittedLog, true, true},
		{1e4, 5, Linearizable, true, true},
		{1e4, 20, CommittedLog, false, true},
		{1e4, 20, CommittedLog, true, true},
		{1e4, 20, Linearizable, false, true},
		{1e5, 5, CommittedLog, false, true},
		{1e5, 100, CommittedLog, false, false},
		{1e6, 5, CommittedLog, false, false},
		{1e6, 100, CommittedLog, false, false},
	} {
		name := fmt.Sprintf("operations=%d/clients=%d/level=%s/lost-tail=%t", c.operations, c.clients, strings.ReplaceAll(c.level.String(), " ", "-"),
			c.lost)
		taken := func(b *testing.B) *partition {
			in, err := take(context.Background(), Events(history.Header{}, workload(c.operations, c.clients, c.lost)), nil)
			if err != nil {
				b.Fatal(err)
			}
			p := in.partition("orders-0")
			p.settle()
			return p
		}
		b.Run(name+"/judge=exact", func(b *testing.B) {
			p := taken(b)
			for b.Loop() {
				if level, _, _ := p.decide(); (level < c.level) != c.lost {
					b.Fatal(level)
				}
			}
		})
		if !c.porcupine {
			continue
		}
		b.Run(name+"/judge=porcupine", func(b *testing.B) {
			p := taken(b)
			p.decide()
			judge := func() {
				got := p.ask(context.Background(), c.level, false, Limits{Operations: 1e7, Clients: 1000, Timeout: time.Minute})
				if (got.outcome == Illegal) != c.lost || got.outcome == NotRun {
					b.Fatal(got)
				}
			}
			grown := peak(judge)
			for b.Loop() {
				judge()
			}
			b.ReportMetric(float64(grown)/1e6, "peak-MB")
		})
	}
}

package workload

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidemark/checker/history"
)

// Stats says how a workload goes, for those who watch it: [Config.Stats]. The zero value is ready. It is safe for concurrent use. What
// is judged is the history alone.
type Stats struct {
	acked, values, reads, empty, ends, unknown, failed, leaderChanges atomic.Int64
	highest                                                           atomic.Int64 // process number, plus one
	untimed                                                           bool         // nobody looks at latencies

	mu      sync.Mutex
	produce *hdrhistogram.Histogram // answered since the last tick, in microseconds
	read    *hdrhistogram.Histogram
	seconds []Second
}

// Totals count operations since the beginning.
type Totals struct {
	// Acked are the produces that were acknowledged with an offset, Values the values in them.
	Acked, Values int64
	// Reads are the fetches that gave records, EmptyReads those that gave none, Ends the answers to where a log ends.
	Reads, EmptyReads, Ends int64
	// Unknown outcomes, of any operation. A produce with acks=0 that was sent is one.
	Unknown int64
	// Failed operations, which certainly did not happen.
	Failed int64
	// LeaderChanges are those that the clients noticed: a partition is led by another broker than before.
	LeaderChanges int64
}

// Operations are all that have returned.
func (t Totals) Operations() int64 {
	return t.Acked + t.Reads + t.EmptyReads + t.Ends + t.Unknown + t.Failed
}

// Second is what one second of a run was like.
type Second struct {
	// At is when it ended, since the run began.
	At time.Duration
	// Totals count up to its end; the difference of two is what happened between them.
	Totals Totals
	// Produce and Read are the latencies of what was answered in it: produces, and fetches and ends.
	Produce, Read Latency
}

// Latency sums up the latencies of operations that were answered, whatever the answer.
type Latency struct {
	Count              int64
	P50, P95, P99, Max time.Duration
}

// Totals are the counts so far.
func (s *Stats) Totals() Totals {
	return Totals{Acked: s.acked.Load(), Values: s.values.Load(), Reads: s.reads.Load(), EmptyReads: s.empty.Load(),
		Ends: s.ends.Load(), Unknown: s.unknown.Load(), Failed: s.failed.Load(), LeaderChanges: s.leaderChanges.Load()}
}

// Seconds are the whole seconds so far, and the rest of the last one once the run is over.
func (s *Stats) Seconds() []Second {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seconds[:len(s.seconds):len(s.seconds)]
}

// NextProcess is a process number that the workload has not used. It holds once the workload has ended.
func (s *Stats) NextProcess() int64 { return s.highest.Load() }

func (s *Stats) used(process int64) {
	for {
		have := s.highest.Load()
		if process < have || s.highest.CompareAndSwap(have, process+1) {
			return
		}
	}
}

// count takes in an operation that has returned.
func (s *Stats) count(op history.OpType, values int, a *Answer, took time.Duration) {
	switch {
	case a.Kind == history.Fail:
		s.failed.Add(1)
	case a.Kind == history.Info, op == history.Produce && a.Offset == history.Unknown:
		s.unknown.Add(1)
	case op == history.Produce:
		s.acked.Add(1)
		s.values.Add(int64(values))
	case op == history.End:
		s.ends.Add(1)
	case len(a.Records) > 0:
		s.reads.Add(1)
	default:
		s.empty.Add(1)
	}
	if a.Kind == history.OK && !s.untimed {
		s.record(op, took)
	}
}

// Latencies are kept from a microsecond to a minute, to two digits.
const (
	leastLatency  = 1
	mostLatency   = 60_000_000
	latencyDigits = 2
)

func (s *Stats) record(op history.OpType, took time.Duration) {
	us := min(max(took.Microseconds(), leastLatency), mostLatency)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.read
	if op == history.Produce {
		h = &s.produce
	}
	if *h == nil {
		*h = hdrhistogram.New(leastLatency, mostLatency, latencyDigits)
	}
	_ = (*h).RecordValue(us) // it is in the range
}

// tick ends a second, at a time since the run began.
func (s *Stats) tick(at time.Duration) {
	totals := s.Totals()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seconds = append(s.seconds, Second{At: at, Totals: totals, Produce: summary(s.produce), Read: summary(s.read)})
}

// summary empties the histogram.
func summary(h *hdrhistogram.Histogram) Latency {
	if h == nil {
		return Latency{}
	}
	at := func(percent float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(percent)) * time.Microsecond
	}
	l := Latency{Count: h.TotalCount(), P50: at(50), P95: at(95), P99: at(99), Max: time.Duration(h.Max()) * time.Microsecond}
	h.Reset()
	return l
}

package tidemark_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/cluster/docker/dockertest"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
	"tidemark/results"
)

// BenchmarkRun measures how many mixed operations a second are recorded, with three brokers, a topic of four partitions with
// three replicas, acks=all, and no faults. Each iteration is a run of five seconds:
//
//	go test -run '^$' -bench Run -benchtime 1x .
func BenchmarkRun(b *testing.B) {
	for _, where := range []struct {
		name   string
		on     tidemark.Backend
		direct bool
	}{{"process/direct", tidemark.OnProcess, true}, {"process/links", tidemark.OnProcess, false}, {"docker", tidemark.OnDocker, false}} {
		for _, clients := range []int{10, 40, 100} {
			b.Run(fmt.Sprintf("%s/%d_clients", where.name, clients), func(b *testing.B) {
				if where.on == tidemark.OnDocker {
					dockertest.Engine(b)
				}
				var operations int64
				var lasted time.Duration
				for b.Loop() {
					r, err := tidemark.Run(context.Background(), tidemark.RunConfig{On: where.on, Direct: where.direct, Topics: []string{"orders:4:3"},
						Clients: clients, Time: 5 * time.Second, Seed: 1, Root: b.TempDir()})
					require.NoError(b, err)
					operations += r.Workload.Operations()
					lasted += r.Lasted
				}
				b.ReportMetric(float64(operations)/lasted.Seconds(), "operations/s")
			})
		}
	}
}

// BenchmarkJournal measures what the nodes' journals cost: processor time of all nodes for an operation with and without them, in
// turns, with three brokers, one partition on all of them, ten clients, and no links between. Each iteration is two runs of
// five seconds:
//
//	go test -run '^$' -bench Journal -benchtime 5x .
func BenchmarkJournal(b *testing.B) {
	measure := func(noJournal bool, lasts time.Duration) float64 {
		before := childrensTime(b)
		r, err := tidemark.Run(context.Background(), tidemark.RunConfig{Direct: true, NoJournal: noJournal, Clients: 10, Time: lasts, Seed: 1, Root: b.TempDir()})
		require.NoError(b, err)
		return float64((childrensTime(b) - before).Microseconds()) / float64(r.Workload.Operations())
	}
	measure(false, time.Second) // builds what nodes run, if it has to be
	var with, without float64
	for b.Loop() {
		with += measure(false, 5*time.Second)
		without += measure(true, 5*time.Second)
	}
	b.ReportMetric(with/float64(b.N), "µs/op-with")
	b.ReportMetric(without/float64(b.N), "µs/op-without")
	b.ReportMetric(100*(with/without-1), "%")
}

// childrensTime is the processor time of all child processes that have ended.
func childrensTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReproduce measures the seconds of one schedule, from the start of its cluster to its verdict:
//
//	go test -run '^$' -bench Reproduce -benchtime 3x .
func BenchmarkReproduce(b *testing.B) {
	for _, on := range []tidemark.Backend{tidemark.OnSim, tidemark.OnProcess, tidemark.OnDocker} {
		for _, name := range schedule.KIP101() {
			b.Run(fmt.Sprintf("%s/%s", on, name), func(b *testing.B) {
				if on == tidemark.OnDocker {
					dockertest.Engine(b)
				}
				f, err := schedule.Find(name)
				require.NoError(b, err)
				var seconds float64
				cells := 0
				for b.Loop() {
					done, err := tidemark.Reproduce(context.Background(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f},
						Columns: tidemark.Columns(rules.HW, rules.KIP101, rules.KIP320), On: on, Root: b.TempDir()})
					require.NoError(b, err)
					for _, c := range done {
						require.True(b, c.OK, c.Why)
						seconds += c.Seconds
						cells++
					}
				}
				b.ReportMetric(seconds/float64(cells), "s/schedule")
			})
		}
	}
}

// BenchmarkCampaign is what a campaign adds to its runs: the time from a run's start to its verdict, without that in which its workload ran, and
// what the harness keeps in memory over a thousand runs.
func BenchmarkCampaign(b *testing.B) {
	for _, on := range []tidemark.Backend{tidemark.OnProcess, tidemark.OnDocker} {
		b.Run("on="+string(on), func(b *testing.B) {
			if on == tidemark.OnDocker {
				dockertest.Engine(b)
			}
			for b.Loop() {
				c := &tidemark.CampaignConfig{Name: "overhead", Parallel: 1, Parts: []tidemark.Part{
					{Run: 2 * time.Second, On: []tidemark.Backend{on}, Faults: []string{"none"}, Rate: 200, Seeds: 5}}}
				s, err := tidemark.Campaign(b.Context(), c, tidemark.CampaignOptions{Root: b.TempDir()})
				require.NoError(b, err)
				require.Equal(b, results.Consistent, s.Status, "%v", s.Why)
				overhead, seconds := 0.0, 0.0
				for _, o := range s.Outcomes {
					if !o.Control {
						overhead += o.Seconds - o.Working
						seconds += o.Seconds
					}
				}
				b.ReportMetric(overhead/5, "overhead-s/run")
				b.ReportMetric(5*60/seconds, "runs/min")
			}
		})
	}
	b.Run("on=sim/runs=1000", func(b *testing.B) {
		for b.Loop() {
			heap := map[int]float64{}
			n := 0
			s, err := tidemark.Campaign(b.Context(), &tidemark.CampaignConfig{Name: "memory", Parts: []tidemark.Part{{Explore: 20, Seeds: 1000}}},
				tidemark.CampaignOptions{Root: b.TempDir(), Done: func(results.Outcome) {
					if n++; n == 100 || n == 1000 {
						runtime.GC()
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						heap[n] = float64(m.HeapAlloc) / 1e6
					}
				}})
			require.NoError(b, err)
			require.Equal(b, results.Consistent, s.Status, "%v", s.Why)
			b.ReportMetric(heap[100], "MB-after-100")
			b.ReportMetric(heap[1000], "MB-after-1000")
		}
	})
}

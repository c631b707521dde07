package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/workload"
)

// BenchmarkTrial makes short runs and has each judged. BenchmarkHalfAMinute makes long ones, nodes' events included, judging apart.
//
//	go test -run '^$' -bench . ./cluster/sim/virtual
func BenchmarkTrial(b *testing.B) {
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(b, err)
	var operations, events int64
	for n := 0; b.Loop(); n++ {
		r, err := Trial{Rules: set, Seed: uint64(n), Faults: nemesis.Basic(), BatchShare: 0.2}.Run(b.Context())
		require.NoError(b, err)
		res, err := r.Check(b.Context(), quick)
		require.NoError(b, err)
		operations += int64(res.Partitions[0].Operations)
		events += r.Counts.Events
	}
	b.ReportMetric(float64(operations)/float64(b.N), "operations/run")
	b.ReportMetric(float64(events)/float64(b.N), "events/run")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

func BenchmarkHalfAMinute(b *testing.B) {
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(b, err)
	ids := []control.NodeID{1, 2, 3}
	const lasts = 30 * time.Second
	var passed time.Duration
	var events, operations int64
	for n := 0; b.Loop(); n++ {
		sink := &count{}
		k, err := Open(cluster.Config{Brokers: ids, Topics: []node.Topic{{Name: "orders", Partitions: [][]control.NodeID{ids}}}, Rules: set,
			Settings: node.Defaults()}, Options{Seed: uint64(n), Sink: sink})
		require.NoError(b, err)
		require.NoError(b, k.WaitFor(b.Context(), lasts, 10*time.Millisecond, func(context.Context) error {
			if why := k.AtRest(); why != "" {
				return errors.New(why)
			}
			return nil
		}))
		stats := &workload.Stats{}
		require.NoError(b, k.Work(b.Context(), Workload{
			Config: workload.Config{Topics: orders, Clients: 10, Time: lasts, Seed: uint64(n), Stats: stats},
			Plan:   nemesis.Random(uint64(n), nemesis.Basic(), ids, lasts)}, sink))
		passed += k.Now()
		events += k.Counts().Events
		operations += stats.Totals().Operations()
	}
	b.ReportMetric(passed.Seconds()/b.Elapsed().Seconds(), "virtual-s/s")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(operations)/float64(b.N), "operations/run")
}

// count is a history that nobody keeps.
type count struct{ n int64 }

func (c *count) Append(e *history.Event) error {
	c.n++
	e.Seq = c.n
	return nil
}

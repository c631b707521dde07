package tidemark

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/node/control"
	"tidemark/results"
	"tidemark/workload"
)

// stuck is a cluster of two brokers that nobody leads and of which only the controller and the views can be reached.
type stuck struct{ cluster.Cluster }

func (stuck) Brokers() []int32 { return []int32{1, 2} }

func (stuck) Dial(context.Context, int32) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

func (stuck) Control(ctx context.Context, n cluster.NodeID, _ control.Command) (control.Reply, error) {
	if err := ctx.Err(); err != nil {
		return control.Reply{}, err
	}
	if n == control.Controller {
		return control.Reply{View: control.View{Records: []control.RecordView{{Partition: "orders-0", Created: true, Replicas: []cluster.NodeID{1, 2}, ISR: []cluster.NodeID{1}}}}}, nil
	}
	return control.Reply{View: control.View{Node: n, Partitions: []control.PartitionView{{Partition: "orders-0", Role: "offline"}}}}, nil
}

func TestAPartitionThatCannotBeReadAtTheEndIsUnavailableAndNoFailureOfTheHarness(t *testing.T) {
	before := settledWithin
	settledWithin = 100 * time.Millisecond
	t.Cleanup(func() { settledWithin = before })

	c, k, err := RunConfig{Brokers: 2, Root: t.TempDir()}.withDefaults()
	require.NoError(t, err)
	folder, err := results.Create(c.Root, "run")
	require.NoError(t, err)
	r := &run{config: c, folder: folder, stats: &workload.Stats{}, cluster: &real{Cluster: stuck{}}}
	sink, err := history.Create(folder.File(results.History), r.header(k), nil)
	require.NoError(t, err)
	require.NoError(t, r.end(t.Context(), k, sink))
	require.NoError(t, sink.Close())

	got, err := Check(t.Context(), filepath.Join(folder.Path, results.History), checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, checker.Inconclusive, got.Verdict)
	assert.Contains(t, got.Reasons, checker.BecauseUnavailable)
	assert.Contains(t, got.Details[0], "nobody leads")
}

func TestWhatKeepsAPartitionFromRestIsSaidInWords(t *testing.T) {
	record := control.RecordView{Partition: "orders-0", Replicas: []cluster.NodeID{1, 2}, Leader: 1, ISR: []cluster.NodeID{1, 2}}
	view := func(role string, hw, leo int64) control.PartitionView {
		return control.PartitionView{Role: role, HW: hw, LEO: leo}
	}
	type views = map[control.NodeID]control.PartitionView
	leaderless, short := record, record
	leaderless.Leader, short.ISR = 0, record.ISR[:1]
	for _, tc := range []struct {
		record control.RecordView
		views  views
		want   string
	}{
		{record, views{1: view("leader", 5, 5), 2: view("follower", 5, 5)}, ""},
		{leaderless, nil, "nobody leads"},
		{short, nil, "the ISR [1] does not have all of [1 2]"},
		{record, views{1: view("leader", 5, 5)}, "broker 2 has no replica"},
		{record, views{1: view("leader", 5, 5), 2: view("offline", 5, 5)}, "the replica on broker 2 is offline"},
		{record, views{1: view("leader", 5, 5), 2: view("follower", 4, 5)}, "broker 2 has high watermark 4 and log end offset 5"},
		{record, views{1: view("leader", 5, 5), 2: view("follower", 4, 4)}, "broker 2 ends at 4, leader 1 at 5"},
	} {
		assert.Equal(t, tc.want, unsettled(tc.record, tc.views))
	}
}

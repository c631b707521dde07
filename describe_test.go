package tidemark_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
)

// What a run leaves on its brokers' disks can be looked at long after: here the divergence of S1c.
func TestTheFilesOfARunShowWhatItsScheduleDid(t *testing.T) {
	f, err := schedule.Find("S1c")
	require.NoError(t, err)
	cells, err := tidemark.Reproduce(context.Background(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f},
		Columns: tidemark.Columns(rules.HW), On: tidemark.OnProcess, Root: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, cells, 1)
	folder := cells[0].Folder

	described, err := tidemark.DescribeRun(folder)
	require.NoError(t, err)
	assert.Equal(t, []tidemark.Described{{Topic: "orders", Partition: 0, Leader: 2, LeaderEpoch: 2, Replicas: []int32{1, 3, 2},
		ISR: []int32{1, 3, 2}, ELR: []int32{}, ELRKnown: true}}, described)

	logs, err := tidemark.DumpLogs(folder, 0, "")
	require.NoError(t, err)
	got := map[string][]string{}
	for _, d := range logs {
		assert.Equal(t, "orders-0", d.Partition)
		assert.Empty(t, d.Damage)
		for _, r := range d.Records {
			assert.NotZero(t, r.CRC)
			got[d.Broker] = append(got[d.Broker], r.Value)
		}
	}
	assert.Equal(t, map[string][]string{"broker-1": {"m0", "m1"}, "broker-2": {"m0", "x"}, "broker-3": {"m0", "x"}}, got)

	one, err := tidemark.DumpLogs(folder, 2, "orders-0")
	require.NoError(t, err)
	require.Len(t, one, 1)
	assert.Equal(t, []control.Epoch{{Epoch: 0, Start: 0}, {Epoch: 2, Start: 1}}, one[0].Epochs)

	_, err = tidemark.DumpLogs(folder, 7, "")
	assert.ErrorContains(t, err, "no log of broker 7")
	again, err := tidemark.DumpLogs(filepath.Join(folder, results.Nodes), 0, "")
	require.NoError(t, err)
	assert.Equal(t, logs, again, "a folder of nodes does as well as the run's, and looking changes nothing")
}

func TestLookingAtWhatIsNoRunSaysSo(t *testing.T) {
	_, err := tidemark.DescribeRun(t.TempDir())
	assert.ErrorContains(t, err, "not the folder of a run with nodes")
	_, err = tidemark.DumpLogs(t.TempDir(), 0, "")
	assert.ErrorContains(t, err, "not the folder of a run with nodes")
}

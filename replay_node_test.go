package tidemark_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/replay"
	"tidemark/node/rules"
)

// sameWhenRunAgain runs every node of a run again from its journal and wants every hash, and what was on every disk, to be the same.
// The runs of other tests are looked at so: schedules on processes and in containers, and free runs with kills, pauses, links that
// are cut, and power failures.
func sameWhenRunAgain(t *testing.T, folder string) []*replay.Report {
	t.Helper()
	reports, err := tidemark.ReplayNodes(t.Context(), tidemark.ReplayNodesConfig{Folder: folder, Node: tidemark.AllNodes})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(reports), 2)
	assert.Equal(t, control.Controller, reports[0].Node)
	for i, r := range reports {
		require.Nil(t, r.Difference, "node %s of %s: %s", r.Node, folder, r.Difference)
		assert.Positive(t, r.Hashes(), r.Node)
		if i > 0 {
			assert.EqualValues(t, i, r.Node)
		}
	}
	return reports
}

func ends(r *replay.Report) []replay.How {
	var all []replay.How
	for _, i := range r.Incarnations {
		all = append(all, i.Ended)
	}
	return all
}

func TestTheNodesOfAScheduleRunAgainFromTheirJournals(t *testing.T) {
	t.Parallel()
	var files []*schedule.File
	for _, name := range []string{"S1", "S2"} {
		f, err := schedule.Find(name)
		require.NoError(t, err)
		files = append(files, f)
	}
	cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: files, Columns: tidemark.Columns(rules.HW),
		On: tidemark.OnProcess, Root: t.TempDir()})
	require.NoError(t, err)

	killed := sameWhenRunAgain(t, cells[0].Folder)
	assert.Equal(t, []replay.How{replay.Open}, ends(killed[0]))
	assert.Equal(t, []replay.How{replay.Killed, replay.Open}, ends(killed[2]))
	failed := sameWhenRunAgain(t, cells[1].Folder)
	assert.Equal(t, []replay.How{replay.Power, replay.Open}, ends(failed[2]))
	for _, r := range append(killed, failed...) {
		for _, i := range r.Incarnations {
			assert.Equal(t, i.Inputs, i.Hashes, "a node that moves by commands has written down the outcome of each before it can be killed")
		}
	}

	// With KIP-101 broker 2 would not have cut its log to the high watermark when it heard of its leader again.
	reports, err := tidemark.ReplayNodes(t.Context(), tidemark.ReplayNodesConfig{Folder: cells[0].Folder, Node: "2", Rules: []string{"truncation=kip101"}})
	require.NoError(t, err)
	require.Len(t, reports, 1)
	d := reports[0].Difference
	require.NotNil(t, d)
	assert.Contains(t, d.Message, "controller->2 LeaderAndIsr#")
	assert.Equal(t, "what comes of it", d.What)
	assert.Contains(t, d.Here, "What truncated, Leader 1")
}

func TestNodesThatCannotRunAgainAreNamed(t *testing.T) {
	run := t.TempDir()
	for _, name := range []string{"controller", "broker-1", "broker-10", "broker-2"} {
		require.NoError(t, os.MkdirAll(filepath.Join(run, "nodes", name), 0o755))
	}
	for _, tc := range []struct{ folder, node, want string }{
		{run, "3", "no such file"},
		{run, "0", `node "0": want a broker's number, controller, or all`},
		{run, "two", `node "two": want a broker's number, controller, or all`},
		{t.TempDir(), "1", "not the folder of a run with nodes"},
	} {
		_, err := tidemark.ReplayNodes(t.Context(), tidemark.ReplayNodesConfig{Folder: tc.folder, Node: tc.node})
		require.ErrorIs(t, err, tidemark.ErrNoNode)
		require.ErrorContains(t, err, tc.want)
	}
	_, err := tidemark.ReplayNodes(t.Context(), tidemark.ReplayNodesConfig{Folder: run, Node: "1"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "nodes write one unless they are told not to")
}

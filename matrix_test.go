package tidemark_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/cluster/docker/dockertest"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// The whole history as a table: every schedule under every protocol comes to what it says, and every rule that is wrong is
// noticed by the schedules that say so. What simulation shows, processes and containers show too, line by line.
func TestTheMatrixAndTheDiagonalInSimulation(t *testing.T) {
	all, err := schedule.All()
	require.NoError(t, err)
	for _, columns := range [][]tidemark.Column{tidemark.Columns(rules.Protocols()...), tidemark.Diagonal()} {
		first := played(t, tidemark.OnSim, all, columns)
		assert.Len(t, first, len(all)*len(columns))
		assert.Equal(t, first, played(t, tidemark.OnSim, all, columns), "the same transcripts every time")
	}
}

func TestTheMatrixAndTheDiagonalOnProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("plays every schedule under every protocol on processes, which takes a minute")
	}
	likeSimulation(t, tidemark.OnProcess)
}

func TestTheMatrixAndTheDiagonalInContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("plays every schedule under every protocol in containers, which takes minutes")
	}
	dockertest.Engine(t)
	likeSimulation(t, tidemark.OnDocker)
}

// likeSimulation plays the matrix, and of the diagonal what differs from it: the cells of which a schedule says that the changed
// rule shows.
func likeSimulation(t *testing.T, on tidemark.Backend) {
	all, err := schedule.All()
	require.NoError(t, err)
	assert.Equal(t, played(t, tidemark.OnSim, all, tidemark.Columns(rules.Protocols()...)),
		played(t, on, all, tidemark.Columns(rules.Protocols()...)), "transcripts")
	for _, column := range tidemark.Diagonal() {
		var telling []*schedule.File
		for _, f := range all {
			if column.Change != "" && f.Expected(column.Protocol, column.Change).Change == column.Change {
				telling = append(telling, f)
			}
		}
		if len(telling) > 0 {
			columns := []tidemark.Column{column}
			assert.Equal(t, played(t, tidemark.OnSim, telling, columns), played(t, on, telling, columns), "transcripts under %s", column)
		}
	}
}

// played plays schedules and gives their transcripts; every cell has to be as expected.
func played(t *testing.T, on tidemark.Backend, files []*schedule.File, columns []tidemark.Column) map[string]string {
	t.Helper()
	cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: files, Columns: columns, On: on, Root: t.TempDir()})
	require.NoError(t, err)
	transcripts := map[string]string{}
	for _, c := range cells {
		name := c.Schedule + " under " + c.Protocol
		assert.True(t, c.OK, "%s on %s: %s", name, on, c.Why)
		assert.NotEmpty(t, c.Played.Transcript, name)
		transcripts[name] = c.Played.Transcript
		if on != tidemark.OnSim {
			sameWhenRunAgain(t, c.Folder)
		}
	}
	return transcripts
}

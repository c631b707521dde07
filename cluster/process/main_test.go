package process

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/cluster"
	"tidemark/cluster/clustertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, c cluster.Config) cluster.Cluster {
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	return k
}

func TestProcessesAreACluster(t *testing.T) { clustertest.Run(t, open) }

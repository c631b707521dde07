package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a cluster in this process, opened with a configuration whose addresses are filled in.
func fake(t *testing.T, c Config, options ...kfake.Opt) (*Cluster, *kfake.Cluster) {
	t.Helper()
	theirs, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(2, "orders")}, options...)...)
	require.NoError(t, err)
	t.Cleanup(theirs.Close)
	c.Bootstrap = theirs.ListenAddrs()[:1] // the others are learnt
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(t.Context())) })
	return k, theirs
}

package docker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/engine"
)

// victim is the environment variable that makes this test binary the harness that is killed: it has the folder of the run.
const victim = "TIDEMARK_TEST_VICTIM"

// TestVictim is not a test but the other half of the next one: a harness with a cluster, one of whose nodes is paused.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victim)
	if dir == "" {
		t.Skip("is started by TestAHarnessThatIsKilledLeavesNothingThatDownDoesNotRemove")
	}
	c := small(t, "")
	c.Run, c.Dir = os.Getenv(victim+"_RUN"), dir
	k, err := Open(t.Context(), c)
	require.NoError(t, err)
	_, err = k.Pause(t.Context(), 1, true)
	require.NoError(t, err)
	fmt.Println("\nthe cluster is up")
	select {}
}

func TestAHarnessThatIsKilledLeavesNothingThatDownDoesNotRemove(t *testing.T) {
	c := dockertest.Engine(t)
	run := fmt.Sprintf("test-%d-killed", os.Getpid())
	harness := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.count=1")
	harness.Env = append(os.Environ(), victim+"="+t.TempDir(), victim+"_RUN="+run)
	harness.Stderr = os.Stderr
	out, err := harness.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, harness.Start())
	t.Cleanup(func() {
		_ = harness.Process.Kill()
		_, err := engine.Down(context.Background(), c, run)
		assert.NoError(t, err)
	})
	up := false
	var said []string
	for s := bufio.NewScanner(out); !up && s.Scan(); {
		said = append(said, s.Text())
		up = s.Text() == "the cluster is up"
	}
	require.True(t, up, "the harness has ended: %s", strings.Join(said, "\n"))

	require.NoError(t, harness.Process.Kill())
	require.Error(t, harness.Wait())

	// All containers end by themselves but the one that is frozen.
	ofRun := filters.NewArgs(filters.Arg("label", engine.RunLabel+"="+run))
	containers, err := c.ContainerList(t.Context(), container.ListOptions{All: true, Filters: ofRun})
	require.NoError(t, err)
	require.Len(t, containers, 4)
	var frozen []string
	for _, one := range containers {
		info, err := c.ContainerInspect(t.Context(), one.ID)
		require.NoError(t, err)
		if info.State.Paused {
			frozen = append(frozen, one.Labels[engine.NodeLabel]+" "+one.Labels[engine.RoleLabel])
			continue
		}
		dead, failed := c.ContainerWait(t.Context(), one.ID, container.WaitConditionNotRunning)
		select {
		case end := <-dead:
			assert.EqualValues(t, 0, end.StatusCode, "%v ended in order", one.Names)
		case err := <-failed:
			require.NoError(t, err)
		}
	}
	assert.Equal(t, []string{"broker-1 node"}, frozen)

	removed, err := engine.Down(t.Context(), c, run)
	require.NoError(t, err)
	assert.Len(t, removed.Containers, 4)
	assert.Len(t, removed.Networks, 1)
	dockertest.NothingLeft(t, c, run)
}

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster/binary"
)

// started is a run of the real command, in the middle of its work.
func started(t *testing.T, root string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	path, err := binary.Find(t.Context(), binary.Options{})
	require.NoError(t, err)
	cmd := exec.Command(path, "run", "--time", "10m", "--clients", "2", "--faults", "none", "--results", root, "--binary", path)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), " acked, ") {
			return cmd, &errs
		}
	}
	require.FailNow(t, "the run ends before it begins", "%v: %s", cmd.Wait(), &errs)
	return nil, nil
}

// exitOf waits for a command's end, which is not to take long.
func exitOf(t *testing.T, cmd *exec.Cmd) *exec.ExitError {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	return exit
}

func judgedAgain(t *testing.T, root string) {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(root, "*-run-*"))
	require.NoError(t, err)
	require.Len(t, runs, 1)
	s := command(t, t.Context(), nil, "check", runs[0])
	assert.Equal(t, 2, s.code, s.err)
	assert.Contains(t, s.out, "inconclusive because")
	assert.NotContains(t, s.out, "evidence: 0 acked produces")
}

func TestCtrlCEndsARunAndAllThatBelongsToIt(t *testing.T) {
	root := t.TempDir()
	cmd, errs := started(t, root)
	require.Len(t, nodesIn(t, root), 5, "four nodes, and the harness")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, 2, exitOf(t, cmd).ExitCode())
	assert.Contains(t, errs.String(), "tidemark: interrupted; the cluster was taken down")
	assert.Empty(t, nodesIn(t, root))
	judgedAgain(t, root)
}

func TestAKilledRunLeavesAHistoryAndNoNodes(t *testing.T) {
	root := t.TempDir()
	cmd, _ := started(t, root)
	require.NoError(t, cmd.Process.Kill())
	status := exitOf(t, cmd).Sys().(syscall.WaitStatus)
	assert.Equal(t, syscall.SIGKILL, status.Signal())
	require.Eventually(t, func() bool { return len(nodesIn(t, root)) == 0 }, time.Minute, 10*time.Millisecond)
	judgedAgain(t, root)
}

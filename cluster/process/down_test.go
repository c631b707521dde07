package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/rules"
)

// harnessIn is the environment variable that makes this test binary a harness that is going to be killed.
const harnessIn = "TIDEMARK_TEST_HARNESS_IN"

// harness opens a cluster, freezes a broker, says so and does nothing any more.
func harness(dir string) {
	brokers := []cluster.NodeID{1, 2}
	k, err := Open(context.Background(), cluster.Config{Run: "harness", Dir: dir, Brokers: brokers, Rules: rules.Of(rules.KIP320), Settings: node.Defaults(),
		Topics: []node.Topic{{Name: "orders", Partitions: [][]cluster.NodeID{brokers}}}})
	if err == nil {
		_, err = k.Pause(context.Background(), 2, true)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for range k.Events() {
	}
}

func TestNothingOfAKilledHarnessIsLeft(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "run-1", "nodes")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), harnessIn+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = Down(root) })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.Len(t, childrenIn(t, dir), 3)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return onlyFrozen(childrenIn(t, dir)) }, patience, 5*time.Millisecond,
		"who hears that the harness is gone ends by itself")

	// The frozen one may be left, if the system has not ended it as the last of its process group.
	_, err = Down(root)
	require.NoError(t, err)
	assert.Empty(t, childrenIn(t, dir))
	left, err := filepath.Glob(filepath.Join(dir, "*", pidFile))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func onlyFrozen(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(command string) bool { return !strings.Contains(command, "broker-2") })
}

// waitIn is the environment variable that makes this test binary a process that does nothing but wait.
const waitIn = "TIDEMARK_TEST_WAIT"

func TestDownEndsANodeThatDoesNotEndByItselfAndNobodyElse(t *testing.T) {
	root := t.TempDir()
	node, other := filepath.Join(root, "run-1", "broker-1"), filepath.Join(root, "run-1", "broker-2")
	start := func(arg string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "node", "--dir", arg)
		cmd.Env = append(os.Environ(), waitIn+"=yes")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	note := func(dir string, pid int) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(pid)), 0o644))
	}
	// Numbers of processes are given out again: one of them is not the node of the folder in which its number stands.
	left, stranger := start(node), start(node+"0")
	note(node, left.Process.Pid)
	note(other, stranger.Process.Pid)
	require.NoError(t, left.Process.Signal(syscall.SIGSTOP))

	ended, err := Down(root)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	assert.Contains(t, ended[0], node)
	assert.Contains(t, ended[0], strconv.Itoa(left.Process.Pid))
	require.ErrorContains(t, left.Wait(), "killed")
	require.NoError(t, stranger.Process.Signal(syscall.Signal(0)), "it lives")
	require.NoError(t, stranger.Process.Kill())
	_ = stranger.Wait()

	assert.NoFileExists(t, filepath.Join(node, pidFile))
	assert.NoFileExists(t, filepath.Join(other, pidFile))
	ended, err = Down(root)
	require.NoError(t, err)
	assert.Empty(t, ended, "twice is once")
	ended, err = Down(filepath.Join(root, "never was"))
	require.NoError(t, err)
	assert.Empty(t, ended)
}

func TestAFileThatIsNoProcessIdIsRemoved(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"empty": "", "words": "twelve", "everybody": "-1", "the system": "1"} {
		dir := filepath.Join(root, name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, pidFile), []byte(text), 0o644))
	}
	ended, err := Down(root)
	require.NoError(t, err)
	assert.Empty(t, ended)
	left, err := filepath.Glob(filepath.Join(root, "*", pidFile))
	require.NoError(t, err)
	assert.Empty(t, left)
}

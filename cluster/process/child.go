package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
)

// child is one node's process.
type child struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	ready    node.Ready
	commands *control.Client
	ended    chan struct{} // closed when the process is gone and its output read
	err      error         // how it ended; read after ended
}

// readyWithin is how long a process may take from start to its first line.
const readyWithin = 20 * time.Second

// startChild starts a process and waits until it says that it is ready. Its events go to events until it ends.
func startChild(ctx context.Context, binary, dir string, args []string, events func(control.Event)) (*child, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(node.LogPath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &child{cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	c.cmd.Stderr = log
	// A signal to the harness's process group, as Ctrl-C sends it, is not for the nodes: the harness ends them itself.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	pid := filepath.Join(dir, pidFile)
	if err := os.WriteFile(pid, []byte(strconv.Itoa(c.cmd.Process.Pid)), 0o644); err != nil {
		return nil, errors.Join(err, c.cmd.Process.Kill(), c.cmd.Wait())
	}
	ready := make(chan node.Ready, 1)
	go func() {
		defer close(c.ended)
		readLines(stdout, ready, events)
		c.err = c.cmd.Wait()
		_ = os.Remove(pid)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	select {
	case c.ready = <-ready:
	case <-c.ended:
		return nil, fmt.Errorf("it ended at once (%v): %s", c.err, lastLine(node.LogPath(dir)))
	case <-ctx.Done():
		c.kill()
		return nil, fmt.Errorf("it was not ready in %s: %s", readyWithin, lastLine(node.LogPath(dir)))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.ready.Control)
	if err != nil {
		c.kill()
		return nil, err
	}
	c.commands = control.NewClient(conn)
	return c, nil
}

// readLines reads a node's standard output to its end.
func readLines(r io.Reader, ready chan<- node.Ready, events func(control.Event)) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		data, err := lines.ReadBytes('\n')
		var line node.Line
		if err == nil && json.Unmarshal(data, &line) == nil {
			switch {
			case line.Ready != nil:
				ready <- *line.Ready
			case line.Event != nil:
				events(*line.Event)
			}
		}
		if err != nil {
			return
		}
	}
}

// lastLine is the last thing that a node wrote to its log, for an error.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return "it wrote nothing to " + path
	}
	return lines[len(lines)-1] + " (" + path + ")"
}

// kill ends the process at once and waits for its end.
func (c *child) kill() {
	if c.commands != nil {
		_ = c.commands.Close()
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.stdin.Close()
}

// stop asks the process to end and waits for it. One that is frozen has to go on for that.
func (c *child) stop(ctx context.Context) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-c.ended:
		_ = c.commands.Close()
		_ = c.stdin.Close()
		return c.err
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("it did not end by itself: %w", ctx.Err())
	}
}

// pause freezes the process or lets it go on, and says what the system says of it then.
func (c *child) pause(ctx context.Context, on bool) (cluster.Evidence, error) {
	signal, want := syscall.SIGCONT, false
	if on {
		signal, want = syscall.SIGSTOP, true
	}
	if err := c.cmd.Process.Signal(signal); err != nil {
		return cluster.Evidence{}, err
	}
	var state string
	err := cluster.WaitFor(ctx, 2*time.Second, func(context.Context) error {
		var err error
		if state, err = processState(c.cmd.Process.Pid); err != nil {
			return err
		}
		if stopped := strings.HasPrefix(state, "T"); stopped != want {
			return fmt.Errorf("process state %s", state)
		}
		return nil
	})
	e := cluster.Measured("process state", state)
	e.Proven = err == nil
	return e, err
}

// processState is the system's word for the state of a process: T is stopped.
func processState(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		// The name in parentheses may hold anything; the state is the word after it.
		_, after, ok := strings.Cut(string(data[max(strings.LastIndexByte(string(data), ')'), 0):]), " ")
		if ok && after != "" {
			return after[:1], nil
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("process %d: state not readable: %w", pid, err)
	}
	out, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	return strings.TrimSpace(string(out)), err
}

// dataDir is a node's folder in the folder of the run.
func dataDir(run string, n cluster.NodeID) string { return filepath.Join(run, nodeName(n)) }

func nodeName(n cluster.NodeID) string {
	if n == control.Controller {
		return "controller"
	}
	return "broker-" + n.String()
}

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
	"sync"
	"syscall"
	"time"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
)

// child is one node's process.
type child struct {
	cmd   *exec.Cmd
	dir   string
	stdin io.WriteCloser
	ready node.Ready
	ended chan struct{} // closed when the process is gone and its output read
	err   error         // how it ended; read after ended

	mu       sync.Mutex
	commands *control.Client // nil: to be connected again
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
	// An empty line takes the room that the last words of a process need when the disk is full.
	if _, err := log.WriteString("\n"); err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(binary, args...), dir: dir, ended: make(chan struct{})}
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
		_, _ = c.cmd.Process.Kill(), c.cmd.Wait()
		return nil, err
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
		return nil, fmt.Errorf("it ended at once: %s", c.lastWords())
	case <-ctx.Done():
		c.kill()
		if parent := context.Cause(ctx); !errors.Is(parent, context.DeadlineExceeded) {
			return nil, parent
		}
		return nil, fmt.Errorf("it was not ready in %s: %s", readyWithin, lastLine(node.LogPath(dir)))
	}
	if _, err := c.connect(ctx); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// connect gives the connection for commands, and makes one if there is none.
func (c *child) connect(ctx context.Context) (*control.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", c.ready.Control)
		if err != nil {
			return nil, err
		}
		c.commands = control.NewClient(conn)
	}
	return c.commands, nil
}

// disconnect closes the connection for commands, if it still is that one; nil: whichever it is.
func (c *child) disconnect(which *control.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands != nil && (which == nil || which == c.commands) {
		_ = c.commands.Close()
		c.commands = nil
	}
}

// do gives a command. A command that was given up, because the process is frozen, costs its connection; the next one makes
// another.
func (c *child) do(ctx context.Context, command control.Command) (control.Reply, error) {
	commands, err := c.connect(ctx)
	if err != nil {
		return control.Reply{}, err
	}
	reply, err := commands.Do(ctx, command)
	if err != nil {
		c.disconnect(commands)
	}
	return reply, err
}

// hasEnded says whether the process is gone.
func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// endsWithin is how long a process may take to be gone after its connection for commands ended.
const endsWithin = time.Second

// isEnding says whether the process is gone, or is about to.
func (c *child) isEnding() bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(endsWithin):
		return false
	}
}

// lastWords is how the process ended and what it wrote last. It has ended.
func (c *child) lastWords() string {
	return fmt.Sprintf("%s: %s", c.cmd.ProcessState, lastLine(node.LogPath(c.dir)))
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
				for _, e := range line.Ready.Recovered {
					events(e) // what was found comes before all that follows from it
				}
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
	c.disconnect(nil)
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
		c.disconnect(nil)
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

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
)

// life is a node that was started and is ready, from then to its end.
type life struct {
	*nodeContainer
	address string // for commands
	ready   node.Ready

	mu       sync.Mutex
	commands *control.Client // nil: not connected
}

// readyWithin is how long a node may take from start to its first line.
const readyWithin = 20 * time.Second

// begin starts a node and waits until it says that it is ready. Its events go to tell until it ends.
func (k *Cluster) begin(ctx context.Context, m *member) (_ *life, err error) {
	dir := dataDir(k.config.Dir, m.id)
	if strings.Contains(dir, ":") {
		return nil, fmt.Errorf("folder %q: the engine cannot mount a path with a colon; choose another folder for runs", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(node.LogPath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	ready, givenUp := make(chan node.Ready, 1), make(chan struct{})
	out := &lines{call: func(l node.Line) {
		switch {
		case l.Ready != nil:
			ready <- *l.Ready
			for _, e := range l.Ready.Recovered {
				k.tell(e, givenUp)
			}
		case l.Event != nil:
			k.tell(*l.Event, givenUp)
		}
	}}
	c := nodeConfig{run: k.pool.run, node: nodeName(m.id), life: k.pool.life(), image: k.pool.image, command: k.args(m), sandbox: m.sandbox,
		stdout: out, stderr: log}
	if k.pool.place.files {
		c.bind, c.user = dir, userOfFiles()
	}
	n, err := startNode(ctx, k.pool.engine, c)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	k.outputs.Go(func() {
		<-n.ended()
		_ = log.Close()
	})
	l := &life{nodeContainer: n, address: k.address(m, commandPort)}
	defer func() {
		if err != nil {
			close(givenUp) // while a cluster opens, nobody reads its events yet
			err = errors.Join(err, n.discard(ctx))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	select {
	case l.ready = <-ready:
	case <-n.ended():
		return nil, fmt.Errorf("it ended at once (%s): %s", l.how(ctx), lastLine(node.LogPath(dir)))
	case <-ctx.Done():
		return nil, fmt.Errorf("it was not ready in %s: %s", readyWithin, lastLine(node.LogPath(dir)))
	}
	if _, err = l.connected(ctx); err != nil {
		return nil, fmt.Errorf("%w; %s", err, k.pool.place.unreachable())
	}
	return l, nil
}

// over says whether the node has ended by itself.
func (l *life) over() bool {
	select {
	case <-l.ended():
		return true
	default:
		return false
	}
}

// how is the engine's word for how the node is, for an error.
func (l *life) how(ctx context.Context) string {
	s, err := l.state(ctx)
	if err != nil {
		return err.Error()
	}
	return s.String()
}

// String is the state in words: exited with code 137 (killed).
func (s nodeState) String() string {
	if s.Running {
		return s.Status
	}
	text := s.Status + " with code " + strconv.Itoa(s.ExitCode)
	if s.ExitCode == killedCode {
		text += " (killed)"
	}
	return text
}

// killedCode is how engines report that a process ended by SIGKILL: 128 and the signal's number.
const killedCode = 137

// connected returns the connection for commands, and makes it if there is none.
func (l *life) connected(ctx context.Context) (*control.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commands == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp4", l.address)
		if err != nil {
			return nil, err
		}
		l.commands = control.NewClient(conn)
	}
	return l.commands, nil
}

// do gives a command. A connection that failed is of no more use; the next command gets a new one.
func (l *life) do(ctx context.Context, c control.Command) (control.Reply, error) {
	commands, err := l.connected(ctx)
	if err != nil {
		return control.Reply{}, fmt.Errorf("control connection: %w", err)
	}
	reply, err := commands.Do(ctx, c)
	if err != nil {
		l.mu.Lock()
		if l.commands == commands {
			l.commands = nil
		}
		l.mu.Unlock()
		_ = commands.Close()
	}
	return reply, err
}

// hangUp ends the connection for commands.
func (l *life) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commands != nil {
		_ = l.commands.Close()
		l.commands = nil
	}
}

// userOfFiles is who nodes are, so that what they write is ours; "" on systems without such numbers.
func userOfFiles() string {
	if os.Getuid() < 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
}

// dataDir is a node's folder in the folder of the run.
func dataDir(run string, n cluster.NodeID) string { return filepath.Join(run, nodeName(n)) }

// folder is a node's folder as its container has it.
func (k *Cluster) folder() string {
	if k.pool.place.files {
		return dataRoot
	}
	return path.Join(dataRoot, strconv.Itoa(k.number)) // the volume lasts longer than the cluster
}

func nodeName(n cluster.NodeID) string {
	if n == control.Controller {
		return "controller"
	}
	return "broker-" + n.String()
}

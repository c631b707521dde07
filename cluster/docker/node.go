package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/testcontainers/testcontainers-go"

	"tidemark/cluster/docker/engine"
)

type nodeConfig struct {
	run     string
	node    string
	life    int // numbers the containers of a run: every one needs a name of its own
	image   string
	command []string
	sandbox *sandboxContainer // whose network the node lives in
	bind    string            // a folder of the host that the node has at dataRoot; empty: the sandbox's volume
	user    string            // uid:gid that the node runs as, so that what it writes is ours; empty: root
	stdout  io.Writer
	stderr  io.Writer
}

// nodeContainer is one life of a node's process. A container cannot change its command line, and every start of a node
// has another one, so each start makes a new container; it takes no longer than starting an old one again. What lasts is
// outside of it: the network in the sandbox, the files on the host.
type nodeContainer struct {
	c        *client.Client
	id       string
	name     string
	attached *attachment
}

// nodeState is what the engine measured of a node's process.
type nodeState struct {
	Status   string // the engine's word: running, paused, exited
	Running  bool   // also when paused
	Paused   bool
	ExitCode int       // when not running; 137 = killed
	Since    time.Time // when it started, if running; when it ended, if not
}

// startNode starts a node's process. If it cannot, nothing is left of it.
func startNode(ctx context.Context, c *client.Client, cfg nodeConfig) (_ *nodeContainer, err error) {
	id, err := create(ctx, testcontainers.ContainerRequest{
		Name:   fmt.Sprintf("%s-%d", containerName(cfg.run, cfg.node, engine.RoleNode), cfg.life),
		Image:  cfg.image,
		Cmd:    cfg.command,
		Labels: engine.Labels(cfg.run, cfg.node, engine.RoleNode),
		ConfigModifier: func(config *container.Config) {
			interactive(config)
			config.User = cfg.user
		},
		HostConfigModifier: func(host *container.HostConfig) {
			common(host)
			host.NetworkMode = container.NetworkMode("container:" + cfg.sandbox.id)
			if cfg.bind != "" {
				host.Binds = []string{cfg.bind + ":" + dataRoot + ":z"} // z: readable in a container also under SELinux
			} else {
				host.VolumesFrom = []string{cfg.sandbox.id}
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create its container: %w", err)
	}
	n := &nodeContainer{c: c, id: id, name: cfg.node}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.discard(ctx))
		}
	}()
	if n.attached, err = attach(ctx, c, n.id, cfg.stdout, cfg.stderr); err != nil {
		return nil, err
	}
	if err := c.ContainerStart(ctx, n.id, container.StartOptions{}); err != nil {
		return nil, fmt.Errorf("start its container: %w", err)
	}
	return n, nil
}

// ended is closed when the process has ended and all its output was passed on.
func (n *nodeContainer) ended() <-chan struct{} { return n.attached.done }

// kill ends the node's process with SIGKILL, also a paused one, and returns when it is dead and its output passed on.
func (n *nodeContainer) kill(ctx context.Context) (nodeState, error) {
	return n.end(ctx, "kill", func() error { return n.c.ContainerKill(ctx, n.id, "KILL") })
}

// stop asks the node's process to end with SIGTERM, kills it when the time is up, and returns when it is dead and its
// output passed on. A paused one has to go on for that.
func (n *nodeContainer) stop(ctx context.Context, grace time.Duration) (nodeState, error) {
	if _, err := n.pause(ctx, false); err != nil {
		return nodeState{}, err
	}
	seconds := int((grace + time.Second - 1) / time.Second)
	return n.end(ctx, "stop", func() error { return n.c.ContainerStop(ctx, n.id, container.StopOptions{Timeout: &seconds}) })
}

func (n *nodeContainer) end(ctx context.Context, verb string, how func() error) (nodeState, error) {
	// A process that is dead already cannot be killed: the engine calls that a conflict, and it is what was wanted.
	if err := how(); err != nil && !errdefs.IsConflict(err) {
		return nodeState{}, fmt.Errorf("%s %s: %w", verb, n.name, err)
	}
	dead, failed := n.c.ContainerWait(ctx, n.id, container.WaitConditionNotRunning)
	select {
	case <-dead:
	case err := <-failed:
		return nodeState{}, fmt.Errorf("%s %s: wait for its end: %w", verb, n.name, err)
	}
	select {
	case <-n.ended():
	case <-ctx.Done():
		return nodeState{}, fmt.Errorf("%s %s: read the end of its output: %w", verb, n.name, ctx.Err())
	}
	return n.state(ctx)
}

// pause freezes the node's process or lets it go on; if it is so already, nothing happens.
func (n *nodeContainer) pause(ctx context.Context, on bool) (nodeState, error) {
	state, err := n.state(ctx)
	if err != nil || state.Paused == on {
		return state, err
	}
	verb := "pause"
	if on {
		err = n.c.ContainerPause(ctx, n.id)
	} else {
		verb, err = "resume", n.c.ContainerUnpause(ctx, n.id)
	}
	if err != nil {
		return state, fmt.Errorf("%s %s: %w", verb, n.name, err)
	}
	return n.state(ctx)
}

func (n *nodeContainer) state(ctx context.Context) (nodeState, error) {
	info, err := n.c.ContainerInspect(ctx, n.id)
	if err != nil {
		return nodeState{}, fmt.Errorf("look at %s: %w", n.name, err)
	}
	s := nodeState{Status: info.State.Status, Running: info.State.Running, Paused: info.State.Paused, ExitCode: info.State.ExitCode}
	since := info.State.FinishedAt
	if s.Running {
		since = info.State.StartedAt
	}
	if s.Since, err = time.Parse(time.RFC3339Nano, since); err != nil {
		return nodeState{}, fmt.Errorf("look at %s: %w", n.name, err)
	}
	return s, nil
}

// remove ends the node and deletes its container.
func (n *nodeContainer) remove(ctx context.Context) error {
	err := engine.RemoveContainer(ctx, n.c, n.id)
	if n.attached == nil {
		return err
	}
	return errors.Join(err, n.attached.close())
}

// discard removes a node that did not come to be.
func (n *nodeContainer) discard(ctx context.Context) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	return n.remove(ctx)
}

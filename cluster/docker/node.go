package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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
	image   string
	command []string
	sandbox *sandboxContainer // whose network the node lives in
	binds   []string          // folders of the host, as host:container
	user    string            // uid:gid that the node runs as, so that what it writes is ours; empty: root
	output  io.Writer         // what the node prints, over all its starts
}

// nodeContainer is the container that a node's process runs in. It is the same one over all kills and starts, so its
// files stay.
type nodeContainer struct {
	c      *client.Client
	id     string
	name   string
	output io.Writer

	mu       sync.Mutex // one change at a time
	attached *attachment
}

// nodeState is what the engine measured of a node's process.
type nodeState struct {
	Running  bool
	Paused   bool
	ExitCode int       // of the last process, when not running; 137 = killed
	Since    time.Time // when it started, if running; when it ended, if not
}

// createNode makes the container and does not start it.
func createNode(ctx context.Context, c *client.Client, cfg nodeConfig) (*nodeContainer, error) {
	made, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Name:   containerName(cfg.run, cfg.node, engine.RoleNode),
			Image:  cfg.image,
			Cmd:    cfg.command,
			Labels: engine.Labels(cfg.run, cfg.node, engine.RoleNode),
			ConfigModifier: func(config *container.Config) {
				interactive(config)
				config.User = cfg.user
			},
			HostConfigModifier: func(host *container.HostConfig) {
				unprivileged(host)
				host.Binds = cfg.binds
				host.NetworkMode = container.NetworkMode("container:" + cfg.sandbox.id)
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", cfg.node, err)
	}
	return &nodeContainer{c: c, id: made.GetContainerID(), name: cfg.node, output: cfg.output}, nil
}

// start starts the node's process; if it runs already, nothing happens.
func (n *nodeContainer) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	state, err := n.state(ctx)
	if err != nil || state.Running {
		return err
	}
	if err := n.detach(); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.attached, err = attach(ctx, n.c, n.id, n.output, n.output)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	if err := n.c.ContainerStart(ctx, n.id, container.StartOptions{}); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", n.name, err), n.detach())
	}
	return nil
}

// kill ends the node's process with SIGKILL, also a paused one, and returns when it is dead.
func (n *nodeContainer) kill(ctx context.Context) (nodeState, error) {
	return n.end(ctx, "kill", func() error { return n.c.ContainerKill(ctx, n.id, "KILL") })
}

// stop asks the node's process to end with SIGTERM, kills it when the time is up, and returns when it is dead.
func (n *nodeContainer) stop(ctx context.Context, grace time.Duration) (nodeState, error) {
	seconds := int((grace + time.Second - 1) / time.Second)
	return n.end(ctx, "stop", func() error { return n.c.ContainerStop(ctx, n.id, container.StopOptions{Timeout: &seconds}) })
}

func (n *nodeContainer) end(ctx context.Context, verb string, how func() error) (nodeState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
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
	if err := n.detach(); err != nil {
		return nodeState{}, fmt.Errorf("%s %s: %w", verb, n.name, err)
	}
	return n.state(ctx)
}

// pause freezes the node's process or lets it go on; if it is so already, nothing happens.
func (n *nodeContainer) pause(ctx context.Context, on bool) (nodeState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	state, err := n.state(ctx)
	if err != nil || state.Paused == on {
		return state, err
	}
	if on {
		err = n.c.ContainerPause(ctx, n.id)
	} else {
		err = n.c.ContainerUnpause(ctx, n.id)
	}
	if err != nil {
		return state, fmt.Errorf("pause %s (%t): %w", n.name, on, err)
	}
	return n.state(ctx)
}

func (n *nodeContainer) state(ctx context.Context) (nodeState, error) {
	info, err := n.c.ContainerInspect(ctx, n.id)
	if err != nil {
		return nodeState{}, fmt.Errorf("look at %s: %w", n.name, err)
	}
	s := nodeState{Running: info.State.Running, Paused: info.State.Paused, ExitCode: info.State.ExitCode}
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
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(engine.RemoveContainer(ctx, n.c, n.id), n.detach())
}

func (n *nodeContainer) detach() error {
	if n.attached == nil {
		return nil
	}
	err := n.attached.close()
	n.attached = nil
	return err
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/testcontainers/testcontainers-go"

	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/sandbox"
)

// Guests are sandboxes in the networks of containers that somebody else started. A sandbox joins the network namespace for as long
// as there are rules in it; when its stream ends, because the harness has died, it takes its rules away and exits.
type Guests struct {
	engine *client.Client
	run    string
	image  string

	mu     sync.Mutex
	number int
	inside map[string]*guest // by the name of the host container
}

// guest is a sandbox in a container's network.
type guest struct {
	id    string
	since string // when the host was started: a later start has another network namespace
	rules *sandbox.Client
}

// NewGuests finds the engine and makes the image of the sandboxes, from the executable at path, or one that is found or built.
func NewGuests(ctx context.Context, run, path string) (_ *Guests, err error) {
	if !validRun.MatchString(run) {
		return nil, fmt.Errorf("run %q: containers are named after it: want letters, digits, dots, dashes and underscores", run)
	}
	g := &Guests{run: run, inside: map[string]*guest{}}
	if g.engine, err = engine.Connect(ctx); err != nil {
		return nil, err
	}
	if g.image, err = nodeImage(ctx, g.engine, path); err != nil {
		return nil, errors.Join(err, g.engine.Close())
	}
	return g, nil
}

// Replace puts rules in force in the network of a container instead of all others of the harness, and returns what those have
// dropped, in their order. No rules let everything through, and the sandbox out.
func (g *Guests) Replace(ctx context.Context, host string, rules []sandbox.Rule) ([]sandbox.Counter, error) {
	info, err := g.engine.ContainerInspect(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look at container %s: %w", host, err)
	}
	g.mu.Lock()
	one := g.inside[host]
	g.mu.Unlock()
	if one != nil && one.since != info.State.StartedAt { // its network is gone, and the rules with it
		if err := g.leave(ctx, host, one); err != nil {
			return nil, err
		}
		one = nil
	}
	if one == nil {
		if len(rules) == 0 {
			return nil, nil
		}
		if one, err = g.join(ctx, host, info); err != nil {
			return nil, err
		}
	}
	counters, err := one.rules.Replace(ctx, rules)
	if err == nil && len(rules) == 0 {
		err = g.leave(ctx, host, one)
	}
	return counters, err
}

// join starts a sandbox in the network of a container.
func (g *Guests) join(ctx context.Context, host string, info container.InspectResponse) (_ *guest, err error) {
	if !info.State.Running {
		return nil, fmt.Errorf("container %s is %s: its network cannot be cut", host, info.State.Status)
	}
	g.mu.Lock()
	g.number++
	name := containerName(g.run, fmt.Sprintf("guest-%d", g.number), engine.RoleSandbox)
	g.mu.Unlock()
	one := &guest{since: info.State.StartedAt}
	one.id, err = create(ctx, testcontainers.ContainerRequest{
		Name:           name,
		Image:          g.image,
		Cmd:            []string{"sandbox", "--guest"},
		Labels:         engine.Labels(g.run, "guest of "+host, engine.RoleSandbox),
		ConfigModifier: interactive,
		HostConfigModifier: func(h *container.HostConfig) {
			common(h)
			h.CapAdd = []string{"NET_ADMIN"}
			h.NetworkMode = container.NetworkMode("container:" + info.ID)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create the sandbox in the network of %s: %w", host, err)
	}
	g.mu.Lock()
	g.inside[host] = one
	g.mu.Unlock()
	complaint := &lastWords{}
	stream, err := attachStream(ctx, g.engine, one.id, complaint)
	if err != nil {
		return nil, errors.Join(err, g.leave(ctx, host, one))
	}
	one.rules = sandbox.NewClient(stream)
	if err = g.engine.ContainerStart(ctx, one.id, container.StartOptions{}); err == nil {
		_, err = one.rules.Count(ctx)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("start the sandbox in the network of %s: %w", host, err), g.leave(ctx, host, one))
		if said := complaint.String(); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, err
	}
	return one, nil
}

// leave ends a sandbox, whose rules were replaced by none, or whose network is gone.
func (g *Guests) leave(ctx context.Context, host string, one *guest) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	g.mu.Lock()
	delete(g.inside, host)
	g.mu.Unlock()
	if one.rules != nil {
		_ = one.rules.Close() // its error would be about a stream that is not needed any more
	}
	return engine.RemoveContainer(ctx, g.engine, one.id)
}

// Close takes all rules away and lets every sandbox out.
func (g *Guests) Close(ctx context.Context) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	g.mu.Lock()
	hosts := map[string]*guest{}
	for host, one := range g.inside {
		hosts[host] = one
	}
	g.mu.Unlock()
	var errs []error
	for host, one := range hosts {
		if one.rules != nil {
			_, err := one.rules.Replace(ctx, nil)
			errs = append(errs, err)
		}
		errs = append(errs, g.leave(ctx, host, one))
	}
	return errors.Join(append(errs, g.engine.Close())...)
}

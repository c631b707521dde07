package foreign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/docker"
	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/sandbox"
	"tidemark/node/control"
)

// ParseContainers reads "1=kafka-1,2=kafka-2": a broker's id and the name of its container.
func ParseContainers(words []string) (map[int32]string, error) {
	names := map[int32]string{}
	for _, word := range words {
		for _, one := range strings.Split(word, ",") {
			id, name, ok := strings.Cut(strings.TrimSpace(one), "=")
			n, err := strconv.ParseInt(id, 10, 32)
			switch {
			case !ok || err != nil || n < 0 || name == "":
				return nil, fmt.Errorf("%w: container %q: want ID=NAME, for example 1=kafka-1,2=kafka-2", ErrConfig, one)
			case names[int32(n)] != "":
				return nil, fmt.Errorf("%w: container %q: broker %d has %s already", ErrConfig, one, n, names[int32(n)])
			}
			names[int32(n)] = name
		}
	}
	return names, nil
}

// containers plays faults on the containers of brokers.
type containers struct {
	k      *Cluster
	engine *client.Client
	names  map[int32]string

	mu      sync.Mutex
	guests  *docker.Guests // nil: nothing was cut yet
	cut     map[int32][]ruled
	dropped map[cluster.Link]uint64 // of those that are cut, while their rules were replaced
	asked   []cluster.Link
}

// openContainers finds the engine, and every broker's container running.
func openContainers(ctx context.Context, k *Cluster) (_ *containers, err error) {
	c, err := engine.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for id, name := range k.config.Containers {
		if !slices.Contains(k.ids, id) {
			return nil, fmt.Errorf("%w: container %d=%s: there is no broker %d; there are %v", ErrConfig, id, name, id, k.ids)
		}
	}
	for _, id := range k.ids {
		name := k.config.Containers[id]
		if name == "" {
			return nil, fmt.Errorf("%w: broker %d has no container; name one for each of %v", ErrConfig, id, k.ids)
		}
		info, err := c.ContainerInspect(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%w: container %d=%s: %w", ErrConfig, id, name, err)
		}
		if !info.State.Running || info.State.Paused {
			return nil, fmt.Errorf("%w: container %d=%s is %s, not running", ErrConfig, id, name, info.State.Status)
		}
	}
	return &containers{k: k, engine: c, names: k.config.Containers, cut: map[int32][]ruled{}, dropped: map[cluster.Link]uint64{}}, nil
}

// inspect is the engine's description of a broker's container.
func (c *containers) inspect(ctx context.Context, id int32) (container.InspectResponse, error) {
	info, err := c.engine.ContainerInspect(ctx, c.names[id])
	if err != nil {
		err = fmt.Errorf("look at container %s of broker %d: %w", c.names[id], id, err)
	}
	return info, err
}

func (c *containers) measured(ctx context.Context, id int32, proven func(*container.State) bool) (cluster.Evidence, error) {
	info, err := c.inspect(ctx, id)
	if err != nil {
		return cluster.Evidence{}, err
	}
	state := info.State.Status
	if !info.State.Running {
		state = fmt.Sprintf("%s with code %d", state, info.State.ExitCode)
	}
	return cluster.Evidence{Measured: []history.Measurement{{Name: "container " + c.names[id], Value: state}}, Proven: proven(info.State)}, nil
}

// killed is how engines report SIGKILL: 128 and the signal's number.
const killed = 137

func (c *containers) kill(ctx context.Context, b broker) (cluster.Evidence, error) {
	// One that is down already cannot be killed, which the engine calls a conflict; what was measured tells.
	if err := c.engine.ContainerKill(ctx, c.names[b.id], "KILL"); err != nil && !errdefs.IsConflict(err) {
		return cluster.Evidence{}, fmt.Errorf("kill container %s: %w", c.names[b.id], err)
	}
	dead, failed := c.engine.ContainerWait(ctx, c.names[b.id], container.WaitConditionNotRunning)
	select {
	case <-dead:
	case err := <-failed:
		return cluster.Evidence{}, fmt.Errorf("wait for the end of container %s: %w", c.names[b.id], err)
	}
	return c.measured(ctx, b.id, func(s *container.State) bool { return !s.Running && s.ExitCode == killed })
}

func (c *containers) start(ctx context.Context, b broker) error {
	if err := c.engine.ContainerStart(ctx, c.names[b.id], container.StartOptions{}); err != nil {
		return fmt.Errorf("start container %s: %w", c.names[b.id], err)
	}
	return nil
}

func (c *containers) pause(ctx context.Context, b broker) (cluster.Evidence, error) {
	if err := c.engine.ContainerPause(ctx, c.names[b.id]); err != nil && !errdefs.IsConflict(err) {
		return cluster.Evidence{}, fmt.Errorf("pause container %s: %w", c.names[b.id], err)
	}
	return c.measured(ctx, b.id, func(s *container.State) bool { return s.Paused })
}

func (c *containers) resume(ctx context.Context, b broker) error {
	info, err := c.inspect(ctx, b.id)
	if err != nil || !info.State.Paused {
		return err // it was killed meanwhile, or goes on already
	}
	if err := c.engine.ContainerUnpause(ctx, c.names[b.id]); err != nil {
		return fmt.Errorf("resume container %s: %w", c.names[b.id], err)
	}
	return nil
}

func (c *containers) anyShape() bool { return true }

// links cuts links by packet rules at the receiver, for what goes to clients at the sender.
func (c *containers) links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guests == nil {
		if len(cut) == 0 {
			return cluster.Evidence{Proven: true}, nil
		}
		g, err := docker.NewGuests(ctx, c.k.config.Run, c.k.config.Binary)
		if err != nil {
			return cluster.Evidence{}, err
		}
		c.guests = g
	}
	wanted := map[int32][]cluster.Link{}
	for _, l := range cut {
		at := l.To
		if at == cluster.ClientsID {
			at = l.From
		}
		if l.From != control.Controller && l.To != control.Controller { // where that runs is not known
			wanted[int32(at)] = append(wanted[int32(at)], l)
		}
	}
	errs := make([]error, len(c.k.ids))
	counters := make([][]sandbox.Counter, len(c.k.ids))
	inForce := make([][]ruled, len(c.k.ids))
	var wg sync.WaitGroup
	for i, id := range c.k.ids {
		if len(wanted[id]) > 0 || len(c.cut[id]) > 0 {
			wg.Go(func() { inForce[i], counters[i], errs[i] = c.replace(ctx, id, wanted[id]) })
		}
	}
	wg.Wait()
	for i, id := range c.k.ids {
		for j, n := range counters[i] {
			if j < len(c.cut[id]) {
				c.dropped[c.cut[id][j].link] += n.Packets
			}
		}
		if errs[i] == nil {
			c.cut[id] = inForce[i]
		}
	}
	e := cluster.Evidence{Proven: len(c.asked) == 0}
	for _, l := range c.asked {
		if l.From == control.Controller || l.To == control.Controller {
			continue
		}
		e.Proven = e.Proven || c.dropped[l] > 0
		e.Measured = append(e.Measured, history.Measurement{Name: fmt.Sprintf("packets dropped from %s to %s", end(l.From), end(l.To)), Value: fmt.Sprint(c.dropped[l])})
	}
	if err := errors.Join(errs...); err != nil {
		return e, err
	}
	maps.DeleteFunc(c.dropped, func(l cluster.Link, _ uint64) bool { return !slices.Contains(cut, l) })
	c.asked = slices.Clone(cut)
	return e, nil
}

// ruled is a packet rule with the link that it cuts.
type ruled struct {
	link cluster.Link
	rule sandbox.Rule
}

// replace puts the rules of links in force at a broker and returns them, and what those before have dropped.
func (c *containers) replace(ctx context.Context, id int32, cut []cluster.Link) ([]ruled, []sandbox.Counter, error) {
	var inForce []ruled
	var rules []sandbox.Rule
	for _, l := range cut {
		rs, err := c.rules(ctx, id, l)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range rs {
			inForce = append(inForce, ruled{l, r})
			rules = append(rules, r)
		}
	}
	counters, err := c.guests.Replace(ctx, c.names[id], rules)
	if err != nil {
		err = fmt.Errorf("links of broker %d: %w", id, err)
	}
	return inForce, counters, err
}

// rules cut a link at a broker: one for each address by which it knows the other end. Clients come from the gateways of its networks.
func (c *containers) rules(ctx context.Context, at int32, l cluster.Link) ([]sandbox.Rule, error) {
	direction, whose := sandbox.In, int32(l.From)
	if l.To == cluster.ClientsID {
		direction = sandbox.Out
	}
	clients := l.From == cluster.ClientsID || l.To == cluster.ClientsID
	if clients {
		whose = at
	}
	info, err := c.inspect(ctx, whose)
	if err != nil {
		return nil, err
	}
	var rules []sandbox.Rule
	for _, name := range slices.Sorted(maps.Keys(info.NetworkSettings.Networks)) {
		n := info.NetworkSettings.Networks[name]
		text := n.IPAddress
		if clients {
			text = n.Gateway
		}
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
			rules = append(rules, sandbox.Rule{Peer: addr, Direction: direction})
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("cut %s->%s: container %s has no IPv4 address of its own on a network", end(l.From), end(l.To), c.names[whose])
	}
	return rules, nil
}

func end(n cluster.NodeID) string {
	if n == cluster.ClientsID {
		return "clients"
	}
	return n.String()
}

// closesWithin bounds taking the sandboxes away, whatever ended the context.
const closesWithin = 30 * time.Second

func (c *containers) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closesWithin)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.guests != nil {
		err = c.guests.Close(ctx)
	}
	return errors.Join(err, c.engine.Close())
}

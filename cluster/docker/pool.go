package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"tidemark/cluster"
	"tidemark/cluster/binary"
	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/image"
	"tidemark/node/control"
)

// The ports that nodes listen on, at the addresses of their sandboxes.
const (
	clientPort     = 9092 // of a broker: clients and other nodes
	controllerPort = 9090 // of the controller: brokers
	commandPort    = 9093 // of both: the harness, which no fault cuts
)

// dataRoot is where a node's container has its data.
const dataRoot = "/data"

// cleanupWithin bounds what is done to leave nothing behind after the context has ended.
const cleanupWithin = 30 * time.Second

// Pool keeps what takes longest to make, the network and the sandboxes, over several clusters of one run that are opened
// one after the other: a schedule in a pool takes half the time. Each cluster begins with nodes and folders of its own and
// with a healed network.
type Pool struct {
	run    string
	engine *client.Client
	place  place
	image  string

	network *runNetwork

	mu        sync.Mutex
	sandboxes map[cluster.NodeID]*sandboxContainer
	busy      bool // a cluster is open
	clusters  int
	lives     int
	closed    bool
}

// ErrBusy is wrapped by the error of [Pool.Open] while the cluster before is open: both would have the same addresses.
var ErrBusy = errors.New("a cluster of this pool is open")

// validRun is what the engine takes for names of containers.
var validRun = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// NewPool finds the engine, makes the image of the executable for nodes (path, or one that package binary finds if it is
// empty) and the network. Everything carries the run's id, by which [Down] finds it. Without an engine the error wraps
// engine.ErrNoEngine, without an executable that an image can hold binary.ErrNotFound.
func NewPool(ctx context.Context, run, path string) (*Pool, error) {
	return newPool(ctx, run, path, locate)
}

func newPool(ctx context.Context, run, path string, locate func(context.Context, *client.Client) (place, error)) (_ *Pool, err error) {
	if !validRun.MatchString(run) {
		return nil, fmt.Errorf("run %q: containers are named after it: want letters, digits, dots, dashes and underscores", run)
	}
	c, err := engine.Connect(ctx)
	if err != nil {
		return nil, err
	}
	p := &Pool{run: run, engine: c, sandboxes: map[cluster.NodeID]*sandboxContainer{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	var group errgroup.Group
	group.Go(func() (err error) {
		p.image, err = nodeImage(ctx, c, path)
		return err
	})
	group.Go(func() (err error) {
		p.place, err = locate(ctx, c)
		return err
	})
	group.Go(func() (err error) {
		p.network, err = createNetwork(ctx, c, run)
		return err
	})
	return p, group.Wait()
}

// nodeImage returns the name of the image of the executable for nodes.
func nodeImage(ctx context.Context, c *client.Client, path string) (string, error) {
	arch, err := engine.Architecture(ctx, c)
	if err != nil {
		return "", err
	}
	if path, err = binary.Find(ctx, binary.Options{Static: true, Path: path, Arch: arch}); err != nil {
		return "", err
	}
	return image.Ensure(ctx, c, path, arch)
}

// Open starts a controller and all brokers, as the package's Open does. The cluster belongs to the pool's run, whatever its
// configuration says, and runs the pool's executable.
func (p *Pool) Open(ctx context.Context, c cluster.Config) (*Cluster, error) {
	nodes := append([]cluster.NodeID{control.Controller}, c.Brokers...)
	p.mu.Lock()
	if p.busy || p.closed {
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return nil, errors.New("the pool is closed")
		}
		return nil, ErrBusy
	}
	p.busy = true
	p.clusters++
	k := newCluster(p, c, p.clusters)
	p.mu.Unlock()
	err := p.provide(ctx, nodes)
	if err == nil {
		err = k.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, k.Close(ctx))
	}
	return k, nil
}

// provide makes the sandboxes that are missing, all at once.
func (p *Pool) provide(ctx context.Context, nodes []cluster.NodeID) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		if p.sandbox(n) != nil {
			continue
		}
		wg.Go(func() {
			var s *sandboxContainer
			if s, errs[i] = startSandbox(ctx, p.engine, p.sandboxConfig(n)); errs[i] == nil {
				p.mu.Lock()
				p.sandboxes[n] = s
				p.mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p *Pool) sandboxConfig(n cluster.NodeID) sandboxConfig {
	c := sandboxConfig{run: p.run, node: nodeName(n), image: p.image, command: []string{"sandbox"}, network: p.network, volume: !p.place.files}
	if !p.place.direct {
		c.publish = []uint16{commandPort}
		if n != control.Controller {
			c.publish = append(c.publish, clientPort)
		}
	}
	return c
}

func (p *Pool) sandbox(n cluster.NodeID) *sandboxContainer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sandboxes[n]
}

// life numbers the next container of a node.
func (p *Pool) life() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	return p.lives
}

// release takes the network back from a cluster that is closed. A sandbox that does not heal is made anew next time.
func (p *Pool) release(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.busy = false }()
	var errs []error
	for n, s := range p.sandboxes {
		if _, err := s.rules.Replace(ctx, nil); err != nil {
			delete(p.sandboxes, n)
			errs = append(errs, s.remove(ctx, p.engine))
		}
	}
	return errors.Join(errs...)
}

// Close removes everything that carries the run's id, the containers of a cluster that is still open included. Closing
// again does nothing.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	ctx, cancel := cleanup(ctx)
	defer cancel()
	for _, s := range p.sandboxes {
		_ = s.rules.Close() // its error would be about a stream that is not needed any more
	}
	clear(p.sandboxes)
	_, err := engine.Down(ctx, p.engine, p.run)
	return errors.Join(err, p.engine.Close())
}

// making is a context for having the engine make something. An engine goes on with it when whoever asked has gone away, and
// then nobody knows what was made and has to be removed; so this is not interrupted, only not begun when ctx has ended.
func making(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := cleanup(ctx)
	return ctx, cancel, nil
}

// cleanup is a context for leaving nothing behind: what ended ctx, an interrupt for example, does not end it.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin)
}

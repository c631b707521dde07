package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/cluster"
	"tidemark/node/control"
)

// Config says where a cluster is and how its brokers are disturbed.
type Config struct {
	// Bootstrap are addresses, host:port, at which to ask for the brokers. One that answers is enough.
	Bootstrap []string
	Hooks     Hooks
	// Containers are the names of the brokers' containers, by broker; nil: they do not run in containers of this engine.
	Containers map[int32]string
	// Run names the containers that a partition needs. Binary is the executable in them, "": found or built.
	Run, Binary string
}

// ErrConfig is wrapped by every error about what the caller asked for: an address, a hook, a topic.
var ErrConfig = errors.New("cannot run against this cluster")

// ErrUnreachable is wrapped by the error of [Open] when nobody answers.
var ErrUnreachable = errors.New("no broker answers")

// Limits. They are long: nothing waits for them when all is well.
const (
	reachedWithin  = 10 * time.Second
	askedWithin    = 2 * time.Second // one broker, one question
	startedWithin  = 90 * time.Second
	silenceOfPause = time.Second
	shownWithin    = 10 * time.Second
)

// Cluster is a cluster that somebody else started. It satisfies cluster.Cluster as far as it can: what it cannot do is an
// error that wraps cluster.ErrUnsupported.
type Cluster struct {
	config Config
	client *kgo.Client
	admin  *kadm.Client
	ids    []int32
	states map[cluster.NodeID]*state

	// Who does what; nil: nobody can.
	kills, pauses hand
	cuts          cutter
	containers    *containers // nil: none

	mu      sync.Mutex
	brokers map[int32]broker
	output  io.Writer

	events chan control.Event
	close  sync.Once
}

// broker is a broker as it advertises itself.
type broker struct {
	id   int32
	host string
	port int32
}

func (b broker) address() string { return net.JoinHostPort(b.host, strconv.Itoa(int(b.port))) }

var _ cluster.Cluster = (*Cluster)(nil)

// plainHost keeps out of shell commands what a host name does not need.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

// Check says what is wrong with a configuration, without asking anybody.
func (c Config) Check() error {
	if len(c.Bootstrap) == 0 {
		return fmt.Errorf("%w: bootstrap: none; give host:port of one broker or more", ErrConfig)
	}
	for _, a := range c.Bootstrap {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return fmt.Errorf("%w: bootstrap %q: want host:port", ErrConfig, a)
		}
	}
	return c.Hooks.check()
}

// Open asks for the brokers, and looks for the containers if there are to be some. The hooks are not tried.
func Open(ctx context.Context, c Config) (_ *Cluster, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	k := &Cluster{config: c, brokers: map[int32]broker{}, states: map[cluster.NodeID]*state{}, events: make(chan control.Event), output: io.Discard}
	k.client, err = kgo.NewClient(kgo.SeedBrokers(c.Bootstrap...), kgo.ClientID("tidemark-harness"), kgo.DialTimeout(askedWithin),
		kgo.RetryTimeout(reachedWithin), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	k.admin = kadm.NewClient(k.client)
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close(ctx))
		}
	}()
	if err := k.reach(ctx); err != nil {
		return nil, err
	}
	h := &hooks{Hooks: c.Hooks, k: k, isolated: map[int32]bool{}}
	if len(c.Containers) > 0 {
		if k.containers, err = openContainers(ctx, k); err != nil {
			return nil, err
		}
		k.kills, k.pauses, k.cuts = k.containers, k.containers, k.containers
	}
	if c.Hooks.Kill != "" {
		k.kills = h
	}
	if c.Hooks.Pause != "" {
		k.pauses = h
	}
	if c.Hooks.Partition != "" {
		k.cuts = h
	}
	return k, nil
}

// reach finds out which brokers there are.
func (k *Cluster) reach(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	var m kadm.Metadata
	err := cluster.WaitFor(asking, reachedWithin, func(ctx context.Context) (err error) {
		if m, err = k.admin.BrokerMetadata(ctx); err == nil && len(m.Brokers) == 0 {
			err = errors.New("no broker is registered")
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w at %s within %s: %w", ErrUnreachable, strings.Join(k.config.Bootstrap, ","), reachedWithin, err)
	}
	for _, b := range m.Brokers {
		if !plainHost.MatchString(b.Host) {
			return fmt.Errorf("%w: broker %d advertises the host %q, which is no host name", ErrConfig, b.NodeID, b.Host)
		}
		k.ids = append(k.ids, b.NodeID)
		k.states[cluster.NodeID(b.NodeID)] = &state{}
	}
	slices.Sort(k.ids)
	k.learn(m.Brokers)
	return nil
}

// learn takes in where brokers are now. Those that are down are not among those that metadata tells of, and stay where they were.
func (k *Cluster) learn(brokers kadm.BrokerDetails) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range brokers {
		if plainHost.MatchString(b.Host) {
			k.brokers[b.NodeID] = broker{b.NodeID, b.Host, b.Port}
		}
	}
}

func (k *Cluster) broker(id int32) (broker, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.brokers[id]
	if !ok {
		return b, fmt.Errorf("there is no broker %d; there are %v", id, k.ids)
	}
	return b, nil
}

// peers are the other brokers, in order.
func (k *Cluster) peers(id int32) []broker {
	k.mu.Lock()
	defer k.mu.Unlock()
	others := slices.Collect(maps.Values(k.brokers))
	others = slices.DeleteFunc(others, func(b broker) bool { return b.id == id })
	slices.SortFunc(others, func(a, b broker) int { return cmp.Compare(a.id, b.id) })
	return others
}

// Brokers lists the ids of the brokers that metadata told of when the cluster was opened.
func (k *Cluster) Brokers() []int32 { return slices.Clone(k.ids) }

// Dial connects a client to a broker, where it advertises that it is.
func (k *Cluster) Dial(ctx context.Context, to int32) (net.Conn, error) {
	b, err := k.broker(to)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", b.address())
}

// Bootstrap is where each broker advertises that it is.
func (k *Cluster) Bootstrap() []string {
	addresses := make([]string, 0, len(k.ids))
	for _, id := range k.ids {
		b, _ := k.broker(id)
		addresses = append(addresses, b.address())
	}
	return addresses
}

// KeepOutput has what hooks print written to w, with what was run and how it ended.
func (k *Cluster) KeepOutput(w io.Writer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.output = w
}

// Control is not possible: brokers of others have no control connection.
func (k *Cluster) Control(_ context.Context, n cluster.NodeID, c control.Command) (control.Reply, error) {
	return control.Reply{}, fmt.Errorf("%s at %s: %w", c.Do, n, cluster.ErrUnsupported)
}

// Events has none; [Cluster.Watch] tells what can be told.
func (k *Cluster) Events() <-chan control.Event { return k.events }

// Close lets go of the cluster, which runs on. Faults are for the caller to heal before.
func (k *Cluster) Close(ctx context.Context) error {
	var err error
	k.close.Do(func() {
		if k.client != nil {
			k.client.Close()
		}
		if k.containers != nil {
			err = k.containers.close(ctx)
		}
		close(k.events)
	})
	return err
}

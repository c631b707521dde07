package foreign

import (
	"context"
	"fmt"
	"sync"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

// state is what was done to a broker. It is noted before it is tried, so that healing undoes what only half succeeded.
type state struct {
	mu           sync.Mutex
	down, paused bool
}

// hand kills and freezes brokers.
type hand interface {
	kill(ctx context.Context, b broker) (cluster.Evidence, error)
	start(ctx context.Context, b broker) error
	pause(ctx context.Context, b broker) (cluster.Evidence, error)
	resume(ctx context.Context, b broker) error
}

// cutter cuts links. What it returns is the evidence of the links that were cut before.
type cutter interface {
	links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error)
	// anyShape: every set of links can be cut, not only a broker off from all others.
	anyShape() bool
}

// Abilities are the faults that can be played.
type Abilities struct {
	Kill, Pause, Partition bool
	// AnyShape: a partition can cut any links, not only one broker off from all others.
	AnyShape bool
}

// Abilities says which faults the hooks and containers make possible.
func (k *Cluster) Abilities() Abilities {
	return Abilities{Kill: k.kills != nil, Pause: k.pauses != nil, Partition: k.cuts != nil, AnyShape: k.cuts != nil && k.cuts.anyShape()}
}

// CanCut says why links cannot be cut; nil if they can.
func (k *Cluster) CanCut(cut []cluster.Link) error {
	switch {
	case k.cuts == nil:
		return fmt.Errorf("cut: %w: nothing says how", cluster.ErrUnsupported)
	case k.cuts.anyShape():
		return nil
	}
	alone, err := isolated(k.ids, cut)
	if err == nil && len(alone) == 0 {
		err = fmt.Errorf("cut: %w: a hook cuts a broker off from all others, both ways", cluster.ErrUnsupported)
	}
	return err
}

// Start starts a broker that was killed, and returns when it answers. What it finds on its disk nobody tells.
func (k *Cluster) Start(ctx context.Context, n cluster.NodeID) ([]control.Event, error) {
	s := k.states[n]
	if s == nil {
		return nil, k.stranger(n, "start")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		return nil, nil
	}
	b, err := k.broker(int32(n))
	if err != nil {
		return nil, err
	}
	if err := k.kills.start(ctx, b); err != nil {
		return nil, err
	}
	s.down = false
	if err := cluster.WaitFor(ctx, startedWithin, func(ctx context.Context) error { return k.answers(ctx, b, askedWithin) }); err != nil {
		return nil, fmt.Errorf("broker %s was started and does not answer at %s: %w", n, b.address(), err)
	}
	return nil, nil
}

// Stop kills a broker. There is no other way to stop one.
func (k *Cluster) Stop(ctx context.Context, n cluster.NodeID, how cluster.How, _ map[string]schedule.Cut) (cluster.Evidence, error) {
	s := k.states[n]
	switch {
	case s == nil:
		return cluster.Evidence{}, k.stranger(n, string(how))
	case how != cluster.Kill:
		return cluster.Evidence{}, fmt.Errorf("%s %s: %w: a cluster that the harness did not start can only be killed", how, n, cluster.ErrUnsupported)
	case k.kills == nil:
		return cluster.Evidence{}, fmt.Errorf("kill %s: %w: nothing says how", n, cluster.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := k.broker(int32(n))
	if err != nil {
		return cluster.Evidence{}, err
	}
	s.down = true
	e, err := k.kills.kill(ctx, b)
	if err == nil {
		s.paused = false // nothing is left that could go on
	}
	return e, err
}

// Pause freezes a broker or lets it go on.
func (k *Cluster) Pause(ctx context.Context, n cluster.NodeID, on bool) (cluster.Evidence, error) {
	s := k.states[n]
	switch {
	case s == nil && on:
		return cluster.Evidence{}, k.stranger(n, "pause")
	case s == nil:
		return cluster.Evidence{Proven: true}, nil // healed, since nothing was ever done to it
	case k.pauses == nil && on:
		return cluster.Evidence{}, fmt.Errorf("pause %s: %w: nothing says how", n, cluster.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := k.broker(int32(n))
	if err != nil {
		return cluster.Evidence{}, err
	}
	if on {
		s.paused = true
		return k.pauses.pause(ctx, b)
	}
	if s.paused {
		if err := k.pauses.resume(ctx, b); err != nil {
			return cluster.Evidence{}, err
		}
		s.paused = false
	}
	return cluster.Evidence{Proven: true}, nil
}

// stranger is the error about what is no broker. That a controller is up and goes on is true without doing anything.
func (k *Cluster) stranger(n cluster.NodeID, verb string) error {
	switch {
	case n != control.Controller:
		return fmt.Errorf("there is no broker %s; there are %v", n, k.ids)
	case verb == "start":
		return nil
	}
	return fmt.Errorf("%s controller: %w: where it runs is not known", verb, cluster.ErrUnsupported)
}

// Links cuts the links between brokers named and opens all others.
func (k *Cluster) Links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	if k.cuts == nil {
		if len(cut) == 0 {
			return cluster.Evidence{Proven: true}, nil
		}
		return cluster.Evidence{}, fmt.Errorf("cut: %w: nothing says how", cluster.ErrUnsupported)
	}
	return k.cuts.links(ctx, cut)
}

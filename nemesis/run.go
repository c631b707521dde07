package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
)

// Run plays a plan on a cluster and records its faults. It returns when the last step is done, or the context ends, or the
// harness cannot do what the plan says. It does not heal what is still going on then: that is for [Heal], which whoever
// opened the cluster calls on every way out.
func Run(ctx context.Context, p Plan, c Target, sink history.Sink, told func(Step)) error {
	n := NewPlayer(c, sink)
	began := time.Now()
	for _, s := range p {
		timer := time.NewTimer(time.Until(began.Add(s.At)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(n.Close(context.WithoutCancel(ctx)), ctx.Err())
		}
		if told != nil {
			told(s)
		}
		if err := n.Play(ctx, s); err != nil {
			return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}
	return n.Close(context.WithoutCancel(ctx))
}

// Target is what a plan needs of a cluster: see [cluster.Cluster].
type Target interface {
	Brokers() []int32
	Start(ctx context.Context, n cluster.NodeID) ([]control.Event, error)
	Stop(ctx context.Context, n cluster.NodeID, how cluster.How, cut map[string]schedule.Cut) (cluster.Evidence, error)
	Pause(ctx context.Context, n cluster.NodeID, on bool) (cluster.Evidence, error)
	Links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error)
}

// Heal sets the healthy state: links open, nobody paused, the controller and every broker up. It tries everything, whatever
// fails.
func Heal(ctx context.Context, c Target) error {
	_, err := c.Links(ctx, nil)
	nodes := everyNode(c)
	errs := make([]error, len(nodes))
	atOnce(len(nodes), func(i int) {
		_, err := c.Pause(ctx, nodes[i], false)
		_, err2 := c.Start(ctx, nodes[i])
		errs[i] = errors.Join(err, err2)
	})
	return errors.Join(append([]error{err}, errs...)...)
}

// HealInOrder is [Heal], one node after the other: for a cluster in which nothing takes time, and where the order shows.
func HealInOrder(ctx context.Context, c Target) error {
	_, err := c.Links(ctx, nil)
	errs := []error{err}
	for _, n := range everyNode(c) {
		_, err := c.Pause(ctx, n, false)
		_, err2 := c.Start(ctx, n)
		errs = append(errs, err, err2)
	}
	return errors.Join(errs...)
}

// atOnce does n things at the same time.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

func everyNode(c Target) []cluster.NodeID {
	nodes := []cluster.NodeID{control.Controller}
	for _, id := range c.Brokers() {
		nodes = append(nodes, cluster.NodeID(id))
	}
	return nodes
}

// Player plays the steps of a plan one by one and records the faults: for whoever has a clock of their own. [Run] plays a plan by
// the clock on the wall. It is not safe for concurrent use.
type Player struct {
	// InOrder does to one node after the other what a step does to several; else all of it is done at once.
	InOrder bool

	cluster Target
	sink    history.Sink
	last    int64
	open    map[string]*history.FaultEvent // by what ends them: a node's pause, a node's end, the links
}

// NewPlayer plays to a cluster.
func NewPlayer(c Target, sink history.Sink) *Player {
	return &Player{cluster: c, sink: sink, open: map[string]*history.FaultEvent{}}
}

// Play does one step and records the fault that it begins or ends. After an error, and at the end, Close is to be called.
func (n *Player) Play(ctx context.Context, s Step) error {
	if err := n.do(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func (n *Player) do(ctx context.Context, s Step) error {
	switch s.Verb {
	case "cut":
		return n.cut(ctx, s)
	case "heal":
		return n.heal(ctx)
	}
	// Several nodes at once: each is a fault of its own, since each is shown by itself.
	errs := make([]error, len(s.Nodes))
	faults := make([]*history.FaultEvent, len(s.Nodes))
	for i, id := range s.Nodes {
		if s.Verb != "start" && s.Verb != "resume" {
			one := s
			one.Nodes = []cluster.NodeID{id}
			if faults[i], errs[i] = n.begin(one, id); errs[i] != nil {
				return errs[i]
			}
		}
	}
	if one := func(i int) { errs[i] = n.one(ctx, s, s.Nodes[i], faults[i]) }; n.InOrder {
		for i := range s.Nodes {
			one(i)
		}
	} else {
		atOnce(len(s.Nodes), one)
	}
	for i, id := range s.Nodes {
		switch s.Verb {
		case "pause":
			errs = append(errs, n.over(pauseOf(id), nil)) // paused already: the new one goes on
			n.open[pauseOf(id)] = faults[i]
		case "resume":
			errs = append(errs, n.over(pauseOf(id), nil))
		case "kill", "powerfail":
			errs = append(errs, n.end(faults[i]))
		}
	}
	return errors.Join(errs...)
}

func pauseOf(id cluster.NodeID) string { return "pause " + id.String() }

func (n *Player) one(ctx context.Context, s Step, id cluster.NodeID, f *history.FaultEvent) error {
	var e cluster.Evidence
	var err error
	switch s.Verb {
	case "kill":
		e, err = n.cluster.Stop(ctx, id, cluster.Kill, nil)
	case "powerfail":
		e, err = n.cluster.Stop(ctx, id, cluster.Power, map[string]schedule.Cut{node.EveryLog: s.Cut})
	case "pause":
		e, err = n.cluster.Pause(ctx, id, true)
	case "resume":
		_, err = n.cluster.Pause(ctx, id, false)
	case "start":
		_, err = n.cluster.Start(ctx, id)
	}
	if f != nil {
		f.Evidence, f.Proven = e.Measured, e.Proven
	}
	return err
}

// cut replaces the links that are cut, all at once: what is cut before and after is not open between.
func (n *Player) cut(ctx context.Context, s Step) error {
	f, err := n.begin(s, endpoints(s.Links)...)
	if err != nil {
		return err
	}
	e, err := n.cluster.Links(ctx, s.Links)
	err = errors.Join(err, n.over("links", &e))
	n.open["links"] = f
	return err
}

// over ends the fault that goes on under that name, if there is one. What was measured at its end counts, unless nothing was.
func (n *Player) over(name string, e *cluster.Evidence) error {
	f := n.open[name]
	if f == nil {
		return nil
	}
	delete(n.open, name)
	if e != nil {
		f.Evidence, f.Proven = e.Measured, e.Proven
	}
	return n.end(f)
}

// endpoints are the nodes that lie on one side of every cut link, or else all that a link touches.
func endpoints(links []cluster.Link) []cluster.NodeID {
	var nodes []cluster.NodeID
	for _, l := range links {
		for _, n := range []cluster.NodeID{l.From, l.To} {
			if n != cluster.ClientsID && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		if !slices.ContainsFunc(links, func(l cluster.Link) bool { return l.From != n && l.To != n }) {
			return []cluster.NodeID{n}
		}
	}
	return nodes
}

func (n *Player) heal(ctx context.Context) error {
	e, err := n.cluster.Links(ctx, nil)
	if err != nil {
		return err
	}
	return n.over("links", &e)
}

func (n *Player) begin(s Step, nodes ...cluster.NodeID) (*history.FaultEvent, error) {
	n.last++
	f := &history.FaultEvent{ID: n.last, Phase: history.Begin, Verb: s.Verb, Asked: s.Asked()}
	for _, node := range nodes {
		f.Nodes = append(f.Nodes, int32(node))
	}
	begun := *f
	return f, n.sink.Append(&history.Event{Kind: history.KindFault, Fault: &begun})
}

func (n *Player) end(f *history.FaultEvent) error {
	over := *f
	over.Phase = history.Over
	return n.sink.Append(&history.Event{Kind: history.KindFault, Fault: &over})
}

// Close ends the faults that a plan left open, in the order in which they began, so that the history says so.
func (n *Player) Close(ctx context.Context) error {
	err := n.heal(ctx)
	open := slices.SortedFunc(maps.Values(n.open), func(a, b *history.FaultEvent) int { return cmp.Compare(a.ID, b.ID) })
	for _, f := range open {
		if f.Verb == "pause" {
			_, resumed := n.cluster.Pause(ctx, cluster.NodeID(f.Nodes[0]), false)
			err = errors.Join(err, resumed)
		}
		err = errors.Join(err, n.end(f))
	}
	clear(n.open)
	return err
}

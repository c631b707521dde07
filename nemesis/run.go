package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
)

// Run plays a plan on a cluster and records its faults. It returns when the last step is done, or the context ends, or the
// harness cannot do what the plan says. It does not heal what is still going on then: that is for [Heal], which whoever
// opened the cluster calls on every way out. A plan that names roles or waits for states needs a [Player] with a [Watch].
func Run(ctx context.Context, p Plan, c Target, sink history.Sink, told func(Step)) error {
	n := NewPlayer(c, sink)
	n.Told = told
	return n.Run(ctx, p)
}

// Target is what a plan needs of a cluster: see [cluster.Cluster]. Steps that give a node a command, or damage its files, need a
// [Commander] or a [cluster.Damager].
type Target interface {
	Brokers() []int32
	Start(ctx context.Context, n cluster.NodeID) ([]control.Event, error)
	Stop(ctx context.Context, n cluster.NodeID, how cluster.How, cut map[string]schedule.Cut) (cluster.Evidence, error)
	Pause(ctx context.Context, n cluster.NodeID, on bool) (cluster.Evidence, error)
	Links(ctx context.Context, faults []cluster.Link) (cluster.Evidence, error)
}

// Commander is a cluster whose nodes take commands.
type Commander interface {
	Control(ctx context.Context, n cluster.NodeID, c control.Command) (control.Reply, error)
}

// Player plays the steps of a plan one by one and records the faults. It is not safe for concurrent use.
type Player struct {
	// InOrder does to one node after the other what a step does to several; else all of it is done at once.
	InOrder bool
	// Watch says who has a role and in which state a partition is; nil: steps that need that are refused.
	Watch *Watch
	// Told, if not nil, is called with each step before it is done, with its nodes resolved.
	Told func(Step)

	cluster Target
	sink    history.Sink
	last    int64
	open    map[string]*history.FaultEvent // by what ends them: a node's pause, a node's disk, what a verb does to links
	links   map[string][]cluster.Link      // in force, by verb
	inForce []cluster.Link                 // what was asked of the cluster last, in that order
	names   map[string][]cluster.NodeID    // given with "as"
	down    map[cluster.NodeID]bool        // stopped by a step, and not started
	asked   string                         // the step that is being done in the plan's words, "" if they are its own
	sighted string                         // what was seen of the state that it waited for, "" if for none
	played  Plan
}

// NewPlayer plays to a cluster.
func NewPlayer(c Target, sink history.Sink) *Player {
	return &Player{cluster: c, sink: sink, open: map[string]*history.FaultEvent{}, links: map[string][]cluster.Link{}, names: map[string][]cluster.NodeID{},
		down: map[cluster.NodeID]bool{}}
}

// Played is what was done so far, with every role, name and shape resolved: a plan that can be played again. What a step was asked
// for is in its note.
func (n *Player) Played() Plan { return slices.Clone(n.played) }

func (n *Player) brokers() []cluster.NodeID {
	var ids []cluster.NodeID
	for _, id := range n.cluster.Brokers() {
		ids = append(ids, cluster.NodeID(id))
	}
	return ids
}

// Play does one step now and records the fault that it begins or ends. A step whose role is vacant, or whose state does not hold, is a
// fault that nothing proves. After an error, and at the end, Close is to be called.
func (n *Player) Play(ctx context.Context, s Step) error {
	seen := ""
	if s.When != nil {
		holds := false
		if seen, holds = n.Watch.holds(*s.When); !holds {
			return n.missed(s, "the state does not hold now")
		}
	}
	resolved, ok := n.resolve(s)
	if !ok {
		return n.missed(s, vacant)
	}
	return n.step(ctx, s, resolved, seen)
}

// vacant is why a step was not done.
const vacant = "nobody has the role, or the name"

// step tells of a step, resolved from what was asked, and does it.
func (n *Player) step(ctx context.Context, asked, s Step, sighted string) error {
	n.asked, n.sighted = "", sighted
	if asked.isOpen() {
		n.asked = asked.Asked()
	}
	if k := len(n.played); k > 0 {
		s.At = max(s.At, n.played[k-1].At) // what waited is done between steps whose times have passed
	}
	n.played = append(n.played, s)
	if n.Told != nil {
		n.Told(s)
	}
	if err := n.do(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// missed records a step that could not be done because what it names did not come to be.
func (n *Player) missed(s Step, why string) error {
	if !s.IsFault() {
		return nil // the fault that it would have ended was not done, and says so
	}
	if s.Optional {
		return nil
	}
	n.asked, n.sighted = "", ""
	f, err := n.begin(s)
	if err != nil {
		return err
	}
	f.Evidence = []history.Measurement{{Name: "not done", Value: why}}
	return n.end(f)
}

func (n *Player) do(ctx context.Context, s Step) error {
	v, _ := verbOf(s.Verb)
	switch {
	case v.takes == takesLinks:
		return n.impair(ctx, s)
	case v.takes == takesVerbs:
		return n.heal(ctx, s.Heals)
	}
	// Several nodes at once: each is a fault of its own, since each is shown by itself.
	errs := make([]error, len(s.Nodes))
	faults := make([]*history.FaultEvent, len(s.Nodes))
	for i, id := range s.Nodes {
		if ends(s.Verb) || lasting(s.Verb, id) == diskOf(id) {
			if err := n.diskOver(ctx, id); err != nil {
				return err
			}
		}
		if v.fault {
			one := s
			one.Nodes = []cluster.NodeID{id}
			if faults[i], errs[i] = n.begin(one, id); errs[i] != nil {
				return errs[i]
			}
		}
	}
	one := func(i int) {
		e, err := n.one(ctx, s, s.Nodes[i])
		if errs[i] = err; faults[i] != nil {
			faults[i].Evidence, faults[i].Proven = append(faults[i].Evidence, e.Measured...), e.Proven && err == nil
		}
	}
	if n.InOrder {
		for i := range s.Nodes {
			one(i)
		}
	} else {
		atOnce(len(s.Nodes), one)
	}
	for i, id := range s.Nodes {
		switch {
		case s.Verb == "start" || s.Verb == "restart":
			delete(n.down, id)
		case ends(s.Verb):
			n.down[id] = true
		}
		switch name := lasting(s.Verb, id); {
		case s.Verb == "resume":
			errs = append(errs, n.over(pauseOf(id), nil))
		case name != "":
			errs = append(errs, n.over(name, nil)) // done already: the new one goes on
			n.open[name] = faults[i]
		case v.fault:
			errs = append(errs, n.end(faults[i]))
		}
	}
	return errors.Join(errs...)
}

// ends says whether the process of a node ends with the verb.
func ends(verb string) bool {
	return verb == "kill" || verb == "stop" || verb == "restart" || verb == "powerfail"
}

// lasting is the name under which the fault of a verb at a node goes on, "" if it is over when it is done.
func lasting(verb string, id cluster.NodeID) string {
	switch verb {
	case "pause":
		return pauseOf(id)
	case "eio", "full", "slowsync":
		return diskOf(id)
	}
	return ""
}

func pauseOf(id cluster.NodeID) string { return "pause " + id.String() }
func diskOf(id cluster.NodeID) string  { return "disk " + id.String() }

// one does a step to one of its nodes.
func (n *Player) one(ctx context.Context, s Step, id cluster.NodeID) (cluster.Evidence, error) {
	switch s.Verb {
	case "kill":
		return n.cluster.Stop(ctx, id, cluster.Kill, nil)
	case "stop":
		return n.cluster.Stop(ctx, id, cluster.Clean, nil)
	case "restart":
		e, err := n.cluster.Stop(ctx, id, cluster.Clean, nil)
		if err == nil {
			_, err = n.cluster.Start(ctx, id)
		}
		return e, err
	case "powerfail":
		return n.cluster.Stop(ctx, id, cluster.Power, map[string]schedule.Cut{node.EveryLog: s.Cut})
	case "pause":
		return n.cluster.Pause(ctx, id, true)
	case "resume":
		return n.cluster.Pause(ctx, id, false)
	case "start":
		_, err := n.cluster.Start(ctx, id)
		return cluster.Evidence{}, err
	case "mend":
		return cluster.Evidence{}, n.mend(ctx, id)
	case "eio", "full", "slowsync":
		return n.breakDisk(ctx, s, id)
	case "flip", "chop", "forget":
		return n.damage(ctx, s, id)
	case "transfer", "fence":
		return n.move(ctx, s, id)
	}
	return cluster.Evidence{}, unknownVerb(s.Verb)
}

// over ends the fault that goes on under that name, if there is one. What was measured at its end counts, unless nothing was.
func (n *Player) over(name string, e *cluster.Evidence) error {
	f := n.open[name]
	if f == nil {
		return nil
	}
	delete(n.open, name)
	if e != nil {
		f.Evidence, f.Proven = append(f.Evidence, e.Measured...), e.Proven
	}
	return n.end(f)
}

func (n *Player) begin(s Step, nodes ...cluster.NodeID) (*history.FaultEvent, error) {
	asked := n.asked
	if asked == "" {
		asked = s.Asked()
	}
	n.last++
	f := &history.FaultEvent{ID: n.last, Phase: history.Begin, Verb: s.Verb, Asked: asked}
	for _, node := range nodes {
		f.Nodes = append(f.Nodes, int32(node))
	}
	begun := *f
	if n.sighted != "" {
		f.Evidence = []history.Measurement{{Name: "state seen", Value: n.sighted}}
	}
	return f, n.sink.Append(&history.Event{Kind: history.KindFault, Fault: &begun})
}

func (n *Player) end(f *history.FaultEvent) error {
	over := *f
	over.Phase = history.Over
	return n.sink.Append(&history.Event{Kind: history.KindFault, Fault: &over})
}

// Close ends the faults that a plan left open, in the order in which they began, so that the history says so.
func (n *Player) Close(ctx context.Context) error {
	err := n.heal(ctx, nil)
	open := slices.SortedFunc(maps.Values(n.open), func(a, b *history.FaultEvent) int { return cmp.Compare(a.ID, b.ID) })
	for _, f := range open {
		id := cluster.NodeID(f.Nodes[0])
		if f.Verb != "pause" {
			err = errors.Join(err, n.mend(ctx, id))
			continue
		}
		_, resumed := n.cluster.Pause(ctx, id, false)
		err = errors.Join(err, resumed, n.over(pauseOf(id), nil))
	}
	clear(n.open)
	return err
}

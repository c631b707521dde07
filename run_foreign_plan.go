package tidemark

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/cluster"
	"tidemark/cluster/foreign"
	"tidemark/nemesis"
	"tidemark/node/control"
)

// plan decides which faults are played, and refuses those for which there is no way.
func (f *foreignRun) plan() error {
	c, can := &f.config, f.own.Abilities()
	var ids []cluster.NodeID
	for _, id := range f.own.Brokers() {
		ids = append(ids, cluster.NodeID(id))
	}
	if c.Foreign.PlanName != "" || c.Foreign.Plan != "" {
		p, err := nemesis.ParsePlan(c.Foreign.PlanName, c.Foreign.Plan, ids)
		if err != nil {
			return err
		}
		p = p.Expand(ids)
		for _, s := range p {
			if err := f.playable(s, can); err != nil {
				return fmt.Errorf("%w: %s: %w", foreign.ErrConfig, s, err)
			}
			if s.At > c.Time {
				return fmt.Errorf("%w: plan: %s is after the run's time %s; give more time", foreign.ErrConfig, s, c.Time)
			}
		}
		c.Plan = p
		return nil
	}
	var faults []nemesis.Fault
	for _, fault := range c.Faults {
		missing := missingFor(fault, can, len(ids))
		switch {
		case missing == "":
			faults = append(faults, fault)
		case !c.Foreign.Able:
			return fmt.Errorf("%w: fault %s: %s", foreign.ErrConfig, fault, missing)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	stretch := time.Duration(c.Foreign.Stretch)
	c.Plan = nemesis.Random(c.Seed, faults, ids, c.Time/stretch).Expand(ids)
	if len(c.Plan) == 0 {
		return fmt.Errorf("%w: time %s is too short for faults: give %s or more, or faults none", foreign.ErrConfig, c.Time, 10*time.Second*stretch)
	}
	for i := range c.Plan {
		s := &c.Plan[i]
		s.At *= stretch
		if len(s.Links) > 0 && (!can.AnyShape || !slices.ContainsFunc(s.Links, isBetweenKnown)) {
			s.Links = cutOff(s.Links, ids)
		}
		if err := f.playable(*s, can); err != nil {
			return fmt.Errorf("drawn from the seed: %s: %w", s, err)
		}
	}
	return nil
}

// isBetweenKnown says whether both ends of a link are known: where the controller runs is not.
func isBetweenKnown(l cluster.Link) bool {
	return l.From != control.Controller && l.To != control.Controller
}

// missingFor says what has to be given for a fault, "" if it can be played.
func missingFor(fault nemesis.Fault, can foreign.Abilities, brokers int) string {
	switch {
	case fault == nemesis.Kill && !can.Kill:
		return "nothing says how to kill a broker: give --on-kill and --on-start, or --container"
	case fault == nemesis.Pause && !can.Pause:
		return "nothing says how to freeze a broker: give --on-pause and --on-resume, or --container"
	case fault == nemesis.Partition && !can.Partition:
		return "nothing says how to cut a broker off: give --on-partition, --check-partition and --on-heal, or --container"
	case fault == nemesis.Partition && brokers < 2:
		return "there is one broker; nothing can come between it and others"
	case fault == nemesis.Kill || fault == nemesis.Pause || fault == nemesis.Partition:
		return ""
	}
	return "it can be played only on clusters that the harness starts; there are kill, pause and partition"
}

// playable says why a step cannot be played; nil if it can.
func (f *foreignRun) playable(s nemesis.Step, can foreign.Abilities) error {
	if s.When != nil || len(s.Roles)+len(s.Names) > 0 {
		return errors.New("roles and states are told by nodes that the harness starts; name brokers by their ids")
	}
	fault, known := map[string]nemesis.Fault{"kill": nemesis.Kill, "start": nemesis.Kill, "pause": nemesis.Pause, "resume": nemesis.Pause,
		"cut": nemesis.Partition, "heal": nemesis.Partition}[s.Verb]
	if !known {
		fault = nemesis.Fault(s.Verb)
	}
	if missing := missingFor(fault, can, len(f.own.Brokers())); missing != "" {
		return errors.New(missing)
	}
	if slices.Contains(s.Nodes, control.Controller) {
		return errors.New("where the controller runs is not known")
	}
	if s.Verb == "cut" {
		return f.own.CanCut(s.Links)
	}
	return nil
}

// cutOff makes of any partition one that a hook can play: the broker that most of its links touch, the lowest of those, is cut off
// from all others.
func cutOff(links []cluster.Link, brokers []cluster.NodeID) []cluster.Link {
	touched := map[cluster.NodeID]int{}
	for _, l := range links {
		touched[l.From]++
		touched[l.To]++
	}
	alone := brokers[0]
	for _, n := range brokers {
		if touched[n] > touched[alone] {
			alone = n
		}
	}
	var out []cluster.Link
	for _, n := range brokers {
		if n != alone {
			out = append(out, cluster.Link{From: alone, To: n}, cluster.Link{From: n, To: alone})
		}
	}
	return out
}

package tidemark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis"
	"tidemark/results"
)

// planFaults draws the plan of faults if none is given, and says what of it this run cannot do.
func (c *RunConfig) planFaults(k cluster.Config) error {
	var all, replicated []string
	for _, t := range k.Topics {
		for i, replicas := range t.Partitions {
			name := fmt.Sprintf("%s-%d", t.Name, i)
			all = append(all, name)
			if len(replicas) > 1 {
				replicated = append(replicated, name)
			}
		}
	}
	if c.Plan == nil && len(c.Faults) > 0 {
		if c.Plan = nemesis.Random(c.Seed, c.Faults, k.Brokers, c.Time, replicated...); len(c.Plan) == 0 {
			return fmt.Errorf("time %s is too short for faults: give 10s or more, or faults none", c.Time)
		}
	}
	for _, s := range c.Plan {
		last := s.At
		if s.When != nil {
			last += s.When.Within
		}
		switch {
		case last > c.Time:
			return fmt.Errorf("plan: %s is after the run's time %s; give more time", s, c.Time)
		case c.Direct && s.IsOfLinks():
			return fmt.Errorf("direct: without links there are no partitions, and no faults of links such as %q; leave out one of the two", s)
		}
		if why := unsupported(c.On, s.Verb); why != "" {
			return fmt.Errorf("plan: %s: %s: %w", s, why, cluster.ErrUnsupported)
		}
	}
	for _, name := range c.Plan.Partitions() {
		if !slices.Contains(all, name) {
			return fmt.Errorf("plan: there is no partition %s; there are %v", name, all)
		}
	}
	return nil
}

// plannedFaults counts the steps that have to be faults for a pass.
func plannedFaults(p nemesis.Plan) int {
	n := 0
	for _, s := range p {
		if s.IsFault() && !s.Optional {
			n++
		}
	}
	return n
}

// unsupported are the verbs that a backend does not have, and why.
func unsupported(on Backend, verb string) string {
	switch {
	case on == OnDocker && verb == "delay":
		return "packet rules cannot delay what containers send; use processes, or loss, rate and reset"
	case on == OnSim && slices.Contains([]string{"loss", "delay", "rate", "reset"}, verb):
		return "a simulation is told by its network how messages travel; use processes, or cut"
	case on == OnSim && slices.Contains([]string{"eio", "full", "slowsync", "mend", "flip", "chop", "forget"}, verb):
		return "a simulated disk does not break; use processes, or powerfail"
	}
	return ""
}

// faults plays the plan of faults by the clock on the wall.
func (r *run) faults(ctx context.Context, c cluster.Cluster, sink history.Sink) error {
	p := nemesis.NewPlayer(c, sink)
	p.Watch, p.Told = r.nodes, r.struck
	err := p.Run(ctx, r.config.Plan)
	return errors.Join(err, r.keepPlayed(p.Played()))
}

// keepPlayed keeps what was done in place of what was planned.
func (r *run) keepPlayed(p nemesis.Plan) error {
	r.played = p
	return r.folder.WriteText(results.Schedule, p.String())
}

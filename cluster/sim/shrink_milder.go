package sim

import (
	"slices"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

// dropBrokers tries with one broker less.
func (s *shrinker) dropBrokers() {
	for _, n := range slices.Clone(s.file.Cluster.Replicas) {
		if len(s.file.Cluster.Replicas) < 3 {
			return
		}
		c := clone(s.file)
		c.Cluster.Replicas = slices.DeleteFunc(slices.Clone(c.Cluster.Replicas), func(o control.NodeID) bool { return o == n })
		c.Cluster.MinISR = min(c.Cluster.MinISR, len(c.Cluster.Replicas))
		var steps []schedule.Step
		for _, step := range c.Steps {
			named := len(step.Nodes) > 0
			step.Nodes = slices.DeleteFunc(slices.Clone(step.Nodes), func(o control.NodeID) bool { return o == n })
			if named && len(step.Nodes) == 0 || step.To == n || step.Message.From == n.String() || step.Message.To == n.String() {
				continue
			}
			steps = append(steps, step)
		}
		c.Steps = steps
		s.accept(c)
	}
}

// dropEpochs tries without one leader epoch at a time: without everything from one election up to the next. Single steps of an
// epoch often make no sense without each other, so that delta debugging, which knows nothing of epochs, leaves them.
func (s *shrinker) dropEpochs() {
	for at := s.elections(s.file); len(at) > 0; at = at[:len(at)-1] {
		from, to := at[len(at)-1], len(s.file.Steps)
		before := s.file
		for _, next := range append(s.elections(s.file), to) {
			if next > from && s.without(from, next) {
				break
			}
		}
		if s.file != before {
			return // places are others now
		}
	}
}

// elections are the places of the steps in which a leader epoch begins; none if a world cannot take every step.
func (s *shrinker) elections(f *schedule.File) []int {
	if !modelled(f) {
		return nil
	}
	w, err := s.begin(f)
	if err != nil {
		return nil
	}
	var at []int
	for i, step := range f.Steps {
		before := w.leaderEpoch
		w.Apply(step)
		if w.leaderEpoch != before {
			at = append(at, i)
		}
	}
	return at
}

// soften tries with a broker cut off where its process ended, and connected again where that was started.
func (s *shrinker) soften() {
	for i, step := range s.file.Steps {
		if step.Verb != schedule.Kill {
			continue
		}
		c := clone(s.file)
		c.Steps[i].Verb = schedule.Isolate
		if reconnect(c.Steps[i+1:], step.Nodes) {
			s.accept(c)
		}
	}
}

// reconnect makes of the next start of each of the brokers a healing. It is false if one of them is started together with others.
func reconnect(steps []schedule.Step, brokers []control.NodeID) bool {
	cut := slices.Clone(brokers)
	for i := range steps {
		step := &steps[i]
		if step.Verb != schedule.Start && step.Verb != schedule.Kill && step.Verb != schedule.PowerFail {
			continue
		}
		of := func(n control.NodeID) bool { return slices.Contains(cut, n) }
		switch {
		case !slices.ContainsFunc(step.Nodes, of):
			continue
		case step.Verb == schedule.Start:
			if slices.ContainsFunc(step.Nodes, func(n control.NodeID) bool { return !of(n) }) {
				return false
			}
			step.Verb = schedule.Heal
		}
		cut = slices.DeleteFunc(cut, func(n control.NodeID) bool { return slices.Contains(step.Nodes, n) })
	}
	return true
}

// milder are steps that do less than the step, the mildest first.
func milder(s schedule.Step) []schedule.Step {
	var all []schedule.Step
	with := func(change func(*schedule.Step)) {
		c := s
		c.Nodes = slices.Clone(s.Nodes)
		change(&c)
		all = append(all, c)
	}
	switch {
	case s.Verb == schedule.PowerFail:
		with(func(c *schedule.Step) { c.Verb, c.Cut = schedule.Kill, schedule.Cut{} })
		for keep := range s.Cut.Keep {
			with(func(c *schedule.Step) { c.Cut = schedule.Cut{Keep: keep} })
		}
		if s.Cut.Torn > 0 {
			with(func(c *schedule.Step) { c.Cut.Torn = 0 })
		}
	case s.Verb == schedule.Produce && s.To != 0:
		with(func(c *schedule.Step) { c.To = 0 })
	case s.Verb == schedule.Fetch && s.Max > 0:
		with(func(c *schedule.Step) { c.Max = 0 })
	case s.Verb == schedule.Fetch && (s.Mode == "send" || s.Mode == "request"):
		with(func(c *schedule.Step) { c.Mode = "" })
	case s.Verb == schedule.Heal && len(s.Nodes) > 0:
		with(func(c *schedule.Step) { c.Nodes = nil })
	}
	return all
}

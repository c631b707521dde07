package nemesis

import (
	"slices"
	"time"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

// random is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). The standard library's
// generators do not promise the same reductions in every version; a seed has to mean the same next year.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

func (r *random) between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.next()%uint64(high-low))
}

// How long things take in a random plan. Faults are longer than a session, so that some of them move the leadership, and
// some are shorter.
const (
	firstCalm = 1 * time.Second
	shortest  = 300 * time.Millisecond
	longest   = 3500 * time.Millisecond
	calmLow   = 500 * time.Millisecond
	calmHigh  = 2500 * time.Millisecond
)

// Random draws a plan of faults that fills a time, the last of them healed before it ends. No faults, or too short a time,
// is an empty plan.
func Random(seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration) Plan {
	if len(faults) == 0 {
		return nil
	}
	r := random(seed)
	var p Plan
	for at := firstCalm + r.between(0, calmHigh); ; {
		lasts := r.between(shortest, longest)
		fault := faults[r.below(len(faults))]
		begin, end := draw(&r, fault, brokers)
		if at+lasts > within {
			return p
		}
		begin.At, end.At = at.Truncate(time.Millisecond), (at + lasts).Truncate(time.Millisecond)
		p = append(p, begin, end)
		at += lasts + r.between(calmLow, calmHigh)
	}
}

// draw draws a fault of that kind, and what ends it.
func draw(r *random, fault Fault, brokers []cluster.NodeID) (begin, end Step) {
	// Mostly one node; sometimes all but one, so that min.insync.replicas is not met.
	victims := pick(r, brokers, 1)
	if len(brokers) > 2 && r.below(4) == 0 {
		victims = pick(r, brokers, len(brokers)-1)
	}
	switch fault {
	case Kill:
		return Step{Verb: "kill", Nodes: victims}, Step{Verb: "start", Nodes: victims}
	case Power:
		var cut schedule.Cut
		if r.below(2) == 0 {
			cut = schedule.Cut{Keep: r.below(20), Torn: r.below(60)}
		}
		return Step{Verb: "powerfail", Nodes: victims, Cut: cut}, Step{Verb: "start", Nodes: victims}
	case Pause:
		return Step{Verb: "pause", Nodes: victims}, Step{Verb: "resume", Nodes: victims}
	}
	return Step{Verb: "cut", Links: shape(r, brokers)}, Step{Verb: "heal"}
}

// pick chooses n different brokers, in order of their ids.
func pick(r *random, brokers []cluster.NodeID, n int) []cluster.NodeID {
	rest := slices.Clone(brokers)
	var chosen []cluster.NodeID
	for range n {
		i := r.below(len(rest))
		chosen = append(chosen, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	slices.Sort(chosen)
	return chosen
}

// shape draws the links that a partition cuts.
func shape(r *random, brokers []cluster.NodeID) []cluster.Link {
	alone := pick(r, brokers, 1)[0]
	everybody := append([]cluster.NodeID{cluster.ClientsID, control.Controller}, brokers...)
	var others []cluster.NodeID
	for _, n := range everybody {
		if n != alone {
			others = append(others, n)
		}
	}
	switch r.below(4) {
	case 0: // one way only: what the node sends is lost, what it is sent arrives
		return oneWay([]cluster.NodeID{alone}, others)
	case 1: // the other way only
		return oneWay(others, []cluster.NodeID{alone})
	case 2: // halves: the controller is on one side, the clients reach both
		half := pick(r, brokers, (len(brokers)+1)/2)
		var rest []cluster.NodeID
		for _, n := range brokers {
			if !slices.Contains(half, n) {
				rest = append(rest, n)
			}
		}
		side := append(slices.Clone(rest), control.Controller)
		return append(oneWay(half, side), oneWay(side, half)...)
	}
	return append(oneWay([]cluster.NodeID{alone}, others), oneWay(others, []cluster.NodeID{alone})...)
}

func oneWay(from, to []cluster.NodeID) []cluster.Link {
	var links []cluster.Link
	for _, f := range from {
		for _, t := range to {
			links = append(links, cluster.Link{From: f, To: t})
		}
	}
	return links
}

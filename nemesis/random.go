package nemesis

import (
	"cmp"
	"slices"
	"time"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
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

// between is a time from low on, below high; low if there is none.
func (r *random) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return (low + time.Duration(r.next()%uint64(high-low))).Truncate(time.Millisecond)
}

// How long things take in a random plan. Faults are longer than a session, so that some of them move the leadership, and
// some are shorter.
const (
	firstCalm  = 1 * time.Second
	periodLow  = 2500 * time.Millisecond
	periodHigh = 6 * time.Second
	shortest   = 300 * time.Millisecond
	longest    = 3500 * time.Millisecond
	calmLow    = 500 * time.Millisecond
	calmHigh   = 2500 * time.Millisecond
)

// Random draws a plan of faults that fills a time: in each period some of the kinds at overlapping times, or none of them, and all
// of it healed before the period ends. A broker is under one fault of its own at a time. Partitions, if given, let steps name
// leaders and followers. No faults, or too short a time, is an empty plan.
func Random(seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration, partitions ...string) Plan {
	if len(faults) == 0 {
		return nil
	}
	d := &drawing{r: random(seed), brokers: brokers, partitions: partitions}
	for at := firstCalm + d.r.between(0, calmHigh); at+periodLow <= within; {
		end := min(at+d.r.between(periodLow, periodHigh), within)
		d.busy = map[cluster.NodeID]bool{}
		for _, f := range d.kinds(faults, len(d.plan) == 0) {
			d.begin = at + d.r.between(0, (end-at)/3)
			d.end = min(d.begin+d.r.between(shortest, longest), end)
			d.draw(f, end)
		}
		at = end + d.r.between(calmLow, calmHigh)
	}
	slices.SortStableFunc(d.plan, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return d.plan
}

// drawing is a random plan that is being made.
type drawing struct {
	r          random
	brokers    []cluster.NodeID
	partitions []string
	plan       Plan

	busy       map[cluster.NodeID]bool // in this period, by a fault of its own
	begin, end time.Duration           // of the fault that is being drawn
	names      int
}

// kinds draws which kinds of fault a period has: none, in one of eight, or up to three different ones.
func (d *drawing) kinds(faults []Fault, some bool) []Fault {
	n := min([]int{0, 1, 1, 1, 2, 2, 3, 3}[d.r.below(8)], len(faults))
	if n == 0 && some {
		n = 1 // a plan has at least one fault
	}
	rest := slices.Clone(faults)
	var chosen []Fault
	for range n {
		i := d.r.below(len(rest))
		chosen = append(chosen, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return chosen
}

// add adds a step.
func (d *drawing) add(at time.Duration, s Step) {
	s.At = at.Truncate(time.Millisecond)
	d.plan = append(d.plan, s)
}

// victims draws brokers that are under no other fault, and none if there are none: mostly one, sometimes all but one, so that
// min.insync.replicas is not met.
func (d *drawing) victims() []cluster.NodeID {
	var idle []cluster.NodeID
	for _, n := range d.brokers {
		if !d.busy[n] {
			idle = append(idle, n)
		}
	}
	n := min(1, len(idle))
	if len(d.brokers) > 2 && d.r.below(4) == 0 {
		n = min(len(d.brokers)-1, len(idle))
	}
	chosen := pick(&d.r, idle, n)
	for _, v := range chosen {
		d.busy[v] = true
	}
	return chosen
}

// victim draws one broker that is under no other fault.
func (d *drawing) victim() []cluster.NodeID {
	chosen := d.victims()
	for _, v := range chosen[min(1, len(chosen)):] {
		delete(d.busy, v)
	}
	return chosen[:min(1, len(chosen))]
}

// takesAll has no broker come under another fault, because the one that is being drawn is for all of them, or nobody knows yet for
// which. It is false if one is under another already.
func (d *drawing) takesAll() bool {
	if len(d.busy) > 0 {
		return false
	}
	for _, n := range d.brokers {
		d.busy[n] = true
	}
	return true
}

// name is a name for a step's nodes that none has.
func (d *drawing) name() string {
	for {
		d.names++
		name := ""
		for n := d.names; n > 0; n = (n - 1) / 26 {
			name = string(rune('a'+(n-1)%26)) + name
		}
		if isName(name) {
			return name
		}
	}
}

// partition draws one of the partitions; false: none was given.
func (d *drawing) partition() (string, bool) {
	if len(d.partitions) == 0 {
		return "", false
	}
	return d.partitions[d.r.below(len(d.partitions))], true
}

// draw draws a fault of a kind, and what ends it.
func (d *drawing) draw(f Fault, until time.Duration) {
	switch f {
	case Kill, Stop, Pause, Power:
		d.drawOutage(f)
	case Partition:
		d.drawPartition(until)
	case Restarts, Rolling, KillAll:
		d.end = until
		d.drawStorm(f)
	case LinkLoss, LinkDelay, LinkRate, LinkReset:
		d.end = max(d.end, min(d.begin+longest/2, until)) // long enough for something to be sent
		d.drawLinks(f)
	case AppendError, DiskFull, SlowSync:
		d.end = max(d.end, min(d.begin+longest/2, until))
		d.drawDisk(f)
	case BitFlip, ChoppedTail, Forgotten:
		d.drawDamage(f)
	case Transfer, Fenced:
		d.drawLeaders(f)
	}
}

func (d *drawing) drawOutage(f Fault) {
	begin := Step{Verb: string(f)}
	end := Step{Verb: "start"}
	switch f {
	case Pause:
		end.Verb = "resume"
	case Power:
		begin.Verb = "powerfail"
		if d.r.below(2) == 0 {
			begin.Cut = schedule.Cut{Keep: d.r.below(20), Torn: d.r.below(60)}
		}
	}
	byRole := d.r.below(3) == 0
	if p, ok := d.partition(); ok && byRole && d.takesAll() {
		begin.Optional, begin.As = true, d.name()
		begin.Roles = []Role{{[]RoleName{Leader, Leader, Follower, LastISR}[d.r.below(4)], p}}
		end.Names = []string{begin.As}
	} else if begin.Nodes = d.victims(); len(begin.Nodes) == 0 {
		return
	} else {
		end.Nodes = begin.Nodes
	}
	d.add(d.begin, begin)
	d.add(d.end, end)
}

// drawPartition draws a shape. Some cut nothing over which anything is sent unless the right nodes are named: those go by roles. Those
// that are about several brokers want all of them to be up, since who is down sends nothing that could be lost.
func (d *drawing) drawPartition(until time.Duration) {
	s := Step{Verb: "cut"}
	p, known := d.partition()
	shapes := []Shape{Isolate, SendsNothing, ReceivesNothing, ControllerFrom}
	if len(d.busy) == 0 {
		shapes = append(shapes, Halves)
		if len(d.brokers) > 2 {
			shapes = append(shapes, MajorityRing)
		}
	}
	if known && len(d.busy) == 0 {
		shapes = append(shapes, ClientsFrom, OneLink)
		if len(d.brokers) > 2 {
			shapes = append(shapes, Bridge)
		}
	}
	s.Shape = shapes[d.r.below(len(shapes))]
	switch s.Shape {
	case Halves:
		s.Nodes = pick(&d.r, d.brokers, (len(d.brokers)+1)/2)
	case MajorityRing:
		s.Nodes = shuffled(&d.r, d.brokers)
	case ClientsFrom:
		s.Optional, s.Roles = true, []Role{{Leader, p}}
	case OneLink:
		s.Optional, s.Roles = true, []Role{{Leader, p}, {Follower, p}}
	case Bridge:
		s.Optional, s.Roles = true, []Role{{Follower, p}}
	default:
		if s.Nodes = d.victim(); len(s.Nodes) == 0 {
			return
		}
	}
	if s.Optional || s.Shape == Halves || s.Shape == MajorityRing {
		d.takesAll()
		d.end = max(d.end, min(d.begin+longest/3, until)) // long enough for something to be sent
	}
	d.add(d.begin, s)
	d.add(d.end, Step{Verb: "heal", Heals: []string{"cut"}})
}

// The times of storms.
const (
	downLow, downHigh = 100 * time.Millisecond, 400 * time.Millisecond
	upLow, upHigh     = 200 * time.Millisecond, 900 * time.Millisecond
)

func (d *drawing) drawStorm(f Fault) {
	if f == Restarts {
		victim := d.victim()
		if len(victim) == 0 {
			return
		}
		for at := d.begin; ; {
			down := d.r.between(downLow, downHigh)
			if at+down > d.end {
				return
			}
			d.add(at, Step{Verb: "kill", Nodes: victim})
			d.add(at+down, Step{Verb: "start", Nodes: victim})
			at += down + d.r.between(upLow, upHigh)
		}
	}
	if !d.takesAll() {
		return // it is for all brokers or for none
	}
	order := shuffled(&d.r, d.brokers)
	each := (d.end - d.begin) / time.Duration(len(order)+1)
	if f == KillAll {
		d.add(d.begin, Step{Verb: "kill", Nodes: slices.Clone(d.brokers)})
	}
	for i, n := range order {
		at := d.begin + time.Duration(i)*each
		if f == KillAll {
			d.add(at+d.r.between(shortest/3, each), Step{Verb: "start", Nodes: []cluster.NodeID{n}})
		} else {
			d.add(at, Step{Verb: "restart", Nodes: []cluster.NodeID{n}})
		}
	}
}

func (d *drawing) drawLinks(f Fault) {
	s := Step{Verb: string(f), Shape: Isolate}
	if s.Nodes = d.victim(); len(s.Nodes) == 0 {
		return
	}
	switch f {
	case LinkLoss:
		s.Amount = int64(20 + d.r.below(50))
	case LinkDelay:
		s.Amount = int64(d.r.between(50*time.Millisecond, 700*time.Millisecond))
	case LinkRate:
		s.Amount = int64(2000 + d.r.below(30_000))
	}
	d.add(d.begin, s)
	d.add(d.end, Step{Verb: "heal", Heals: []string{s.Verb}})
}

func (d *drawing) drawDisk(f Fault) {
	s := Step{Verb: string(f)}
	if s.Nodes = d.victim(); len(s.Nodes) == 0 {
		return
	}
	if f == SlowSync {
		s.Amount = int64(d.r.between(50*time.Millisecond, 800*time.Millisecond))
	}
	d.add(d.begin, s)
	d.add(d.end, Step{Verb: "mend", Nodes: s.Nodes})
}

func (d *drawing) drawDamage(f Fault) {
	s := Step{Verb: string(f)}
	if s.Nodes = d.victim(); len(s.Nodes) == 0 {
		return
	}
	if f != Forgotten {
		s.Amount = int64(1 + d.r.below(2000))
	}
	d.add(d.begin, Step{Verb: "kill", Nodes: s.Nodes})
	d.add(d.begin+(d.end-d.begin)/2, s)
	d.add(d.end, Step{Verb: "start", Nodes: s.Nodes})
}

func (d *drawing) drawLeaders(f Fault) {
	s := Step{Verb: string(f)}
	if p, ok := d.partition(); ok {
		s.Optional, s.Roles = true, []Role{{Follower, p}}
		if f == Fenced && d.r.below(2) == 0 {
			s.Roles[0].Name = Leader
		}
	} else if f == Transfer {
		return // who leads already cannot be told from who does not
	} else if s.Nodes = d.victim(); len(s.Nodes) == 0 {
		return
	}
	d.add(d.begin, s)
}

// pick chooses n different brokers, in order of their ids.
func pick(r *random, brokers []cluster.NodeID, n int) []cluster.NodeID {
	chosen := shuffled(r, brokers)[:n]
	slices.Sort(chosen)
	return chosen
}

// shuffled is the brokers in a random order.
func shuffled(r *random, brokers []cluster.NodeID) []cluster.NodeID {
	all := slices.Clone(brokers)
	for i := len(all) - 1; i > 0; i-- {
		j := r.below(i + 1)
		all[i], all[j] = all[j], all[i]
	}
	return all
}

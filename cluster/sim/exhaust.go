package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"tidemark/checker"
	"tidemark/node/replica"
)

// link is how a state was reached.
type link struct {
	parent uint32
	by     move
}

// reached is a state with what is used up of the bounds.
type reached struct {
	id      uint32
	crashes uint8
	power   uint8
	w       *World
}

// stateLimit is how many states can be numbered.
const stateLimit = 1<<32 - 1

// Run searches the scope breadth first, so that what it finds is as short as it gets.
func (s Scope) Run(ctx context.Context) (*Covered, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var manual []replica.Kind
	if s.Late {
		manual = []replica.Kind{replica.KindFetch}
	}
	begin, err := NewWorld(s.Cluster, s.Court.Rules, manual, nil)
	if err != nil {
		return nil, err
	}
	x := &exhaustion{s: s, begin: begin, known: newKeySet(), covered: &Covered{}}
	first := reached{w: begin.Clone()}
	x.tidy(first)
	x.known.add(first.key())
	x.links = append(x.links, link{})
	x.way = []reached{first}
	x.covered.States = 1
	// A level is a run of numbers: states are numbered as they are found.
	for from, to := 0, 1; from < to && x.covered.Find == nil; from, to = to, len(x.links) {
		x.covered.Widest = max(x.covered.Widest, to-from)
		if err := x.expand(ctx, from, to); err != nil {
			return x.covered, err
		}
		if x.covered.Stopped != "" {
			break
		}
		if len(x.links) > to {
			x.covered.Depth++
		}
	}
	if x.covered.Stopped == "" && x.covered.Find == nil {
		x.covered.Expanded = x.covered.States
	}
	x.covered.Complete = x.covered.Stopped == "" && x.covered.Find == nil
	runtime.GC() // what is garbage now was not needed
	x.covered.Memory = heap()
	x.covered.Kept = uint64(len(x.known.slots))*uint64(unsafe.Sizeof(Key{})) + uint64(cap(x.links))*uint64(unsafe.Sizeof(link{}))
	return x.covered, nil
}

// exhaustion is a search under way. It keeps eight bytes for each state, from which the state is made again when its turn comes
// (exhaustion.at), and its key.
type exhaustion struct {
	s       Scope
	begin   *World
	known   *keySet
	links   []link // by number of the state
	dead    []bool // states that nothing goes on from, by number; as long as the last of them
	way     []reached
	covered *Covered
	slots   []*World // of the states on the way, by depth
	scratch World    // the state that is looked at
	moves   []move   // buffer
	ids     []uint32 // buffer
}

// expand takes every move from every state of a level.
func (x *exhaustion) expand(ctx context.Context, first, end int) error {
	for id := first; id < end; id++ {
		if id%256 == 0 {
			if stop := x.stop(ctx); stop != "" {
				x.covered.Stopped = stop
				return nil
			}
		}
		x.covered.Expanded = id
		if id < len(x.dead) && x.dead[id] {
			continue
		}
		from := x.at(uint32(id))
		x.moves = x.enabled(from, x.moves[:0])
		fresh := false // the scratch is as the state it was copied from
		for _, m := range x.moves {
			if !fresh {
				from.w.CloneTo(&x.scratch)
			}
			to := from
			to.w = &x.scratch
			took := x.take(&to, m)
			fresh = !took && x.scratch.untouched()
			if !took {
				continue
			}
			x.covered.Transitions++
			if !x.known.add(to.key()) {
				continue
			}
			to.id = uint32(len(x.links))
			x.links = append(x.links, link{from.id, m})
			x.covered.States++
			on, err := x.judge(ctx, to)
			if err != nil || x.covered.Find != nil {
				return err
			}
			if !on {
				x.dead = append(x.dead, make([]bool, int(to.id)+1-len(x.dead))...)
				x.dead[to.id] = true
			}
		}
	}
	return nil
}

// take takes a move; false if it is impossible or leads beyond the bounds.
func (x *exhaustion) take(to *reached, m move) bool {
	if !to.w.try(m) || !x.within(to, m) {
		return false
	}
	x.tidy(*to)
	return true
}

// at makes a state again from the way to it. Neighbours have most of their way in common, and what they have is kept.
func (x *exhaustion) at(id uint32) reached {
	x.ids = x.ids[:0]
	for ; id != 0; id = x.links[id].parent {
		x.ids = append(x.ids, id)
	}
	slices.Reverse(x.ids)
	same := 0
	for same < len(x.ids) && same+1 < len(x.way) && x.way[same+1].id == x.ids[same] {
		same++
	}
	clear(x.way[same+1:])
	x.way = x.way[:same+1]
	for _, id := range x.ids[same:] {
		to := x.way[len(x.way)-1]
		if len(x.slots) < len(x.way) {
			x.slots = append(x.slots, &World{})
		}
		slot := x.slots[len(x.way)-1]
		to.w.CloneTo(slot)
		to.id, to.w = id, slot
		x.take(&to, x.links[id].by)
		x.way = append(x.way, to)
	}
	return x.way[len(x.way)-1]
}

// key is the state's hash, what is left of the bounds included: the version counts the changes.
func (r reached) key() Key {
	return r.w.Key().with(Key{uint64(r.crashes), uint64(r.power)<<32 | uint64(r.w.version)})
}

// stop says why the search has to stop, "" if it has not.
func (x *exhaustion) stop(ctx context.Context) string {
	if x.s.Progress != nil {
		x.s.Progress(*x.covered)
	}
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case x.s.MaxStates > 0 && x.covered.States >= x.s.MaxStates, x.covered.States > stateLimit-1<<20:
		return fmt.Sprintf("%d states", x.covered.States)
	case x.s.MaxMemory > 0:
		if used := heap(); used >= x.s.MaxMemory {
			return fmt.Sprintf("%d MiB of memory", used>>20)
		}
	}
	return ""
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// within counts the move and says whether it stayed within the bounds.
func (x *exhaustion) within(to *reached, m move) bool {
	switch m.op {
	case opPower:
		to.power++
		fallthrough
	case opKill:
		to.crashes++
	}
	return int(to.w.leaderEpoch) < x.s.Epochs && int(to.w.version-x.begin.version) <= x.s.Changes
}

// tidy takes away what no move within the bounds can bring to light any more, so that states that differ in nothing else are one.
func (x *exhaustion) tidy(r reached) {
	p := r.w.c.topic.Partition
	for i := range r.w.nodes {
		n := &r.w.nodes[i]
		if int(r.power) == x.s.Power && n.cut < 0 && n.disk.Unsynced(p) > 0 {
			_ = r.w.own(i).disk.Flush(p) // a disk in memory has no errors
		}
		if int(r.crashes) == x.s.Crashes && n.up && n.log.HighWatermark() != 0 {
			r.w.own(i).disk.CheckpointOne(p, 0)
		}
	}
}

// enabled lists the moves that may be possible, in an order that never changes.
func (x *exhaustion) enabled(from reached, moves []move) []move {
	w := from.w
	crash, power := int(from.crashes) < x.s.Crashes, int(from.power) < x.s.Power
	for i := range w.nodes {
		at := uint8(i)
		add := func(o op, arg int) {
			if !slices.Contains(x.s.LeaveOut, opVerbs[o].verb) {
				moves = append(moves, move{o, at, uint8(arg)})
			}
		}
		if !w.nodes[i].up {
			add(opStart, 0)
			if !w.fenced.has(i) {
				add(opFence, 0)
			}
			continue
		}
		if len(w.truth.values) < x.s.Records {
			add(opProduce, 0)
		}
		add(opFetch, 0)
		add(opRequest, 0)
		add(opAnswer, 0)
		add(opLearn, 0)
		add(opTruncate, 0)
		if i != w.leader {
			add(opLag, 0)
		}
		add(opFence, 0)
		add(opUnfence, 0)
		add(opTransfer, 0)
		if crash {
			add(opKill, 0)
			add(opCheckpoint, 0)
		}
		if crash && power {
			add(opFlush, 0)
			for keep := range w.nodes[i].disk.Unsynced(w.c.topic.Partition) {
				add(opPower, keep) // all of them is a kill
			}
		}
		if x.s.Late {
			x.late(w, i, add)
		}
	}
	return moves
}

// late adds what fetches that wait for a hand can do: at most one of each broker waits anywhere.
func (x *exhaustion) late(w *World, i int, add func(op, int)) {
	waits := false
	for j := range w.nodes {
		for _, m := range w.nodes[j].held {
			if m.From == w.c.ids[i] && m.Body.Kind() == replica.KindFetch {
				waits = true
				add(opDeliver, j)
				break
			}
		}
	}
	if !waits {
		add(opSend, 0)
	}
}

// judge looks for what is wrong in a new state, and says whether to go on from it.
func (x *exhaustion) judge(ctx context.Context, r reached) (on bool, err error) {
	if r.w.Suspect() == 0 {
		return true, nil
	}
	end := r.w.Clone()
	if !end.End() {
		return true, nil
	}
	suspicion := end.Judge()
	if suspicion == 0 {
		return true, nil // it comes right
	}
	if end.excused(suspicion, x.s.Court) {
		x.covered.Excused++
		return false, nil
	}
	if x.covered.Unconfirmed >= confirmed {
		x.covered.Unconfirmed++
		return false, nil
	}
	find, verdict, err := x.s.Court.confirm(ctx, x.begin, x.path(r.id))
	switch {
	case err != nil:
		return false, err
	case find != nil:
		x.covered.Find = find
	case verdict == checker.Allowed:
		x.covered.Excused++
	default:
		x.covered.Unconfirmed++
	}
	return false, nil
}

// path is the moves that led to a state.
func (x *exhaustion) path(id uint32) []move {
	var moves []move
	for ; id != 0; id = x.links[id].parent {
		moves = append(moves, x.links[id].by)
	}
	slices.Reverse(moves)
	return moves
}

package sim

import (
	"math/bits"

	"tidemark/node/replica"
)

// stream is splitmix64 (Steele, Lea and Flood, 2014): its own, because the standard library does not promise that the numbers
// of a seed stay the same.
type stream uint64

// streamOf is the stream of one schedule of a seed. Streams of neighbours have nothing in common.
func streamOf(seed uint64, schedule int64) stream {
	s := stream(seed)
	first := s.next()
	s = stream(first ^ uint64(schedule)*0xd1342543de82ef95)
	return stream(s.next())
}

func (s *stream) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (s *stream) below(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}

// chance is true in so many of a hundred cases.
func (s *stream) chance(percent int) bool { return s.below(100) < percent }

// weights say how often each move is tried.
var weights = [ops]int{
	opProduce: 10, opFetch: 14, opRequest: 12, opAnswer: 8, opLearn: 12, opTruncate: 6, opSettle: 2, opLag: 1, opCheckpoint: 2, opKill: 1, opStart: 4,
	opIsolate: 2, opHeal: 4, opFence: 3, opUnfence: 4, opTransfer: 3, opSend: 3, opDeliver: 3, opFlush: 3, opPower: 3,
}

// walker takes random moves on a world.
type walker struct {
	w      *World
	r      stream
	faults Faults
	manual bool // fetches are delivered by hand
	moves  []move
	wanted []move     // what would be interesting next, the best last
	table  []op       // each as often as its weight says
	after  func(move) // is called after every move, if it is not nil
}

func newWalker(w *World, r stream, faults Faults) *walker {
	k := &walker{}
	k.start(w, r, faults)
	return k
}

// start begins a walk. The moves of the one before are gone.
func (k *walker) start(w *World, r stream, faults Faults) {
	manual := !w.c.forget
	if k.table == nil || faults != k.faults || manual != k.manual {
		k.table = k.table[:0]
		for o := range ops {
			if !faults.allow(o) || !manual && (o == opSend || o == opDeliver) {
				continue
			}
			for range weights[o] {
				k.table = append(k.table, o)
			}
		}
	}
	k.w, k.r, k.faults, k.manual = w, r, faults, manual
	k.moves, k.wanted = k.moves[:0], k.wanted[:0]
}

// run takes so many moves, impossible ones not counted.
func (k *walker) run(steps int) {
	for tries := 0; len(k.moves) < steps && tries < 8*steps; tries++ {
		k.take(k.choose())
	}
}

func (k *walker) choose() move {
	if n := len(k.wanted); n > 0 {
		m := k.wanted[n-1]
		k.wanted = k.wanted[:n-1]
		if k.r.chance(65) {
			return m
		}
		if k.r.chance(30) {
			k.wanted = k.wanted[:0]
		}
	}
	o := k.table[k.r.below(len(k.table))]
	m := move{op: o, at: uint8(k.r.below(len(k.w.nodes)))}
	switch o {
	case opProduce:
		if k.w.leader >= 0 && (!k.faults.Has(FaultZombies) || k.r.chance(85)) {
			m.at = uint8(k.w.leader)
		}
	case opDeliver:
		m.arg = uint8(k.r.below(len(k.w.nodes)))
	case opPower:
		m.arg = uint8(max(0, k.r.below(6)-3))
	}
	return m
}

// take takes a move if the faults permit it, and thinks about what would be interesting after it.
func (k *walker) take(m move) {
	w, i := k.w, int(m.at)
	switch {
	case m.op == opFence && !k.faults.Has(FaultFailover) && w.nodes[i].up && !w.isolated.has(i):
		return
	case m.op == opProduce && len(w.truth.values) >= maxValues:
		return
	}
	if !w.try(m) {
		return
	}
	k.moves = append(k.moves, m)
	if k.after != nil {
		k.after(m)
	}
	k.aim(m)
}

// aim looks for the windows in which protocols fail: a record is committed and only the leader knows, a new leader knows less
// than the old one, a follower has cut and not fetched yet.
func (k *walker) aim(m move) {
	w, i := k.w, int(m.at)
	switch m.op {
	case opRequest:
		if w.leader >= 0 && w.nodes[w.leader].up && w.nodes[i].up && w.nodes[w.leader].core.HighWatermark() > w.nodes[i].core.HighWatermark() && k.r.chance(40) {
			k.depose()
		}
	case opIsolate:
		k.want(opFence, i)
	case opKill, opPower:
		k.want(opStart, i)
		if k.r.chance(50) {
			k.want(opFence, i)
		}
	case opFence, opTransfer:
		if w.leader >= 0 {
			for j := range w.nodes {
				if j != w.leader && (!k.faults.Has(FaultZombies) || k.r.chance(60)) {
					k.want(opLearn, j)
				}
			}
			k.want(opLearn, w.leader)
		}
	case opLearn:
		v := w.look(i)
		switch {
		case v.Role == replica.RoleFollower && v.Truncating:
			k.want(opTruncate, i)
		case v.Role == replica.RoleFollower:
			k.want(opRequest, i)
		case v.Role == replica.RoleLeader && k.r.chance(40):
			k.want(opProduce, i)
		}
	case opTruncate:
		if k.r.chance(35) {
			k.depose()
		} else {
			k.want(opFetch, i)
		}
	case opSend:
		if k.faults.Has(FaultPower) && w.leader >= 0 && k.r.chance(50) {
			k.reboot(i, w.leader)
			return
		}
		if k.r.chance(50) {
			k.want(opStart, i)
			k.want(opPower, i)
		}
	case opUnfence, opStart:
		k.want(opLearn, i)
	}
}

func (k *walker) want(o op, i int) {
	if k.faults.allow(o) {
		k.wanted = append(k.wanted, move{op: o, at: uint8(i)})
	}
}

// reboot takes the disk of a broker whose fetch is on its way, and lets the fetch arrive after its new start: what it acknowledges
// is gone (KIP-903). Then all others go, so that the broker leads if it is in the ISR again.
func (k *walker) reboot(i, leader int) {
	for j := range k.w.nodes {
		if j != i {
			k.want(opFence, j)
		}
	}
	k.wanted = append(k.wanted, move{opDeliver, uint8(i), uint8(leader)})
	k.want(opLearn, leader)
	k.want(opStart, i)
	k.want(opPower, i)
}

// depose makes the leader go.
func (k *walker) depose() {
	w := k.w
	if w.leader < 0 {
		return
	}
	if k.faults.Has(FaultFailover) && k.r.chance(50) {
		k.want(opTransfer, k.r.below(len(w.nodes)))
		return
	}
	k.want(opFence, w.leader)
	if !k.faults.Has(FaultFailover) || k.r.chance(50) {
		k.want(opIsolate, w.leader)
	}
}

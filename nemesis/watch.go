package nemesis

import (
	"slices"
	"sync"

	"tidemark/cluster"
	"tidemark/node/control"
)

// Watch knows of a cluster what its nodes report: who leads, who is in sync, and in which states the partitions are. Steps by role
// and steps that wait for a state need one. Whoever reads the nodes' events shows each to [Watch.See].
type Watch struct {
	mu      sync.Mutex
	sights  map[string]*sight
	armed   []*armed
	changed chan struct{} // has something in it since anything was seen
}

// sight is what was seen of a partition. Different nodes' events come in no certain order: what is seen can be over.
type sight struct {
	leader                cluster.NodeID // 0: nobody
	isr                   []cluster.NodeID
	epoch, partitionEpoch int32
	known                 bool // whether anything of the record is

	hw         map[cluster.NodeID]int64
	truncating map[cluster.NodeID]bool
	fresh      map[cluster.NodeID]int32 // epochs in which a leader has no record yet
}

// armed is an aim that waits for its state.
type armed struct {
	aim  Aim
	seen chan string // has what was seen, once
}

// NewWatch has seen nothing.
func NewWatch() *Watch { return &Watch{sights: map[string]*sight{}, changed: make(chan struct{}, 1)} }

// See takes an event of a node. It does not wait for anybody.
func (w *Watch) See(e control.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Partition == "" {
		return
	}
	s := w.sight(e.Partition)
	s.see(e)
	w.armed = slices.DeleteFunc(w.armed, func(a *armed) bool {
		return a.aim.Partition == e.Partition && a.look(s)
	})
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *Watch) sight(partition string) *sight {
	s := w.sights[partition]
	if s == nil {
		s = &sight{hw: map[cluster.NodeID]int64{}, truncating: map[cluster.NodeID]bool{}, fresh: map[cluster.NodeID]int32{}}
		w.sights[partition] = s
	}
	return s
}

// look fires the aim if its state holds.
func (a *armed) look(s *sight) bool {
	seen, holds := s.sighted(a.aim.State)
	if holds {
		a.seen <- seen
	}
	return holds
}

// arm has a state waited for. The channel gets what was seen, once. The state can hold already.
func (w *Watch) arm(a Aim) *armed {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &armed{a, make(chan string, 1)}
	if !x.look(w.sight(a.Partition)) {
		w.armed = append(w.armed, x)
	}
	return x
}

// holds says whether a state holds now, and what of it was seen.
func (w *Watch) holds(a Aim) (seen string, ok bool) {
	if w == nil {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sight(a.Partition).sighted(a.State)
}

// disarm gives an aim up.
func (w *Watch) disarm(x *armed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = slices.DeleteFunc(w.armed, func(a *armed) bool { return a == x })
}

// record is who leads a partition and who is in sync, nobody if that is not known.
func (w *Watch) record(partition string) (leader cluster.NodeID, isr []cluster.NodeID) {
	if w == nil {
		return 0, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sights[partition]
	if s == nil {
		return 0, nil
	}
	return max(s.leader, 0), slices.Clone(s.isr)
}

func (s *sight) see(e control.Event) {
	switch e.What {
	case "elected", "role":
		if s.newer(e) {
			s.leader, s.isr = e.Leader, slices.Clone(e.ISR)
		}
		if e.What == "role" {
			s.role(e)
		}
	case "isr":
		if s.newer(e) {
			s.isr = slices.Clone(e.ISR)
		}
	case "hw":
		s.hw[e.Node] = e.To
	case "append":
		delete(s.truncating, e.Node)
		if s.fresh[e.Node] == e.Epoch {
			delete(s.fresh, e.Node)
		}
	case "truncated":
		delete(s.truncating, e.Node)
		s.hw[e.Node] = min(s.hw[e.Node], e.To)
	case "recovered":
		s.forget(e.Node)
		s.hw[e.Node] = e.HW
	case "offline":
		s.forget(e.Node)
	}
}

// newer says whether the event's record is the newest known, which it is from now on.
func (s *sight) newer(e control.Event) bool {
	if s.known && e.PartitionEpoch < s.partitionEpoch {
		return false
	}
	s.known, s.epoch, s.partitionEpoch = true, e.Epoch, e.PartitionEpoch
	return true
}

func (s *sight) role(e control.Event) {
	s.forget(e.Node)
	switch e.Role {
	case "leader":
		s.fresh[e.Node] = e.Epoch
	case "follower":
		if e.Leader > 0 {
			s.truncating[e.Node] = true
		}
	}
}

// forget drops what ends with a role or a process.
func (s *sight) forget(n cluster.NodeID) {
	delete(s.truncating, n)
	delete(s.fresh, n)
}

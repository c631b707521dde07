package sim

import (
	"slices"

	"tidemark/node/replica"
)

// truth is what only a simulation knows: what was acknowledged, and what a consumer could have read.
type truth struct {
	values  []string // by process, in the order of their produces
	acked   []known
	exposed []known
	lossy   places // brokers from whose disk a power failure took some of these
}

// known is a record that has to stay where it is.
type known struct {
	offset int64
	value  string
}

func (t *truth) clip() {
	t.values, t.acked, t.exposed = slices.Clip(t.values), slices.Clip(t.acked), slices.Clip(t.exposed)
}

func (t *truth) ack(process int, offset int64) {
	t.acked = append(t.acked, known{offset, t.values[process]})
}

// in says whether a log has the record below an end.
func (k known) in(batches []replica.Batch, end int64) bool {
	if k.offset >= end || len(batches) == 0 {
		return false
	}
	at := k.offset - batches[0].Base // every batch of a schedule is one record
	return at >= 0 && at < int64(len(batches)) && string(batches[at].Data) == k.value
}

// reach counts the known records that a log has.
func (t *truth) reach(batches []replica.Batch) int {
	n := 0
	for _, of := range [][]known{t.acked, t.exposed} {
		for _, k := range of {
			if k.in(batches, replica.Batch{Base: k.offset, Count: 1}.End()) {
				n++
			}
		}
	}
	return n
}

// observe notes what a consumer of the leader could read now. It returns what it was given, for use in a return statement.
func (w *World) observe(done bool) bool {
	if w.leader < 0 || w.isolated.has(w.leader) || !w.nodes[w.leader].up {
		return done
	}
	v, until := w.look(w.leader), w.nodes[w.leader].core.Readable()
	if until == 0 || v.Role != replica.RoleLeader && v.Role != replica.RoleFollower {
		return done
	}
	batches := w.batches(w.leader)
	if len(batches) == 0 {
		return done
	}
	now := seen{&batches[0], until}
	if now == w.seen {
		return done
	}
	for _, b := range batches {
		if b.Base >= until {
			break
		}
		if !slices.ContainsFunc(w.truth.exposed, func(k known) bool { return k.offset == b.Base && k.value == string(b.Data) }) {
			w.truth.exposed = append(w.truth.exposed, known{b.Base, string(b.Data)})
		}
	}
	w.seen = now
	return done
}

// seen is a part of a log that was looked at. The list of a log's batches in memory is never overwritten, so that its first
// element and the offset say all about it.
type seen struct {
	first *replica.Batch
	hw    int64
}

// Suspicion is what the truth says of a world: what a history would have to show.
type Suspicion uint8

// What may be wrong.
const (
	LostAcked Suspicion = 1 << iota // an acknowledged record is not where it was
	LostRead                        // a record that a consumer could read is not where it was
	Differing                       // replicas differ below the lowest high watermark
)

// Suspect looks for what can already be wrong: a leader by the controller's record that lacks a record, or replicas that differ
// below both their high watermarks. It costs little, and what it finds need not be there at the end.
func (w *World) Suspect() Suspicion {
	var s Suspicion
	if w.leader >= 0 {
		s = w.missing(w.batches(w.leader), replica.LatestOffset)
	}
	for i := range w.nodes {
		for j := range i {
			if w.nodes[i].up && w.nodes[j].up && w.differ(i, j) {
				s |= Differing
			}
		}
	}
	return s
}

// missing says what a log lacks below an end, or anywhere if there is none.
func (w *World) missing(batches []replica.Batch, end int64) Suspicion {
	var s Suspicion
	for _, k := range w.truth.acked {
		if !k.in(batches, or(end, k.offset+1)) {
			s |= LostAcked
		}
	}
	for _, k := range w.truth.exposed {
		if !k.in(batches, or(end, k.offset+1)) {
			s |= LostRead
		}
	}
	return s
}

func or(end, otherwise int64) int64 {
	if end == replica.LatestOffset {
		return otherwise
	}
	return end
}

// differ says whether two replicas have different records below both their high watermarks.
func (w *World) differ(i, j int) bool {
	end := min(w.nodes[i].core.HighWatermark(), w.nodes[j].core.HighWatermark())
	if end == 0 {
		return false
	}
	a, b := w.batches(i), w.batches(j)
	for at := range end {
		if at >= int64(len(a)) || at >= int64(len(b)) {
			return true
		}
		if a[at].Epoch != b[at].Epoch || string(a[at].Data) != string(b[at].Data) {
			return true
		}
	}
	return false
}

// Judge says what is wrong with a world after [World.End]. Nothing is, as far as anybody can see, if nobody leads.
func (w *World) Judge() Suspicion {
	if w.leader < 0 {
		return 0
	}
	s := w.missing(w.batches(w.leader), w.nodes[w.leader].core.HighWatermark())
	for i := range w.nodes {
		for j := range i {
			if w.differ(i, j) {
				s |= Differing
			}
		}
	}
	return s
}

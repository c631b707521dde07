package sim

import (
	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

// room is where a world puts the cores and disks that it makes its own. It stays with the world over [World.CloneTo], so that a
// search that copies at every step makes no garbage by it.
type room struct {
	ruler *controller.Controller
	nodes []nodeRoom
}

type nodeRoom struct {
	session *session.Session
	core    *replica.Replica
	disk    *memory.Disk
	held    []replica.Message
}

// vacant is the room, or a new one if what is to be copied lives there: others share it.
func vacant[T any](room, from *T) *T {
	if room == nil || room == from {
		return new(T)
	}
	return room
}

// Clone is a copy with a life of its own. Neither it nor w may be moved while the other is.
func (w *World) Clone() *World {
	c := &World{}
	w.CloneTo(c)
	return c
}

// CloneTo makes c such a copy, in the room that c had. What c was before is gone, and so are the copies of it, which share its
// room.
func (w *World) CloneTo(c *World) {
	nodes, buf, fates, room := c.nodes, c.buf, c.fates, c.room
	w.owned, w.unshared = 0, 0
	w.truth.clip()
	*c = *w
	c.nodes = append(nodes[:0], w.nodes...)
	c.buf, c.fates, c.room = buf[:0], fates[:0], room
}

// own makes a broker's cores and disk the world's own before they are moved.
func (w *World) own(i int) *member {
	n := &w.nodes[i]
	n.hashed = false
	if w.owned.has(i) {
		return n
	}
	w.owned.set(i, true)
	r := w.roomOf(i)
	r.disk = vacant(r.disk, n.disk)
	n.disk.CloneTo(r.disk)
	n.disk = r.disk
	if n.up {
		r.session = vacant(r.session, n.session)
		*r.session = *n.session
		n.session = r.session
		n.log, _ = n.disk.Log(w.c.topic.Partition) // a disk in memory has no errors
		r.core = vacant(r.core, n.core)
		n.core.CloneTo(r.core, n.log)
		n.core = r.core
	}
	return n
}

func (w *World) roomOf(i int) *nodeRoom {
	if w.room.nodes == nil {
		w.room.nodes = make([]nodeRoom, len(w.nodes))
	}
	return &w.room.nodes[i]
}

func (w *World) ownRuler() *controller.Controller {
	w.ruled = false
	if at := len(w.nodes); !w.owned.has(at) {
		w.owned.set(at, true)
		w.room.ruler = vacant(w.room.ruler, w.ruler)
		w.ruler.CloneTo(w.room.ruler)
		w.ruler = w.room.ruler
	}
	return w.ruler
}

// untouched says whether nothing was made the world's own since it was copied.
func (w *World) untouched() bool { return w.owned == 0 && w.unshared == 0 }

// inbox is what waits at a broker, to be changed in place: a copy of its own if another world has it too.
func (w *World) inbox(i int) []replica.Message {
	n := &w.nodes[i]
	if !w.unshared.has(i) {
		w.unshared.set(i, true)
		r := w.roomOf(i)
		if cap(r.held) > 0 && cap(n.held) > 0 && &r.held[:1][0] == &n.held[:1][0] {
			r.held = nil // others share it
		}
		r.held = append(r.held[:0], n.held...)
		n.held = r.held
	}
	return n.held
}

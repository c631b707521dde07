package sim

import (
	"slices"

	"tidemark/node/control"
	"tidemark/node/replica"
)

// hand delivers a waiting message or loses it.
func (w *World) hand(name control.Message, deliver bool) bool {
	from, err := replica.ParseID(name.From)
	if err != nil {
		return false
	}
	to, err := replica.ParseID(name.To)
	if err != nil || to.IsClient() {
		return false
	}
	return w.handOver(waiting{from, to, replica.Kind(name.Kind), name.Number}, deliver)
}

// waiting names a message that waits: the oldest of those that it fits, if the number is 0.
type waiting struct {
	from, to replica.ID
	kind     replica.Kind
	number   int32
}

func (w *World) handOver(name waiting, deliver bool) bool {
	to := name.to
	held := w.desk
	i := w.place(to)
	switch {
	case to == replica.Controller:
	case i < 0 || !w.nodes[i].up:
		return false
	default:
		held = w.nodes[i].held
	}
	at := slices.IndexFunc(held, func(m replica.Message) bool {
		return m.From == name.from && m.Body.Kind() == name.kind && (name.number == 0 || name.number == m.Number)
	})
	if at < 0 {
		return false
	}
	m := held[at]
	if to == replica.Controller {
		w.desk = slices.Delete(slices.Clone(held), at, at+1)
	} else {
		w.nodes[i].held = slices.Delete(w.inbox(i), at, at+1)
	}
	switch {
	case !deliver:
		w.broken(m)
	case to == replica.Controller:
		w.pop(w.order(m))
	default:
		w.pop(w.give(i, m))
	}
	return true
}

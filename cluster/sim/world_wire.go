package sim

import (
	"slices"
	"strings"

	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/session"
)

const answerSuffix = " answer"

func requestKind(k replica.Kind) replica.Kind {
	return replica.Kind(strings.TrimSuffix(string(k), answerSuffix))
}

// isAnswer says whether a message between nodes answers one that went the other way.
func isAnswer(b replica.Body) bool {
	switch b.(type) {
	case *replica.FetchAnswer, *replica.OffsetForLeaderEpochAnswer, *replica.ListOffsetsAnswer, *replica.LeaderAndIsrAnswer,
		*replica.AlterPartitionAnswer, *session.RegistrationAnswer, *session.HeartbeatAnswer, *replica.ProduceAnswer:
		return true
	}
	return false
}

// passes says whether a message goes on as part of the step that sent it, as in schedules.
func (w *World) passes(b replica.Body) bool {
	switch b.(type) {
	case *replica.AlterPartition, *replica.AlterPartitionAnswer, *replica.LeaderAndIsrAnswer, *session.Registration,
		*session.RegistrationAnswer, *session.Heartbeat, *session.HeartbeatAnswer:
		return len(w.c.manual) == 0 || !slices.Contains(w.c.manual, requestKind(b.Kind()))
	}
	return false
}

// give hands a message to a broker's cores and moves on what no step has to name. What the cores gave rise to stays on the
// stack, from the place returned on, until pop.
func (w *World) give(i int, m replica.Message) int {
	n := w.own(i)
	from := len(w.buf)
	told, cuts := n.core.Told()
	switch b := m.Body.(type) {
	case *replica.LeaderAndIsr:
		if b.BrokerEpoch == n.session.BrokerEpoch() {
			n.learned = max(n.learned, b.Version)
		}
		w.buf = n.core.Step(0, m, w.buf)
	case *session.RegistrationAnswer:
		former := n.session.BrokerEpoch()
		w.buf = n.session.Step(0, m, w.buf)
		if epoch := n.session.BrokerEpoch(); epoch != former {
			self := w.c.ids[i]
			w.buf = n.core.Step(0, replica.Message{From: self, To: self, Partition: w.c.topic.Partition,
				Body: &replica.Registered{BrokerEpoch: epoch}}, w.buf)
		}
	case *session.HeartbeatAnswer:
		w.buf = n.session.Step(0, m, w.buf)
	default:
		if m.Partition == (replica.Partition{}) {
			w.buf = n.session.Step(0, m, w.buf)
		} else {
			w.buf = n.core.Step(0, m, w.buf)
		}
	}
	nowTold, nowCut := n.core.Told()
	w.events += uint64(nowTold - told)
	w.count.Truncations += int64(nowCut - cuts)
	w.follow(i, from)
	return from
}

// order hands a message to the controller, as give does.
func (w *World) order(m replica.Message) int {
	from := len(w.buf)
	w.orders++
	w.buf = w.ownRuler().Step(0, m, w.buf)
	w.follow(len(w.nodes), from)
	return from
}

func (w *World) pop(to int) {
	clear(w.buf[to:])
	w.buf, w.fates = w.buf[:to], w.fates[:to]
}

// self gives a broker something from its own timers.
func (w *World) self(i int, b replica.Body) int {
	id := w.c.ids[i]
	return w.give(i, replica.Message{From: id, To: id, Partition: w.c.topic.Partition, Body: b})
}

func (w *World) command(b replica.Body) {
	w.pop(w.order(replica.Message{From: replica.Controller, To: replica.Controller, Partition: w.c.topic.Partition, Body: b}))
}

// follow brings everything that a step gave rise to on its way first, as the connections do, and then moves on what goes on
// by itself, in order.
func (w *World) follow(sender, from int) {
	to := len(w.buf)
	for at := from; at < to; at++ {
		w.fates = append(w.fates, w.route(sender, &w.buf[at]))
	}
	for at := from; at < to; at++ {
		switch w.fates[at] {
		case fateLost:
			w.broken(w.buf[at])
		case fatePassed:
			m := w.buf[at]
			if m.To == replica.Controller {
				w.pop(w.order(m))
			} else {
				w.pop(w.give(w.place(m.To), m))
			}
		}
	}
}

func (w *World) route(sender int, m *replica.Message) fate {
	if e, ok := m.Body.(*replica.Event); ok {
		w.heard(e)
		return fateTold
	}
	cutOff := sender < len(w.nodes) && w.isolated.has(sender)
	if m.To.IsClient() {
		if !cutOff {
			w.answered(m)
		}
		return fateTold
	}
	passes := w.passes(m.Body)
	if m.To == replica.Controller {
		w.sent(sender, m)
		switch {
		case cutOff:
			return fateLost
		case !passes:
			w.desk = append(slices.Clip(w.desk), *m)
			return fateHeld
		}
		return fatePassed
	}
	if sender < len(w.nodes) {
		w.sent(sender, m)
	} else if word, ok := m.Body.(*replica.LeaderAndIsr); ok {
		w.version = max(w.version, word.Version)
	}
	i := w.place(m.To)
	to := &w.nodes[i]
	switch {
	case !to.up, cutOff, w.isolated.has(i):
		return fateLost
	case m.Number < to.started && isAnswer(m.Body):
		return fateLost // the connection over which it was asked went with the process that asked
	case passes:
		return fatePassed
	}
	held := w.inbox(i)
	if _, word := m.Body.(*replica.LeaderAndIsr); word && len(w.c.manual) == 0 {
		held = slices.DeleteFunc(held, isWord) // only the newest is ever learnt
	}
	to.held = append(held, *m)
	return fateHeld
}

func isWord(m replica.Message) bool {
	_, is := m.Body.(*replica.LeaderAndIsr)
	return is
}

// sent notes the number of a replica's newest request: only an answer to that one counts.
func (w *World) sent(i int, m *replica.Message) {
	switch m.Body.(type) {
	case *replica.Fetch, *replica.OffsetForLeaderEpoch, *replica.ListOffsets:
		w.nodes[i].last = m.Number
	}
}

// broken tells the sender of a request, or whoever waits for an answer, that the connection broke. The controller does not
// care: it sends its word again when it is asked to.
func (w *World) broken(m replica.Message) {
	sender, receiver := m.From, m.To
	if isAnswer(m.Body) {
		sender, receiver = receiver, sender
	}
	i := w.place(sender)
	if i < 0 || !w.nodes[i].up {
		return
	}
	lost := replica.Message{From: receiver, To: sender, Number: m.Number, Body: &replica.ConnectionLost{Request: requestKind(m.Body.Kind())}}
	switch m.Body.(type) {
	case *session.Registration, *session.RegistrationAnswer, *session.Heartbeat, *session.HeartbeatAnswer:
	default:
		lost.Partition = w.c.topic.Partition
	}
	w.pop(w.give(i, lost))
}

// heard takes note of an event of the controller's; replicas are looked at instead.
func (w *World) heard(e *replica.Event) {
	w.events++
	switch e.What {
	case controller.EventElected:
		w.leader, w.leaderEpoch = w.place(e.Leader), e.Epoch
		w.unclean = w.unclean || e.Unclean
		w.count.Elections++
		if e.Unclean {
			w.count.Unclean++
		}
		w.recorded(e)
	case controller.EventISR:
		w.count.ISRChanges++
		w.recorded(e)
	case controller.EventFenced:
		w.fenced.set(w.place(e.Broker), true)
	case controller.EventUnfenced:
		w.fenced.set(w.place(e.Broker), false)
	}
}

func (w *World) recorded(e *replica.Event) {
	w.partitionEpoch, w.isr = e.PartitionEpoch, 0
	for _, id := range e.ISR {
		w.isr.set(w.place(id), true)
	}
}

// answered takes note of what a client was told.
func (w *World) answered(m *replica.Message) {
	b, ok := m.Body.(*replica.ProduceAnswer)
	switch {
	case !ok:
	case b.Error == replica.OK:
		w.count.Acked++
		w.truth.ack(int(m.To.Process()), b.Base)
	case !b.Refused:
		w.count.Unknown++
	}
}

package sim

import (
	"slices"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/replica"
)

// op is what a move does. Each is one step of a schedule.
type op uint8

const (
	opProduce    op = iota // to broker at
	opFetch                // a whole exchange
	opRequest              // up to the leader
	opAnswer               // the rest
	opSend                 // no further than the leader's inbox
	opDeliver              // the oldest fetch of broker at that waits at broker arg
	opLearn                //
	opTruncate             //
	opSettle               // all
	opLag                  //
	opFlush                //
	opCheckpoint           //
	opKill                 //
	opPower                // arg unsynced operations survive
	opStart                //
	opIsolate              //
	opHeal                 //
	opFence                //
	opUnfence              //
	opTransfer             //
	ops
)

// move is one step of a search, small enough to be kept by the million. It means the same on every world in which it is
// possible; which message, cut or broker is part of it, never "the n-th".
type move struct {
	op  op
	at  uint8 // broker, by place
	arg uint8
}

// try takes the move; false if it is impossible or would change nothing that matters.
func (w *World) try(m move) bool {
	i := int(m.at)
	n := &w.nodes[i]
	done := false
	switch m.op {
	case opProduce:
		done = n.up && !w.isolated.has(i) && w.look(i).Role == replica.RoleLeader && len(w.truth.values) < maxValues && w.produceNext(i)
	case opFetch:
		done = n.up && w.reachesLeader(i) && w.fetch(i, "", 0)
	case opRequest:
		done = n.up && w.reachesLeader(i) && w.fetch(i, "request", 0)
	case opAnswer:
		done = n.up && w.fetch(i, "answer", 0)
	case opSend:
		done = n.up && w.reachesLeader(i) && w.fetch(i, "send", 0)
	case opDeliver:
		done = w.handOver(waiting{w.c.ids[i], w.c.ids[m.arg], replica.KindFetch, 0}, true)
	case opLearn:
		if done = w.canLearn(i); done {
			w.learn(i)
		}
	case opTruncate:
		done = n.up && w.look(i).Truncating && w.reachesLeader(i) && w.truncate(i, "")
	case opSettle:
		done = w.settle(0)
	case opLag:
		done = w.lag(i)
	case opFlush:
		done = n.up && n.disk.Unsynced(w.c.topic.Partition) > 0 && w.own(i).disk.Flush(w.c.topic.Partition) == nil
	case opCheckpoint:
		done = n.up && n.core.HighWatermark() != n.log.HighWatermark() && w.checkpoint(i)
	case opKill, opPower:
		if done = n.up; done {
			w.halt(i)
			if m.op == opPower {
				w.nodes[i].cut = int16(m.arg)
			}
		}
	case opStart:
		done = !n.up && !w.isolated.has(i) && w.start(i)
	case opIsolate:
		if done = !w.isolated.has(i); done {
			w.isolated.set(i, true)
		}
	case opHeal:
		if done = w.isolated.has(i); done {
			w.heal(1 << i)
		}
	case opFence:
		if done = !w.fenced.has(i); done {
			w.command(&controller.Fence{Broker: w.c.ids[i]})
		}
	case opUnfence:
		if done = n.up && !w.isolated.has(i) && w.fenced.has(i); done {
			w.beat(i)
		}
	case opTransfer:
		if done = w.leader != i && w.isr.has(i) && !w.fenced.has(i); done {
			w.command(&controller.Transfer{To: w.c.ids[i]})
		}
	}
	if done {
		w.count.Steps++
		w.observe(true)
	}
	return done
}

func (w *World) checkpoint(i int) bool {
	n := w.own(i)
	n.disk.CheckpointOne(w.c.topic.Partition, n.core.HighWatermark())
	return true
}

// reachesLeader says whether a request of the broker to whom it follows arrives.
func (w *World) reachesLeader(i int) bool {
	v := w.look(i)
	to := w.place(v.Leader)
	return v.Role == replica.RoleFollower && to >= 0 && !w.isolated.has(i) && !w.isolated.has(to) && w.nodes[to].up
}

// canLearn says whether there is a word for the broker that it does not know.
func (w *World) canLearn(i int) bool {
	n := &w.nodes[i]
	if !n.up {
		return false
	}
	if !w.isolated.has(i) {
		return n.learned < w.version
	}
	m, ok := w.newest(i, replica.KindLeaderAndIsr)
	return ok && m.Body.(*replica.LeaderAndIsr).Version > n.learned
}

func (w *World) fetchName(from, to int) control.Message {
	return control.Message{From: w.c.ids[from].String(), To: w.c.ids[to].String(), Kind: string(replica.KindFetch)}
}

// opVerb is a move's verb in schedules.
type opVerb struct {
	verb schedule.Verb
	mode string
}

var opVerbs = [ops]opVerb{
	opProduce: {schedule.Produce, ""}, opFetch: {schedule.Fetch, ""}, opRequest: {schedule.Fetch, "request"}, opAnswer: {schedule.Fetch, "answer"},
	opSend: {schedule.Fetch, "send"}, opDeliver: {schedule.Deliver, ""}, opLearn: {schedule.Learn, ""}, opTruncate: {schedule.Truncate, ""},
	opSettle: {schedule.Settle, ""}, opLag: {schedule.Lag, ""}, opFlush: {schedule.Flush, ""}, opCheckpoint: {schedule.Checkpoint, ""},
	opKill: {schedule.Kill, ""}, opPower: {schedule.PowerFail, ""}, opStart: {schedule.Start, ""}, opIsolate: {schedule.Isolate, ""},
	opHeal: {schedule.Heal, ""}, opFence: {schedule.Fence, ""}, opUnfence: {schedule.Unfence, ""}, opTransfer: {schedule.Transfer, ""},
}

// step is the move as a step of a schedule, to be asked for before the move is taken.
func (w *World) step(m move) schedule.Step {
	s := schedule.Step{Verb: opVerbs[m.op].verb, Mode: opVerbs[m.op].mode}
	at := control.NodeID(w.c.ids[m.at])
	switch m.op {
	case opProduce:
		s.Value = w.c.values[min(len(w.truth.values), maxValues-1)].name
		if int(m.at) != w.leader {
			s.To = at
		}
		return s
	case opDeliver:
		s.Message = w.fetchName(int(m.at), int(m.arg))
		return s
	case opSettle:
		return s
	case opPower:
		s.Cut.Keep = int(m.arg)
	}
	s.Nodes = []control.NodeID{at}
	return s
}

// schedule is a file of the moves, with a consumer's look wherever there was something to be seen that is gone in the end.
func (w *World) schedule(name, title string, moves []move) *schedule.File {
	f := &schedule.File{Name: name, Title: title, Cluster: w.c.cluster}
	f.Cluster.Registration = w.c.rules.Registration
	gone := w.gone(moves)
	for _, m := range moves {
		s := w.step(m)
		before := len(w.truth.exposed)
		if !w.try(m) {
			continue
		}
		f.Steps = append(f.Steps, s)
		if slices.ContainsFunc(w.truth.exposed[before:], func(k known) bool { return slices.Contains(gone, k) }) {
			f.Steps = append(f.Steps, schedule.Step{Verb: schedule.Consume})
		}
	}
	return f
}

// gone are the records that a consumer could have read after some move, and that are not there at the end.
func (w *World) gone(moves []move) []known {
	c := w.Clone()
	for _, m := range moves {
		c.try(m)
	}
	if !c.End() || c.leader < 0 {
		return nil
	}
	var gone []known
	log, end := c.batches(c.leader), c.nodes[c.leader].core.HighWatermark()
	for _, k := range c.truth.exposed {
		if !k.in(log, end) {
			gone = append(gone, k)
		}
	}
	return gone
}

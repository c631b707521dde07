package sim

import (
	"slices"

	"tidemark/nemesis/schedule"
	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// Apply takes one step of a schedule. It is false if the step is impossible as things are; then a step that names one broker
// has changed nothing. Premises are not looked at, and neither pause, resume nor fail are steps of a world.
func (w *World) Apply(s schedule.Step) bool {
	w.count.Steps++
	switch s.Verb {
	case schedule.Produce:
		to := w.leader
		if s.To != 0 {
			to = w.placeOf(s.To)
		}
		return w.observe(w.produce(s.Value, to))
	case schedule.Consume, schedule.Latest:
		at := w.leader
		if len(s.Nodes) > 0 {
			at = w.placeOf(s.Nodes[0])
		}
		if at < 0 || !w.nodes[at].up || w.isolated.has(at) {
			return false
		}
		role := w.look(at).Role
		return s.Verb == schedule.Latest || role == replica.RoleLeader || role == replica.RoleFollower
	case schedule.Settle:
		var only places
		for _, n := range s.Nodes {
			only.set(w.placeOf(n), true)
		}
		return w.observe(w.settle(only))
	case schedule.Heal:
		var which places
		for _, n := range s.Nodes {
			which.set(w.placeOf(n), true)
		}
		w.heal(which)
		return w.observe(true)
	case schedule.Deliver, schedule.Drop:
		return w.observe(w.hand(s.Message, s.Verb == schedule.Deliver))
	case schedule.Require:
		return true
	}
	for _, n := range s.Nodes {
		if !w.one(s, w.placeOf(n)) {
			return w.observe(false)
		}
	}
	return w.observe(true)
}

// one takes a step that concerns one broker.
func (w *World) one(s schedule.Step, i int) bool {
	if i < 0 {
		return false
	}
	n := &w.nodes[i]
	switch s.Verb {
	case schedule.Start:
		return !n.up && w.start(i)
	case schedule.Kill, schedule.PowerFail:
		if !n.up {
			return false
		}
		w.halt(i)
		if s.Verb == schedule.PowerFail {
			w.nodes[i].cut = int16(s.Cut.Keep)
		}
		return true
	case schedule.Isolate:
		if w.isolated.has(i) {
			return false
		}
		w.isolated.set(i, true)
		return true
	case schedule.Fence:
		if w.fenced.has(i) {
			return false
		}
		w.command(&controller.Fence{Broker: w.c.ids[i]})
		return true
	case schedule.Transfer:
		if w.leader == i || !w.isr.has(i) || w.fenced.has(i) {
			return false
		}
		w.command(&controller.Transfer{To: w.c.ids[i]})
		return true
	case schedule.Lag:
		return w.lag(i)
	}
	if !n.up {
		return false
	}
	switch s.Verb {
	case schedule.Fetch:
		return w.fetch(i, s.Mode, s.Max)
	case schedule.Learn:
		w.learn(i)
		return true
	case schedule.Truncate:
		return w.truncate(i, s.Mode)
	case schedule.Flush:
		return w.own(i).disk.Flush(w.c.topic.Partition) == nil
	case schedule.Checkpoint:
		return w.checkpoint(i)
	case schedule.Unfence:
		if w.isolated.has(i) || !w.fenced.has(i) {
			return false
		}
		w.beat(i)
		return true
	}
	return false
}

// produce sends a value to a broker, as a process of its own.
func (w *World) produce(value string, to int) bool { return w.send(value, []byte(value), to) }

// produceNext produces what comes next in a search.
func (w *World) produceNext(to int) bool {
	v := w.c.values[len(w.truth.values)]
	return w.send(v.name, v.data, to)
}

func (w *World) send(value string, data []byte, to int) bool {
	if to < 0 || !w.nodes[to].up {
		return false
	}
	process := int64(len(w.truth.values))
	w.truth.values = append(w.truth.values, value)
	w.count.Produced++
	if w.isolated.has(to) {
		return true // it is lost on the way, and nobody ever knows
	}
	m := replica.Message{From: replica.Client(process), To: w.c.ids[to], Partition: w.c.topic.Partition, Number: 1, Body: &replica.Produce{
		Acks: replica.AcksAll, Batch: replica.Batch{Count: 1, Producer: replica.NoProducer, Data: data}}}
	w.pop(w.give(to, m))
	return true
}

// pollAll is the poll that takes all it is given. Nobody changes it.
var pollAll replica.Poll

// fetch is one exchange of a follower with its leader, or a part of one.
func (w *World) fetch(i int, mode string, limit int32) bool {
	if mode == "answer" || mode == "drop" {
		m, ok := w.newest(i, replica.KindFetchAnswer)
		if !ok {
			return false
		}
		w.drop(i, m)
		if mode == "drop" {
			w.broken(m)
		} else {
			w.pop(w.give(i, m))
		}
		return true
	}
	v := w.look(i)
	if v.Role != replica.RoleFollower || v.Leader == replica.None || v.Truncating {
		w.restless = w.restless || v.Truncating
		return false
	}
	former := w.restless
	w.restless = true
	poll := &pollAll
	if limit != 0 {
		poll = &replica.Poll{MaxRecords: limit}
	}
	from := w.self(i, poll)
	defer w.pop(from)
	if len(w.buf) == from {
		return false
	}
	request, held := w.buf[from], w.fates[from] == fateHeld
	if w.c.forget {
		w.forget(i, request.Number, is[*replica.Fetch], is[*replica.FetchAnswer])
	}
	if mode == "send" || !held {
		return true
	}
	answer, ok := w.exchange(request)
	if w.settling {
		w.say(request, answer)
		if a, is := answer.Body.(*replica.FetchAnswer); is && ok && a.Error == replica.OK && len(a.Batches) == 0 && a.Diverging == nil {
			w.restless = former
		}
	}
	if ok && mode == "" {
		w.drop(i, answer)
		w.pop(w.give(i, answer))
	}
	return true
}

// say notes what was said in an exchange.
func (w *World) say(request, answer replica.Message) {
	var b [64]byte
	w.said = Key{}.mix(appendBody(appendBody(b[:0], request.Body), answer.Body))[0] | 1
}

// exchange delivers a request that waits at its receiver, and returns the answer if that waits in turn.
func (w *World) exchange(request replica.Message) (replica.Message, bool) {
	to := w.place(request.To)
	w.drop(to, request)
	from := w.give(to, request)
	defer w.pop(from)
	for at := from; at < len(w.buf); at++ {
		if m := w.buf[at]; m.To == request.From && m.Number == request.Number && isAnswer(m.Body) {
			return m, w.fates[at] == fateHeld
		}
	}
	return replica.Message{}, false
}

// is says whether a body is of that type.
func is[B replica.Body](b replica.Body) bool {
	_, is := b.(B)
	return is
}

// forget drops a broker's requests of a kind but the one with that number, and the answers to them, wherever they wait.
func (w *World) forget(i int, but int32, request, answer func(replica.Body) bool) {
	for at := range w.nodes {
		n := &w.nodes[at]
		stale := func(m replica.Message) bool {
			if at == i {
				return answer(m.Body)
			}
			return m.From == w.c.ids[i] && m.Number != but && request(m.Body)
		}
		if slices.ContainsFunc(n.held, stale) {
			n.held = slices.DeleteFunc(w.inbox(at), stale)
		}
	}
}

// drop takes a waiting message away.
func (w *World) drop(i int, m replica.Message) {
	n := &w.nodes[i]
	at := slices.IndexFunc(n.held, func(o replica.Message) bool {
		return o.From == m.From && o.Number == m.Number && o.Body.Kind() == m.Body.Kind()
	})
	if at >= 0 {
		n.held = slices.Delete(w.inbox(i), at, at+1)
	}
}

func (w *World) newest(i int, kind replica.Kind) (replica.Message, bool) {
	for _, m := range slices.Backward(w.nodes[i].held) {
		if m.Body.Kind() == kind {
			return m, true
		}
	}
	return replica.Message{}, false
}

// learn gives a broker the controller's newest word that reaches it.
func (w *World) learn(i int) {
	w.command(&controller.Push{To: w.c.ids[i]})
	m, ok := w.newest(i, replica.KindLeaderAndIsr)
	if !ok {
		return
	}
	w.nodes[i].held = slices.DeleteFunc(w.inbox(i), isWord)
	w.pop(w.give(i, m))
}

// ask lets a follower that has to truncate ask its leader; the answer waits. A new question replaces the one before.
func (w *World) ask(i int) bool {
	v := w.look(i)
	if v.Role != replica.RoleFollower || v.Leader == replica.None || !v.Truncating {
		return false
	}
	from := w.self(i, &replica.Poll{})
	defer w.pop(from)
	if len(w.buf) == from || w.fates[from] != fateHeld {
		return true
	}
	request := w.buf[from]
	w.forget(i, request.Number, is[*replica.OffsetForLeaderEpoch], is[*replica.OffsetForLeaderEpochAnswer])
	w.exchange(request)
	return true
}

// truncate leads a follower through its truncation dialogue, as far as it gets: an exchange that got it on has told of a cut.
func (w *World) truncate(i int, mode string) bool {
	switch mode {
	case "request":
		return w.ask(i)
	case "answer":
		m, ok := w.newest(i, replica.KindOffsetForLeaderEpochAnswer)
		if !ok {
			return false
		}
		w.drop(i, m)
		w.pop(w.give(i, m))
		return true
	}
	for range maxRounds {
		v := w.look(i)
		if v.Role != replica.RoleFollower || v.Leader == replica.None || !v.Truncating {
			return true
		}
		before := w.events
		if _, asked := w.newest(i, replica.KindOffsetForLeaderEpochAnswer); asked {
			w.forget(i, 0, is[*replica.OffsetForLeaderEpoch], is[*replica.OffsetForLeaderEpochAnswer])
		}
		from := w.self(i, &pollAll)
		if len(w.buf) == from || w.fates[from] != fateHeld {
			w.pop(from)
			return true
		}
		answer, ok := w.exchange(w.buf[from])
		w.pop(from)
		if !ok {
			return true
		}
		w.drop(i, answer)
		w.pop(w.give(i, answer))
		if w.events == before {
			return true
		}
	}
	return false
}

// settle lets replication run until nothing changes any more, for the brokers named or, with none, for all. A round after which
// nothing changes any more is one without an event and without a new word, whose exchanges were those of the round before, or which had
// nothing to give and nothing to ask of the controller, so that those of the next round are the same.
// (A stage compares hashes of the cores instead, which cost more than the round.)
func (w *World) settle(only places) bool {
	const never = ^uint64(0)
	former := never
	w.settling = true
	defer func() { w.settling = false }()
	for range maxRounds {
		before, said, orders := w.events, uint64(0), w.orders
		w.restless = false
		for i := range w.nodes {
			if !w.nodes[i].up || w.isolated.has(i) || only != 0 && !only.has(i) {
				continue
			}
			if w.canLearn(i) {
				w.learn(i)
				w.events++
			}
			w.truncate(i, "")
			w.said = 0
			w.fetch(i, "", 0)
			said = fold(said^w.said, 0xa0761d6478bd642f) + 1
		}
		if w.events == before && (said == former || !w.restless && w.orders == orders) {
			return true
		}
		former = said
	}
	return false
}

// lag makes the leader's ISR clock jump for one follower.
func (w *World) lag(i int) bool {
	if w.leader < 0 || !w.nodes[w.leader].up {
		return false
	}
	if !w.nodes[w.leader].core.Lags(w.c.ids[i]) {
		return false // a jump that changes no ISR would change the clock all the same
	}
	w.pop(w.self(w.leader, &replica.Lag{Replica: w.c.ids[i]}))
	return true
}

// beat lets a broker register, if it has to, and sends the heartbeat that unfences it.
func (w *World) beat(i int) {
	for range 2 {
		id := w.c.ids[i]
		w.pop(w.give(i, replica.Message{From: id, To: id, Body: &pollAll}))
	}
}

// start starts a broker's process and lets it register.
func (w *World) start(i int) bool {
	if err := w.boot(i); err != nil {
		return false
	}
	if w.c.rules.Registration == rules.KRaft && !w.fenced.has(i) {
		w.command(&controller.Fence{Broker: w.c.ids[i]})
	}
	w.beat(i)
	return true
}

// heal connects brokers again, all if none is named, and lets the next heartbeat of those that are fenced through.
func (w *World) heal(which places) {
	if which == 0 {
		which = 1<<len(w.nodes) - 1
	}
	w.isolated &^= which
	for i := range w.nodes {
		if which.has(i) && w.nodes[i].up && w.fenced.has(i) {
			w.beat(i)
		}
	}
}

// End brings everything back and lets it settle, as the end of a schedule does. It is false if it does not come to rest.
func (w *World) End() bool {
	w.heal(0)
	for i := range w.nodes {
		if !w.nodes[i].up && !w.start(i) {
			return false
		}
	}
	return w.observe(w.settle(0))
}

package virtual

import (
	"slices"

	"tidemark/node/control"
	"tidemark/node/replica"
)

// send sends a node's message to another node.
func (k *Cluster) send(i int, m replica.Message) {
	to := k.place[control.NodeID(m.To)]
	k.counts.Messages++
	e := event{what: arrives, node: int32(to), m: m}
	w := &k.wires
	if isAnswer(m.Body) {
		if w.hits(w.lose) {
			k.counts.Lost++
			k.queue.push(k.clock.now+w.delay(), event{what: lost, node: int32(to), starts: k.servers[to].starts, m: m})
			return
		}
		k.travel(i, to, e)
		return
	}
	s := &k.servers[i]
	s.waiting = append(s.waiting, request{m, k.clock.now})
	k.armExpiry(i)
	if k.servers[to].up {
		e.starts = k.servers[to].starts
	}
	if w.hits(w.lose) {
		k.counts.Lost++
		k.queue.push(k.clock.now+2*w.delay(), event{what: lost, node: int32(i), starts: s.starts, m: m})
		return
	}
	if w.hits(w.duplicate) {
		k.counts.Duplicates++
		k.travel(i, to, e)
	}
	k.travel(i, to, e)
}

// travel brings something on its way from one end to another.
func (k *Cluster) travel(from, to int, e event) { k.travelLater(0, from, to, e) }

func (k *Cluster) travelLater(later int64, from, to int, e event) {
	w := &k.wires
	if way := w.way(from, to); w.cut[way] {
		w.held[way] = append(w.held[way], e)
		w.heldCount[way]++
		k.counts.Held++
		return
	}
	if from == k.clientsEnd() || to == k.clientsEnd() {
		k.queue.push(k.clock.now+later+w.delay(), e) // one request at a time on a connection: there is no order to keep
		return
	}
	at, stray := w.arrival(k.clock.now+later, from, to, k.partOf(e.m.Partition))
	if stray {
		k.counts.Reordered++
	}
	k.queue.push(at, e)
}

// partOf is a partition's place, that after the last for what is of none.
func (k *Cluster) partOf(p replica.Partition) int {
	for i := range k.parts {
		if k.parts[i] == p {
			return i
		}
	}
	return len(k.parts)
}

// arrive brings a message to a node.
func (k *Cluster) arrive(e event) {
	s := &k.servers[e.node]
	answer := isAnswer(e.m.Body)
	switch {
	case answer && !s.up:
		return // who asked is gone
	case !answer && (!s.up || s.starts != e.starts):
		k.refuse(int(e.node), e.m)
		return
	case s.paused:
		s.frozen = append(s.frozen, e)
		return
	case answer && !s.answered(e.m):
		return // to a request that was given up, or of an earlier process
	}
	switch b := e.m.Body.(type) {
	case *replica.LeaderAndIsr:
		s.learn(b)
	case *whoLeads:
		k.tellWhoLeads(int(e.node), e.m)
		return
	}
	k.step(int(e.node), e.m)
}

// answered takes out the request that a message answers; false if none waits for it.
func (s *server) answered(m replica.Message) bool {
	for j := range s.waiting {
		if r := &s.waiting[j].m; r.Number == m.Number && r.To == m.From && r.Partition == m.Partition {
			s.waiting = slices.Delete(s.waiting, j, j+1)
			return true
		}
	}
	return false
}

// refuse tells the sender of a request that nobody takes it: the process that it was connected to is gone.
func (k *Cluster) refuse(i int, m replica.Message) {
	if m.From.IsClient() {
		if !k.wires.cut[k.wires.way(i, k.clientsEnd())] {
			k.queue.push(k.clock.now+k.wires.delay(), event{what: broke, client: int32(m.From.Process()), m: m})
		}
		return
	}
	from := k.place[control.NodeID(m.From)]
	if k.wires.cut[k.wires.way(i, from)] {
		return
	}
	k.queue.push(k.clock.now+k.wires.delay(), event{what: lost, node: int32(from), starts: k.servers[from].starts, m: m})
}

// lose tells a node that a request of its own has no answer. m is the request, or the answer that was lost.
func (k *Cluster) lose(e event) {
	s := &k.servers[e.node]
	if !s.up || s.starts != e.starts {
		return
	}
	if s.paused {
		s.frozen = append(s.frozen, e)
		return
	}
	for j, r := range s.waiting {
		if r.m.Number == e.m.Number && r.m.Partition == e.m.Partition && (r.m.To == e.m.To || r.m.To == e.m.From) {
			s.waiting = slices.Delete(s.waiting, j, j+1)
			k.step(int(e.node), r.m.Answer(&replica.ConnectionLost{Request: r.m.Body.Kind()}))
			return
		}
	}
}

// patience is how long a node waits for an answer before its connection counts as broken.
func (k *Cluster) patience(i int) int64 {
	s := k.config.Settings
	if i == k.controllers() {
		return int64(s.RequestTimeout)
	}
	return int64(s.FetchWait + s.RequestTimeout)
}

func (k *Cluster) armExpiry(i int) {
	s := &k.servers[i]
	if len(s.waiting) == 0 || s.expire != never || k.patience(i) == 0 {
		return
	}
	s.expire = s.waiting[0].at + k.patience(i)
	k.queue.push(max(s.expire, k.clock.now), event{what: expires, node: int32(i), starts: s.starts})
}

// expireRequests gives up connections over which an answer is overdue, with all that waits on them.
func (k *Cluster) expireRequests(i int) {
	s := &k.servers[i]
	s.expire = never
	for len(s.waiting) > 0 && s.waiting[0].at+k.patience(i) <= k.clock.now {
		oldest := s.waiting[0].m
		var gone []request
		s.waiting = slices.DeleteFunc(s.waiting, func(r request) bool {
			same := r.m.To == oldest.To && r.m.Partition == oldest.Partition
			if same {
				gone = append(gone, r)
			}
			return same
		})
		for _, r := range gone {
			k.step(i, r.m.Answer(&replica.ConnectionLost{Request: r.m.Body.Kind()}))
		}
	}
	k.armExpiry(i)
}

// happen lets one event happen.
func (k *Cluster) happen() {
	at, e := k.queue.pop()
	k.clock.now = max(at, k.clock.now)
	k.counts.Events++
	k.chain(&e)
	if k.options.Traced != nil {
		k.options.Traced(k.counts.Events, k.trace)
	}
	switch e.what {
	case arrives:
		k.arrive(e)
	case answers:
		k.answered(e)
	case lost:
		k.lose(e)
	case wakes:
		k.wake(int(e.client))
	case deadline:
		k.late(int(e.client), at)
	case broke:
		k.brokeOff(e)
	case acts:
		e.act()
	default:
		s := &k.servers[e.node]
		if !s.up || s.starts != e.starts {
			return
		}
		k.timer(&e, at)
	}
}

// timer is one of a process that is up. One that is frozen has its timers when it goes on.
func (k *Cluster) timer(e *event, at int64) {
	i := int(e.node)
	s := &k.servers[i]
	switch e.what {
	case tick:
		if at == s.tickAt && !s.paused {
			k.tick(i)
		}
	case expires:
		if at >= s.expire && !s.paused {
			k.expireRequests(i)
		}
	case flushes:
		if !s.paused {
			k.note(s.broker.Flush())
		}
		k.queue.push(k.clock.now+int64(k.config.Settings.FlushInterval), *e)
	case checkpoint:
		if !s.paused {
			k.note(s.broker.Checkpoint())
		}
		k.queue.push(k.clock.now+int64(k.config.Settings.CheckpointInterval), *e)
	}
}

func (k *Cluster) note(err error) {
	if k.failed == nil {
		k.failed = err
	}
}

// chain takes an event into the trace.
func (k *Cluster) chain(e *event) {
	h := k.trace ^ uint64(k.clock.now)
	h = (h ^ uint64(e.what)<<56 ^ uint64(uint32(e.node))<<32 ^ uint64(uint32(e.client))) * golden
	if e.m.Body != nil {
		h ^= uint64(uint32(e.m.From))<<32 ^ uint64(uint32(e.m.To))
		h = scramble(h ^ uint64(uint32(e.m.Number))<<16 ^ said(e.m.Body))
	}
	k.trace = h ^ h>>29
}

// said folds what a message says that others can differ in.
func said(b replica.Body) uint64 {
	switch b := b.(type) {
	case *replica.Fetch:
		return uint64(b.Offset)<<16 ^ uint64(uint32(b.LeaderEpoch))
	case *replica.FetchAnswer:
		return uint64(b.HighWatermark)<<20 ^ uint64(len(b.Batches))<<8 ^ uint64(uint16(b.Error))
	case *replica.ProduceAnswer:
		return uint64(b.Base)<<16 ^ uint64(uint16(b.Error))
	case *replica.LeaderAndIsr:
		return uint64(b.Version)<<24 ^ uint64(uint32(b.Leader))<<16 ^ uint64(uint32(b.LeaderEpoch))
	case *replica.AlterPartition:
		return uint64(uint32(b.PartitionEpoch))<<8 ^ uint64(len(b.ISR))
	case *replica.ListOffsetsAnswer:
		return uint64(b.Offset)<<16 ^ uint64(uint16(b.Error))
	}
	return 0
}

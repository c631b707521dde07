package virtual

import (
	"encoding/binary"
	"time"

	"tidemark/checker/history"
	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/workload"
)

// clients are those of a workload, and one more for the reads at the end. Package workload knows what they ask and what an answer
// means; here are their connections and their time.
type clients struct {
	crew     *workload.Crew
	callers  []caller // the reader is the last
	running  int      // clients that have not ended
	asking   int      // who asks who leads, nobody if none does
	queuing  []int    // who waits for that
	tickets  int32
	produced []produced // by the number that a batch carries
	arena    []byte
	read     result // of the reader's last request
	finally  bool   // the reader makes the final reads
}

// caller is one client's side of its connections.
type caller struct {
	number    int32 // of the request under way, 0 if there is none
	to        int   // whom it asked
	connected []int32
	// connecting: no connection has come to be, so that nothing was sent.
	connecting bool
	until      int64 // when it gives up
	armed      int64 // when a deadline is in the queue for it; never if none is
	asks       bool  // who leads

	op    *workload.Operation
	seen  any // what was known of who leads when it began
	began int64
	then  workload.Then
	order []int32 // brokers that can still be asked who leads
	batch int     // of a produce
}

// produced is a batch that was sent. Logs carry its number, not its values.
type produced struct {
	values []string
	called int64 // the truth's moment
	failed bool  // the client was told that it certainly did not happen
	found  int   // in the final log, while that is looked through
}

const nobody = -1

// result is what came of a request: an answer, or why there is none.
type result struct {
	body replica.Body
	why  string // with no body
	sent bool   // whether it may have arrived
	node int32  // that answered
}

func (k *Cluster) makeClients(crew *workload.Crew) {
	n := crew.Config().Clients
	k.clients = clients{crew: crew, asking: nobody, tickets: k.tickets, produced: k.produced, arena: k.arena, callers: make([]caller, n+1)}
	connected := make([]int32, (n+1)*k.controllers())
	for i := range k.callers {
		k.callers[i].connected = connected[i*k.controllers() : (i+1)*k.controllers()]
		k.callers[i].armed = never
	}
}

// reader is the place of the client that reads at the end.
func (k *Cluster) reader() int { return len(k.callers) - 1 }

// call sends a client's request to a broker.
func (k *Cluster) call(c int, to int, p replica.Partition, body replica.Body, within time.Duration) {
	cl, s, w := &k.callers[c], &k.servers[to], &k.wires
	k.tickets++
	cl.number, cl.to, cl.connecting = k.tickets, to, false
	cl.until = k.clock.now + int64(within)
	if cl.armed == never {
		cl.armed = cl.until
		k.queue.push(cl.until, event{what: deadline, client: int32(c)})
	}
	later := int64(0)
	m := replica.Message{From: replica.Client(int64(c)), To: replica.ID(s.id), Partition: p, Number: cl.number, Body: body}
	if !s.up || cl.connected[to] != s.starts {
		switch {
		case w.cut[w.way(k.clientsEnd(), to)] || w.cut[w.way(to, k.clientsEnd())] || s.up && s.paused:
			cl.connecting = true // until it gives up
			return
		case !s.up:
			cl.connecting = true
			k.queue.push(k.clock.now+2*w.delay(), event{what: broke, client: int32(c), m: m})
			return
		}
		cl.connected[to] = s.starts
		later = 2 * w.delay()
	}
	if w.hits(w.lose) {
		k.counts.Lost++
		k.queue.push(k.clock.now+later+2*w.delay(), event{what: broke, client: int32(c), m: m})
		return
	}
	k.counts.Messages++
	k.travelLater(later, k.clientsEnd(), to, event{what: arrives, node: int32(to), starts: s.starts, m: m})
}

// answer sends a broker's answer to a client.
func (k *Cluster) answer(i int, m replica.Message) {
	e := event{what: answers, client: int32(m.To.Process()), m: m}
	if k.truth != nil {
		e.promise = k.promised(i, m)
	}
	k.counts.Messages++
	k.travel(i, k.clientsEnd(), e)
}

// hangUp tells the clients that wait for a broker that their connections are gone, if that way is open.
func (k *Cluster) hangUp(i int) {
	if i == k.controllers() || k.wires.cut[k.wires.way(i, k.clientsEnd())] {
		return
	}
	for c := range k.callers {
		if cl := &k.callers[c]; cl.number != 0 && cl.to == i && !cl.connecting {
			k.queue.push(k.clock.now+2*k.wires.delay(), event{what: broke, client: int32(c),
				m: replica.Message{From: replica.Client(int64(c)), Number: cl.number}})
		}
	}
}

// answered takes an answer to its client.
func (k *Cluster) answered(e event) {
	cl := &k.callers[e.client]
	to := k.place[control.NodeID(e.m.From)]
	if cl.number != e.m.Number || cl.connected[to] == 0 {
		if b, ok := e.m.Body.(*replica.ProduceAnswer); ok && b.Error != replica.OK && k.crew.Acks() == replica.AcksNo {
			cl.connected[to] = 0 // the broker has no other way to tell
		}
		return
	}
	k.crew.Heard(int32(e.m.From))
	k.complete(int(e.client), result{body: e.m.Body, sent: true, node: int32(e.m.From)}, e.promise)
}

// brokeOff tells a client that its connection broke, or did not come to be.
func (k *Cluster) brokeOff(e event) {
	cl := &k.callers[e.client]
	if cl.number == 0 || cl.number != e.m.Number {
		return
	}
	cl.connected[cl.to] = 0
	r := result{why: workload.WhyLost, sent: true}
	if cl.connecting {
		r = result{why: workload.WhyCannotConnect}
		k.crew.Silent(int32(k.servers[cl.to].id))
	}
	k.complete(int(e.client), r, nil)
}

// late is a client's deadline.
func (k *Cluster) late(c int, at int64) {
	cl := &k.callers[c]
	if at != cl.armed {
		return
	}
	cl.armed = never
	switch {
	case cl.number == 0:
		return
	case cl.until > k.clock.now: // of a later request
		cl.armed = cl.until
		k.queue.push(cl.until, event{what: deadline, client: int32(c)})
		return
	}
	cl.connected[cl.to] = 0
	k.crew.Silent(int32(k.servers[cl.to].id))
	r := result{why: workload.WhyTimeout, sent: true}
	if cl.connecting {
		r = result{why: workload.WhyCannotConnect}
	}
	k.complete(c, r, nil)
}

// complete ends a client's request.
func (k *Cluster) complete(c int, r result, p *promise) {
	cl := &k.callers[c]
	cl.number = 0
	switch {
	case cl.asks:
		k.toldWhoLeads(c, r)
	case c == k.reader():
		k.read = r
		if k.truth != nil && p != nil && k.finally {
			k.truth.final(p)
		}
	default:
		if k.truth != nil && p != nil {
			if cl.op.Type == history.Fetch {
				p.hollow = p.to == 0 && cl.op.From < p.end
				p.from = max(p.from, cl.op.From) // what the batch has before is no part of the answer
			}
			k.truth.tell(p)
		}
		a, stale := k.outcome(cl, r)
		k.finish(c, a, stale)
	}
}

// outcome is what a result means.
func (k *Cluster) outcome(cl *caller, r result) (a workload.Answer, stale bool) {
	switch b := r.body.(type) {
	case *replica.ProduceAnswer:
		a = workload.Produced(int16(b.Error), b.Refused && b.Error != replica.OK, b.Base, k.crew.Acks())
		if a.Kind == history.Fail {
			k.produced[cl.batch].failed = true
		}
		return a, workload.StaleRoute(int16(b.Error))
	case *replica.FetchAnswer:
		return k.fetched(b, cl.op.From)
	case *replica.ListOffsetsAnswer:
		return listed(b)
	}
	return workload.Unanswered(r.sent, r.why), true
}

func (k *Cluster) fetched(b *replica.FetchAnswer, from int64) (workload.Answer, bool) {
	if b.Error != replica.OK {
		a := workload.RefusedRead(int16(b.Error))
		a.Offset = b.Start
		return a, workload.StaleRoute(int16(b.Error))
	}
	a := workload.Answer{Kind: history.OK, HighWatermark: b.HighWatermark}
	n := 0
	for i := range b.Batches {
		n += int(b.Batches[i].Count)
	}
	if n > 0 {
		a.Records = make([]history.Record, 0, n)
	}
	for i := range b.Batches {
		x := &b.Batches[i]
		for j, v := range k.produced[number(x.Data)].values {
			if at := x.Base + int64(j); at >= from {
				a.Records = append(a.Records, history.Record{Offset: at, Epoch: x.Epoch, Value: v})
			}
		}
	}
	return a, false
}

func listed(b *replica.ListOffsetsAnswer) (workload.Answer, bool) {
	if b.Error != replica.OK {
		return workload.RefusedRead(int16(b.Error)), workload.StaleRoute(int16(b.Error))
	}
	return workload.Answer{Kind: history.OK, Offset: b.Offset}, false
}

// wake lets a client begin its next operation.
func (k *Cluster) wake(c int) {
	if k.failed != nil {
		return
	}
	cl := &k.callers[c]
	op, node, ok, err := k.crew.Begin(c)
	switch {
	case err != nil:
		k.failed = err
		return
	case !ok:
		k.running--
		return
	}
	cl.op, cl.seen, cl.began = op, k.crew.Seen(), k.clock.now
	var body replica.Body
	within := k.crew.Config().Timeout
	switch op.Type {
	case history.Produce:
		cl.batch = len(k.produced)
		batch := k.newBatch(op.Values) // also where nobody can be asked: the values are used up
		body = &replica.Produce{Acks: k.crew.Acks(), Timeout: replica.Time(k.crew.Config().ProduceTimeout), Batch: batch}
	case history.Fetch:
		body = &replica.Fetch{Offset: op.From, LeaderEpoch: replica.NoEpoch, LastEpoch: replica.NoEpoch, BrokerEpoch: replica.NoBrokerEpoch,
			MaxBytes: k.crew.Config().FetchBytes, FromFollower: true}
	default:
		body = &replica.ListOffsets{LeaderEpoch: replica.NoEpoch, Timestamp: replica.LatestOffset}
	}
	to, known := k.place[control.NodeID(node)]
	if !known || node < 0 {
		k.finish(c, workload.Unanswered(false, workload.WhyNoLeader), true)
		return
	}
	k.call(c, to, k.parts[op.Partition], body, within)
	if op.Type == history.Produce && k.crew.Acks() == replica.AcksNo && !cl.connecting {
		// Nothing will be answered.
		cl.number = 0
		k.finish(c, workload.Answer{Kind: history.OK, Offset: history.Unknown}, false)
	}
}

// finish ends a client's operation, and does what a client does then.
func (k *Cluster) finish(c int, a workload.Answer, stale bool) {
	cl := &k.callers[c]
	if cl.op.Type == history.Produce && a.Kind == history.Fail {
		k.produced[cl.batch].failed = true
	}
	then, err := k.crew.End(c, a, stale, time.Duration(k.clock.now-cl.began))
	if err != nil {
		k.failed = err
		return
	}
	cl.then = then
	if then.Refresh {
		k.refresh(c)
		return
	}
	k.goOn(c)
}

// goOn puts a client's next operation into the queue.
func (k *Cluster) goOn(c int) {
	at := k.clock.now
	if k.callers[c].then.Pause {
		at += int64(k.crew.Pause(c))
	}
	k.queue.push(max(at, virtually(k.crew.Due(c))), event{what: wakes, client: int32(c)})
}

// The fields of a batch's bytes here. The rest is as long as on real nodes, since answers are bounded by bytes.
const (
	overhead       = 61 // of a batch of format v2
	recordOverhead = 8  // of a record with a short value, at least
)

// newBatch makes the batch of a produce.
func (k *Cluster) newBatch(values []string) replica.Batch {
	size := overhead
	for _, v := range values {
		size += recordOverhead + max(len(v), k.crew.Config().ValueSize)
	}
	if len(k.arena) < size {
		k.arena = make([]byte, max(size, 4<<10))
	}
	data := k.arena[:size:size]
	k.arena = k.arena[size:]
	binary.LittleEndian.PutUint64(data, uint64(len(k.produced)))
	p := produced{values: values}
	if k.truth != nil {
		p.called = k.truth.next()
	}
	k.produced = append(k.produced, p)
	return replica.Batch{Count: int32(len(values)), Producer: replica.NoProducer, Data: data}
}

// number is a batch's place among what was produced.
func number(data []byte) int { return int(binary.LittleEndian.Uint64(data)) }

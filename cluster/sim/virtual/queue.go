package virtual

import "tidemark/node/replica"

// what says what happens in an event.
type what uint8

const (
	arrives    what = iota // m, at node
	answers                // m, at client
	lost                   // the connection over which node asked m broke
	tick                   // node's cores are due
	expires                // node's oldest request may have waited for too long
	flushes                // node's logs become durable
	checkpoint             // node's high watermarks do
	wakes                  // client goes on
	deadline               // client has waited for as long as it does
	broke                  // client's connection broke, or did not come to be
	acts                   // whoever asked for it: a step of a plan, a second that is over
)

// event is something that happens at a time.
type event struct {
	what    what
	node    int32
	starts  int32 // of the node, if it is for one incarnation only
	client  int32
	m       replica.Message
	promise *promise // what an answer tells, for the truth
	act     func()
}

// queue has the events to come by time, and those of one time in the order in which they were put in.
type queue struct {
	heap   []entry
	events []event
	free   []int32
	seq    uint64
}

type entry struct {
	at   int64
	seq  uint64
	slot int32
}

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue) empty() bool { return len(q.heap) == 0 }

// next is when the next event happens.
func (q *queue) next() int64 { return q.heap[0].at }

// push puts an event in.
func (q *queue) push(at int64, e event) {
	var slot int32
	if n := len(q.free); n > 0 {
		slot, q.free = q.free[n-1], q.free[:n-1]
		q.events[slot] = e
	} else {
		slot = int32(len(q.events))
		q.events = append(q.events, e)
	}
	q.seq++
	q.heap = append(q.heap, entry{})
	i := len(q.heap) - 1
	x := entry{at, q.seq, slot}
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = x
}

// pop takes the next event out.
func (q *queue) pop() (at int64, e event) {
	top := q.heap[0]
	n := len(q.heap) - 1
	x := q.heap[n]
	q.heap = q.heap[:n]
	for i := 0; n > 0; {
		child := 2*i + 1
		if child < n-1 && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if child >= n || !q.heap[child].before(x) {
			q.heap[i] = x
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	e = q.events[top.slot]
	q.events[top.slot] = event{}
	q.free = append(q.free, top.slot)
	return top.at, e
}

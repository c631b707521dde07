package virtual

import (
	"slices"

	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/workload"
)

// whoLeads is Metadata, which no core answers.
type whoLeads struct{}

// leaders answers it.
type leaders struct{ told []workload.Told }

// Kind is the message's name.
func (*whoLeads) Kind() replica.Kind { return "Metadata" }

// Kind is the message's name.
func (*leaders) Kind() replica.Kind { return "Metadata answer" }

// refresh lets a client ask who leads, unless somebody has found out since its operation began. One asks at a time.
func (k *Cluster) refresh(c int) {
	cl := &k.callers[c]
	switch {
	case k.asking != nobody:
		k.queuing = append(k.queuing, c)
	case k.crew.Seen() != cl.seen:
		k.refreshed(c)
	default:
		k.asking = c
		cl.asks, cl.order = true, k.crew.ToAsk()
		k.askNext(c)
	}
}

// askNext asks the next broker that may know.
func (k *Cluster) askNext(c int) {
	cl := &k.callers[c]
	if len(cl.order) == 0 {
		k.asked(c)
		return
	}
	node := cl.order[0]
	cl.order = cl.order[1:]
	k.crew.Asked(node)
	k.call(c, k.place[control.NodeID(node)], replica.Partition{}, &whoLeads{}, k.crew.AskTimeout())
}

func (k *Cluster) toldWhoLeads(c int, r result) {
	b, ok := r.body.(*leaders)
	if !ok {
		k.askNext(c)
		return
	}
	k.crew.Learn(b.told)
	k.asked(c)
}

// asked ends a client's question, and lets the next ask that waits, if it still has to.
func (k *Cluster) asked(c int) {
	k.callers[c].asks, k.asking = false, nobody
	k.refreshed(c)
	waiting := k.queuing
	k.queuing = nil
	for _, next := range waiting {
		k.refresh(next)
	}
}

// refreshed goes on after a question, whatever came of it.
func (k *Cluster) refreshed(c int) {
	if c == k.reader() {
		k.read = result{why: "asked"}
		return
	}
	k.goOn(c)
}

// tellWhoLeads answers Metadata from the controller's last words, as a broker does.
func (k *Cluster) tellWhoLeads(i int, m replica.Message) {
	s := &k.servers[i]
	answer := &leaders{told: make([]workload.Told, 0, len(k.parts))}
	at := 0
	for _, t := range k.config.Topics {
		for _, replicas := range t.Partitions {
			told := workload.Told{Partition: at, Leader: nobody, LeaderEpoch: replica.NoEpoch}
			for _, id := range replicas {
				told.Replicas = append(told.Replicas, int32(id))
			}
			s.broker.Words(func(p replica.Partition, w *replica.LeaderAndIsr) {
				if p != k.parts[at] {
					return
				}
				told.LeaderEpoch = w.LeaderEpoch
				if slices.Contains(s.live, int32(w.Leader)) {
					told.Leader = int32(w.Leader)
				}
			})
			answer.told = append(answer.told, told)
			at++
		}
	}
	k.answer(i, m.Answer(answer))
}

// learn notes which brokers live, by the controller's word.
func (s *server) learn(w *replica.LeaderAndIsr) {
	if w.Version < s.version {
		return
	}
	s.version, s.live = w.Version, s.live[:0]
	for _, b := range w.Brokers {
		if !b.Fenced {
			s.live = append(s.live, int32(b.ID))
		}
	}
}

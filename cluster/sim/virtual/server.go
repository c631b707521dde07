package virtual

import (
	"fmt"
	"slices"
	"strconv"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/inbox"
	"tidemark/node/replica"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

// server is one process around its cores, and its disk, which outlives it: what package node's shell is for a real one.
type server struct {
	id     control.NodeID
	up     bool
	paused bool
	starts int32

	core   inbox.Core
	host   *control.Host
	broker *inbox.Broker          // nil for the controller
	ruler  *controller.Controller // nil for a broker

	disk        *memory.Disk
	powerFailed bool
	cut         map[string]schedule.Cut // of the power failure before the next start
	snapshot    []byte                  // the controller's record

	frozen  []event   // what arrived while it was paused
	waiting []request // requests that wait for their answers, oldest first
	tickAt  int64     // when a tick is in the queue for it; never if none is
	expire  int64     // likewise for the oldest request

	version int64   // of the controller's word that told of live brokers
	live    []int32 // brokers' ids
}

// request is one that a node sent and that waits for its answer.
type request struct {
	m  replica.Message
	at int64
}

const never = int64(replica.Never)

// bootBroker starts a broker's process: what a power failure took is gone, then the disk is opened.
func (k *Cluster) bootBroker(i int) ([]control.Event, error) {
	s := &k.servers[i]
	if s.disk == nil {
		s.disk = memory.New()
	}
	hosted := k.hosted(s.id)
	events, err := k.losePower(s, hosted)
	if err != nil {
		return nil, err
	}
	s.starts++
	set, self, first := k.config.Settings, replica.ID(s.id), (s.starts-1)*node.RequestsPerStart+1
	b, err := inbox.Start(inbox.Config{
		Session: session.Config{Self: self, Incarnation: scramble(k.options.Seed+uint64(i)*golden) + uint64(s.starts),
			Host: "broker" + strconv.Itoa(int(s.id)), Port: 9092, FirstNumber: first,
			Interval: replica.Time(set.HeartbeatInterval), Timeout: replica.Time(set.RequestTimeout), Backoff: replica.Time(set.Backoff)},
		Replica: replica.Config{Self: self, Rules: k.config.Rules, FirstNumber: first, FetchMaxBytes: int32(set.FetchMaxBytes),
			LagMax: replica.Time(set.LagMax), FetchWait: replica.Time(set.FetchWait), Timeout: replica.Time(set.RequestTimeout),
			Backoff: replica.Time(set.Backoff)},
		Hosted: hosted,
	}, s.disk)
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w", s.id, err)
	}
	s.broker, s.core = b, b
	s.host = control.NewBroker(s.id, inbox.New(b, false), b, nil)
	s.version, s.live = -1, nil
	for _, h := range hosted {
		v, _ := b.View(h.Partition)
		events = append(events, control.Event{Node: s.id, Partition: h.Partition.String(), What: string(history.Recovered), To: v.LEO, HW: v.HW})
	}
	for _, e := range events {
		k.record(e)
	}
	k.run(i)
	if set.FlushInterval > 0 {
		k.queue.push(k.clock.now+int64(set.FlushInterval), event{what: flushes, node: int32(i), starts: s.starts})
	}
	if set.CheckpointInterval > 0 {
		k.queue.push(k.clock.now+int64(set.CheckpointInterval), event{what: checkpoint, node: int32(i), starts: s.starts})
	}
	return events, k.failed
}

// hosted lists the partitions of which a broker has a replica.
func (k *Cluster) hosted(id control.NodeID) []inbox.Hosted {
	var hosted []inbox.Hosted
	at := 0
	for _, t := range k.config.Topics {
		for _, replicas := range t.Partitions {
			if slices.Contains(replicas, id) {
				hosted = append(hosted, inbox.Hosted{Partition: k.parts[at], MinISR: k.config.Settings.MinISR})
			}
			at++
		}
	}
	return hosted
}

// losePower undoes what a power failure takes.
func (k *Cluster) losePower(s *server, hosted []inbox.Hosted) ([]control.Event, error) {
	if !s.powerFailed {
		return nil, nil
	}
	cut := replica.Cut{}
	for _, h := range hosted {
		c, ok := s.cut[h.Partition.String()]
		if !ok {
			c = s.cut[node.EveryLog]
		}
		cut[h.Partition] = replica.LogCut{Keep: c.Keep, Torn: c.Torn}
	}
	s.powerFailed, s.cut = false, nil
	lost, err := s.disk.Power(cut)
	if err != nil {
		return nil, err
	}
	var events []control.Event
	for _, h := range hosted {
		l, err := s.disk.Log(h.Partition)
		if err != nil {
			return nil, err
		}
		e := control.Event{Node: s.id, Partition: h.Partition.String(), What: string(history.PowerLoss), From: l.End(), To: l.End()}
		for _, x := range lost {
			if x.Partition == h.Partition {
				e.From, e.Bytes = history.Unknown, x.Bytes
			}
		}
		events = append(events, e)
	}
	return events, nil
}

// bootController starts the controller, from its record if there is one.
func (k *Cluster) bootController(record []byte) error {
	i := k.controllers()
	s := &k.servers[i]
	var err error
	if record == nil {
		s.ruler, err = controller.Open(k.ruled)
	} else {
		s.ruler, err = controller.Restore(k.ruled, replica.Time(k.clock.now), record)
	}
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	s.starts++
	s.core = s.ruler
	s.host = control.NewController(inbox.New(s.ruler, false), s.ruler)
	k.run(i)
	return nil
}

// run lets a process run that was just started.
func (k *Cluster) run(i int) {
	s := &k.servers[i]
	s.up, s.paused, s.tickAt, s.expire = true, false, never, never
	k.arm(i)
}

// end ends a process at once. What it had sent still arrives; whoever waits for it learns that the connection is gone, if that way
// is open.
func (k *Cluster) end(i int) error {
	s := &k.servers[i]
	if s.ruler != nil {
		// Its record is durable before anything that follows from it leaves, so it is that of the last step.
		var err error
		if s.snapshot, err = s.ruler.AppendSnapshot(nil); err != nil {
			return err
		}
	}
	s.up, s.paused, s.core, s.host, s.broker, s.ruler = false, false, nil, nil, nil, nil
	s.frozen, s.waiting = nil, nil
	for j := range k.servers {
		if j == i || !k.servers[j].up || k.wires.cut[k.wires.way(i, j)] {
			continue
		}
		for _, r := range k.servers[j].waiting {
			if r.m.To == replica.ID(s.id) {
				k.queue.push(k.clock.now+2*k.wires.delay(), event{what: lost, node: int32(j), starts: k.servers[j].starts, m: r.m})
			}
		}
	}
	k.hangUp(i)
	return nil
}

// resume handles what arrived in the meantime, and then what time has brought.
func (k *Cluster) resume(i int) {
	s := &k.servers[i]
	frozen := s.frozen
	s.frozen = nil
	for _, e := range frozen {
		if e.what == lost {
			k.lose(e)
		} else {
			k.arrive(e)
		}
	}
	s.tickAt, s.expire = never, never
	k.arm(i)
	k.armExpiry(i)
}

// step hands a message to a node's cores and lets out what it gives rise to.
func (k *Cluster) step(i int, m replica.Message) {
	out := k.servers[i].core.Step(replica.Time(k.clock.now), m, k.out[:0])
	k.leave(i, out)
	clear(out)
	k.out = out[:0]
	k.arm(i)
}

// leave lets messages out: events first, as a node does.
func (k *Cluster) leave(i int, out []replica.Message) {
	for _, m := range out {
		if e, ok := m.Body.(*replica.Event); ok {
			if k.options.Sink != nil || k.options.Nodes != nil {
				k.record(control.NewEvent(m, e))
			}
		}
	}
	for _, m := range out {
		switch {
		case m.To == replica.Observer:
		case m.To.IsClient():
			k.answer(i, m)
		default:
			k.send(i, m)
		}
	}
}

// arm puts the cores' next deadline into the queue.
func (k *Cluster) arm(i int) {
	s := &k.servers[i]
	due := int64(s.core.Deadline())
	if due >= s.tickAt || s.paused {
		return // one is in the queue that comes no later
	}
	s.tickAt = max(due, k.clock.now)
	k.queue.push(s.tickAt, event{what: tick, node: int32(i), starts: s.starts})
}

// least is how much later a node is due again at the least: nothing takes no time.
const least = 1000

func (k *Cluster) tick(i int) {
	s := &k.servers[i]
	now := replica.Time(k.clock.now)
	s.tickAt = never
	if due := s.core.Deadline(); due > now {
		k.arm(i)
		return
	}
	self := replica.ID(s.id)
	out := s.core.Step(now, replica.Message{From: self, To: self, Body: &replica.Tick{}}, k.out[:0])
	k.leave(i, out)
	clear(out)
	k.out = out[:0]
	if due := s.core.Deadline(); due <= now {
		s.tickAt = k.clock.now + least
		k.queue.push(s.tickAt, event{what: tick, node: int32(i), starts: s.starts})
		return
	}
	k.arm(i)
}

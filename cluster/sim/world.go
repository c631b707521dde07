package sim

import (
	"fmt"
	"slices"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

// World is a cluster of one partition for search: the same cores and disks as on a [Stage], driven without commands, views
// and names, so that a step costs a microsecond and a copy costs little. Its steps are those of schedules: whatever a search
// did to a world is a schedule that plays the same on every backend.
//
// Copies share the cores that neither has moved since ([World.Clone]). A World is not safe for concurrent use, and neither
// are two that share cores.
type World struct {
	c     *worldConfig
	ruler *controller.Controller
	nodes []member          // by place: in the order of their numbers
	desk  []replica.Message // what waits at the controller: only of kinds that the schedule delivers itself

	// What the controller decided, as its events tell.
	leader         int // place, -1: none
	leaderEpoch    int32
	partitionEpoch int32
	isr, fenced    places
	version        int64
	unclean        bool // an election without a guarantee was reported

	isolated places
	owned    places // of the cores: those that no copy shares; the controller's is place len(nodes)

	unshared places // of the inboxes: those that no copy shares

	truth truth
	count *Counts

	ruled    bool // the controller's hash is known
	rule     Key
	events   uint64 // so many were told
	said     uint64 // hash of the last exchange, while settling
	settling bool
	restless bool   // an exchange of this round of settling may go on in the next
	orders   uint64 // so many messages reached the controller

	seen seen // by the last look at what consumers can read

	buf   []replica.Message // stack of what steps gave rise to
	fates []fate            // of each of buf

	room room
}

// worldConfig is what all copies have in common.
type worldConfig struct {
	cluster schedule.Cluster
	rules   rules.Set
	topic   controller.Topic
	ids     []replica.ID // by place
	values  [maxValues]value
	manual  []replica.Kind
	forget  bool // fetches are not delivered by hand: a new one replaces the one before
}

// member is one broker and its disk.
type member struct {
	up      bool
	session *session.Session
	core    *replica.Replica
	log     replica.Log
	disk    *memory.Disk
	held    []replica.Message // changed only by way of World.inbox: copies share it
	cut     int16             // operations that survive the power failure before the next start, -1: there was none
	starts  int32
	started int32 // number of the first request of this incarnation
	last    int32 // number of the newest request of its replica
	learned int64 // version of the newest word that it learnt

	hashed bool
	hash   Key
}

// maxValues bounds the records that search produces into one world.
const maxValues = 100

// value is a record that search produces. The bytes are never changed.
type value struct {
	name string
	data []byte
}

// places is a set of brokers by place.
type places uint32

func (p places) has(i int) bool { return p>>i&1 != 0 }

func (p *places) set(i int, on bool) {
	*p &^= 1 << i
	if on {
		*p |= 1 << i
	}
}

// fate is what became of a message.
type fate uint8

const (
	fateTold   fate = iota // an event, or a client has it
	fateHeld               // it waits in its receiver's inbox
	fateLost               // its receiver is down or cut off
	fatePassed             // it goes on as part of the step that sent it
)

// Counts are how often things happened, over all schedules of a search.
type Counts struct {
	Schedules   int64 `json:"schedules"`
	Steps       int64 `json:"steps"`
	Elections   int64 `json:"elections"`
	ISRChanges  int64 `json:"isr_changes"`
	Truncations int64 `json:"truncations"` // that cut something
	Produced    int64 `json:"produced"`
	Acked       int64 `json:"acked"`
	Unknown     int64 `json:"unknown"` // produces that were answered with an error that leaves their outcome open
	Crashes     int64 `json:"crashes"`
	PowerLosses int64 `json:"power_losses"` // that took something
	Unclean     int64 `json:"unclean"`      // elections without a guarantee
}

// NewWorld makes a cluster as a schedule begins: every broker registered, the partition created, everything settled.
// Manual are the kinds of messages that the schedule delivers itself, answers to them included ([Manual]).
func NewWorld(c schedule.Cluster, set rules.Set, manual []replica.Kind, count *Counts) (*World, error) {
	name, err := replica.ParsePartition(schedule.Partition)
	if err != nil {
		return nil, err
	}
	if n := len(c.Replicas); n == 0 || n > 16 {
		return nil, fmt.Errorf("replicas: %d of them, a world has 1 to 16", n)
	}
	config := &worldConfig{cluster: c, rules: set, manual: manual, forget: !slices.Contains(manual, replica.KindFetch),
		topic: controller.Topic{Partition: name, MinISR: c.MinISR}}
	for i := range config.values {
		v := fmt.Sprintf("m%d", i)
		config.values[i] = value{v, []byte(v)}
	}
	for _, n := range c.Replicas {
		config.topic.Replicas = append(config.topic.Replicas, replica.ID(n))
	}
	config.ids = slices.Sorted(slices.Values(config.topic.Replicas))
	ruler, err := controller.Open(controller.Config{Rules: set, Brokers: config.ids, Topics: []controller.Topic{config.topic}, Unclean: c.Unclean})
	if err != nil {
		return nil, err
	}
	if count == nil {
		count = &Counts{}
	}
	n := len(config.ids)
	w := &World{c: config, ruler: ruler, nodes: make([]member, n), leader: -1, leaderEpoch: replica.NoEpoch, partitionEpoch: -1,
		fenced: 1<<n - 1, owned: 1<<(n+1) - 1, unshared: 1<<n - 1, count: &Counts{}}
	for i := range w.nodes {
		w.nodes[i] = member{disk: memory.New(), cut: -1}
		if err := w.boot(i); err != nil {
			return nil, err
		}
	}
	for range w.nodes {
		for i := range w.nodes {
			w.beat(i)
		}
	}
	if !w.settle(0) {
		return nil, fmt.Errorf("the cluster does not settle in %d rounds", maxRounds)
	}
	w.count = count
	return w, nil
}

// maxRounds bounds what is repeated until nothing changes, as in schedules.
const maxRounds = 100

// Manual lists the kinds of messages that a schedule's deliver and drop steps decide about.
func Manual(steps []schedule.Step) []replica.Kind {
	var kinds []replica.Kind
	for _, s := range steps {
		if s.Verb == schedule.Deliver || s.Verb == schedule.Drop {
			kinds = append(kinds, requestKind(replica.Kind(s.Message.Kind)))
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// look is the state of a broker's replica. It has to be up.
func (w *World) look(i int) replica.Look { return w.nodes[i].core.Look() }

// batches is what a broker's log holds; if it is down, what its next start will find on its disk.
func (w *World) batches(i int) []replica.Batch {
	n := &w.nodes[i]
	if n.up {
		return all(n.log)
	}
	disk := n.disk
	if n.cut >= 0 {
		disk = disk.Clone()
		_, _ = disk.Power(n.loss(w.c.topic.Partition)) // a disk in memory has no errors
	}
	l, _ := disk.Log(w.c.topic.Partition)
	return all(l)
}

// loss is the cut of the power failure before the next start.
func (n *member) loss(p replica.Partition) replica.Cut { return replica.Cut{p: {Keep: int(n.cut)}} }

func all(l replica.Log) []replica.Batch {
	batches, _ := l.Read(l.Start(), 1<<30) // from the start there is always something to read, if only nothing
	return batches
}

// place finds a broker, -1 if there is no such.
func (w *World) place(id replica.ID) int {
	return slices.Index(w.c.ids, id)
}

func (w *World) placeOf(n control.NodeID) int { return w.place(replica.ID(n)) }

// boot starts a broker's process with what its disk holds.
func (w *World) boot(i int) error {
	n := w.own(i)
	if n.cut >= 0 {
		l, err := n.disk.Log(w.c.topic.Partition)
		if err != nil {
			return err
		}
		before := w.truth.reach(all(l))
		lost, err := n.disk.Power(n.loss(w.c.topic.Partition))
		if err != nil {
			return err
		}
		n.cut = -1
		if len(lost) > 0 {
			w.count.PowerLosses++
		}
		if after := w.truth.reach(w.batches(i)); after < before {
			w.truth.lossy.set(i, true)
		}
	}
	n.starts++
	n.started = (n.starts-1)*perStart + 1
	n.last, n.learned = 0, -1
	id := w.c.ids[i]
	_, _, err := n.disk.TakeCleanShutdown() // a schedule stops nobody cleanly
	if err != nil {
		return err
	}
	n.session = session.Open(session.Config{Self: id, Incarnation: uint64(n.starts), Previous: replica.NoBrokerEpoch, FirstNumber: n.started})
	if n.log, err = n.disk.Log(w.c.topic.Partition); err != nil {
		return err
	}
	n.core, err = replica.Open(replica.Config{Self: id, Partition: w.c.topic.Partition, Rules: w.c.rules, MinISR: w.c.topic.MinISR,
		FirstNumber: n.started, Quiet: true}, n.log)
	n.up = true
	return err
}

// halt ends a broker's process.
func (w *World) halt(i int) {
	n := w.own(i)
	n.up, n.session, n.core, n.log, n.held = false, nil, nil, nil, nil
	w.count.Crashes++
}

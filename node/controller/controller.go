package controller

import (
	"fmt"
	"slices"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
)

// The controller deals in the replicas' vocabulary.
type (
	id        = replica.ID
	message   = replica.Message
	time      = replica.Time
	partition = replica.Partition
)

// Commands to the controller, which a harness gives in place of what time or an administrator would do.
const (
	KindFence    replica.Kind = "Fence"
	KindTransfer replica.Kind = "Transfer"
	KindPush     replica.Kind = "Push"
)

// Fence ends a broker's session as if its time-out had passed. The broker is told nothing.
type Fence struct{ Broker replica.ID }

// Transfer moves the leadership of the message's partition to another live member of its ISR, as a preferred leader
// election does.
type Transfer struct{ To replica.ID }

// Push sends a broker the newest LeaderAndIsr of the message's partition again, unless it was acknowledged.
type Push struct{ To replica.ID }

func (*Fence) Kind() replica.Kind    { return KindFence }
func (*Transfer) Kind() replica.Kind { return KindTransfer }
func (*Push) Kind() replica.Kind     { return KindPush }

// Topic is a partition to be created.
type Topic struct {
	Partition replica.Partition
	Replicas  []replica.ID // in assignment order: the first is the preferred leader
	MinISR    int          // min.insync.replicas
}

// Config is what a controller needs to know. Zero times mean "not driven by time".
type Config struct {
	Rules   rules.Set
	Brokers []replica.ID // the partitions are created when all of these have registered and are unfenced
	Topics  []Topic
	// Unclean is unclean.leader.election.enable: a replica outside of the ISR may lead when nobody else can.
	Unclean bool
	// SessionTimeout is how long a broker may be silent before it is fenced.
	SessionTimeout replica.Time
	// PushInterval is how often an unacknowledged LeaderAndIsr is sent again.
	PushInterval replica.Time
}

// broker is what the controller knows of one broker.
type broker struct {
	ID          id
	Incarnation uint64
	Epoch       int64
	Fenced      bool
	Host        string
	Port        int32
	heard       time // its last registration or heartbeat
}

// record is a partition's record.
type record struct {
	Partition      partition
	Replicas       []id
	MinISR         int
	Leader         id
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []id // in assignment order; like the ELR never changed in place, so that messages and copies share it
	ELR            []id // in assignment order
	LastKnown      id   // the last member of an ISR that emptied
	created        bool
	pushes         []push
}

// push is the newest word for one broker.
type push struct {
	to      id
	number  int32 // of the newest request
	acked   int64 // version acknowledged
	sent    int64 // version of the newest request
	retryAt time
}

// Controller is the one controller. It is not safe for concurrent use.
type Controller struct {
	c       Config
	version int64     // accepted changes
	brokers []*broker // sorted by ID
	parts   []*record // as configured
	number  int32
	changed bool                  // the record changed in this step
	states  []replica.BrokerState // of the brokers, as words tell them; nil when one has changed; never changed in place
	out     []message
}

// Open starts a controller that knows no broker yet.
func Open(c Config) (*Controller, error) {
	k := &Controller{c: c}
	if err := c.Rules.Validate(); err != nil {
		return nil, err
	}
	for _, t := range c.Topics {
		if len(t.Replicas) == 0 {
			return nil, fmt.Errorf("partition %s: no replicas", t.Partition)
		}
		for i, b := range t.Replicas {
			if !slices.Contains(c.Brokers, b) {
				return nil, fmt.Errorf("partition %s: replica %d is not one of the brokers %v", t.Partition, b, c.Brokers)
			}
			if slices.Contains(t.Replicas[:i], b) {
				return nil, fmt.Errorf("partition %s: replica %d is named twice", t.Partition, b)
			}
		}
		if t.MinISR < 1 {
			return nil, fmt.Errorf("partition %s: min.insync.replicas=%d: want 1 or more", t.Partition, t.MinISR)
		}
		k.parts = append(k.parts, &record{Partition: t.Partition, Replicas: t.Replicas, MinISR: min(t.MinISR, len(t.Replicas)),
			Leader: replica.None, LeaderEpoch: replica.NoEpoch, PartitionEpoch: -1, LastKnown: replica.None})
	}
	return k, nil
}

// Step handles one message and appends what it gives rise to.
func (k *Controller) Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	k.out, k.changed = out, false
	switch b := m.Body.(type) {
	case *session.Registration:
		k.register(now, m, b)
	case *session.Heartbeat:
		k.heartbeat(now, m, b)
	case *replica.AlterPartition:
		k.alterPartition(m, b)
	case *replica.LeaderAndIsrAnswer:
		k.acknowledged(now, m, b)
	case *replica.ConnectionLost:
		k.pushLost(now, m)
	case *Fence:
		k.fence(b.Broker)
	case *Transfer:
		k.transfer(m, b)
	case *Push:
		k.pushAgain(now, m, b)
	case *replica.Tick:
		k.tick(now)
	}
	if k.changed {
		k.version++
		k.states = nil
		k.pushAll(now)
	}
	out, k.out = k.out, nil
	return out
}

// Deadline is when a replica.Tick is next of use.
func (k *Controller) Deadline() replica.Time {
	due := replica.Never
	for _, b := range k.brokers {
		if k.c.SessionTimeout > 0 && !b.Fenced {
			due = min(due, b.heard+k.c.SessionTimeout+1)
		}
	}
	for _, r := range k.parts {
		for _, p := range r.pushes {
			if p.acked < p.sent {
				due = min(due, p.retryAt)
			}
		}
	}
	return due
}

func (k *Controller) tick(now time) {
	for _, b := range k.brokers {
		if k.c.SessionTimeout > 0 && !b.Fenced && now-b.heard > k.c.SessionTimeout {
			k.fence(b.ID)
		}
	}
	if k.changed {
		return // every push is sent anew anyway
	}
	for _, r := range k.parts {
		for i := range r.pushes {
			if p := &r.pushes[i]; p.acked < p.sent && now >= p.retryAt {
				k.push(now, r, p, new(replica.LeaderAndIsr))
			}
		}
	}
}

func (k *Controller) send(m message) { k.out = append(k.out, m) }

func (k *Controller) broker(b id) *broker {
	i := slices.IndexFunc(k.brokers, func(x *broker) bool { return x.ID == b })
	if i < 0 {
		return nil
	}
	return k.brokers[i]
}

func (k *Controller) record(p partition) *record {
	i := slices.IndexFunc(k.parts, func(r *record) bool { return r.Partition == p })
	if i < 0 {
		return nil
	}
	return k.parts[i]
}

// live says whether the broker has a session.
func (k *Controller) live(b id) bool {
	x := k.broker(b)
	return x != nil && !x.Fenced
}

// View is a partition's record for people and invariants.
type View struct {
	Partition      replica.Partition
	Created        bool // all brokers have registered
	Replicas       []replica.ID
	MinISR         int
	Leader         replica.ID
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR, ELR       []replica.ID
}

// Views lists the partitions' records in the order of the configuration.
func (k *Controller) Views() []View {
	views := make([]View, len(k.parts))
	for i, r := range k.parts {
		views[i] = View{Partition: r.Partition, Created: r.created, Replicas: slices.Clone(r.Replicas), MinISR: r.MinISR, Leader: r.Leader,
			LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ISR: slices.Clone(r.ISR), ELR: slices.Clone(r.ELR)}
	}
	return views
}

// BrokerView is what the controller knows of a broker.
type BrokerView struct {
	replica.BrokerState
	Host string
	Port int32
}

// Brokers lists the registered brokers by ID.
func (k *Controller) Brokers() []BrokerView {
	views := make([]BrokerView, len(k.brokers))
	for i, b := range k.brokers {
		views[i] = BrokerView{replica.BrokerState{ID: b.ID, Epoch: b.Epoch, Fenced: b.Fenced}, b.Host, b.Port}
	}
	return views
}

func (k *Controller) brokerStates() []replica.BrokerState {
	if k.states == nil {
		k.states = make([]replica.BrokerState, len(k.brokers))
		for i, b := range k.brokers {
			k.states[i] = replica.BrokerState{ID: b.ID, Epoch: b.Epoch, Fenced: b.Fenced}
		}
	}
	return k.states
}

package inbox

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tidemark/node/replica"
	"tidemark/node/session"
)

// Config is what a broker's cores need to know.
type Config struct {
	Session session.Config
	// Replica is the configuration that the broker's replicas have in common; Partition and MinISR are each one's own.
	Replica replica.Config
	Hosted  []Hosted
}

// Hosted is a partition of which the broker has a replica.
type Hosted struct {
	Partition replica.Partition
	MinISR    int
}

// Broker is the cores of one broker process over one disk. It is not safe for concurrent use.
type Broker struct {
	self    replica.ID
	disk    replica.Disk
	session *session.Session
	parts   []part
	words   []word // the controller's newest word on every partition, hosted or not, in the order of first arrival
	learned int    // how often words changed
}

type part struct {
	name    replica.Partition
	log     *faultyLog
	replica *replica.Replica
}

type word struct {
	name replica.Partition
	body *replica.LeaderAndIsr
}

// Start opens the broker's logs on the disk and makes its cores. It takes the marker of a clean shutdown, if there is one.
func Start(c Config, d replica.Disk) (*Broker, error) {
	previous, clean, err := d.TakeCleanShutdown()
	if err != nil {
		return nil, err
	}
	if !clean {
		previous = replica.NoBrokerEpoch
	}
	c.Session.Previous = previous
	b := &Broker{self: c.Session.Self, disk: d, session: session.Open(c.Session)}
	for _, h := range c.Hosted {
		l, err := d.Log(h.Partition)
		if err != nil {
			return nil, err
		}
		faulty := &faultyLog{Log: l}
		rc := c.Replica
		rc.Partition, rc.MinISR = h.Partition, h.MinISR
		r, err := replica.Open(rc, faulty)
		if err != nil {
			return nil, err
		}
		b.parts = append(b.parts, part{h.Partition, faulty, r})
	}
	return b, nil
}

// Step hands a message to the core that it is for. A Poll without a partition is the session's.
func (b *Broker) Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	switch body := m.Body.(type) {
	case *replica.Tick:
		if b.session.Deadline() <= now {
			out = b.session.Step(now, m, out)
		}
		for _, p := range b.parts {
			if p.replica.Deadline() <= now {
				out = p.replica.Step(now, m, out)
			}
		}
		return out
	case *session.RegistrationAnswer:
		former := b.session.BrokerEpoch()
		out = b.session.Step(now, m, out)
		if epoch := b.session.BrokerEpoch(); epoch != former {
			told := replica.Message{From: b.self, To: b.self, Body: &replica.Registered{BrokerEpoch: epoch}}
			for _, p := range b.parts {
				told.Partition = p.name
				out = p.replica.Step(now, told, out)
			}
		}
		return out
	case *session.HeartbeatAnswer:
		return b.session.Step(now, m, out)
	case *replica.LeaderAndIsr:
		if body.BrokerEpoch == b.session.BrokerEpoch() {
			b.remember(m.Partition, body)
		}
	}
	if m.Partition == (replica.Partition{}) {
		return b.session.Step(now, m, out)
	}
	if p := b.part(m.Partition); p != nil {
		return p.replica.Step(now, m, out)
	}
	code := replica.UnknownTopicOrPartition
	if w, ok := m.Body.(*replica.LeaderAndIsr); ok {
		// No replica here: the word is for answering clients' questions.
		code = replica.OK
		if w.BrokerEpoch != b.session.BrokerEpoch() {
			code = replica.StaleBrokerEpoch
		}
	}
	if answer, ok := replica.Refuse(m, code); ok {
		out = append(out, answer)
	}
	return out
}

func (b *Broker) remember(p replica.Partition, body *replica.LeaderAndIsr) {
	i := slices.IndexFunc(b.words, func(w word) bool { return w.name == p })
	switch {
	case i < 0:
		b.words = append(b.words, word{p, body})
	case body.Version > b.words[i].body.Version:
		b.words[i].body = body
	default:
		return
	}
	b.learned++
}

func (b *Broker) part(name replica.Partition) *part {
	for i := range b.parts {
		if b.parts[i].name == name {
			return &b.parts[i]
		}
	}
	return nil
}

// Deadline is when a replica.Tick is next of use.
func (b *Broker) Deadline() replica.Time {
	due := b.session.Deadline()
	for _, p := range b.parts {
		due = min(due, p.replica.Deadline())
	}
	return due
}

// Session is the broker's session with the controller.
func (b *Broker) Session() *session.Session { return b.session }

// Partitions lists the partitions of which the broker has a replica.
func (b *Broker) Partitions() []replica.Partition {
	names := make([]replica.Partition, len(b.parts))
	for i, p := range b.parts {
		names[i] = p.name
	}
	return names
}

// Learned counts the changes of what [Broker.Words] visits.
func (b *Broker) Learned() int { return b.learned }

// Words visits the newest word on every partition that the controller spoke of.
func (b *Broker) Words(visit func(replica.Partition, *replica.LeaderAndIsr)) {
	for _, w := range b.words {
		visit(w.name, w.body)
	}
}

// View is the state of the broker's replica of a partition; false if it has none.
func (b *Broker) View(p replica.Partition) (replica.View, bool) {
	if x := b.part(p); x != nil {
		return x.replica.View(), true
	}
	return replica.View{}, false
}

// Read returns whole batches of the replica's log from offset on, up to its end, for people and comparison.
func (b *Broker) Read(p replica.Partition, offset int64, maxBytes int) ([]replica.Batch, error) {
	x := b.part(p)
	if x == nil {
		return nil, fmt.Errorf("partition %s: no replica on broker %d", p, b.self)
	}
	return x.log.Read(offset, maxBytes)
}

// HighWatermarks is what a checkpoint writes.
func (b *Broker) HighWatermarks() map[replica.Partition]int64 {
	hw := make(map[replica.Partition]int64, len(b.parts))
	for _, p := range b.parts {
		hw[p.name] = p.replica.HighWatermark()
	}
	return hw
}

// Checkpoint makes the high watermarks durable.
func (b *Broker) Checkpoint() error { return b.disk.Checkpoint(b.HighWatermarks()) }

// Flush makes every log durable up to its end.
func (b *Broker) Flush() error {
	for _, p := range b.parts {
		if err := b.disk.Flush(p.name); err != nil {
			return err
		}
	}
	return nil
}

// Stop is a clean shutdown of the disk: logs flushed, high watermarks written, the marker left.
func (b *Broker) Stop() error {
	if err := b.Flush(); err != nil {
		return err
	}
	if err := b.Checkpoint(); err != nil {
		return err
	}
	if b.session.BrokerEpoch() == replica.NoBrokerEpoch {
		return nil // it never was a member
	}
	return b.disk.CleanShutdown(b.session.BrokerEpoch())
}

// FailNextAppend makes the next append of every log fail as on a broken disk.
func (b *Broker) FailNextAppend() {
	for _, p := range b.parts {
		p.log.failNext = true
	}
}

// AppendState appends a canonical form of everything that decides the broker's future, its disk excepted.
func (b *Broker) AppendState(now replica.Time, out []byte) []byte {
	out = b.session.AppendState(out)
	for _, p := range b.parts {
		out = append(binary.AppendUvarint(out, uint64(len(p.name.Topic))), p.name.Topic...)
		out = binary.AppendVarint(out, int64(p.name.Index))
		out = p.replica.AppendState(now, out)
	}
	return out
}

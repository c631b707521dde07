package replica

import (
	"fmt"
	"slices"

	"tidemark/node/rules"
)

// Config is what a replica needs to know and no message tells it. Zero times mean "not driven by time".
type Config struct {
	Self      ID
	Partition Partition
	Rules     rules.Set
	// MinISR is min.insync.replicas; at most the number of replicas counts.
	MinISR int
	// LagMax is replica.lag.time.max.ms as a Time: how long a follower may be behind before the leader drops it from the
	// ISR. 0: only a Lag message does it.
	LagMax Time
	// FetchWait is replica.fetch.wait.max.ms: how long the leader may hold a follower's fetch when there is nothing new.
	FetchWait Time
	// FetchMaxBytes bounds the records of one answer to this replica's fetches; 0 means 1 MiB.
	FetchMaxBytes int32
	// Timeout is how long this replica waits for an answer before it asks again.
	Timeout Time
	// Backoff is how long it waits after an error before it asks again.
	Backoff Time
	// FirstNumber is the number of the first request, for telling the requests of one incarnation from another's. 0 is 1.
	FirstNumber int32
	// Quiet leaves events out of what a step gives rise to; [Replica.Told] counts them all the same. It is for drivers that
	// look at the replica instead, because events are a good part of what a step costs.
	Quiet bool
}

// Replica is one broker's replica of one partition. It is not safe for concurrent use.
type Replica struct {
	c   Config
	log Log

	role           Role
	version        int64 // of the newest LeaderAndIsr
	leader         ID
	leaderEpoch    int32
	partitionEpoch int32
	replicas       []ID
	isr            []ID
	brokers        []BrokerState // sorted by ID
	brokerEpoch    int64         // of this broker

	hw        int64
	epochs    epochCache
	producers producers

	leading   leading   // meaningful while role is RoleLeader
	following following // meaningful while role is RoleFollower

	number int32     // of the last request sent
	told   uint32    // events so far
	cuts   uint32    // of the log, those that cut nothing not counted
	out    []Message // of the step being handled
}

// Open makes a replica of what survived. It has no role until LeaderAndIsr arrives. The high watermark starts from its
// checkpoint and the epoch cache from its own, both clamped to the log, because each is written on its own and may be
// ahead of it. Where the epoch checkpoint contradicts the log, the log is right: a power failure can undo a truncation that
// was not flushed, and then the log has its old records again where the checkpoint already has the epoch of the new ones.
// A leader that believed it would tell followers that they agree where they do not, and the logs would differ for ever.
func Open(c Config, l Log) (*Replica, error) {
	r := &Replica{c: c, log: l, leaderEpoch: NoEpoch, partitionEpoch: -1, version: -1, brokerEpoch: NoBrokerEpoch,
		number: c.FirstNumber - 1}
	if c.FetchMaxBytes == 0 {
		r.c.FetchMaxBytes = 1 << 20
	}
	r.hw = min(max(l.HighWatermark(), l.Start()), l.End())
	r.epochs, _ = epochCache(slices.Clone(l.Epochs())).truncatedFromEnd(l.End())
	r.epochs, _ = r.epochs.truncatedFromStart(l.Start())
	err := r.eachBatch(func(b Batch) {
		r.producers.remember(b)
		if !c.Rules.Defect.CheckpointBelieved { // Z28
			r.epochs = r.epochs.corrected(b)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("producer state and leader epochs of %s: %w", c.Partition, err)
	}
	if c.Rules.Defect.RecoverySkipsZero && len(r.epochs) > 0 && r.epochs[0].Epoch == 0 {
		r.epochs = r.epochs[1:] // Z19
	}
	if !slices.Equal(r.epochs, l.Epochs()) {
		if err := l.SetEpochs(r.epochs); err != nil {
			return nil, fmt.Errorf("leader epoch checkpoint of %s: %w", c.Partition, err)
		}
	}
	return r, nil
}

// Step is the only way in: it handles one message and appends to out what it gives rise to, in order. It never fails: an
// error of the log takes the replica offline, as a failed log directory does in Kafka.
func (r *Replica) Step(now Time, m Message, out []Message) []Message {
	r.out = out
	r.step(now, m)
	out, r.out = r.out, nil
	return out
}

func (r *Replica) step(now Time, m Message) {
	if r.role == RoleOffline {
		r.refuse(m)
		return
	}
	switch b := m.Body.(type) {
	case *Registered:
		r.brokerEpoch = b.BrokerEpoch
	case *LeaderAndIsr:
		r.leaderAndIsr(now, m, b)
	case *Produce:
		r.produce(now, m, b)
	case *Fetch:
		r.fetch(now, m, b)
	case *OffsetForLeaderEpoch:
		r.offsetForLeaderEpoch(m, b)
	case *ListOffsets:
		r.listOffsets(m, b)
	case *AlterPartitionAnswer:
		r.alterPartitionAnswer(now, m, b)
	case *OffsetForLeaderEpochAnswer:
		r.epochEnd(now, m, b)
	case *FetchAnswer:
		r.fetched(now, m, b)
	case *ListOffsetsAnswer:
		r.leaderEnd(now, m, b)
	case *Poll:
		r.poll(now, b.MaxRecords)
	case *Lag:
		r.lag(now, b.Replica)
	case *ConnectionLost:
		r.connectionLost(now, m.Number)
	case *Tick:
		r.tick(now)
	}
}

// leaderAndIsr applies the controller's word on the partition, unless a newer one is known.
func (r *Replica) leaderAndIsr(now Time, m Message, b *LeaderAndIsr) {
	if b.BrokerEpoch != r.brokerEpoch {
		r.send(m.Answer(&LeaderAndIsrAnswer{Error: StaleBrokerEpoch, Version: b.Version}))
		return
	}
	if b.Version > r.version {
		r.version, r.brokers = b.Version, b.Brokers
	}
	if b.PartitionEpoch > r.partitionEpoch || r.c.Rules.Defect.StaleWord && b.PartitionEpoch < r.partitionEpoch { // Z12b
		newEpoch := b.LeaderEpoch > r.leaderEpoch
		missed := b.LeaderEpoch > r.leaderEpoch+1
		formerLeader := r.leader
		r.partitionEpoch, r.leaderEpoch, r.leader = b.PartitionEpoch, b.LeaderEpoch, b.Leader
		r.replicas, r.isr = b.Replicas, b.ISR
		if b.Leader == r.c.Self {
			r.lead(now, newEpoch, missed)
		} else {
			r.follow(now, newEpoch, formerLeader)
		}
	}
	code := OK
	if r.role == RoleOffline {
		code = StorageError
	}
	r.send(m.Answer(&LeaderAndIsrAnswer{Error: code, Version: b.Version}))
	r.advance(now)
}

// tick handles what has become due.
func (r *Replica) tick(now Time) {
	switch {
	case r.role == RoleLeader:
		r.tickLeader(now)
	case r.role == RoleFollower && now >= r.following.pollAt:
		r.poll(now, 0)
	}
}

// Deadline is when a Tick is next of use, Never if only a message can change anything.
func (r *Replica) Deadline() Time {
	switch r.role {
	case RoleLeader:
		return r.leaderDeadline()
	case RoleFollower:
		return r.following.pollAt
	}
	return Never
}

func (r *Replica) connectionLost(now Time, number int32) {
	switch r.role {
	case RoleLeader:
		if p := r.leading.pending; p != nil && p.number == number {
			p.number, p.retryAt = 0, now+r.c.Backoff
		}
	case RoleFollower:
		if r.following.asked.number == number {
			r.following.asked = asked{}
			r.following.pollAt = now + r.c.Backoff
		}
	}
}

// request numbers and sends a request of this replica.
func (r *Replica) request(to ID, b Body) int32 {
	r.number++
	r.send(Message{From: r.c.Self, To: to, Partition: r.c.Partition, Number: r.number, Body: b})
	return r.number
}

func (r *Replica) send(m Message) { r.out = append(r.out, m) }

// tell takes the event by value so that it costs nothing while nobody listens.
func (r *Replica) tell(e Event) {
	r.told++
	if r.c.Quiet {
		return
	}
	b := new(Event)
	*b = e
	r.send(Message{From: r.c.Self, To: Observer, Partition: r.c.Partition, Body: b})
}

// why words the reason that an event gives, if there will be an event.
func (r *Replica) why(format string, about ...any) string {
	if r.c.Quiet {
		return ""
	}
	return fmt.Sprintf(format, about...)
}

// Told counts the events so far, and those among them that tell of a cut which took something from the log.
func (r *Replica) Told() (events, cuts uint32) { return r.told, r.cuts }

// fail takes the replica offline after an error of its log. It returns false, for use in a return statement.
func (r *Replica) fail(doing string, err error) bool {
	if r.role == RoleLeader {
		r.resign(StorageError)
	}
	r.role = RoleOffline
	r.tell(Event{What: EventOffline, Epoch: r.leaderEpoch, Why: fmt.Sprintf("%s: %v", doing, err)})
	return false
}

// refuse answers requests to a replica that is offline.
func (r *Replica) refuse(m Message) {
	if answer, ok := Refuse(m, StorageError); ok {
		r.send(answer)
	}
}

// View is the replica's state for people and invariants.
func (r *Replica) View() View {
	v := View{Role: r.role, Leader: r.leader, LeaderEpoch: r.leaderEpoch, PartitionEpoch: r.partitionEpoch,
		Start: r.log.Start(), LEO: r.log.End(), HW: r.hw, ISR: slices.Clone(r.isr), Epochs: slices.Clone(r.epochs)}
	switch r.role {
	case RoleLeader:
		v.MaximalISR, v.Waiting = r.maximalISR(), len(r.leading.purgatory)
	case RoleFollower:
		v.Truncating = r.following.truncating
	}
	return v
}

// Look is the part of a [View] that costs nothing to see.
type Look struct {
	Role       Role
	Truncating bool
	Leader     ID
	HW         int64
}

// Look is the replica's state for drivers that look after every step.
func (r *Replica) Look() Look {
	return Look{Role: r.role, Truncating: r.role == RoleFollower && r.following.truncating, Leader: r.leader, HW: r.hw}
}

// HighWatermark is the offset below which records are committed, as far as this replica knows: what the broker
// checkpoints.
func (r *Replica) HighWatermark() int64 { return r.hw }

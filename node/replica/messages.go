package replica

import "fmt"

// Kind names a message as Kafka names its API; the answer to X is "X answer".
type Kind string

// Message is everything that goes into a core or comes out of one.
type Message struct {
	From, To  ID
	Partition Partition // zero for messages between a broker as such and the controller
	// Number counts the requests of the core that sent it, so that an answer, which repeats its request's, can be told
	// from the answer to an earlier one. On the wire it is the correlation id.
	Number int32
	Body   Body
}

// Body is what a message says. A body is never changed after it was sent.
type Body interface{ Kind() Kind }

// String is "2->1 Fetch#7", the way a schedule names a message.
func (m Message) String() string {
	return fmt.Sprintf("%s->%s %s#%d", m.From, m.To, m.Body.Kind(), m.Number)
}

// Answer is the message that answers m.
func (m Message) Answer(b Body) Message {
	return Message{From: m.To, To: m.From, Partition: m.Partition, Number: m.Number, Body: b}
}

// Refuse is the answer that turns a client's, a follower's or the controller's request down before it did anything; false
// for messages that are no such request.
func Refuse(m Message, code Code) (Message, bool) {
	switch b := m.Body.(type) {
	case *Produce:
		return m.Answer(&ProduceAnswer{Error: code, Base: NoOffset, Refused: true}), true
	case *Fetch:
		return m.Answer(&FetchAnswer{Error: code, HighWatermark: NoOffset}), true
	case *OffsetForLeaderEpoch:
		return m.Answer(&OffsetForLeaderEpochAnswer{Error: code, Epoch: NoEpoch, End: NoOffset}), true
	case *ListOffsets:
		return m.Answer(&ListOffsetsAnswer{Error: code, Offset: NoOffset, LeaderEpoch: NoEpoch}), true
	case *LeaderAndIsr:
		return m.Answer(&LeaderAndIsrAnswer{Error: code, Version: b.Version}), true
	}
	return Message{}, false
}

// Acknowledgement levels of a produce request.
const (
	AcksAll int16 = -1
	AcksOne int16 = 1
	AcksNo  int16 = 0
)

// Special values of request fields, as on Kafka's wire.
const (
	NoEpoch        int32 = -1 // no leader epoch: not fenced, or undefined
	NoOffset       int64 = -1 // no offset: undefined
	NoBrokerEpoch  int64 = -1
	LatestOffset   int64 = -1 // ListOffsets timestamp: the high watermark
	EarliestOffset int64 = -2 // ListOffsets timestamp: the log start
	LogEndOffset   int64 = -3 // for our debugging consumer only: the log end offset of this replica
)

// Produce asks the leader to append (key 0). Acks -1 waits for the in-sync replicas, 1 for the leader's log.
type Produce struct {
	Acks    int16
	Timeout Time  // how long acks=all may wait; 0 means for ever
	Batch   Batch // Base and Epoch are the leader's to give
}

// ProduceAnswer says where the records are, or why not.
type ProduceAnswer struct {
	Error Code
	Base  int64 // offset of the first record, NoOffset if nothing was appended
	Start int64 // log start offset
	// Refused says that the request was turned down before anything was appended, so that the error certainly means "no".
	Refused bool
}

// Fetch reads from a replica (key 1): a follower's (From is a broker) or a consumer's.
type Fetch struct {
	Offset       int64
	LeaderEpoch  int32 // the sender's current leader epoch; NoEpoch: not checked
	LastEpoch    int32 // a follower's newest epoch, for truncation on fetch (KIP-595); NoEpoch: not said
	BrokerEpoch  int64 // a follower's incarnation (KIP-903), or NoBrokerEpoch
	Start        int64 // a follower's log start offset
	MaxBytes     int32
	MaxWait      Time // how long to wait for something new; 0 answers at once. Followers only: consumers are held by the shell
	Debug        bool // Kafka's debugging consumer (replica id -2): up to the log end, from any role, changes nothing
	FromFollower bool // a consumer that may read from a replica that does not lead (KIP-392)
}

// FetchAnswer has records and the high watermark of one snapshot.
type FetchAnswer struct {
	Error         Code
	HighWatermark int64
	Start         int64
	Batches       []Batch
	// Diverging, in place of records, says where the two logs part at the latest: the leader's largest epoch that is at most the
	// follower's newest, and where it ends (KIP-595).
	Diverging *EpochEnd
}

// EpochEnd is an epoch and the offset where it ends.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// OffsetForLeaderEpoch asks where an epoch ends in the receiver's log (key 23).
type OffsetForLeaderEpoch struct {
	LeaderEpoch int32 // the sender's current leader epoch; NoEpoch: not checked
	Epoch       int32 // the epoch asked about
}

// OffsetForLeaderEpochAnswer: the largest epoch known that is at most the one asked for, and where it ends.
type OffsetForLeaderEpochAnswer struct {
	Error Code
	Epoch int32 // NoEpoch: undefined, or not said (v0)
	End   int64 // NoOffset: undefined
}

// ListOffsets asks for an end of the log (key 2).
type ListOffsets struct {
	LeaderEpoch int32
	Timestamp   int64 // LatestOffset, EarliestOffset or LogEndOffset
}

// ListOffsetsAnswer has the offset asked for.
type ListOffsetsAnswer struct {
	Error       Code
	Offset      int64
	LeaderEpoch int32
}

// BrokerState is what the controller says about one broker.
type BrokerState struct {
	ID     ID
	Epoch  int64 // its broker epoch (incarnation)
	Fenced bool  // no session: it may neither lead nor join an ISR
}

// LeaderAndIsr is the controller's word on a partition (key 4), pushed to every registered broker.
type LeaderAndIsr struct {
	Version        int64 // the controller's count of accepted changes: an older word never replaces a newer one
	Leader         ID    // None if nobody leads
	LeaderEpoch    int32
	PartitionEpoch int32 // version of this partition's record, the subject of AlterPartition's compare-and-set
	Replicas       []ID  // in assignment order
	ISR            []ID  // in assignment order
	ELR            []ID  // eligible leader replicas (KIP-966), in assignment order
	BrokerEpoch    int64 // the receiver's, as the controller knows it: a word for an earlier incarnation is refused
	Brokers        []BrokerState
}

// LeaderAndIsrAnswer acknowledges a push.
type LeaderAndIsrAnswer struct {
	Error   Code
	Version int64
}

// Member is a replica in a proposed ISR.
type Member struct {
	ID          ID
	BrokerEpoch int64 // of its last fetch (KIP-903), or NoBrokerEpoch
}

// AlterPartition asks the controller to change the ISR (key 56, KIP-497).
type AlterPartition struct {
	BrokerEpoch    int64 // the sender's
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []Member
}

// AlterPartitionAnswer has the partition's record after an accepted change.
type AlterPartitionAnswer struct {
	Error          Code
	Leader         ID
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []ID
}

// Poll is the follower's timer: send the next request of the truncation dialogue, or the next fetch.
type Poll struct {
	MaxRecords int32 // apply at most that many records' worth of whole batches of the answer, at least one; 0: all
}

// Tick says that time has passed: purgatory, waiting fetches, ISR lag, and Poll when it is due.
type Tick struct{}

// Lag is the jump of the leader's ISR clock for one follower: it now counts as not caught up for longer than
// replica.lag.time.max.ms.
type Lag struct{ Replica ID }

// ConnectionLost tells a sender that the connection broke over a request of that kind: it may have arrived or not.
type ConnectionLost struct{ Request Kind }

// Registered tells a replica its broker's new broker epoch.
type Registered struct{ BrokerEpoch int64 }

// The kinds of messages.
const (
	KindProduce                    Kind = "Produce"
	KindProduceAnswer              Kind = "Produce answer"
	KindFetch                      Kind = "Fetch"
	KindFetchAnswer                Kind = "Fetch answer"
	KindOffsetForLeaderEpoch       Kind = "OffsetForLeaderEpoch"
	KindOffsetForLeaderEpochAnswer Kind = "OffsetForLeaderEpoch answer"
	KindListOffsets                Kind = "ListOffsets"
	KindListOffsetsAnswer          Kind = "ListOffsets answer"
	KindLeaderAndIsr               Kind = "LeaderAndIsr"
	KindLeaderAndIsrAnswer         Kind = "LeaderAndIsr answer"
	KindAlterPartition             Kind = "AlterPartition"
	KindAlterPartitionAnswer       Kind = "AlterPartition answer"
	KindPoll                       Kind = "Poll"
	KindTick                       Kind = "Tick"
	KindLag                        Kind = "Lag"
	KindLost                       Kind = "ConnectionLost"
	KindRegistered                 Kind = "Registered"
	KindEvent                      Kind = "Event"
)

func (*Produce) Kind() Kind                    { return KindProduce }
func (*ProduceAnswer) Kind() Kind              { return KindProduceAnswer }
func (*Fetch) Kind() Kind                      { return KindFetch }
func (*FetchAnswer) Kind() Kind                { return KindFetchAnswer }
func (*OffsetForLeaderEpoch) Kind() Kind       { return KindOffsetForLeaderEpoch }
func (*OffsetForLeaderEpochAnswer) Kind() Kind { return KindOffsetForLeaderEpochAnswer }
func (*ListOffsets) Kind() Kind                { return KindListOffsets }
func (*ListOffsetsAnswer) Kind() Kind          { return KindListOffsetsAnswer }
func (*LeaderAndIsr) Kind() Kind               { return KindLeaderAndIsr }
func (*LeaderAndIsrAnswer) Kind() Kind         { return KindLeaderAndIsrAnswer }
func (*AlterPartition) Kind() Kind             { return KindAlterPartition }
func (*AlterPartitionAnswer) Kind() Kind       { return KindAlterPartitionAnswer }
func (*Poll) Kind() Kind                       { return KindPoll }
func (*Tick) Kind() Kind                       { return KindTick }
func (*Lag) Kind() Kind                        { return KindLag }
func (*ConnectionLost) Kind() Kind             { return KindLost }
func (*Registered) Kind() Kind                 { return KindRegistered }
func (*Event) Kind() Kind                      { return KindEvent }

// EventKind says what an event tells.
type EventKind string

// What a replica tells about itself.
const (
	EventRole     EventKind = "role"      // Role, Leader, Epoch, PartitionEpoch, ISR: a new LeaderAndIsr took effect
	EventAppend   EventKind = "append"    // From, To: offsets [From, To) were appended with record epoch Epoch
	EventHW       EventKind = "hw"        // From, To: the high watermark moved
	EventTruncate EventKind = "truncated" // From, To, HW, Why: log end before and after, also when nothing was cut
	EventISR      EventKind = "isr"       // ISR, Epoch, PartitionEpoch: the leader committed a new ISR
	EventAck      EventKind = "ack"       // From, To, Epoch (the records' own), ISR (maximal), PartitionEpoch: they were acknowledged
	EventOffline  EventKind = "offline"   // Why: the log failed
	EventStuck    EventKind = "stuck"     // Why: a follower cannot go on until the controller changes something
)

// Event is something that happened in a core, for people and for the checker. Times of different nodes are no evidence
// for order: events are joined to operations by (epoch, offset).
type Event struct {
	What           EventKind
	Role           Role
	Leader         ID
	Epoch          int32
	PartitionEpoch int32
	From, To       int64
	HW             int64 // EventTruncate: the high watermark before the cut
	ISR            []ID
	Broker         ID // the controller's events about a broker
	BrokerEpoch    int64
	Why            string
	Unclean        bool // an election from outside the ISR and the ELR
}

// Role is what a replica is for its partition.
type Role uint8

// The roles.
const (
	RoleNone     Role = iota // none yet since the start, or nobody leads
	RoleLeader               // leads
	RoleFollower             // follows a leader
	RoleOffline              // its log failed
)

// String is the role in lower case.
func (r Role) String() string { return [...]string{"none", "leader", "follower", "offline"}[r] }

// View is a replica's state for people and invariants.
type View struct {
	Role           Role
	Truncating     bool // follower that has not finished its truncation dialogue
	Leader         ID
	LeaderEpoch    int32
	PartitionEpoch int32
	Start          int64
	LEO            int64
	HW             int64
	ISR            []ID // as the leader knows it; a follower's is that of its last LeaderAndIsr
	MaximalISR     []ID // leader: ISR and whoever is being added
	Epochs         []EpochStart
	Waiting        int // produce requests in purgatory
}

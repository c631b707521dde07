package history

import "fmt"

// Kind says what one event of a history is.
type Kind uint8

// The kinds of event. The first four are the life of an operation; the others are facts that the harness and the nodes add,
// so that a stored run can be judged and explained from one file.
const (
	// Invoke is recorded before the request leaves the client.
	Invoke Kind = iota + 1
	// OK is recorded after the answer arrived: the operation happened.
	OK
	// Fail says that the operation certainly did not happen, now or later.
	Fail
	// Info says that nobody can know whether it happened or will: a time-out, a lost connection. Its process is retired.
	Info
	// KindFault is the begin or the end of a fault.
	KindFault
	// KindNode is something a broker or the controller did.
	KindNode
	// KindReplica is one replica's log as found at the end of the run.
	KindReplica
	// KindSettled says whether a partition came to rest at the end of the run.
	KindSettled
)

var kindNames = [...]string{Invoke: "invoke", OK: "ok", Fail: "fail", Info: "info", KindFault: "fault", KindNode: "node",
	KindReplica: "replica", KindSettled: "settled"}

// String is the word that stands in the file.
func (k Kind) String() string { return name(kindNames[:], int(k), "kind") }

// IsReturn reports whether the event ends an operation.
func (k Kind) IsReturn() bool { return k == OK || k == Fail || k == Info }

// OpType is what an operation asks of the log.
type OpType uint8

// The three operations of a log: Kafka's Produce, Fetch and ListOffsets(latest).
const (
	// Produce appends a batch of values and is answered with the offset of the first.
	Produce OpType = iota + 1
	// Fetch asks for records from an offset on and is answered with records and a high watermark of one snapshot.
	Fetch
	// End asks for the end offset that consumers see, the high watermark.
	End
)

var opNames = [...]string{Produce: "produce", Fetch: "fetch", End: "end"}

// String is the word that stands in the file.
func (o OpType) String() string { return name(opNames[:], int(o), "operation") }

func name(names []string, i int, what string) string {
	if i > 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

// Controller is the node id under which the controller reports; brokers have ids from 0 on.
const Controller int32 = -1

// Unknown stands for an offset or epoch that nobody told: the offset of a produce with acks=0, a leader that is none.
const Unknown = -1

// Event is one line of a history.
type Event struct {
	// Seq numbers the events of a run from 1 on. It is the order of recording and the only order that the checker trusts; the
	// [Sink] assigns it.
	Seq int64
	// Time is in nanoseconds, monotonic, since the run began. It is for people: no judgement rests on it.
	Time int64
	Kind Kind
	// Process is the logical client of an operation. A process has one operation at a time, and none after an Info.
	Process int64
	// Op is the operation, for Invoke, OK, Fail and Info.
	Op Op
	// Fault, Node, Replica and Settled are set for the kind of that name, and nil otherwise.
	Fault   *FaultEvent
	Node    *NodeEvent
	Replica *Replica
	Settled *Settled
}

// Op is an operation, or what is known of it: an Invoke carries the question, an OK the answer. Type and Partition stand in
// both, so that each line can be read alone.
type Op struct {
	Type OpType
	// Partition is topic and number as Kafka's tools print them, "orders-0".
	Partition string
	// Values are the batch of a produce (Invoke). Every value of a partition is unique in a run.
	Values []string
	// Acks is a produce's (Invoke): -1 all, 1 leader, 0 none.
	Acks int16
	// Offset is the answer of a produce, the offset of its first value, or Unknown when the answer has none; and the answer of
	// an end.
	Offset int64
	// From is the offset that a fetch asks for (Invoke).
	From int64
	// Node is the broker that was asked, Unknown if nobody knows.
	Node int32
	// Records and HighWatermark are the answer of a fetch. Records below From are not to be recorded.
	Records       []Record
	HighWatermark int64
	// Final marks the authoritative reads at the end of a run: from the leader, after the partition has settled, complete up to
	// its high watermark.
	Final bool
	// Error is Kafka's name of the error, or another short text, for Fail and Info.
	Error string
}

// Record is one record of a log as a consumer or the dump of a replica shows it.
type Record struct {
	Offset int64
	// Epoch is the leader epoch under which the record was appended, Unknown if nobody told.
	Epoch int32
	Value string
}

// FaultEvent is the begin or the end of a fault. Begin is recorded before the fault is asked for. End is recorded after it was
// undone or, if it needs no undoing (kill, power failure), after it took effect. So the fault acted between the two, and as
// operations are numbered by the same counter the two orders are comparable.
type FaultEvent struct {
	// ID joins an end to its begin.
	ID    int64
	Phase Phase
	// Verb is the fault in a schedule's words: kill, powerfail, pause, isolate, ...
	Verb string
	// Asked is the fault as it was asked for, with roles not yet resolved: "powerfail leader of orders-0".
	Asked string
	// Nodes are the nodes that it resolved to.
	Nodes []int32
	// Evidence is what was measured to show that the fault took effect (End).
	Evidence []Measurement
	// Proven says that the evidence is enough (End). A run with an unproven fault is not a pass.
	Proven bool
}

// Phase tells the begin of a fault from its end.
type Phase uint8

// The two phases of a fault.
const (
	Begin Phase = iota + 1
	Over
)

var phaseNames = [...]string{Begin: "begin", Over: "end"}

// String is the word that stands in the file.
func (p Phase) String() string { return name(phaseNames[:], int(p), "phase") }

// Measurement is one thing that was measured, such as "bytes lost" = "132".
type Measurement struct {
	Name  string
	Value string
}

// What names a thing that a node did. The set is open: a name that is not listed here is kept and shown, and proves nothing.
type What string

// What a node did. The comment names the fields of [NodeEvent] that belong to it, besides Node, Partition and Epoch, which is
// the leader epoch in force unless said otherwise.
const (
	// Append: records [From, To) were appended, Epoch is the records' own.
	Append What = "append"
	// HW: the high watermark moved From -> To.
	HW What = "hw"
	// Truncated: the log was cut from log end offset From to To. From == To: nothing had to be cut. Why, Leader (who is
	// followed), HW (high watermark before the cut).
	Truncated What = "truncated"
	// RoleChanged: Role (leader, follower, none), Leader, ISR, PartitionEpoch: what the node was told and now is.
	RoleChanged What = "role"
	// ISRChanged: ISR, PartitionEpoch: accepted by the controller (reported by it, by the leader or by both).
	ISRChanged What = "isr"
	// Elected, by the controller: Leader (Unknown: nobody leads), ISR, PartitionEpoch, Why: how the leader was chosen. Unclean: it
	// was chosen from outside the ISR and the ELR, so that loss was possible (unclean election, last known leader).
	Elected What = "elected"
	// Ack: the produce of records [From, To) was answered; Epoch is the records' own; ISR and PartitionEpoch as at that moment.
	Ack What = "ack"
	// Started: a broker process is up. BrokerEpoch if known, Why: "clean" or "unclean" shutdown before.
	Started What = "started"
	// Recovered: a replica was opened at start: To (log end offset), HW (as checkpointed).
	Recovered What = "recovered"
	// PowerLoss: before a replica was opened a power failure was played: Bytes were lost, the log ended at From (Unknown if nobody
	// knows) and ends at To now. It stands in the node's own stream, in front of Recovered. Why: what else took the end of the log,
	// such as damage to its files.
	PowerLoss What = "powerloss"
	// Registered, by the controller: Broker has BrokerEpoch from now on.
	Registered What = "registered"
	// Fenced and Unfenced, by the controller: Broker.
	Fenced   What = "fenced"
	Unfenced What = "unfenced"
	// Offline: the replica cannot be used, Why.
	Offline What = "offline"
)

// NodeEvent is something a broker or the controller did, in its own stream's order. Fields that do not belong to What are zero
// and are not written. Events of one node stand in the file in the order in which that node reported them; the place of one
// node's events among another's, and their time, is that of their arrival and proves nothing.
type NodeEvent struct {
	// Node reports: a broker's id or [Controller].
	Node int32
	What What
	// Partition is empty for what concerns the whole node.
	Partition string
	Epoch     int32
	// PartitionEpoch is the version of the controller's record (leader, ISR) in force.
	PartitionEpoch int32
	From, To       int64
	HW             int64
	// Leader is a broker's id or Unknown.
	Leader int32
	// ISR is nil if it was not told; an empty one is a statement.
	ISR  []int32
	Role string
	Why  string
	// Broker is whom the controller speaks of.
	Broker      int32
	BrokerEpoch int64
	Bytes       int64
	Unclean     bool
}

// Replica is the dump of one replica at the end of a run, read for comparison up to its log end offset.
type Replica struct {
	Node      int32
	Partition string
	// Entries are the log in order, one per record, offsets rising.
	Entries []Record
	// HW and LEO are the replica's high watermark and log end offset.
	HW, LEO int64
	// Epochs is the leader epoch cache.
	Epochs []EpochStart
}

// EpochStart is one entry of a leader epoch cache: Epoch begins at offset Start.
type EpochStart struct {
	Epoch int32
	Start int64
}

// Settled says whether a partition came to rest before the final reads: ISR = replicas, every replica's high watermark at its
// log end offset. If not, nothing that needs the end of the run is proved.
type Settled struct {
	Partition string
	OK        bool
	// Why is what was missing, if not OK.
	Why string
}

package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NodeID is a broker's id, 1 and up, or [Controller].
type NodeID int32

// Controller is the one controller.
const Controller NodeID = -1

// String is the broker's number or "controller".
func (n NodeID) String() string {
	if n == Controller {
		return "controller"
	}
	return strconv.Itoa(int(n))
}

// Message names one message on its way between cores and clients. What it says stays with the nodes.
type Message struct {
	From   string `json:"from"` // "2", "controller", or "p4" for process 4 of the workload
	To     string `json:"to"`
	Kind   string `json:"kind"`   // Kafka's name of the API, with " answer" for an answer
	Number int32  `json:"number"` // the request's number; its answer has the same
	// Fate says where the message is when a step is done: FateHeld, FateLost, FateSent or FateFrozen.
	Fate Fate `json:"fate,omitempty"`
}

// Fate says where a message is when the step that sent it is done.
type Fate string

// The fates.
const (
	FateHeld   Fate = "held"   // in its receiver's inbox
	FateLost   Fate = "lost"   // its receiver is down or cut off
	FateSent   Fate = "sent"   // to a client
	FateFrozen Fate = "frozen" // its receiver is paused and gets it on resume
	// FateHandled: it is of a kind that no inbox holds, and its receiver has had it.
	FateHandled Fate = "handled"
)

// String is "2->1 Fetch#7". [ParseMessage] reads it back.
func (m Message) String() string { return fmt.Sprintf("%s->%s %s#%d", m.From, m.To, m.Kind, m.Number) }

// IsAnswer says whether the message answers a request.
func (m Message) IsAnswer() bool { return strings.HasSuffix(m.Kind, answerSuffix) }

// Request names the request that m answers; it went the other way.
func (m Message) Request() Message {
	return Message{From: m.To, To: m.From, Kind: strings.TrimSuffix(m.Kind, answerSuffix), Number: m.Number}
}

const answerSuffix = " answer"

// Same says whether both name the same message, wherever it is.
func (m Message) Same(o Message) bool {
	return m.From == o.From && m.To == o.To && m.Kind == o.Kind && m.Number == o.Number
}

// ParseMessage reads what [Message.String] writes.
func ParseMessage(s string) (Message, error) {
	ends, what, ok := strings.Cut(s, " ")
	from, to, ok2 := strings.Cut(ends, "->")
	kind, number, ok3 := strings.Cut(what, "#")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || !ok2 || !ok3 || err != nil || n < 1 {
		return Message{}, fmt.Errorf("message %q: want from->to kind#number, for example 2->1 Fetch#7", s)
	}
	return Message{From: from, To: to, Kind: kind, Number: int32(n)}, nil
}

// Verb is what a command does.
type Verb string

// The verbs. Brokers take the first group, the controller the second, both the third.
const (
	Poll       Verb = "poll"       // the follower's timer: Max
	Heartbeat  Verb = "heartbeat"  // the session's timer: register, or send a heartbeat
	Lag        Verb = "lag"        // the ISR clock jumps for follower Node
	Flush      Verb = "flush"      // logs durable up to their ends
	Checkpoint Verb = "checkpoint" // high watermarks durable
	FailAppend Verb = "fail-append"
	Disk       Verb = "disk" // Disk is what is wrong with the disk from now on; the reply says what was measured of what was before

	Fence    Verb = "fence"    // the session of Node is over
	Transfer Verb = "transfer" // leadership to Node
	Push     Verb = "push"     // newest LeaderAndIsr to Node, if it has not acknowledged it

	Deliver Verb = "deliver" // Message, from the inbox to the core
	Drop    Verb = "drop"    // Message, from the inbox to nowhere
	Break   Verb = "break"   // the connection broke over Message, a request of this node
	Cut     Verb = "cut"     // Alone, From: whose messages are lost from now on
	Await   Verb = "await"   // whether Message has arrived here: its fate, "" if it has not after a moment
	Resend  Verb = "resend"  // Message, which this node sent, once more over a new connection: the old one was dead already
	Look    Verb = "look"    // nothing moves
)

// Command moves one node by one step.
type Command struct {
	Do      Verb     `json:"do"`
	Message *Message `json:"message,omitempty"`
	Node    NodeID   `json:"node,omitempty"`
	Max     int32    `json:"max,omitempty"` // records of one fetch, 0: no limit
	Alone   bool     `json:"alone,omitempty"`
	From    []NodeID `json:"from,omitempty"`
	// Disk is what Disk sets; nil: it only asks.
	Disk *DiskFault `json:"disk,omitempty"`
}

// DiskFault is what is wrong with a broker's disk. The zero value is a disk that works.
type DiskFault struct {
	FailAppends int           `json:"failAppends,omitempty"` // so many of the next appends to each log fail (EIO)
	Full        bool          `json:"full,omitempty"`        // appends and checkpoints fail (ENOSPC)
	SlowSync    time.Duration `json:"slowSync,omitempty"`    // nanoseconds that each fsync takes longer
}

// DiskCounts is what a broker's disk did because of a fault, since that was set.
type DiskCounts struct {
	Failed    int64         `json:"failed,omitempty"`  // appends that failed
	Refused   int64         `json:"refused,omitempty"` // writes without room
	Slowed    int64         `json:"slowed,omitempty"`  // fsyncs
	SlowedFor time.Duration `json:"slowedFor,omitempty"`
}

// Reply is what a command did.
type Reply struct {
	Sent   []Message `json:"sent,omitempty"`   // in order
	Events []Event   `json:"events,omitempty"` // in order
	View   View      `json:"view"`
	Fate   Fate      `json:"fate,omitempty"` // Await
	// Disk is what Disk measured.
	Disk  *DiskCounts `json:"disk,omitempty"`
	Error string      `json:"error,omitempty"` // the command could not be carried out; nothing happened
}

// View is how a node looks.
type View struct {
	Node  NodeID    `json:"node"`
	State string    `json:"state"` // digest of everything that decides the core's future
	Held  []Message `json:"held,omitempty"`
	// Fenced is a broker's own idea of its session: true until the controller's answer says otherwise.
	Fenced     bool            `json:"fenced,omitempty"`
	Partitions []PartitionView `json:"partitions,omitempty"` // a broker's replicas
	Records    []RecordView    `json:"records,omitempty"`    // the controller's records
	Brokers    []BrokerView    `json:"brokers,omitempty"`    // as the controller knows them
}

// PartitionView is one replica.
type PartitionView struct {
	Partition      string   `json:"partition"`
	Role           string   `json:"role"` // none, leader, follower, offline
	Truncating     bool     `json:"truncating,omitempty"`
	Leader         NodeID   `json:"leader"` // 0: none
	LeaderEpoch    int32    `json:"leaderEpoch"`
	PartitionEpoch int32    `json:"partitionEpoch"`
	Start          int64    `json:"start"`
	LEO            int64    `json:"leo"`
	HW             int64    `json:"hw"`
	ISR            []NodeID `json:"isr,omitempty"`
	Epochs         []Epoch  `json:"epochs,omitempty"` // the leader epoch cache
	Log            []Record `json:"log,omitempty"`    // only under control
}

// Epoch is an entry of a leader epoch cache.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	Start int64 `json:"start"`
}

// Record is one record of a log.
type Record struct {
	Offset int64  `json:"offset"`
	Epoch  int32  `json:"epoch"`
	Value  string `json:"value"`
}

// RecordView is the controller's record of a partition.
type RecordView struct {
	Partition      string   `json:"partition"`
	Created        bool     `json:"created"`
	Replicas       []NodeID `json:"replicas"`
	Leader         NodeID   `json:"leader"` // 0: none
	LeaderEpoch    int32    `json:"leaderEpoch"`
	PartitionEpoch int32    `json:"partitionEpoch"`
	ISR            []NodeID `json:"isr"`
	ELR            []NodeID `json:"elr,omitempty"`
}

// BrokerView is what the controller knows of a broker.
type BrokerView struct {
	Node   NodeID `json:"node"`
	Epoch  int64  `json:"epoch"`
	Fenced bool   `json:"fenced"`
	Host   string `json:"host,omitempty"`
	Port   int32  `json:"port,omitempty"`
}

// Event is something that happened in a node, in its own stream's order.
type Event struct {
	Node      NodeID `json:"node"`
	Partition string `json:"partition,omitempty"`
	// What is a replica's or the controller's event kind (role, append, hw, truncated, isr, ack, offline, stuck, elected,
	// registered, fenced, unfenced) or the process's own (started, recovered, powerloss).
	What   string   `json:"what"`
	Role   string   `json:"role,omitempty"`
	Leader NodeID   `json:"leader,omitempty"`
	Epoch  int32    `json:"epoch,omitempty"`
	From   int64    `json:"from,omitempty"`
	To     int64    `json:"to,omitempty"`
	HW     int64    `json:"hw,omitempty"`
	ISR    []NodeID `json:"isr,omitempty"`
	Why    string   `json:"why,omitempty"`
	Bytes  int64    `json:"bytes,omitempty"`

	PartitionEpoch int32  `json:"partitionEpoch,omitempty"`
	Broker         NodeID `json:"broker,omitempty"`
	BrokerEpoch    int64  `json:"brokerEpoch,omitempty"`
	Unclean        bool   `json:"unclean,omitempty"`
}

// Request is a client's: produce one value, fetch from an offset, or ask for the latest offset.
type Request struct {
	Partition string
	Produce   bool
	Value     string
	Latest    bool
	Offset    int64 // of a fetch
}

// Answer is what a client got.
type Answer struct {
	Error   string // Kafka's name of the error, "" if there was none
	Refused bool   // the broker certainly did nothing
	Offset  int64  // of a produce, or the latest
	Records []Record
	HW      int64
}

package replica

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names who sends or receives a message: brokers are 1 and up, everything else is below one.
type ID int32

const (
	// None is nobody: a partition without a leader.
	None ID = 0
	// Controller is the one controller.
	Controller ID = -1
	// Observer receives events.
	Observer ID = -2
	// AnyClient is a client that did not say which process of the workload it is.
	AnyClient ID = -3
)

// Client is the address of process p of the workload, p >= 0.
func Client(p int64) ID { return AnyClient - 1 - ID(p) }

// IsBroker says whether the address is a broker's.
func (id ID) IsBroker() bool { return id > None }

// IsClient says whether the address is a client's.
func (id ID) IsClient() bool { return id <= AnyClient }

// Process is the client's process number, or -1 if it has none.
func (id ID) Process() int64 {
	if id >= AnyClient {
		return -1
	}
	return int64(AnyClient - 1 - id)
}

// String is "2" for a broker, "p4" for process 4 of the workload, and a word for the others. [ParseID] reads it back.
func (id ID) String() string {
	switch {
	case id.IsBroker():
		return strconv.Itoa(int(id))
	case id == None:
		return "none"
	case id == Controller:
		return "controller"
	case id == Observer:
		return "observer"
	case id == AnyClient:
		return "client"
	}
	return "p" + strconv.FormatInt(id.Process(), 10)
}

// ParseID reads what [ID.String] writes.
func ParseID(s string) (ID, error) {
	for _, id := range []ID{None, Controller, Observer, AnyClient} {
		if s == id.String() {
			return id, nil
		}
	}
	p, isClient := strings.CutPrefix(s, "p")
	n, err := strconv.ParseInt(p, 10, 31)
	switch {
	case err != nil || n < 0 || !isClient && n == 0:
		return None, fmt.Errorf("address %q: want a broker's number, p and a process number, or controller", s)
	case isClient:
		return Client(n), nil
	}
	return ID(n), nil
}

// Partition names one partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

// String is "orders-0". [ParsePartition] reads it back.
func (p Partition) String() string { return p.Topic + "-" + strconv.Itoa(int(p.Index)) }

// ParsePartition reads "orders-0"; what stands before the last dash is the topic.
func ParsePartition(s string) (Partition, error) {
	i := strings.LastIndexByte(s, '-')
	if i > 0 {
		if n, err := strconv.ParseInt(s[i+1:], 10, 32); err == nil && n >= 0 {
			return Partition{s[:i], int32(n)}, nil
		}
	}
	return Partition{}, fmt.Errorf("partition %q: want topic-index, for example orders-0", s)
}

// Time is the driver's clock in nanoseconds from a beginning of its choice.
type Time int64

// Never is a time that does not come.
const Never Time = 1<<63 - 1

// EpochStart is an entry of the leader epoch cache: the epoch's leader began to write at Start (KIP-101).
type EpochStart struct {
	Epoch int32
	Start int64
}

// Batch is one record batch: the unit in which logs are written, read, replicated and cut.
//
// The header's fields stand beside the bytes so that no rule needs to look into them; when they differ, as after an
// append by a leader, which gives a batch its offset and epoch, the fields hold and the log writes them into the bytes.
type Batch struct {
	Base  int64 // offset of the first record
	Count int32 // offsets that the batch takes (last offset delta + 1)
	Epoch int32 // leader epoch of the leader that appended it

	// Producer is the idempotent producer's id, NoProducer if there is none; ProducerEpoch and Sequence go with it.
	Producer      int64
	ProducerEpoch int16
	Sequence      int32

	// Data is what the log keeps: on real nodes the whole batch in Kafka's format v2. Nobody changes it.
	Data []byte
}

// NoProducer is the producer id of a batch that was not produced idempotently.
const NoProducer int64 = -1

// End is the offset after the batch.
func (b Batch) End() int64 { return b.Base + int64(b.Count) }

// Log is this replica's part of the broker's disk. Calls return when the page cache has the bytes; only SetEpochs waits
// for the disk (on truncation too, which is stricter than Kafka). After an error of a writing call the log's end is
// undefined until it is opened again.
type Log interface {
	// Start is the offset of the first record kept.
	Start() int64
	// End is the log end offset (LEO), the offset that the next record gets.
	End() int64
	// Append writes the batch at End, which must be its Base.
	Append(Batch) error
	// TruncateTo removes every batch that reaches beyond offset; End is then at most offset (Kafka cuts whole batches).
	TruncateTo(offset int64) error
	// Reset drops everything and goes on at offset, for a follower whose leader's log starts beyond its end.
	Reset(offset int64) error
	// Read returns whole batches in order, the first of which contains offset from, of together at most maxBytes of
	// Data but at least one batch; none when from == End. An offset outside [Start, End] is an error.
	Read(from int64, maxBytes int) ([]Batch, error)
	// Epochs is the content of the leader epoch checkpoint, oldest first. The caller does not change it.
	Epochs() []EpochStart
	// SetEpochs replaces the leader epoch checkpoint atomically and durably. It keeps no reference to the slice.
	SetEpochs([]EpochStart) error
	// HighWatermark is the high watermark as last checkpointed, 0 if never.
	HighWatermark() int64
}

// Cut says what a power failure leaves of what was not flushed: the logs that keep more than nothing.
type Cut map[Partition]LogCut

// LogCut is a cut through one log's operations since its last flush.
type LogCut struct {
	Keep int // how many of the unsynced operations survive, oldest first
	Torn int // bytes of the first lost operation that are on the disk too, if it was an append
}

// Lost is what a power failure took from one log.
type Lost struct {
	Partition  Partition
	Operations int   // unsynced operations undone
	Bytes      int64 // bytes of appends that are gone
	End        int64 // log end offset after recovery
}

// Disk is the broker's disk. One replication-offset-checkpoint file serves all partitions.
type Disk interface {
	// Log opens the partition's log, an empty one if there is none.
	Log(Partition) (Log, error)
	// Flush makes the partition's log durable up to its end.
	Flush(Partition) error
	// Checkpoint replaces the replication-offset-checkpoint atomically and durably. Partitions that are not named keep
	// what they have.
	Checkpoint(hw map[Partition]int64) error
	// Power is a power failure: it undoes what was not flushed, down to the cut. Logs opened before are stale after it.
	Power(Cut) ([]Lost, error)
	// CleanShutdown leaves the marker of a clean shutdown, which names the broker epoch that ends with it (KIP-966).
	CleanShutdown(brokerEpoch int64) error
	// TakeCleanShutdown returns the marker's broker epoch and removes the marker durably; ok is false if there was none.
	TakeCleanShutdown() (brokerEpoch int64, ok bool, err error)
}

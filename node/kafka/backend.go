package kafka

import (
	"github.com/google/uuid"

	"tidemark/node/replica"
)

// Deliverer puts requests in front of the cores.
type Deliverer interface {
	// Deliver puts a request for one core in front of it: a partition's replica, or on a controller the controller. It
	// must not block for long: connections are read while it runs, and requests of one connection are delivered in the
	// order in which they were sent. reply is called once, from any goroutine, with the core's answer; it may be called
	// before Deliver returns, and never blocks.
	//
	// For a request that will never be answered, because it was dropped, reply gets a message without a body. A client's
	// connection ends then, since Kafka's clients match answers by their order; a broker's goes on.
	Deliver(m replica.Message, reply func(replica.Message))
}

// Broker is what a broker's listener needs of its node.
type Broker interface {
	Deliverer
	// Learn hands over the addresses of live brokers that came with the controller's word of that version
	// (replica.LeaderAndIsr), before the word itself is delivered: they are known even while the word waits. An older
	// version may come after a newer one; it should not replace it.
	Learn(version int64, brokers []BrokerAddress)
	// Topology is how things look from here. The answer is a snapshot that nobody changes.
	Topology() Topology
	// NewProducerID gives out an id that no producer of the cluster has had, and its epoch; replica.NoProducer if it cannot yet.
	NewProducerID() (id int64, epoch int16)
	// Watch tells of changes in any of the partitions that a consumer's fetch waits for: the high watermark advanced, the
	// role or the leader epoch is another. changed holds one notice at most; stop ends the watch. [Watchers] is one.
	Watch(partitions []replica.Partition) (changed <-chan struct{}, stop func())
}

// Controller is what the controller's listener needs of its node.
type Controller interface {
	Deliverer
	// Topics are the names of all topics, by which the topic ids of AlterPartition v2 and later are resolved.
	Topics() []string
}

// BrokerAddress is where a live broker is reached, by clients and by other brokers.
type BrokerAddress struct {
	ID   replica.ID
	Host string
	Port int32
}

// Topology is what Metadata is answered from: what the controller last said.
type Topology struct {
	Cluster string          // cluster id
	Brokers []BrokerAddress // live ones, in the order in which clients are told of them
	Topics  []Topic         // likewise
}

// Topic is one topic of a [Topology].
type Topic struct {
	Name       string
	Partitions []PartitionState
}

// PartitionState is one partition of a [Topic].
type PartitionState struct {
	Index       int32
	Leader      replica.ID // replica.None if nobody leads
	LeaderEpoch int32
	Replicas    []replica.ID // in assignment order
	ISR         []replica.ID
}

// TopicID is the id that requests of newer versions name a topic by. It follows from the name (a version 5 UUID), so that
// every node and every run has the same without being told.
func TopicID(topic string) [16]byte {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("kafka:topic:"+topic))
}

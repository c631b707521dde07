package replica

import "fmt"

// Code is one of Kafka's error codes.
type Code int16

// Kafka's codes that the cores use, with Kafka's numbers.
const (
	OK                           Code = 0
	UnknownServerError           Code = -1
	OffsetOutOfRange             Code = 1
	UnknownTopicOrPartition      Code = 3
	LeaderNotAvailable           Code = 5
	NotLeaderOrFollower          Code = 6
	RequestTimedOut              Code = 7
	StaleControllerEpoch         Code = 11
	NotEnoughReplicas            Code = 19
	NotEnoughReplicasAfterAppend Code = 20
	InvalidRequiredAcks          Code = 21
	NotController                Code = 41
	InvalidRequest               Code = 42
	OutOfOrderSequenceNumber     Code = 45
	DuplicateSequenceNumber      Code = 46
	InvalidProducerEpoch         Code = 47
	StorageError                 Code = 56
	FencedLeaderEpoch            Code = 74
	UnknownLeaderEpoch           Code = 75
	StaleBrokerEpoch             Code = 77
	OffsetNotAvailable           Code = 78
	InvalidRecord                Code = 87
	InvalidUpdateVersion         Code = 95
	DuplicateBrokerRegistration  Code = 101
	BrokerIDNotRegistered        Code = 102
	IneligibleReplica            Code = 107
	NewLeaderElected             Code = 108
)

var codeNames = map[Code]string{
	OK: "NONE", UnknownServerError: "UNKNOWN_SERVER_ERROR", OffsetOutOfRange: "OFFSET_OUT_OF_RANGE",
	UnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION", LeaderNotAvailable: "LEADER_NOT_AVAILABLE",
	NotLeaderOrFollower: "NOT_LEADER_OR_FOLLOWER", RequestTimedOut: "REQUEST_TIMED_OUT",
	StaleControllerEpoch: "STALE_CONTROLLER_EPOCH", NotEnoughReplicas: "NOT_ENOUGH_REPLICAS",
	NotEnoughReplicasAfterAppend: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", InvalidRequiredAcks: "INVALID_REQUIRED_ACKS",
	NotController: "NOT_CONTROLLER", InvalidRequest: "INVALID_REQUEST",
	OutOfOrderSequenceNumber: "OUT_OF_ORDER_SEQUENCE_NUMBER", DuplicateSequenceNumber: "DUPLICATE_SEQUENCE_NUMBER",
	InvalidProducerEpoch: "INVALID_PRODUCER_EPOCH", StorageError: "KAFKA_STORAGE_ERROR",
	FencedLeaderEpoch: "FENCED_LEADER_EPOCH", UnknownLeaderEpoch: "UNKNOWN_LEADER_EPOCH",
	StaleBrokerEpoch: "STALE_BROKER_EPOCH", OffsetNotAvailable: "OFFSET_NOT_AVAILABLE", InvalidRecord: "INVALID_RECORD",
	InvalidUpdateVersion: "INVALID_UPDATE_VERSION", DuplicateBrokerRegistration: "DUPLICATE_BROKER_REGISTRATION",
	BrokerIDNotRegistered: "BROKER_ID_NOT_REGISTERED", IneligibleReplica: "INELIGIBLE_REPLICA",
	NewLeaderElected: "NEW_LEADER_ELECTED",
}

// String is Kafka's name of the code.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("error code %d", int16(c))
}

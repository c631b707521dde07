package workload

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
)

// refusedBeforeAppend begins the error message of a produce answer of Tidemark's own broker that turned the request down before
// anything was appended. Kafka's codes alone do not tell.
const refusedBeforeAppend = "refused before append"

// refusedAlways are the errors that Kafka gives to a produce only before it appends: while it takes the request apart, while it
// validates the records, or because the ISR is too small to begin with. What is missing in here is on purpose: KAFKA_STORAGE_ERROR
// may come after half an append, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION and KAFKA_STORAGE_ERROR also from the purgatory
// in which an append with acks=all waits for its replicas, and DUPLICATE_SEQUENCE_NUMBER says that the records are there.
var refusedAlways = map[int16]bool{
	kerr.CorruptMessage.Code:              true,
	kerr.MessageTooLarge.Code:             true,
	kerr.InvalidTopicException.Code:       true,
	kerr.RecordListTooLarge.Code:          true,
	kerr.NotEnoughReplicas.Code:           true,
	kerr.InvalidRequiredAcks.Code:         true,
	kerr.TopicAuthorizationFailed.Code:    true,
	kerr.ClusterAuthorizationFailed.Code:  true,
	kerr.InvalidTimestamp.Code:            true,
	kerr.UnsupportedVersion.Code:          true,
	kerr.InvalidRequest.Code:              true,
	kerr.UnsupportedForMessageFormat.Code: true,
	kerr.PolicyViolation.Code:             true,
	kerr.UnsupportedCompressionType.Code:  true,
	kerr.InvalidRecord.Code:               true,
}

// refusedUnlessWaiting are the errors that Kafka gives before it appends, and besides only to appends that wait for their replicas.
var refusedUnlessWaiting = map[int16]bool{
	kerr.UnknownTopicOrPartition.Code: true,
	kerr.NotLeaderForPartition.Code:   true,
}

// produceFailed tells a produce that certainly did not happen from one of which nobody knows, by the error that it was answered.
func produceFailed(code int16, message *string, acks int16) bool {
	return message != nil && strings.HasPrefix(*message, refusedBeforeAppend) ||
		refusedAlways[code] ||
		refusedUnlessWaiting[code] && acks != acksAll
}

const acksAll = -1

// staleRoute says whether an error means that somebody else may lead the partition now.
func staleRoute(code int16) bool {
	switch code {
	case kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code, kerr.NotLeaderForPartition.Code,
		kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
		return true
	}
	return false
}

// Why an operation got no answer, as a history has it. The texts are few, so that they can be counted.
const (
	whyTimeout   = "timeout"
	whyLost      = "connection lost"
	whyCanceled  = "canceled"
	whyNoConn    = "cannot connect"
	whyNoLeader  = "no leader known"
	whyMalformed = "malformed answer"
)

// unanswered is the answer to an operation that was not answered. Nothing can have come of it if nothing was sent.
func unanswered(ctx context.Context, sent bool, err error) Answer {
	a := Answer{Kind: history.Fail}
	if sent {
		a.Kind = history.Info
	}
	switch {
	case ctx.Err() != nil:
		a.Error = whyCanceled
	case errors.Is(err, errConnect):
		a.Error = whyNoConn
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		a.Error = whyTimeout
	case errors.Is(err, errMalformed):
		a.Error = whyMalformed
	default:
		a.Error = whyLost
	}
	return a
}

// produced is what the answer to a produce says.
func produced(p *kmsg.ProduceResponseTopicPartition, acks int16) Answer {
	if p.ErrorCode == 0 {
		return Answer{Kind: history.OK, Offset: max(p.BaseOffset, history.Unknown)}
	}
	a := Answer{Kind: history.Info, Error: codeName(p.ErrorCode)}
	if produceFailed(p.ErrorCode, p.ErrorMessage, acks) {
		a.Kind = history.Fail
		if p.ErrorMessage != nil && strings.HasPrefix(*p.ErrorMessage, refusedBeforeAppend) {
			a.Error += ", " + refusedBeforeAppend
		}
	}
	return a
}

// refusedRead is the answer to a read that was answered with an error: nothing was read, and nothing will be.
func refusedRead(code int16) Answer {
	return Answer{Kind: history.Fail, Error: codeName(code), OutOfRange: code == kerr.OffsetOutOfRange.Code}
}

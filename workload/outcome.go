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
func produceFailed(code int16, refused bool, acks int16) bool {
	return refused || refusedAlways[code] || refusedUnlessWaiting[code] && acks != acksAll
}

const acksAll = -1

// StaleRoute says whether an error means that somebody else may lead the partition now.
func StaleRoute(code int16) bool {
	switch code {
	case kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code, kerr.NotLeaderForPartition.Code,
		kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
		return true
	}
	return false
}

// Why an operation got no answer, as a history has it. The texts are few, so that they can be counted.
const (
	WhyTimeout       = "timeout"
	WhyLost          = "connection lost"
	whyCanceled      = "canceled"
	WhyCannotConnect = "cannot connect"
	WhyNoLeader      = "no leader known"
	whyMalformed     = "malformed answer"
)

// Unanswered is the answer to an operation that was not answered, for one of the reasons above. Nothing can have come of it if
// nothing was sent.
func Unanswered(sent bool, why string) Answer {
	a := Answer{Kind: history.Fail, Error: why}
	if sent {
		a.Kind = history.Info
	}
	return a
}

// unanswered finds the reason in an error.
func unanswered(ctx context.Context, sent bool, err error) Answer {
	switch {
	case ctx.Err() != nil:
		return Unanswered(sent, whyCanceled)
	case errors.Is(err, errConnect):
		return Unanswered(sent, WhyCannotConnect)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Unanswered(sent, WhyTimeout)
	case errors.Is(err, errMalformed):
		return Unanswered(sent, whyMalformed)
	}
	return Unanswered(sent, WhyLost)
}

// produced is what the answer to a produce says.
func produced(p *kmsg.ProduceResponseTopicPartition, acks int16) Answer {
	refused := p.ErrorMessage != nil && strings.HasPrefix(*p.ErrorMessage, refusedBeforeAppend)
	return Produced(p.ErrorCode, refused, p.BaseOffset, acks)
}

// Produced is what an answer to a produce with these acks says: its error code, whether the broker says that the request was turned
// down before anything was appended, and the offset of the first value.
func Produced(code int16, refused bool, base int64, acks int16) Answer {
	if code == 0 {
		return Answer{Kind: history.OK, Offset: max(base, history.Unknown)}
	}
	a := Answer{Kind: history.Info, Error: codeName(code)}
	if produceFailed(code, refused, acks) {
		a.Kind = history.Fail
		if refused {
			a.Error += ", " + refusedBeforeAppend
		}
	}
	return a
}

// RefusedRead is the answer to a read that was answered with an error: nothing was read, and nothing will be.
func RefusedRead(code int16) Answer {
	return Answer{Kind: history.Fail, Error: codeName(code), OutOfRange: code == kerr.OffsetOutOfRange.Code}
}

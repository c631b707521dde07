package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// ListOffsets (key 2): the ends of a partition's log.
//
// Behaviour:
//   - Timestamp -1 is the latest offset: for consumers the high watermark, for a follower (replica id 1 and up) the log's
//     end. -2 is the earliest. -3 is the log's end of any replica, and only for the debugging consumer (replica id -2):
//     Kafka gives -3 another meaning in v7.
//   - Offsets by timestamp are not looked up: UNSUPPORTED_FOR_MESSAGE_FORMAT, Kafka's answer for a log that cannot tell.
//   - OFFSET_NOT_AVAILABLE (KIP-207) is LEADER_NOT_AVAILABLE before v5, as in Kafka: older clients would not understand it.
//
// Versions: 1-6.
//   - v1: one offset a partition
//   - v2: isolation level, which makes no difference without transactions
//   - v4: current leader epoch (KIP-320)
//   - v5: OFFSET_NOT_AVAILABLE
//   - v6: flexible
//
// Between brokers: v2 without fetch-fencing, v5 with it.
const (
	listOffsetsKey     = 2
	listOffsetsMin     = 1
	listOffsetsMax     = 6
	listOffsetsUnready = 5 // first version with OFFSET_NOT_AVAILABLE
)

func listOffsetsHandler(to receiver) handler {
	return handler{
		key: listOffsetsKey, min: listOffsetsMin, max: listOffsetsMax,
		empty: func() kmsg.Request { return kmsg.NewPtrListOffsetsRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.ListOffsetsRequest)
			parts, err := splitListOffsets(h, r)
			if err != nil {
				return work{}, err
			}
			return to.ask(r.ReplicaID >= 0, parts, func(p []part) kmsg.Response { return joinListOffsets(r, p) }), nil
		},
	}
}

func splitListOffsets(h header, r *kmsg.ListOffsetsRequest) ([]part, error) {
	from, err := replicaSender(h, r.ReplicaID)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			m := part{request: replica.Message{
				From: from, Partition: replica.Partition{Topic: t.Topic, Index: p.Partition}, Number: h.correlation,
				Body: &replica.ListOffsets{LeaderEpoch: p.CurrentLeaderEpoch, Timestamp: p.Timestamp},
			}}
			switch {
			case p.Timestamp == replica.LatestOffset, p.Timestamp == replica.EarliestOffset:
			case p.Timestamp == replica.LogEndOffset && r.ReplicaID == debuggingID:
			default:
				m.refuse(replica.Code(kerr.UnsupportedForMessageFormat.Code), "offsets by timestamp are not looked up")
			}
			parts = append(parts, m)
		}
	}
	return parts, nil
}

func joinListOffsets(r *kmsg.ListOffsetsRequest, parts []part) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for range t.Partitions {
			answer := parts[0].answer.(*replica.ListOffsetsAnswer)
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = parts[0].request.Partition.Index
			rp.ErrorCode = int16(answer.Error)
			if answer.Error == replica.OffsetNotAvailable && r.Version < listOffsetsUnready {
				rp.ErrorCode = int16(replica.LeaderNotAvailable)
			}
			rp.Offset = answer.Offset
			rp.LeaderEpoch = answer.LeaderEpoch
			rt.Partitions = append(rt.Partitions, rp)
			parts = parts[1:]
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func encodeListOffsets(m replica.Message, version int16) kmsg.Request {
	b := m.Body.(*replica.ListOffsets)
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version = version
	r.ReplicaID = int32(m.From)
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition = m.Partition.Index
	p.CurrentLeaderEpoch = b.LeaderEpoch
	p.Timestamp = b.Timestamp
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = m.Partition.Topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func decodeListOffsetsAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.ListOffsetsResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("%w answer to ListOffsets v%d: want exactly one partition", errMalformed, r.Version)
	}
	p := r.Topics[0].Partitions[0]
	return &replica.ListOffsetsAnswer{Error: replica.Code(p.ErrorCode), Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}, nil
}

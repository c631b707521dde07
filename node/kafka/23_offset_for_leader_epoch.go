package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// OffsetForLeaderEpoch (key 23): where an epoch ends in the leader's log. Followers cut their logs by it, consumers find
// out whether what they read is still there.
//
// Behaviour:
//   - A follower (replica id 1 and up, or before v3 a client id of the form broker-2-fetcher-0) asks about exactly one
//     partition; consumers about as many as they like.
//
// Versions: 0-4. Their history is the protocol's:
//   - v0: where the epoch ends (KIP-101)
//   - v1: ... and which epoch that is about, not always the one asked for (KIP-279)
//   - v2: the sender's current leader epoch, which fences the request (KIP-320)
//   - v3: replica id (KIP-392)
//   - v4: flexible
//
// Between brokers: v3 with fetch-fencing; without it v1 where truncation is kip279, else v0.
const (
	offsetForLeaderEpochKey     = 23
	offsetForLeaderEpochMax     = 4
	offsetForLeaderEpochReplica = 3 // first version with a replica id
)

func offsetForLeaderEpochHandler(to receiver) handler {
	return handler{
		key: offsetForLeaderEpochKey, max: offsetForLeaderEpochMax,
		empty: func() kmsg.Request { return kmsg.NewPtrOffsetForLeaderEpochRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.OffsetForLeaderEpochRequest)
			parts, peer, err := splitOffsetForLeaderEpoch(h, r)
			if err != nil {
				return work{}, err
			}
			return to.ask(peer, parts, func(p []part) kmsg.Response { return joinOffsetForLeaderEpoch(r, p) }), nil
		},
	}
}

func splitOffsetForLeaderEpoch(h header, r *kmsg.OffsetForLeaderEpochRequest) (parts []part, peer bool, err error) {
	from := h.follower()
	switch {
	case r.Version >= offsetForLeaderEpochReplica:
		if from, err = replicaSender(h, r.ReplicaID); err != nil {
			return nil, false, err
		}
	case from == replica.None:
		from = h.sender()
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			parts = append(parts, part{request: replica.Message{
				From: from, Partition: replica.Partition{Topic: t.Topic, Index: p.Partition}, Number: h.correlation,
				Body: &replica.OffsetForLeaderEpoch{LeaderEpoch: p.CurrentLeaderEpoch, Epoch: p.LeaderEpoch},
			}})
		}
	}
	if from.IsBroker() && len(parts) != 1 {
		return nil, false, fmt.Errorf("%w %s of broker %s: %d partitions, followers ask about exactly one", errMalformed, h, from, len(parts))
	}
	return parts, from.IsBroker(), nil
}

func joinOffsetForLeaderEpoch(r *kmsg.OffsetForLeaderEpochRequest, parts []part) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for range t.Partitions {
			answer := parts[0].answer.(*replica.OffsetForLeaderEpochAnswer)
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition = parts[0].request.Partition.Index
			rp.ErrorCode = int16(answer.Error)
			rp.LeaderEpoch = answer.Epoch
			rp.EndOffset = answer.End
			rt.Partitions = append(rt.Partitions, rp)
			parts = parts[1:]
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func encodeOffsetForLeaderEpoch(m replica.Message, version int16) kmsg.Request {
	b := m.Body.(*replica.OffsetForLeaderEpoch)
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.Version = version
	r.ReplicaID = int32(m.From)
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition = m.Partition.Index
	p.CurrentLeaderEpoch = b.LeaderEpoch
	p.LeaderEpoch = b.Epoch
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = m.Partition.Topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func decodeOffsetForLeaderEpochAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.OffsetForLeaderEpochResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("%w answer to OffsetForLeaderEpoch v%d: want exactly one partition", errMalformed, r.Version)
	}
	p := r.Topics[0].Partitions[0]
	return &replica.OffsetForLeaderEpochAnswer{Error: replica.Code(p.ErrorCode), Epoch: p.LeaderEpoch, End: p.EndOffset}, nil
}

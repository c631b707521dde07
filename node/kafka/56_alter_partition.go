package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// AlterPartition (key 56): a leader asks the controller to change the ISR (KIP-497).
//
// Behaviour:
//   - Errors about the sender (STALE_BROKER_EPOCH, NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED) stand in the response as such,
//     as in Kafka; others in the partition. The partition's record is told with either.
//   - An unknown topic id is UNKNOWN_TOPIC_ID.
//   - The leader recovery state is 0: recovery after unclean elections does not exist here.
//
// Versions: 1-3.
//   - v2: topic ids, see [TopicID]
//   - v3: broker epochs of the proposed members (KIP-903)
//
// Between brokers and controller: v3 with broker-epoch, v1 without it.
const (
	alterPartitionKey    = 56
	alterPartitionMin    = 1
	alterPartitionMax    = 3
	alterPartitionIDs    = 2
	alterPartitionEpochs = 3
)

func alterPartitionHandler(to receiver, topics func() []string) handler {
	return handler{
		key: alterPartitionKey, min: alterPartitionMin, max: alterPartitionMax,
		empty: func() kmsg.Request { return kmsg.NewPtrAlterPartitionRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.AlterPartitionRequest)
			parts, err := splitAlterPartition(h, r, topics)
			if err != nil {
				return work{}, err
			}
			return to.ask(true, parts, func(p []part) kmsg.Response { return joinAlterPartition(r, p) }), nil
		},
	}
}

func splitAlterPartition(h header, r *kmsg.AlterPartitionRequest, topics func() []string) ([]part, error) {
	from, err := brokerSender(h, r.BrokerID)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, t := range r.Topics {
		topic, known := t.Topic, true
		if r.Version >= alterPartitionIDs {
			topic, known = topicOf(t.TopicID, topics())
		}
		for _, p := range t.Partitions {
			body := &replica.AlterPartition{BrokerEpoch: r.BrokerEpoch, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, id := range p.NewISR {
				body.ISR = append(body.ISR, replica.Member{ID: replica.ID(id), BrokerEpoch: replica.NoBrokerEpoch})
			}
			for _, m := range p.NewEpochISR {
				body.ISR = append(body.ISR, replica.Member{ID: replica.ID(m.BrokerID), BrokerEpoch: m.BrokerEpoch})
			}
			m := part{request: replica.Message{
				From: from, Partition: replica.Partition{Topic: topic, Index: p.Partition},
				Number: h.correlation, Body: body,
			}}
			if !known {
				m.answer = &replica.AlterPartitionAnswer{Error: replica.Code(kerr.UnknownTopicID.Code)}
			}
			parts = append(parts, m)
		}
	}
	return parts, nil
}

// brokerSender is the broker that a request names as its sender.
func brokerSender(h header, id int32) (replica.ID, error) {
	if from := replica.ID(id); from.IsBroker() {
		return from, nil
	}
	return replica.None, fmt.Errorf("%w %s: broker id %d, want 1 or more", errMalformed, h, id)
}

func topicOf(id [16]byte, topics []string) (string, bool) {
	for _, t := range topics {
		if TopicID(t) == id {
			return t, true
		}
	}
	return "", false
}

func joinAlterPartition(r *kmsg.AlterPartitionRequest, parts []part) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.AlterPartitionResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewAlterPartitionResponseTopic()
		rt.Topic, rt.TopidID = t.Topic, t.TopicID
		for range t.Partitions {
			answer := parts[0].answer.(*replica.AlterPartitionAnswer)
			rp := kmsg.NewAlterPartitionResponseTopicPartition()
			rp.Partition = parts[0].request.Partition.Index
			switch answer.Error {
			case replica.StaleBrokerEpoch, replica.NotController, replica.BrokerIDNotRegistered:
				resp.ErrorCode = int16(answer.Error)
			default:
				rp.ErrorCode = int16(answer.Error)
			}
			rp.LeaderID = leaderToWire(answer.Leader)
			rp.LeaderEpoch = answer.LeaderEpoch
			rp.PartitionEpoch = answer.PartitionEpoch
			rp.ISR = ids(answer.ISR)
			rt.Partitions = append(rt.Partitions, rp)
			parts = parts[1:]
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func encodeAlterPartition(m replica.Message, version int16) kmsg.Request {
	b := m.Body.(*replica.AlterPartition)
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version = version
	r.BrokerID = int32(m.From)
	r.BrokerEpoch = b.BrokerEpoch
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition = m.Partition.Index
	p.LeaderEpoch = b.LeaderEpoch
	p.PartitionEpoch = b.PartitionEpoch
	for _, member := range b.ISR {
		p.NewISR = append(p.NewISR, int32(member.ID))
		e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		e.BrokerID, e.BrokerEpoch = int32(member.ID), member.BrokerEpoch
		p.NewEpochISR = append(p.NewEpochISR, e)
	}
	t := kmsg.NewAlterPartitionRequestTopic()
	t.Topic, t.TopicID = m.Partition.Topic, TopicID(m.Partition.Topic)
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func decodeAlterPartitionAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.AlterPartitionResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("%w answer to AlterPartition v%d: want exactly one partition", errMalformed, r.Version)
	}
	p := r.Topics[0].Partitions[0]
	answer := &replica.AlterPartitionAnswer{
		Error: replica.Code(p.ErrorCode), Leader: leaderFromWire(p.LeaderID), LeaderEpoch: p.LeaderEpoch,
		PartitionEpoch: p.PartitionEpoch, ISR: replicas(p.ISR),
	}
	if r.ErrorCode != 0 {
		answer.Error = replica.Code(r.ErrorCode)
	}
	return answer, nil
}

package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// LeaderAndIsr (key 4): the controller's word on partitions, pushed to every registered broker.
//
// Behaviour:
//
//   - One core message a partition. The brokers' addresses (live leaders) go to [Broker.Learn] before the first of them.
//
//   - What the cores need beyond Kafka's fields travels in tagged fields of the partition, and the acknowledged version in
//     one of the response's partition:
//
//     tag 10001  version of the word: int64
//     tag 10002  eligible leader replicas (KIP-966), in assignment order: compact array of int32
//     tag 10003  all registered brokers: compact array of {id int32, broker epoch int64, fenced bool}
//
//   - Leader -1 is nobody. ZKVersion is the partition epoch. The request's broker epoch is the receiver's (KIP-380).
//
//   - The controller epoch is 0: there is one controller, and it keeps its state.
//
// Versions: 4 only, the first with tagged fields and the last that names the topic in the response. Both ends are ours.
const (
	leaderAndISRKey     = 4
	leaderAndISRVersion = 4

	versionTag = 10001
	elrTag     = 10002
	brokersTag = 10003
)

func leaderAndISRHandler(to receiver, learn func(version int64, brokers []BrokerAddress)) handler {
	return handler{
		key: leaderAndISRKey, min: leaderAndISRVersion, max: leaderAndISRVersion,
		empty: func() kmsg.Request { return kmsg.NewPtrLeaderAndISRRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.LeaderAndISRRequest)
			parts, err := splitLeaderAndISR(h, r)
			if err != nil {
				return work{}, err
			}
			if len(parts) > 0 {
				learn(parts[0].request.Body.(*replica.LeaderAndIsr).Version, liveBrokers(r))
			}
			return to.ask(true, parts, func(p []part) kmsg.Response { return joinLeaderAndISR(r, p) }), nil
		},
	}
}

func splitLeaderAndISR(h header, r *kmsg.LeaderAndISRRequest) ([]part, error) {
	var parts []part
	for _, t := range r.TopicStates {
		for _, p := range t.PartitionStates {
			body := &replica.LeaderAndIsr{
				Leader: leaderFromWire(p.Leader), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.ZKVersion,
				Replicas: replicas(p.Replicas), ISR: replicas(p.ISR), BrokerEpoch: r.BrokerEpoch,
			}
			if err := readLeaderAndISRTags(&p.UnknownTags, body); err != nil {
				return nil, fmt.Errorf("%w %s, %s-%d: %w", errMalformed, h, t.Topic, p.Partition, err)
			}
			parts = append(parts, part{request: replica.Message{
				From: replica.Controller, Partition: replica.Partition{Topic: t.Topic, Index: p.Partition},
				Number: h.correlation, Body: body,
			}})
		}
	}
	return parts, nil
}

func liveBrokers(r *kmsg.LeaderAndISRRequest) []BrokerAddress {
	var brokers []BrokerAddress
	for _, l := range r.LiveLeaders {
		brokers = append(brokers, BrokerAddress{ID: replica.ID(l.BrokerID), Host: l.Host, Port: l.Port})
	}
	return brokers
}

func joinLeaderAndISR(r *kmsg.LeaderAndISRRequest, parts []part) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.LeaderAndISRResponse)
	for _, p := range parts {
		answer := p.answer.(*replica.LeaderAndIsrAnswer)
		rp := kmsg.NewLeaderAndISRResponseTopicPartition()
		rp.Topic, rp.Partition = p.request.Partition.Topic, p.request.Partition.Index
		rp.ErrorCode = int16(answer.Error)
		rp.UnknownTags.Set(versionTag, kbin.AppendInt64(nil, answer.Version))
		resp.Partitions = append(resp.Partitions, rp)
	}
	return resp
}

func encodeLeaderAndISR(m replica.Message, live []BrokerAddress) kmsg.Request {
	b := m.Body.(*replica.LeaderAndIsr)
	r := kmsg.NewPtrLeaderAndISRRequest()
	r.Version = leaderAndISRVersion
	r.ControllerID = int32(m.From)
	r.BrokerEpoch = b.BrokerEpoch
	p := kmsg.NewLeaderAndISRRequestTopicPartition()
	p.Partition = m.Partition.Index
	p.Leader = leaderToWire(b.Leader)
	p.LeaderEpoch = b.LeaderEpoch
	p.ZKVersion = b.PartitionEpoch
	p.ISR = ids(b.ISR)
	p.Replicas = ids(b.Replicas)
	writeLeaderAndISRTags(&p.UnknownTags, b)
	t := kmsg.NewLeaderAndISRRequestTopicState()
	t.Topic = m.Partition.Topic
	t.PartitionStates = append(t.PartitionStates, p)
	r.TopicStates = append(r.TopicStates, t)
	for _, a := range live {
		l := kmsg.NewLeaderAndISRRequestLiveLeader()
		l.BrokerID, l.Host, l.Port = int32(a.ID), a.Host, a.Port
		r.LiveLeaders = append(r.LiveLeaders, l)
	}
	return r
}

func decodeLeaderAndISRAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.LeaderAndISRResponse)
	if len(r.Partitions) != 1 {
		return nil, fmt.Errorf("%w answer to LeaderAndIsr v%d: %d partitions, want one", errMalformed, r.Version, len(r.Partitions))
	}
	p := r.Partitions[0]
	answer := &replica.LeaderAndIsrAnswer{Error: replica.Code(p.ErrorCode)}
	return answer, readTags(&p.UnknownTags, map[uint32]func(*kbin.Reader){
		versionTag: func(r *kbin.Reader) { answer.Version = r.Int64() },
	})
}

func writeLeaderAndISRTags(tags *kmsg.Tags, b *replica.LeaderAndIsr) {
	tags.Set(versionTag, kbin.AppendInt64(nil, b.Version))
	elr := kbin.AppendCompactArrayLen(nil, len(b.ELR))
	for _, id := range b.ELR {
		elr = kbin.AppendInt32(elr, int32(id))
	}
	tags.Set(elrTag, elr)
	brokers := kbin.AppendCompactArrayLen(nil, len(b.Brokers))
	for _, s := range b.Brokers {
		brokers = kbin.AppendInt32(brokers, int32(s.ID))
		brokers = kbin.AppendInt64(brokers, s.Epoch)
		brokers = kbin.AppendBool(brokers, s.Fenced)
	}
	tags.Set(brokersTag, brokers)
}

func readLeaderAndISRTags(tags *kmsg.Tags, b *replica.LeaderAndIsr) error {
	return readTags(tags, map[uint32]func(*kbin.Reader){
		versionTag: func(r *kbin.Reader) { b.Version = r.Int64() },
		elrTag: func(r *kbin.Reader) {
			for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
				b.ELR = append(b.ELR, replica.ID(r.Int32()))
			}
		},
		brokersTag: func(r *kbin.Reader) {
			for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
				b.Brokers = append(b.Brokers, replica.BrokerState{ID: replica.ID(r.Int32()), Epoch: r.Int64(), Fenced: r.Bool()})
			}
		},
	})
}

// readTags reads the tagged fields that must be there; others are passed over.
func readTags(tags *kmsg.Tags, fields map[uint32]func(*kbin.Reader)) error {
	seen := 0
	var err error
	tags.Each(func(tag uint32, value []byte) {
		read := fields[tag]
		if read == nil {
			return
		}
		seen++
		r := kbin.Reader{Src: value}
		read(&r)
		if e := r.Complete(); err == nil && (e != nil || len(r.Src) > 0) {
			err = fmt.Errorf("%w tagged field %d of %d bytes", errMalformed, tag, len(value))
		}
	})
	if err == nil && seen < len(fields) {
		err = fmt.Errorf("%w: %d tagged fields are missing; is the sender this project's controller?", errMalformed, len(fields)-seen)
	}
	return err
}

package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// Metadata (key 3): brokers, topics, partitions and who leads them.
//
// Behaviour:
//   - Answered from [Broker.Topology], that is from what the controller last told this broker: a cut-off broker goes on
//     telling what it knew.
//   - Topics null asks for all of them, an empty list for none. Topics are not created: an unknown one is
//     UNKNOWN_TOPIC_OR_PARTITION.
//   - A partition that nobody leads, or whose leader is no live broker, is LEADER_NOT_AVAILABLE with leader -1. Replicas
//     that are no live brokers are listed as offline.
//   - The controller's id is this broker's, as a KRaft broker names any broker: clients cannot reach the controller.
//
// Versions: 1-9.
//   - v1: all topics by null, controller id
//   - v2: cluster id
//   - v5: offline replicas
//   - v7: leader epochs (KIP-320)
//   - v8: authorized operations, which are not told (no authorization here)
//   - v9: flexible
//
// v10 has topic ids, upon which clients would use APIs that name topics by them.
const (
	metadataKey = 3
	metadataMin = 1
	metadataMax = 9
)

func metadataHandler(self replica.ID, topology func() Topology) handler {
	return handler{
		key: metadataKey, min: metadataMin, max: metadataMax,
		empty: func() kmsg.Request { return kmsg.NewPtrMetadataRequest() },
		start: func(_ header, req kmsg.Request) (work, error) {
			return finished(describe(self, topology(), req.(*kmsg.MetadataRequest))), nil
		},
	}
}

func describe(self replica.ID, now Topology, r *kmsg.MetadataRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = &now.Cluster
	resp.ControllerID = int32(self)
	live := map[replica.ID]bool{}
	for _, b := range now.Brokers {
		live[b.ID] = true
		rb := kmsg.NewMetadataResponseBroker()
		rb.NodeID, rb.Host, rb.Port = int32(b.ID), b.Host, b.Port
		resp.Brokers = append(resp.Brokers, rb)
	}
	if r.Topics == nil {
		for _, t := range now.Topics {
			resp.Topics = append(resp.Topics, describeTopic(t, live))
		}
	}
	for _, asked := range r.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = asked.Topic
		rt.ErrorCode = int16(replica.UnknownTopicOrPartition)
		for _, t := range now.Topics {
			if asked.Topic != nil && *asked.Topic == t.Name {
				rt = describeTopic(t, live)
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func describeTopic(t Topic, live map[replica.ID]bool) kmsg.MetadataResponseTopic {
	rt := kmsg.NewMetadataResponseTopic()
	rt.Topic = &t.Name
	for _, p := range t.Partitions {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition = p.Index
		rp.Leader = int32(p.Leader)
		rp.LeaderEpoch = p.LeaderEpoch
		if !live[p.Leader] {
			rp.ErrorCode, rp.Leader = int16(replica.LeaderNotAvailable), nobody
		}
		rp.Replicas = ids(p.Replicas)
		rp.ISR = ids(p.ISR)
		for _, id := range p.Replicas {
			if !live[id] {
				rp.OfflineReplicas = append(rp.OfflineReplicas, int32(id))
			}
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt
}

// nobody is the wire's word for no leader.
const nobody int32 = -1

func leaderToWire(id replica.ID) int32 {
	if id == replica.None {
		return nobody
	}
	return int32(id)
}

func leaderFromWire(id int32) replica.ID {
	if id == nobody {
		return replica.None
	}
	return replica.ID(id)
}

func ids(in []replica.ID) []int32 {
	out := make([]int32, len(in))
	for i, id := range in {
		out[i] = int32(id)
	}
	return out
}

func replicas(in []int32) []replica.ID {
	if len(in) == 0 {
		return nil
	}
	out := make([]replica.ID, len(in))
	for i, id := range in {
		out[i] = replica.ID(id)
	}
	return out
}

package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
)

// versions are what brokers speak among each other and with the controller, which follows from the rules in force: the
// versions of Kafka's own APIs are the history of its replication protocol. A field that a version lacks is lost on the
// wire, as it was then.
type versions struct {
	fetch, listOffsets, offsetForLeaderEpoch, alterPartition int16
}

func versionsOf(s rules.Set) versions {
	v := versions{fetch: 8, listOffsets: 2, alterPartition: 1}
	if s.Truncation == rules.ToCommonEpoch {
		v.offsetForLeaderEpoch = 1
	}
	if s.FetchFencing {
		v.fetch, v.listOffsets, v.offsetForLeaderEpoch = 10, 5, 3
	}
	if s.Truncation == rules.OnFetch {
		v.fetch = 12
	}
	if s.BrokerEpoch {
		v.fetch, v.alterPartition = 12, 3
	}
	return v
}

// encodeRequest makes the request of a core's message. live goes into LeaderAndIsr.
func encodeRequest(m replica.Message, v versions, live func() []BrokerAddress) (kmsg.Request, error) {
	switch m.Body.(type) {
	case *replica.Fetch:
		return encodeFetch(m, v.fetch), nil
	case *replica.ListOffsets:
		return encodeListOffsets(m, v.listOffsets), nil
	case *replica.OffsetForLeaderEpoch:
		return encodeOffsetForLeaderEpoch(m, v.offsetForLeaderEpoch), nil
	case *replica.AlterPartition:
		return encodeAlterPartition(m, v.alterPartition), nil
	case *replica.LeaderAndIsr:
		var brokers []BrokerAddress
		if live != nil {
			brokers = live()
		}
		return encodeLeaderAndISR(m, brokers), nil
	case *session.Registration:
		return encodeBrokerRegistration(m), nil
	case *session.Heartbeat:
		return encodeBrokerHeartbeat(m), nil
	}
	return nil, fmt.Errorf("message %s: no request between nodes is of this kind", m)
}

// decodeAnswer reads the response to a core's message.
func decodeAnswer(resp kmsg.Response) (replica.Body, error) {
	switch resp.Key() {
	case fetchKey:
		return decodeFetchAnswer(resp)
	case listOffsetsKey:
		return decodeListOffsetsAnswer(resp)
	case leaderAndISRKey:
		return decodeLeaderAndISRAnswer(resp)
	case offsetForLeaderEpochKey:
		return decodeOffsetForLeaderEpochAnswer(resp)
	case alterPartitionKey:
		return decodeAlterPartitionAnswer(resp)
	case brokerRegistrationKey:
		return decodeBrokerRegistrationAnswer(resp)
	case brokerHeartbeatKey:
		return decodeBrokerHeartbeatAnswer(resp)
	}
	return nil, fmt.Errorf("response to %s: no request between nodes has one", kmsg.NameForKey(resp.Key()))
}

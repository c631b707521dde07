package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/session"
)

// BrokerHeartbeat (key 63): a broker keeps its session with the controller (KIP-631).
//
// Behaviour:
//   - There is no metadata log to catch up with: the metadata offset is -1, and a broker counts as caught up when it is not
//     fenced. Failed log directories are not told; a partition whose log failed answers KAFKA_STORAGE_ERROR.
//   - Shutdown is not negotiated: ShouldShutdown is never set.
//
// Versions: 0-1. v1: failed log directories (KIP-858). Brokers send v0.
const (
	brokerHeartbeatKey     = 63
	brokerHeartbeatVersion = 0
	brokerHeartbeatMax     = 1
)

func brokerHeartbeatHandler(to receiver) handler {
	return handler{
		key: brokerHeartbeatKey, max: brokerHeartbeatMax,
		empty: func() kmsg.Request { return kmsg.NewPtrBrokerHeartbeatRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.BrokerHeartbeatRequest)
			m, err := splitBrokerHeartbeat(h, r)
			if err != nil {
				return work{}, err
			}
			return to.ask(true, []part{m}, func(p []part) kmsg.Response { return joinBrokerHeartbeat(r, p[0]) }), nil
		},
	}
}

func splitBrokerHeartbeat(h header, r *kmsg.BrokerHeartbeatRequest) (part, error) {
	from, err := brokerSender(h, r.BrokerID)
	if err != nil {
		return part{}, err
	}
	return part{request: replica.Message{From: from, Number: h.correlation, Body: &session.Heartbeat{
		BrokerEpoch: r.BrokerEpoch, WantFence: r.WantFence, WantShutdown: r.WantShutdown,
	}}}, nil
}

func joinBrokerHeartbeat(r *kmsg.BrokerHeartbeatRequest, p part) kmsg.Response {
	answer := p.answer.(*session.HeartbeatAnswer)
	resp := r.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.ErrorCode = int16(answer.Error)
	resp.IsFenced, resp.IsCaughtUp = answer.Fenced, !answer.Fenced
	return resp
}

func encodeBrokerHeartbeat(m replica.Message) kmsg.Request {
	b := m.Body.(*session.Heartbeat)
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.Version = brokerHeartbeatVersion
	r.BrokerID = int32(m.From)
	r.BrokerEpoch = b.BrokerEpoch
	r.CurrentMetadataOffset = -1
	r.WantFence, r.WantShutdown = b.WantFence, b.WantShutdown
	return r
}

func decodeBrokerHeartbeatAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.BrokerHeartbeatResponse)
	return &session.HeartbeatAnswer{Error: replica.Code(r.ErrorCode), Fenced: r.IsFenced}, nil
}

package kafka

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/session"
)

// BrokerRegistration (key 62): an incarnation of a broker announces itself to the controller (KIP-631).
//
// Behaviour:
//   - The incarnation is a number here: the last 8 bytes of Kafka's incarnation id; the others are zero.
//   - The broker names exactly one listener, which clients and brokers share.
//   - Cluster id, features, log directories and rack are empty, and not looked at.
//
// Versions: 3 only, the first with the broker epoch that ended in a clean shutdown (KIP-966). Both ends are ours.
const (
	brokerRegistrationKey     = 62
	brokerRegistrationVersion = 3
)

func brokerRegistrationHandler(to receiver) handler {
	return handler{
		key: brokerRegistrationKey, min: brokerRegistrationVersion, max: brokerRegistrationVersion,
		empty: func() kmsg.Request { return kmsg.NewPtrBrokerRegistrationRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.BrokerRegistrationRequest)
			m, err := splitBrokerRegistration(h, r)
			if err != nil {
				return work{}, err
			}
			return to.ask(true, []part{m}, func(p []part) kmsg.Response { return joinBrokerRegistration(r, p[0]) }), nil
		},
	}
}

func splitBrokerRegistration(h header, r *kmsg.BrokerRegistrationRequest) (part, error) {
	from, err := brokerSender(h, r.BrokerID)
	if err != nil {
		return part{}, err
	}
	if len(r.Listeners) != 1 {
		return part{}, fmt.Errorf("%w %s of broker %s: %d listeners, want one", errMalformed, h, from, len(r.Listeners))
	}
	return part{request: replica.Message{From: from, Number: h.correlation, Body: &session.Registration{
		Incarnation: binary.BigEndian.Uint64(r.IncarnationID[8:]),
		Previous:    r.PreviousBrokerEpoch,
		Host:        r.Listeners[0].Host,
		Port:        int32(r.Listeners[0].Port),
	}}}, nil
}

func joinBrokerRegistration(r *kmsg.BrokerRegistrationRequest, p part) kmsg.Response {
	answer := p.answer.(*session.RegistrationAnswer)
	resp := r.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.ErrorCode, resp.BrokerEpoch = int16(answer.Error), answer.BrokerEpoch
	return resp
}

func encodeBrokerRegistration(m replica.Message) kmsg.Request {
	b := m.Body.(*session.Registration)
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.Version = brokerRegistrationVersion
	r.BrokerID = int32(m.From)
	binary.BigEndian.PutUint64(r.IncarnationID[8:], b.Incarnation)
	r.PreviousBrokerEpoch = b.Previous
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", b.Host, uint16(b.Port)
	r.Listeners = append(r.Listeners, l)
	return r
}

func decodeBrokerRegistrationAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.BrokerRegistrationResponse)
	return &session.RegistrationAnswer{Error: replica.Code(r.ErrorCode), BrokerEpoch: r.BrokerEpoch}, nil
}

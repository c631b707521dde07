// Package session is the broker's side of its life with the controller: registration, heartbeats, and the broker epoch
// that names one incarnation of a broker (KIP-631, KIP-903).
//
// Like node/replica it is a pure state machine: [Session.Step] takes a message and gives messages; time is a number. A
// session registers first, sends a heartbeat at once (which unfences the broker), and then one every interval. When the
// controller no longer knows its broker epoch it registers anew.
package session

import (
	"encoding/binary"

	"tidemark/node/replica"
)

// The kinds of messages between a broker and the controller, by the names of Kafka's APIs.
const (
	KindRegistration       replica.Kind = "BrokerRegistration"
	KindRegistrationAnswer replica.Kind = "BrokerRegistration answer"
	KindHeartbeat          replica.Kind = "BrokerHeartbeat"
	KindHeartbeatAnswer    replica.Kind = "BrokerHeartbeat answer"
)

// Registration announces an incarnation of a broker (key 62).
type Registration struct {
	Incarnation uint64 // differs for every start of the process
	// Previous is the broker epoch that ended with a clean shutdown, or replica.NoBrokerEpoch (KIP-966).
	Previous int64
	Host     string // where clients and brokers reach it
	Port     int32
}

// RegistrationAnswer gives the incarnation its broker epoch.
type RegistrationAnswer struct {
	Error       replica.Code
	BrokerEpoch int64
}

// Heartbeat keeps a broker's session alive (key 63); the first one after a fence ends it.
type Heartbeat struct {
	BrokerEpoch  int64
	WantFence    bool
	WantShutdown bool
}

// HeartbeatAnswer says how the controller sees the broker.
type HeartbeatAnswer struct {
	Error  replica.Code
	Fenced bool
}

func (*Registration) Kind() replica.Kind       { return KindRegistration }
func (*RegistrationAnswer) Kind() replica.Kind { return KindRegistrationAnswer }
func (*Heartbeat) Kind() replica.Kind          { return KindHeartbeat }
func (*HeartbeatAnswer) Kind() replica.Kind    { return KindHeartbeatAnswer }

// Config is what a session needs to know.
type Config struct {
	Self        replica.ID
	Incarnation uint64
	Previous    int64 // broker epoch of a clean shutdown, or replica.NoBrokerEpoch
	Host        string
	Port        int32
	Interval    replica.Time // between heartbeats
	Timeout     replica.Time // for an answer, before the request is sent again
	Backoff     replica.Time // after a refusal or a lost connection
	FirstNumber int32        // number of the first request; 0 is 1
}

// Session is one incarnation's session. It is not safe for concurrent use.
type Session struct {
	c      Config
	epoch  int64 // replica.NoBrokerEpoch until registered
	fenced bool
	number int32 // of the last request
	open   int32 // number of the request that waits for its answer, 0 if none does
	next   replica.Time
}

// Open starts a session that is due to register at once.
func Open(c Config) *Session {
	return &Session{c: c, epoch: replica.NoBrokerEpoch, fenced: true, number: max(c.FirstNumber, 1) - 1}
}

// BrokerEpoch is the epoch that the controller gave this incarnation, replica.NoBrokerEpoch before it did.
func (s *Session) BrokerEpoch() int64 { return s.epoch }

// Fenced says whether the broker counts as fenced, as far as it knows.
func (s *Session) Fenced() bool { return s.fenced }

// Deadline is when a replica.Tick is next of use.
func (s *Session) Deadline() replica.Time { return s.next }

// Step handles one message and appends what it gives rise to. A replica.Poll sends the next request now.
func (s *Session) Step(now replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	switch b := m.Body.(type) {
	case *replica.Poll:
		return s.send(now, out)
	case *replica.Tick:
		if now >= s.next {
			return s.send(now, out)
		}
	case *replica.ConnectionLost:
		if m.Number == s.open {
			s.open, s.next = 0, now+s.c.Backoff
		}
	case *RegistrationAnswer:
		if m.Number != s.open || s.epoch != replica.NoBrokerEpoch {
			return out
		}
		s.open = 0
		if b.Error != replica.OK {
			s.next = now + s.c.Backoff
			return out
		}
		s.epoch, s.next = b.BrokerEpoch, now
	case *HeartbeatAnswer:
		if m.Number != s.open {
			return out
		}
		s.open, s.next = 0, now+s.c.Interval
		switch b.Error {
		case replica.OK:
			s.fenced = b.Fenced
			if s.fenced {
				s.next = now + min(s.c.Backoff, s.c.Interval)
			}
		case replica.StaleBrokerEpoch, replica.BrokerIDNotRegistered:
			s.epoch, s.fenced, s.next = replica.NoBrokerEpoch, true, now
		}
	}
	return out
}

func (s *Session) send(now replica.Time, out []replica.Message) []replica.Message {
	s.number++
	s.open, s.next = s.number, now+s.c.Timeout
	m := replica.Message{From: s.c.Self, To: replica.Controller, Number: s.number}
	if s.epoch == replica.NoBrokerEpoch {
		m.Body = &Registration{Incarnation: s.c.Incarnation, Previous: s.c.Previous, Host: s.c.Host, Port: s.c.Port}
	} else {
		m.Body = &Heartbeat{BrokerEpoch: s.epoch}
	}
	return append(out, m)
}

// AppendState appends a canonical form of what decides the session's future, times and numbers left out.
func (s *Session) AppendState(b []byte) []byte {
	b = binary.AppendVarint(b, s.epoch)
	if s.fenced {
		return append(b, 1)
	}
	return append(b, 0)
}

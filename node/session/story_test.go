package session_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
	"tidemark/node/session"
)

// TestStories plays the files of testdata: the life of one incarnation of a broker. -rewrite writes what comes of it now.
// Below ---- stands what the session sent, and how it looks after that.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.said = t, strings.Builder{}
			for line := range strings.Lines(d.FullCmd() + "\n" + d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					name, args, err := datadriven.ParseLine(line)
					require.NoError(t, err, d.Pos)
					s.do(d.Pos, name, args)
				}
			}
			s.say("%s", s.picture())
			return s.said.String()
		})
	})
}

type story struct {
	t       *testing.T
	said    strings.Builder
	session *session.Session
	now     replica.Time
	newest  int32
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.said, format+"\n", args...) }

func (s *story) do(pos, name string, args []datadriven.CmdArg) {
	text := func(key, without string) string {
		for _, a := range args {
			if a.Key == key && len(a.Vals) > 0 {
				return a.Vals[0]
			}
		}
		return without
	}
	number := func(key string, without int64) int64 {
		n, err := strconv.ParseInt(text(key, strconv.FormatInt(without, 10)), 10, 64)
		require.NoError(s.t, err, pos)
		return n
	}
	code := replica.OK
	for c := replica.Code(-1); c < 200; c++ {
		if len(args) > 0 && args[0].Key == c.String() {
			code = c
		}
	}
	answered := int32(number("number", int64(s.newest)))
	switch name {
	case "start": // [previous=K] [interval=T] [timeout=T] [backoff=T]
		s.now, s.newest = 0, 0
		s.session = session.Open(session.Config{Self: 2, Incarnation: 11, Previous: number("previous", replica.NoBrokerEpoch), Host: "broker2", Port: 9092,
			Interval: replica.Time(number("interval", 0)), Timeout: replica.Time(number("timeout", 0)), Backoff: replica.Time(number("backoff", 0))})
	case "at":
		n, err := strconv.ParseInt(args[0].Key, 10, 64)
		require.NoError(s.t, err, pos)
		s.now = replica.Time(n)
	case "poll":
		s.step(0, &replica.Poll{})
	case "tick":
		s.step(0, &replica.Tick{})
	case "registration-answer": // [CODE] [epoch=K] [number=K]
		s.step(answered, &session.RegistrationAnswer{Error: code, BrokerEpoch: number("epoch", replica.NoBrokerEpoch)})
	case "heartbeat-answer": // [CODE] [fenced] [number=K]
		fenced := false
		for _, a := range args {
			fenced = fenced || a.Key == "fenced"
		}
		s.step(answered, &session.HeartbeatAnswer{Error: code, Fenced: fenced})
	case "lost": // [number=K]: the connection broke
		s.step(answered, &replica.ConnectionLost{})
	default:
		s.t.Fatalf("%s: no command %q", pos, name)
	}
}

func (s *story) step(number int32, b replica.Body) {
	for _, m := range s.session.Step(s.now, replica.Message{From: replica.Controller, To: 2, Number: number, Body: b}, nil) {
		require.Equal(s.t, replica.Controller, m.To)
		require.Equal(s.t, replica.Partition{}, m.Partition, "a session is no partition's")
		s.newest = m.Number
		switch b := m.Body.(type) {
		case *session.Registration:
			s.say("%s: incarnation %d, previous broker epoch %d, %s:%d", m, b.Incarnation, b.Previous, b.Host, b.Port)
		case *session.Heartbeat:
			s.say("%s: broker epoch %d", m, b.BrokerEpoch)
		}
	}
}

func (s *story) picture() string {
	p := "not registered"
	if e := s.session.BrokerEpoch(); e != replica.NoBrokerEpoch {
		p = fmt.Sprintf("broker epoch %d", e)
	}
	if s.session.Fenced() {
		p += ", fenced"
	}
	return fmt.Sprintf("%s, due at %d", p, s.session.Deadline())
}

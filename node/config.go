package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/node/control"
)

// Topic is a topic as it is given at start: for each partition its replicas in assignment order, the first of which is
// the preferred leader.
type Topic struct {
	Name       string
	Partitions [][]control.NodeID
}

// ParseTopic reads NAME:PARTITIONS:REPLICAS, which assigns the brokers in turn, or NAME=1,3,2/2,1,3 with the replicas of
// each partition.
func ParseTopic(s string, brokers []control.NodeID) (Topic, error) {
	if name, assignment, ok := strings.Cut(s, "="); ok {
		return parseAssignment(s, name, assignment)
	}
	words := strings.Split(s, ":")
	if len(words) != 3 {
		return Topic{}, fmt.Errorf("topic %q: want NAME:PARTITIONS:REPLICAS, for example orders:4:3", s)
	}
	partitions, err1 := strconv.Atoi(words[1])
	replicas, err2 := strconv.Atoi(words[2])
	t := Topic{Name: words[0]}
	switch {
	case !validTopic(t.Name):
		return t, fmt.Errorf("topic %q: the name %q may have letters, digits, dots, dashes and underscores", s, t.Name)
	case err1 != nil || partitions < 1:
		return t, fmt.Errorf("topic %q: partitions %q: want a number of 1 or more", s, words[1])
	case err2 != nil || replicas < 1:
		return t, fmt.Errorf("topic %q: replicas %q: want a number of 1 or more", s, words[2])
	case replicas > len(brokers):
		return t, fmt.Errorf("topic %q: %d replicas need as many brokers, there are %d", s, replicas, len(brokers))
	}
	for p := range partitions {
		var ids []control.NodeID
		for r := range replicas {
			ids = append(ids, brokers[(p+r)%len(brokers)])
		}
		t.Partitions = append(t.Partitions, ids)
	}
	return t, nil
}

func parseAssignment(s, name, assignment string) (Topic, error) {
	t := Topic{Name: name}
	if !validTopic(name) {
		return t, fmt.Errorf("topic %q: the name %q may have letters, digits, dots, dashes and underscores", s, name)
	}
	for _, part := range strings.Split(assignment, "/") {
		var ids []control.NodeID
		for _, w := range strings.Split(part, ",") {
			n, err := strconv.ParseInt(w, 10, 32)
			if err != nil || n < 1 {
				return t, fmt.Errorf("topic %q: %q is no broker", s, w)
			}
			if slices.Contains(ids, control.NodeID(n)) {
				return t, fmt.Errorf("topic %q: broker %d stands twice in %q", s, n, part)
			}
			ids = append(ids, control.NodeID(n))
		}
		t.Partitions = append(t.Partitions, ids)
	}
	return t, nil
}

// String is the topic with its assignment. [ParseTopic] reads it back.
func (t Topic) String() string {
	parts := make([]string, len(t.Partitions))
	for i, ids := range t.Partitions {
		words := make([]string, len(ids))
		for j, id := range ids {
			words[j] = id.String()
		}
		parts[i] = strings.Join(words, ",")
	}
	return t.Name + "=" + strings.Join(parts, "/")
}

func validTopic(name string) bool {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	return name != "" && name != "." && name != ".." && len(name) < 200 && strings.IndexFunc(name, func(r rune) bool { return !ok(r) }) < 0
}

// Settings are the nodes' settings, by Kafka's names.
type Settings struct {
	MinISR             int           // min.insync.replicas
	Unclean            bool          // unclean.leader.election.enable
	SessionTimeout     time.Duration // broker.session.timeout.ms
	HeartbeatInterval  time.Duration // broker.heartbeat.interval.ms
	LagMax             time.Duration // replica.lag.time.max.ms
	FetchWait          time.Duration // replica.fetch.wait.max.ms
	FetchMaxBytes      int           // replica.fetch.max.bytes
	RequestTimeout     time.Duration // replica.socket.timeout.ms: of a request between nodes
	Backoff            time.Duration // replica.fetch.backoff.ms: after an error or a lost connection
	CheckpointInterval time.Duration // replica.high.watermark.checkpoint.interval.ms
	FlushInterval      time.Duration // log.flush.interval.ms; 0: never by time
	SegmentBytes       int64         // log.segment.bytes
}

// Defaults are quick enough for a run of half a minute: sessions of one second, lag of two. What is not about time is
// Kafka's, except that logs are flushed every second, so that a power failure takes something but not everything.
func Defaults() Settings {
	return Settings{MinISR: 2, SessionTimeout: time.Second, HeartbeatInterval: 200 * time.Millisecond, LagMax: 2 * time.Second,
		FetchWait: 500 * time.Millisecond, FetchMaxBytes: 1 << 20, RequestTimeout: time.Second, Backoff: 50 * time.Millisecond,
		CheckpointInterval: 5 * time.Second, FlushInterval: time.Second, SegmentBytes: 16 << 20}
}

// setting is how one setting is read and written.
type setting struct {
	name string
	get  func(*Settings) string
	set  func(*Settings, string) error
}

func settings() []setting {
	duration := func(name string, at func(*Settings) *time.Duration) setting {
		return setting{name,
			func(s *Settings) string { return strconv.FormatInt(at(s).Milliseconds(), 10) },
			func(s *Settings, v string) error {
				ms, err := strconv.ParseInt(v, 10, 32)
				if err != nil || ms < 0 {
					return fmt.Errorf("setting %s=%s: want milliseconds", name, v)
				}
				*at(s) = time.Duration(ms) * time.Millisecond
				return nil
			}}
	}
	return []setting{
		{"min.insync.replicas", func(s *Settings) string { return strconv.Itoa(s.MinISR) }, func(s *Settings, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				return fmt.Errorf("setting min.insync.replicas=%s: want a number of 1 or more", v)
			}
			s.MinISR = n
			return nil
		}},
		{"unclean.leader.election.enable", func(s *Settings) string { return strconv.FormatBool(s.Unclean) }, func(s *Settings, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("setting unclean.leader.election.enable=%s: want true or false", v)
			}
			s.Unclean = b
			return nil
		}},
		duration("broker.session.timeout.ms", func(s *Settings) *time.Duration { return &s.SessionTimeout }),
		duration("broker.heartbeat.interval.ms", func(s *Settings) *time.Duration { return &s.HeartbeatInterval }),
		duration("replica.lag.time.max.ms", func(s *Settings) *time.Duration { return &s.LagMax }),
		duration("replica.fetch.wait.max.ms", func(s *Settings) *time.Duration { return &s.FetchWait }),
		{"replica.fetch.max.bytes", func(s *Settings) string { return strconv.Itoa(s.FetchMaxBytes) }, func(s *Settings, v string) error {
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil || n < 1 {
				return fmt.Errorf("setting replica.fetch.max.bytes=%s: want a number of bytes", v)
			}
			s.FetchMaxBytes = int(n)
			return nil
		}},
		duration("replica.socket.timeout.ms", func(s *Settings) *time.Duration { return &s.RequestTimeout }),
		duration("replica.fetch.backoff.ms", func(s *Settings) *time.Duration { return &s.Backoff }),
		duration("replica.high.watermark.checkpoint.interval.ms", func(s *Settings) *time.Duration { return &s.CheckpointInterval }),
		duration("log.flush.interval.ms", func(s *Settings) *time.Duration { return &s.FlushInterval }),
		{"log.segment.bytes", func(s *Settings) string { return strconv.FormatInt(s.SegmentBytes, 10) }, func(s *Settings, v string) error {
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil || n < 1024 {
				return fmt.Errorf("setting log.segment.bytes=%s: want a number of bytes, 1024 or more", v)
			}
			s.SegmentBytes = n
			return nil
		}},
	}
}

// Set sets the setting that "name=value" says, or says which settings there are.
func (s *Settings) Set(word string) error {
	name, value, ok := strings.Cut(word, "=")
	if !ok {
		return fmt.Errorf("setting %q: want name=value, for example min.insync.replicas=2", word)
	}
	var names []string
	for _, x := range settings() {
		if x.name == name {
			return x.set(s, value)
		}
		names = append(names, x.name)
	}
	return fmt.Errorf("unknown setting %q: there are %s", name, strings.Join(names, ", "))
}

// Words writes every setting as the "name=value" that [Settings.Set] takes.
func (s Settings) Words() []string {
	var words []string
	for _, x := range settings() {
		words = append(words, x.name+"="+x.get(&s))
	}
	return words
}

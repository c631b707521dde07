package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"tidemark/checker/history"
)

// Dialer is what a workload needs of a cluster. All traffic of the clients goes through it, so that faults can cut their links.
type Dialer interface {
	// Dial connects to a broker. It should give up when ctx ends.
	Dial(ctx context.Context, node int32) (net.Conn, error)
	// Brokers lists the ids of all brokers, whether they are up or not. They do not change during a run.
	Brokers() []int32
}

// ErrConfig is wrapped by every error about a field of a [Config].
var ErrConfig = errors.New("invalid workload")

// Config is what a workload asks, and how fast. Topics and Clients must be set; the other zero values are the defaults named with
// them.
type Config struct {
	// Topics are the topics that exist. How many replicas they have is the cluster's to say.
	Topics []history.Topic
	// Clients is how many processes run at a time, each with a connection of its own to each broker that it asks.
	Clients int
	// Rate is the number of operations a second of all clients together; 0: as many as the cluster answers.
	Rate float64
	// Time is for how long operations are begun; 0: until the context ends. Operations that run by then are finished.
	Time time.Duration
	// Acks is what an append waits for: "all", "1" or "0"; "" is "all".
	Acks string
	// Seed decides what is asked.
	Seed uint64
	// Mix is how often each operation is asked for.
	Mix Mix
	// FollowerReads is the share of the fetches that go to a replica that does not lead: 0 is 0.1, less than 0 none. They may be
	// stale by design, so a run that is to be linearizable must not have any.
	FollowerReads float64
	// BatchShare is the share of the produces, from 0 to 1, that append a batch of several values.
	BatchShare float64
	// BatchValues is the largest number of values in a batch; 0 is 5.
	BatchValues int
	// ValueSize is the least number of bytes of a value on the wire; shorter ones are padded, which does not show in the history.
	// 0: no padding.
	ValueSize int
	// FetchBytes bounds the records of one fetch, in bytes, a first batch that is larger excepted; 0 is 2048, which is some 25
	// records.
	FetchBytes int32
	// Timeout is how long a client waits for an operation, from connecting to the last byte of the answer; 0 is 2 s.
	Timeout time.Duration
	// ProduceTimeout is how long a broker may wait for its replicas before it answers REQUEST_TIMED_OUT (timeout.ms); 0 is 1 s.
	ProduceTimeout time.Duration
	// FirstProcess is the number of the first process. Workloads that write to one history need numbers of their own: one after the
	// other, [Stats.NextProcess]; at the same time, ranges that are far apart.
	FirstProcess int64
	// Stats, if not nil, is filled while the workload runs, for those who watch it. It must be new.
	Stats *Stats
}

// Mix is how often each operation is asked for, as weights: {45, 50, 5} and {9, 10, 1} are the same. The zero value is the first.
type Mix struct{ Produce, Fetch, End int }

// Defaults of [Config].
const (
	defaultFollowerReads  = 0.1
	defaultBatchValues    = 5
	defaultFetchBytes     = 2048
	defaultTimeout        = 2 * time.Second
	defaultProduceTimeout = time.Second
)

// leastRate keeps the time between two operations within what a duration holds.
const leastRate = 0.001

var defaultMix = Mix{Produce: 45, Fetch: 50, End: 5}

// maxProcess bounds process numbers: nodes name clients by them in 30 bits.
const maxProcess = 1 << 30

func (c Config) withDefaults() Config {
	if c.Acks == "" {
		c.Acks = "all"
	}
	if c.Mix == (Mix{}) {
		c.Mix = defaultMix
	}
	switch {
	case c.FollowerReads == 0:
		c.FollowerReads = defaultFollowerReads
	case c.FollowerReads < 0:
		c.FollowerReads = 0
	}
	if c.BatchValues == 0 {
		c.BatchValues = defaultBatchValues
	}
	if c.FetchBytes == 0 {
		c.FetchBytes = defaultFetchBytes
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.ProduceTimeout == 0 {
		c.ProduceTimeout = defaultProduceTimeout
	}
	if c.Stats == nil {
		c.Stats = &Stats{untimed: true}
	}
	return c
}

// check says what is wrong with a configuration whose defaults are filled in.
func (c Config) check() error {
	if err := c.checkTopics(); err != nil {
		return err
	}
	_, known := acksOnWire[c.Acks]
	switch {
	case c.Clients < 1:
		return wrong("clients", c.Clients, "at least 1 is needed")
	case c.Rate != 0 && !(c.Rate >= leastRate):
		return wrong("rate", c.Rate, fmt.Sprintf("want at least %v operations a second, or 0 for no bound", leastRate))
	case c.Time < 0:
		return wrong("time", c.Time, "want a duration, or 0 to run until stopped")
	case !known:
		return wrong("acks", strconv.Quote(c.Acks), `want "all", "1" or "0"`)
	case c.Mix.Produce < 0 || c.Mix.Fetch < 0 || c.Mix.End < 0:
		return wrong("mix", c.Mix, "weights cannot be negative")
	case !(c.FollowerReads <= 1):
		return wrong("follower reads", c.FollowerReads, "want a share up to 1, or less than 0 for none")
	case !(c.BatchShare >= 0 && c.BatchShare <= 1):
		return wrong("batch share", c.BatchShare, "want a share from 0 to 1")
	case c.BatchValues < 2:
		return wrong("batch values", c.BatchValues, "a batch has at least 2")
	case c.ValueSize < 0 || c.ValueSize > maxValueSize:
		return wrong("value size", c.ValueSize, fmt.Sprintf("want bytes from 0 to %d", maxValueSize))
	case c.FetchBytes < 1:
		return wrong("fetch bytes", c.FetchBytes, "at least 1 is needed")
	case c.Timeout < time.Millisecond || c.Timeout > 15*time.Minute:
		return wrong("timeout", c.Timeout, "want 1ms to 15m")
	case c.ProduceTimeout < time.Millisecond || c.ProduceTimeout > time.Hour:
		return wrong("produce timeout", c.ProduceTimeout, "want 1ms to 1h")
	case c.FirstProcess < 0 || c.FirstProcess > maxProcess-int64(c.Clients):
		return wrong("first process", c.FirstProcess, fmt.Sprintf("process numbers are from 0 to %d", maxProcess-1))
	}
	return nil
}

func (c Config) checkTopics() error {
	if len(c.Topics) == 0 {
		return wrong("topics", "none", "at least one is needed")
	}
	seen := map[string]bool{}
	for _, t := range c.Topics {
		switch {
		case t.Name == "":
			return wrong("topic", `""`, "a topic needs a name")
		case seen[t.Name]:
			return wrong("topic", strconv.Quote(t.Name), "it is named twice")
		case t.Partitions < 1:
			return wrong("partitions of topic "+t.Name, t.Partitions, "at least 1 is needed")
		}
		seen[t.Name] = true
	}
	return nil
}

func wrong(field string, value any, want string) error {
	return fmt.Errorf("%w: %s is %v: %s", ErrConfig, field, value, want)
}

// acksOnWire are the acknowledgement levels as a request has them.
var acksOnWire = map[string]int16{"all": -1, "1": 1, "0": 0}

// partition is one partition of the configuration's topics.
type partition struct {
	topic string
	index int32
	name  string // as a history has it: orders-0
}

// partitions lists all partitions, topic by topic; an [Operation] names one by its place in it.
func (c Config) partitions() []partition {
	var ps []partition
	for _, t := range c.Topics {
		for i := range t.Partitions {
			ps = append(ps, partition{t.Name, int32(i), t.Name + "-" + strconv.Itoa(i)})
		}
	}
	return ps
}

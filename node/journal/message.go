package journal

import (
	"fmt"

	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/session"
)

// kind is how the body of one kind of message is written and read. Its place in kinds is its number in the file, so kinds are
// only ever added at the end.
type kind struct {
	kind  replica.Kind
	empty func() replica.Body
	code  func(*coder, replica.Body)
}

// of makes a kind of a body's type and of what it is made of.
func of[T any, P interface {
	*T
	replica.Body
}](code func(*coder, P)) kind {
	return kind{P(new(T)).Kind(), func() replica.Body { return P(new(T)) }, func(c *coder, b replica.Body) { code(c, b.(P)) }}
}

var kinds = []kind{
	of(func(c *coder, b *replica.Produce) {
		integer(c, &b.Acks)
		integer(c, &b.Timeout)
		batch(c, &b.Batch)
	}),
	of(func(c *coder, b *replica.ProduceAnswer) {
		integer(c, &b.Error)
		integer(c, &b.Base)
		integer(c, &b.Start)
		c.bool(&b.Refused)
	}),
	of(func(c *coder, b *replica.Fetch) {
		integer(c, &b.Offset)
		integer(c, &b.LeaderEpoch)
		integer(c, &b.LastEpoch)
		integer(c, &b.BrokerEpoch)
		integer(c, &b.Start)
		integer(c, &b.MaxBytes)
		integer(c, &b.MaxWait)
		c.bool(&b.Debug)
		c.bool(&b.FromFollower)
	}),
	of(func(c *coder, b *replica.FetchAnswer) {
		integer(c, &b.Error)
		integer(c, &b.HighWatermark)
		integer(c, &b.Start)
		list(c, &b.Batches, batch)
		optional(c, &b.Diverging, func(c *coder, e *replica.EpochEnd) {
			integer(c, &e.Epoch)
			integer(c, &e.End)
		})
	}),
	of(func(c *coder, b *replica.OffsetForLeaderEpoch) {
		integer(c, &b.LeaderEpoch)
		integer(c, &b.Epoch)
	}),
	of(func(c *coder, b *replica.OffsetForLeaderEpochAnswer) {
		integer(c, &b.Error)
		integer(c, &b.Epoch)
		integer(c, &b.End)
	}),
	of(func(c *coder, b *replica.ListOffsets) {
		integer(c, &b.LeaderEpoch)
		integer(c, &b.Timestamp)
	}),
	of(func(c *coder, b *replica.ListOffsetsAnswer) {
		integer(c, &b.Error)
		integer(c, &b.Offset)
		integer(c, &b.LeaderEpoch)
	}),
	of(func(c *coder, b *replica.LeaderAndIsr) {
		integer(c, &b.Version)
		integer(c, &b.Leader)
		integer(c, &b.LeaderEpoch)
		integer(c, &b.PartitionEpoch)
		list(c, &b.Replicas, id)
		list(c, &b.ISR, id)
		list(c, &b.ELR, id)
		integer(c, &b.BrokerEpoch)
		list(c, &b.Brokers, func(c *coder, s *replica.BrokerState) {
			integer(c, &s.ID)
			integer(c, &s.Epoch)
			c.bool(&s.Fenced)
		})
	}),
	of(func(c *coder, b *replica.LeaderAndIsrAnswer) {
		integer(c, &b.Error)
		integer(c, &b.Version)
	}),
	of(func(c *coder, b *replica.AlterPartition) {
		integer(c, &b.BrokerEpoch)
		integer(c, &b.LeaderEpoch)
		integer(c, &b.PartitionEpoch)
		list(c, &b.ISR, func(c *coder, m *replica.Member) {
			integer(c, &m.ID)
			integer(c, &m.BrokerEpoch)
		})
	}),
	of(func(c *coder, b *replica.AlterPartitionAnswer) {
		integer(c, &b.Error)
		integer(c, &b.Leader)
		integer(c, &b.LeaderEpoch)
		integer(c, &b.PartitionEpoch)
		list(c, &b.ISR, id)
	}),
	of(func(c *coder, b *replica.Poll) { integer(c, &b.MaxRecords) }),
	of(func(*coder, *replica.Tick) {}),
	of(func(c *coder, b *replica.Lag) { integer(c, &b.Replica) }),
	of(func(c *coder, b *replica.ConnectionLost) { c.text((*string)(&b.Request)) }),
	of(func(c *coder, b *replica.Registered) { integer(c, &b.BrokerEpoch) }),
	of(func(c *coder, b *replica.Event) {
		c.text((*string)(&b.What))
		integer(c, &b.Role)
		integer(c, &b.Leader)
		integer(c, &b.Epoch)
		integer(c, &b.PartitionEpoch)
		integer(c, &b.From)
		integer(c, &b.To)
		integer(c, &b.HW)
		list(c, &b.ISR, id)
		integer(c, &b.Broker)
		integer(c, &b.BrokerEpoch)
		c.text(&b.Why)
		c.bool(&b.Unclean)
	}),
	of(func(c *coder, b *session.Registration) {
		integer(c, &b.Incarnation)
		integer(c, &b.Previous)
		c.text(&b.Host)
		integer(c, &b.Port)
	}),
	of(func(c *coder, b *session.RegistrationAnswer) {
		integer(c, &b.Error)
		integer(c, &b.BrokerEpoch)
	}),
	of(func(c *coder, b *session.Heartbeat) {
		integer(c, &b.BrokerEpoch)
		c.bool(&b.WantFence)
		c.bool(&b.WantShutdown)
	}),
	of(func(c *coder, b *session.HeartbeatAnswer) {
		integer(c, &b.Error)
		c.bool(&b.Fenced)
	}),
	of(func(c *coder, b *controller.Fence) { integer(c, &b.Broker) }),
	of(func(c *coder, b *controller.Transfer) { integer(c, &b.To) }),
	of(func(c *coder, b *controller.Push) { integer(c, &b.To) }),
}

// numbers is the place of each kind in kinds.
var numbers = func() map[replica.Kind]int {
	m := map[replica.Kind]int{}
	for i, k := range kinds {
		m[k.kind] = i
	}
	return m
}()

// message is a whole message. A body of a kind that is not in kinds is a programmer's error: a test goes through all of them.
func message(c *coder, m *replica.Message) {
	integer(c, &m.From)
	integer(c, &m.To)
	partition(c, &m.Partition)
	integer(c, &m.Number)
	n := 0
	if !c.reading {
		var ok bool
		if n, ok = numbers[m.Body.Kind()]; !ok {
			panic(fmt.Sprintf("journal: no form for messages of kind %q", m.Body.Kind()))
		}
	}
	integer(c, &n)
	if c.reading {
		if n < 0 || n >= len(kinds) {
			c.fail("a message of kind %d: there are %d", n, len(kinds))
			return
		}
		m.Body = kinds[n].empty()
	}
	kinds[n].code(c, m.Body)
}

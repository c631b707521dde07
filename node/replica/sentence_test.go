package replica_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

// command is one line of a story.
type command struct {
	t    testing.TB
	pos  string
	name string
	args []datadriven.CmdArg
}

func (c command) arg(key string) (datadriven.CmdArg, bool) {
	for _, a := range c.args {
		if a.Key == key {
			return a, true
		}
	}
	return datadriven.CmdArg{}, false
}

func (c command) has(key string) bool { _, ok := c.arg(key); return ok }

func (c command) text(key, without string) string {
	if a, ok := c.arg(key); ok {
		return strings.Join(a.Vals, ",")
	}
	return without
}

func (c command) list(key string) []string {
	a, _ := c.arg(key)
	var words []string
	for _, w := range a.Vals {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}

func (c command) parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(c.t, err, "%s: %s", c.pos, c.name)
	return n
}

func (c command) number(key string, without int64) int64 {
	if a, ok := c.arg(key); ok {
		return c.parse(a.Vals[0])
	}
	return without
}

// bare is the number that stands without a key.
func (c command) bare() int64 { return c.parse(c.args[0].Key) }

func (c command) ids(key string) []replica.ID {
	var ids []replica.ID
	for _, w := range c.list(key) {
		ids = append(ids, replica.ID(c.parse(w)))
	}
	return ids
}

// code is the error code that stands without a key, OK if none does.
func (c command) code() replica.Code {
	for code := replica.Code(-1); code < 200; code++ {
		if c.has(code.String()) {
			return code
		}
	}
	return replica.OK
}

// batches reads "m1.0@1": value, epoch, and offset, which may be left out where it follows.
func (c command) batches(key string, at int64) []replica.Batch {
	var batches []replica.Batch
	for _, w := range c.list(key) {
		w, offset, given := strings.Cut(w, "@")
		value, epoch, _ := strings.Cut(w, ".")
		b := replica.Batch{Base: at, Count: 1, Epoch: int32(c.parse(epoch)), Producer: replica.NoProducer, Data: []byte(value)}
		if given {
			b.Base = c.parse(offset)
		}
		at = b.End()
		batches = append(batches, b)
	}
	return batches
}

// sentence is a message as a person would say it.
func sentence(m replica.Message) string {
	if e, ok := m.Body.(*replica.Event); ok {
		return "event " + event(e)
	}
	return m.String() + ": " + says(m.Body)
}

func says(body replica.Body) string {
	switch b := body.(type) {
	case *replica.ProduceAnswer:
		switch {
		case b.Error == replica.OK:
			return fmt.Sprintf("at %d", b.Base)
		case b.Refused:
			return b.Error.String() + ", refused before append"
		}
		return b.Error.String()
	case *replica.Fetch:
		s := fmt.Sprintf("from %d%s", b.Offset, current(b.LeaderEpoch))
		if b.LastEpoch != replica.NoEpoch {
			s += fmt.Sprintf(", after epoch %d", b.LastEpoch)
		}
		return s
	case *replica.FetchAnswer:
		if b.Error != replica.OK {
			return b.Error.String()
		}
		s := fmt.Sprintf("high watermark %d, ", b.HighWatermark)
		if d := b.Diverging; d != nil {
			return s + fmt.Sprintf("diverging: epoch %d ends at %d", d.Epoch, d.End)
		}
		if len(b.Batches) == 0 {
			return s + "nothing"
		}
		for i, batch := range b.Batches {
			if i > 0 {
				s += " "
			}
			s += fmt.Sprintf("%s.%d@%d", batch.Data, batch.Epoch, batch.Base)
		}
		return s
	case *replica.OffsetForLeaderEpoch:
		return fmt.Sprintf("end of epoch %d%s", b.Epoch, current(b.LeaderEpoch))
	case *replica.OffsetForLeaderEpochAnswer:
		switch {
		case b.Error != replica.OK:
			return b.Error.String()
		case b.End == replica.NoOffset:
			return "undefined"
		}
		return fmt.Sprintf("epoch %d ends at %d", b.Epoch, b.End)
	case *replica.ListOffsets:
		return "latest" + current(b.LeaderEpoch)
	case *replica.ListOffsetsAnswer:
		if b.Error != replica.OK {
			return b.Error.String()
		}
		return strconv.FormatInt(b.Offset, 10)
	case *replica.LeaderAndIsrAnswer:
		return fmt.Sprintf("%s, version %d", b.Error, b.Version)
	case *replica.AlterPartition:
		members := make([]string, len(b.ISR))
		for i, m := range b.ISR {
			members[i] = m.ID.String()
			if m.BrokerEpoch != replica.NoBrokerEpoch {
				members[i] += fmt.Sprintf("@%d", m.BrokerEpoch)
			}
		}
		return fmt.Sprintf("ISR %s instead of that of %d/%d", strings.Join(members, ","), b.LeaderEpoch, b.PartitionEpoch)
	}
	return "?"
}

func current(epoch int32) string {
	if epoch == replica.NoEpoch {
		return ""
	}
	return fmt.Sprintf(", in epoch %d", epoch)
}

func event(e *replica.Event) string {
	switch e.What {
	case replica.EventRole:
		if e.Role == replica.RoleLeader {
			return fmt.Sprintf("leads, epoch %d/%d, ISR %s, from %d on", e.Epoch, e.PartitionEpoch, names(e.ISR), e.To)
		}
		return fmt.Sprintf("follows %s, epoch %d/%d, from %d on", e.Leader, e.Epoch, e.PartitionEpoch, e.To)
	case replica.EventAppend:
		return fmt.Sprintf("append %d-%d of epoch %d", e.From, e.To, e.Epoch)
	case replica.EventHW:
		return fmt.Sprintf("high watermark %d -> %d", e.From, e.To)
	case replica.EventTruncate:
		below := ""
		if e.To < e.HW {
			below = fmt.Sprintf(", below the high watermark %d", e.HW)
		}
		return fmt.Sprintf("truncated %d -> %d%s: %s", e.From, e.To, below, e.Why)
	case replica.EventISR:
		return fmt.Sprintf("ISR %s, epoch %d/%d", names(e.ISR), e.Epoch, e.PartitionEpoch)
	case replica.EventAck:
		return fmt.Sprintf("ack %d-%d of epoch %d by ISR %s", e.From, e.To, e.Epoch, names(e.ISR))
	}
	return fmt.Sprintf("%s: %s", e.What, e.Why)
}

func names(ids []replica.ID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	return strings.Join(words, ",")
}

package sim

import (
	"encoding/binary"
	"math/bits"

	"tidemark/node/replica"
)

// Key is a 128-bit hash of a canonical state. Two different states among a billion have the same one with a probability of
// about 10^-21.
type Key [2]uint64

// mix folds bytes into a key: two multiply-and-fold hashes of different constants over words of eight bytes. It is its own
// because search needs 128 bits that are the same on every machine and in every run.
func (k Key) mix(b []byte) Key {
	a, c := k[0]^uint64(len(b)), k[1]+uint64(len(b))
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		a, c = fold(a^w, 0x9e3779b97f4a7c15), fold(c^w, 0xd6e8feb86659fd93)
		b = b[8:]
	}
	var last [8]byte
	copy(last[:], b)
	w := binary.LittleEndian.Uint64(last[:])
	a, c = fold(a^w^0x2545f4914f6cdd1d, 0xa0761d6478bd642f), fold(c^w^0x9fb21c651e98df25, 0xe7037ed1a0b428db)
	return Key{a ^ bits.RotateLeft64(c, 32), c + a}
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x60bee2bee120fc15, b)
	return hi ^ lo ^ bits.RotateLeft64(a, 23)
}

func (k Key) with(o Key) Key {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], o[0])
	binary.LittleEndian.PutUint64(b[8:], o[1])
	return k.mix(b[:])
}

// Key is a hash of everything that decides what can still happen and what is wrong at the end: cores, disks, waiting messages by
// what they say, the truth. Numbers of messages and the way that led here are not part of it.
func (w *World) Key() Key {
	b := make([]byte, 0, 512)
	k := w.ruleKey().mix(w.appendBetween(b))
	for i := range w.nodes {
		k = k.with(w.nodeKey(i))
	}
	return k
}

func (w *World) ruleKey() Key {
	if !w.ruled {
		w.rule, w.ruled = Key{}.mix(w.ruler.AppendState(make([]byte, 0, 256))), true
	}
	return w.rule
}

// appendBetween appends what is neither the controller's nor a broker's: cuts, waiting messages, the truth.
func (w *World) appendBetween(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(w.isolated))
	b = binary.AppendUvarint(b, uint64(w.truth.lossy))
	if w.unclean {
		b = append(b, 1)
	}
	b = append(b, byte(len(w.truth.values)))
	b = appendKnown(b, w.truth.acked)
	b = appendKnown(b, w.truth.exposed)
	b = w.appendMessages(b, w.desk)
	for i := range w.nodes {
		b = w.appendMessages(b, w.nodes[i].held)
	}
	return b
}

func (w *World) nodeKey(i int) Key {
	n := &w.nodes[i]
	if n.hashed {
		return n.hash
	}
	b := make([]byte, 0, 512)
	b = append(b, byte(n.cut+1))
	if n.up {
		b = n.session.AppendState(b)
		b = n.core.AppendState(0, b)
	}
	b = n.disk.AppendState(b)
	n.hash, n.hashed = Key{}.mix(b), true
	return n.hash
}

// appendKnown appends the records in an order that does not depend on when they became known.
func appendKnown(b []byte, of []known) []byte {
	b = append(b, byte(len(of)))
	for at := int64(0); ; at++ {
		beyond := false
		for _, k := range of {
			if k.offset == at {
				b = append(append(append(b, byte(at)), k.value...), 0)
			}
			beyond = beyond || k.offset > at
		}
		if !beyond {
			return b
		}
	}
}

func (w *World) appendMessages(b []byte, messages []replica.Message) []byte {
	b = append(b, byte(len(messages)))
	for _, m := range messages {
		b = binary.AppendVarint(b, int64(m.From))
		b = append(b, m.Body.Kind()[0], byte(len(m.Body.Kind())))
		asker := m.From
		if isAnswer(m.Body) {
			asker = m.To
		}
		if i := w.place(asker); i >= 0 {
			// Whether it still counts, and whether it is of the incarnation that runs.
			b = appendBool(b, m.Number == w.nodes[i].last)
			b = appendBool(b, m.Number >= w.nodes[i].started)
		}
		b = appendBody(b, m.Body)
	}
	return b
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendInts[N ~int16 | ~int32 | ~int64](b []byte, of ...N) []byte {
	for _, n := range of {
		b = binary.AppendVarint(b, int64(n))
	}
	return b
}

func appendBody(b []byte, body replica.Body) []byte {
	switch m := body.(type) {
	case *replica.LeaderAndIsr:
		b = appendInts(b, m.Version, m.BrokerEpoch, int64(m.LeaderEpoch), int64(m.PartitionEpoch), int64(m.Leader))
		b = appendInts(append(b, byte(len(m.ISR)), byte(len(m.ELR)), byte(len(m.Brokers))), m.ISR...)
		b = appendInts(b, m.ELR...)
		for _, x := range m.Brokers {
			b = appendBool(appendInts(b, int64(x.ID), x.Epoch), x.Fenced)
		}
	case *replica.Fetch:
		b = appendInts(b, m.Offset, int64(m.LeaderEpoch), int64(m.LastEpoch), m.BrokerEpoch, m.Start)
	case *replica.FetchAnswer:
		b = appendInts(b, m.HighWatermark, m.Start, int64(m.Error))
		if d := m.Diverging; d != nil {
			b = appendInts(b, int64(d.Epoch), d.End)
		}
		b = append(b, byte(len(m.Batches)))
		for _, x := range m.Batches {
			b = append(appendInts(b, x.Base, int64(x.Epoch)), x.Data...)
			b = append(b, 0)
		}
	case *replica.OffsetForLeaderEpoch:
		b = appendInts(b, m.LeaderEpoch, m.Epoch)
	case *replica.OffsetForLeaderEpochAnswer:
		b = appendInts(b, int64(m.Error), int64(m.Epoch), m.End)
	case *replica.ListOffsets:
		b = appendInts(b, int64(m.LeaderEpoch), m.Timestamp)
	case *replica.ListOffsetsAnswer:
		b = appendInts(b, int64(m.Error), m.Offset)
	case *replica.AlterPartition:
		b = appendInts(b, m.BrokerEpoch, int64(m.LeaderEpoch), int64(m.PartitionEpoch))
		for _, x := range m.ISR {
			b = appendInts(b, int64(x.ID), x.BrokerEpoch)
		}
	case *replica.AlterPartitionAnswer:
		b = appendInts(b, int64(m.Error), int64(m.Leader), int64(m.LeaderEpoch), int64(m.PartitionEpoch))
		b = appendInts(append(b, byte(len(m.ISR))), m.ISR...)
	case *replica.LeaderAndIsrAnswer:
		b = appendInts(b, int64(m.Error), m.Version)
	}
	return b
}

package controller

import (
	"encoding/binary"

	"tidemark/node/replica"
)

// Clone is an independent copy.
func (k *Controller) Clone() *Controller {
	c := &Controller{}
	k.CloneTo(c)
	return c
}

// CloneTo makes c an independent copy. What c was before is gone; what room it had is used again.
func (k *Controller) CloneTo(c *Controller) {
	brokers, parts := c.brokers, c.parts
	*c = *k
	c.out = nil
	if len(brokers) != len(k.brokers) {
		brokers = pointers[broker](len(k.brokers))
	}
	for i, b := range k.brokers {
		*brokers[i] = *b
	}
	if len(parts) != len(k.parts) {
		parts = pointers[record](len(k.parts))
	}
	for i, r := range k.parts {
		pushes := parts[i].pushes[:0]
		*parts[i] = *r
		parts[i].pushes = append(pushes, r.pushes...)
	}
	c.brokers, c.parts = brokers, parts
}

// pointers makes room for n of them in one piece.
func pointers[T any](n int) []*T {
	all, of := make([]*T, n), make([]T, n)
	for i := range of {
		all[i] = &of[i]
	}
	return all
}

// AppendState appends a canonical form of everything that decides the future, times and numbers left out. It is binary, every
// list with its length before it, so that no two states share a form.
func (k *Controller) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(k.brokers)))
	for _, x := range k.brokers {
		b = appendBool(binary.AppendVarint(binary.AppendVarint(b, int64(x.ID)), x.Epoch), x.Fenced)
	}
	for _, r := range k.parts {
		b = binary.AppendUvarint(b, uint64(len(r.Partition.Topic)))
		b = append(b, r.Partition.Topic...)
		b = binary.AppendVarint(b, int64(r.Partition.Index))
		b = appendBool(b, r.created)
		for _, n := range [...]int32{int32(r.Leader), r.LeaderEpoch, r.PartitionEpoch, int32(r.LastKnown)} {
			b = binary.AppendVarint(b, int64(n))
		}
		b = appendIDs(b, r.ISR)
		b = appendIDs(b, r.ELR)
		b = binary.AppendUvarint(b, uint64(len(r.pushes)))
		for i := range r.pushes {
			b = appendBool(binary.AppendVarint(b, int64(r.pushes[i].to)), r.pushes[i].acked < k.version)
		}
	}
	return b
}

func appendIDs(b []byte, ids []replica.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, x := range ids {
		b = binary.AppendVarint(b, int64(x))
	}
	return b
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

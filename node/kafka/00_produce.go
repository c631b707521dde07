package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/storage"
)

// Produce (key 0): append record batches to the leader's log.
//
// Behaviour:
//   - One core message a partition, delivered in the request's order; the answers are joined.
//   - Exactly one batch of format v2 a partition, as Kafka demands from v3 on. It is verified (magic, checksum, lengths,
//     counts) before it is delivered, and passed on untouched: compressed records are never looked into.
//   - acks=0 has no response. As in Kafka, an error closes the connection then, since the client could not learn of it.
//   - An error that certainly came before anything was appended carries [RefusedBeforeAppend] in its message (v8+): Kafka's
//     codes alone do not tell, because NOT_LEADER_OR_FOLLOWER also answers requests whose records stay in the log.
//   - Transactional requests and batches, and control batches, are refused: there are no transactions here.
//
// Versions: 3-9.
//   - v3: record batches v2, transactional id
//   - v5: log start offset in the response
//   - v7: zstd (KIP-110); refused before
//   - v8: error messages (KIP-467)
//   - v9: flexible
//
// v10 (leader hints, KIP-951) and v11, v12 (transactions) are left out, v13 names topics by id.
const (
	produceKey    = 0
	produceMin    = 3
	produceMax    = 9
	produceReason = 8 // first version with an error message
	produceZstd   = 7
)

// RefusedBeforeAppend begins the error message of a produce response (v8 and later) whose request was turned down before
// anything was appended: it certainly did not happen. Without it an error leaves open whether it did.
const RefusedBeforeAppend = "refused before append"

func produceHandler(to receiver, maxBatch int) handler {
	return handler{
		key: produceKey, min: produceMin, max: produceMax,
		empty: func() kmsg.Request { return kmsg.NewPtrProduceRequest() },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.ProduceRequest)
			g := to.deliver(splitProduce(h, r, maxBatch))
			return work{finish: func(ctx context.Context) (kmsg.Response, error) {
				if err := g.wait(ctx); err != nil {
					return nil, err
				}
				if r.Acks == replica.AcksNo {
					return nil, firstFailure(g.parts)
				}
				return joinProduce(r, g.parts), nil
			}}, nil
		},
	}
}

// firstFailure is the error with which a connection ends over a request with acks=0.
func firstFailure(parts []part) error {
	for _, p := range parts {
		if code := p.answer.(*replica.ProduceAnswer).Error; code != replica.OK {
			return fmt.Errorf("produce to %s with acks=0 failed: %s %s", p.request.Partition, code, p.why)
		}
	}
	return nil
}

// splitProduce makes one part a partition, already answered where the request is refused here.
func splitProduce(h header, r *kmsg.ProduceRequest, maxBatch int) []part {
	var parts []part
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			body := &replica.Produce{Acks: r.Acks, Timeout: milliseconds(r.TimeoutMillis)}
			m := part{request: replica.Message{
				From: h.sender(), Partition: replica.Partition{Topic: t.Topic, Index: p.Partition}, Number: h.correlation, Body: body,
			}}
			batch, refusal := checkBatch(p.Records, r, maxBatch)
			if refusal != nil {
				m.refuse(refusal.code, refusal.why)
			}
			body.Batch = batch
			parts = append(parts, m)
		}
	}
	return parts
}

type refusal struct {
	code replica.Code
	why  string
}

func refuse(e *kerr.Error, format string, args ...any) *refusal {
	return &refusal{replica.Code(e.Code), fmt.Sprintf(format, args...)}
}

// Bits of a batch's attributes, which node/storage has no use for, and where they are.
const (
	attributesAt     = 21
	codecBits        = 0b000_0111
	zstdCodec        = 4
	transactionalBit = 0b001_0000
	controlBit       = 0b010_0000
)

// checkBatch takes the one batch out of a partition's records, or says why it is refused.
func checkBatch(records []byte, r *kmsg.ProduceRequest, maxBatch int) (replica.Batch, *refusal) {
	none := replica.Batch{}
	if r.TransactionID != nil {
		return none, refuse(kerr.InvalidTxnState, "transactional id %q: transactions are not supported", *r.TransactionID)
	}
	if len(records) > maxBatch {
		return none, refuse(kerr.MessageTooLarge, "%d bytes of records, the most is %d", len(records), maxBatch)
	}
	batches, err := storage.Split(records)
	switch {
	case errors.Is(err, storage.ErrMagic):
		return none, refuse(kerr.InvalidRecord, "%s", err)
	case err != nil:
		return none, refuse(kerr.CorruptMessage, "%s", err)
	case len(batches) != 1:
		return none, refuse(kerr.InvalidRecord, "%d record batches, want exactly one", len(batches))
	}
	attributes := binary.BigEndian.Uint16(batches[0].Data[attributesAt:])
	switch {
	case attributes&controlBit != 0:
		return none, refuse(kerr.InvalidRecord, "a control batch: clients do not write them")
	case attributes&transactionalBit != 0:
		return none, refuse(kerr.InvalidTxnState, "a transactional batch: transactions are not supported")
	case attributes&codecBits == zstdCodec && r.Version < produceZstd:
		return none, refuse(kerr.UnsupportedCompressionType, "zstd needs Produce v%d, this is v%d", produceZstd, r.Version)
	}
	return batches[0], nil
}

func joinProduce(r *kmsg.ProduceRequest, parts []part) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = t.Topic
		for range t.Partitions {
			rt.Partitions = append(rt.Partitions, producedPartition(parts[0]))
			parts = parts[1:]
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func producedPartition(p part) kmsg.ProduceResponseTopicPartition {
	answer := p.answer.(*replica.ProduceAnswer)
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition = p.request.Partition.Index
	rp.ErrorCode = int16(answer.Error)
	rp.BaseOffset = answer.Base
	rp.LogStartOffset = answer.Start
	if answer.Refused && answer.Error != replica.OK {
		why := p.why
		if why == "" {
			why = answer.Error.String()
		}
		rp.ErrorMessage = kmsg.StringPtr(RefusedBeforeAppend + ": " + why)
	}
	return rp
}

// milliseconds is a wire time as the cores count it.
func milliseconds(ms int32) replica.Time { return replica.Time(ms) * replica.Time(time.Millisecond) }

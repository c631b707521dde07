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

// Fetch (key 1): read record batches, as a consumer or as a follower.
//
// Behaviour:
//   - Replica id -1, a consumer: one core message a partition. If together they give less than MinBytes, and none failed,
//     the request waits up to MaxWait and asks the cores again at every change (see [Broker.Watch]): the long poll is this
//     package's. Answers are cut to MaxBytes in the order of the partitions, a first batch always excepted.
//   - A consumer says by the version whether it insists on the leader, as with Kafka (KIP-392): v4-v10 are served by the
//     leader only; from v11 on a follower serves too, up to its own high watermark. The rack is not looked at.
//   - Replica id -2, Kafka's debugging consumer: up to the log's end, from any replica, changing nothing. It does not wait.
//   - Replica id 1 and up, a follower: exactly one partition. The core holds the request, since what it waits for is a
//     matter of replication.
//   - Sessions (KIP-227) are not kept: the answer's session id is 0, upon which clients send full requests; a request in
//     a session is refused.
//   - Records come as whole batches, empty but never null where there are none (librdkafka insists). The last stable
//     offset is the high watermark.
//
// Versions: 4-12.
//   - v4: record batches v2
//   - v5: log start offsets
//   - v9: current leader epoch (KIP-320)
//   - v10: zstd (KIP-110). Not enforced for older versions: brokers replicate with v8 whatever is compressed how.
//   - v11: rack (KIP-392)
//   - v12: flexible; last fetched epoch and diverging epoch (KIP-595), with truncation=on-fetch
//
// v13 names topics by id. Between brokers: v8 without fetch-fencing, v10 with it, v12 with truncation=on-fetch and with broker epochs, which travel in
// ReplicaState (KIP-903, tag 1) though Kafka sends that from v15 on.
const (
	fetchKey       = 1
	fetchMin       = 4
	fetchMax       = 12
	fetchFollowers = 11 // first version in which followers serve consumers
)

// Replica ids of those who are no brokers.
const (
	consumerID  = -1
	debuggingID = -2
)

func fetchHandler(to receiver, watch watch, maxBytes int) handler {
	return handler{
		key: fetchKey, min: fetchMin, max: fetchMax,
		empty:  func() kmsg.Request { return kmsg.NewPtrFetchRequest() },
		weight: func(req kmsg.Request) int { return fetchWeight(req.(*kmsg.FetchRequest), maxBytes) },
		start: func(h header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.FetchRequest)
			if r.SessionID != 0 {
				resp := r.ResponseKind().(*kmsg.FetchResponse)
				resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
				return finished(resp), nil
			}
			parts, err := splitFetch(h, r, maxBytes)
			if err != nil {
				return work{}, err
			}
			p := &poll{to: to, watch: watch, started: time.Now()}
			if r.ReplicaID == consumerID {
				p.minBytes, p.maxWait = int(r.MinBytes), time.Duration(r.MaxWaitMillis)*time.Millisecond
			}
			p.round = to.deliver(parts)
			return work{
				peer: r.ReplicaID >= 0,
				finish: func(ctx context.Context) (kmsg.Response, error) {
					if err := p.wait(ctx); err != nil {
						return nil, err
					}
					return joinFetch(r, p.round.parts, maxBytes), nil
				},
			}, nil
		},
	}
}

// fetchWeight is what a consumer's answer may hold in memory. Followers are trusted, and ask for one answer at a time.
func fetchWeight(r *kmsg.FetchRequest, maxBytes int) int {
	if r.ReplicaID >= 0 {
		return 0
	}
	return min(max(int(r.MaxBytes), 0), maxBytes)
}

// splitFetch makes one part a partition.
func splitFetch(h header, r *kmsg.FetchRequest, maxBytes int) ([]part, error) {
	from, err := replicaSender(h, r.ReplicaID)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			body := &replica.Fetch{
				Offset: p.FetchOffset, LeaderEpoch: p.CurrentLeaderEpoch, LastEpoch: p.LastFetchedEpoch, BrokerEpoch: replica.NoBrokerEpoch,
				Start: p.LogStartOffset, MaxBytes: min(p.PartitionMaxBytes, r.MaxBytes, int32(maxBytes)),
			}
			switch {
			case from.IsBroker():
				body.MaxWait = milliseconds(r.MaxWaitMillis)
				if r.ReplicaState.ID == r.ReplicaID {
					body.BrokerEpoch = r.ReplicaState.Epoch
				}
			case r.ReplicaID == debuggingID:
				body.Debug = true
			default:
				body.FromFollower = r.Version >= fetchFollowers
			}
			parts = append(parts, part{request: replica.Message{
				From: from, Partition: replica.Partition{Topic: t.Topic, Index: p.Partition}, Number: h.correlation, Body: body,
			}})
		}
	}
	if from.IsBroker() && len(parts) != 1 {
		return nil, fmt.Errorf("%w %s of broker %s: %d partitions, followers fetch exactly one", errMalformed, h, from, len(parts))
	}
	return parts, nil
}

// replicaSender is who sends a request with a replica id.
func replicaSender(h header, id int32) (replica.ID, error) {
	switch {
	case id == consumerID, id == debuggingID:
		return h.sender(), nil
	case replica.ID(id).IsBroker():
		return replica.ID(id), nil
	}
	return replica.None, fmt.Errorf("%w %s: replica id %d is no broker's, and neither %d nor %d",
		errMalformed, h, id, consumerID, debuggingID)
}

// watch is [Broker.Watch].
type watch func([]replica.Partition) (changed <-chan struct{}, stop func())

// poll is a fetch that may have to wait.
type poll struct {
	to       receiver
	watch    watch
	round    *gathering // the newest questions to the cores, and their answers
	minBytes int
	maxWait  time.Duration
	started  time.Time
}

// wait returns when there is enough, a partition failed, or the time is over.
func (p *poll) wait(ctx context.Context) error {
	if err := p.round.wait(ctx); err != nil || p.enough() {
		return err
	}
	partitions := make([]replica.Partition, len(p.round.parts))
	for i, part := range p.round.parts {
		partitions[i] = part.request.Partition
	}
	changed, stop := p.watch(partitions)
	defer stop()
	over := time.NewTimer(time.Until(p.started.Add(p.maxWait)))
	defer over.Stop()
	for {
		// The first time too: something may have changed before the watch began.
		again := make([]part, len(partitions))
		for i, part := range p.round.parts {
			again[i].request = part.request
		}
		p.round = p.to.deliver(again)
		if err := p.round.wait(ctx); err != nil || p.enough() {
			return err
		}
		select {
		case <-changed:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enough says whether the newest answers can go out: they have what was asked for, one is an error, or there is no time
// left to wait for better ones.
func (p *poll) enough() bool {
	size := 0
	for _, part := range p.round.parts {
		answer := part.answer.(*replica.FetchAnswer)
		if answer.Error != replica.OK {
			return true
		}
		for _, b := range answer.Batches {
			size += len(b.Data)
		}
	}
	return size >= p.minBytes || len(p.round.parts) == 0 || time.Since(p.started) >= p.maxWait
}

func joinFetch(r *kmsg.FetchRequest, parts []part, maxBytes int) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	left := min(int(r.MaxBytes), maxBytes)
	first := true
	for _, t := range r.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic = t.Topic
		for range t.Partitions {
			answer := parts[0].answer.(*replica.FetchAnswer)
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = parts[0].request.Partition.Index
			rp.ErrorCode = int16(answer.Error)
			rp.HighWatermark = answer.HighWatermark
			rp.LastStableOffset = answer.HighWatermark
			rp.LogStartOffset = answer.Start
			if d := answer.Diverging; d != nil {
				rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = d.Epoch, d.End
			}
			rp.RecordBatches = joinBatches(answer.Batches, left, first)
			left -= len(rp.RecordBatches)
			first = first && len(rp.RecordBatches) == 0
			rt.Partitions = append(rt.Partitions, rp)
			parts = parts[1:]
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// joinBatches puts as many whole batches one after the other as limit allows, with always the answer's first one. Offset
// and epoch are written as the batch says, since they may differ from its bytes.
func joinBatches(batches []replica.Batch, limit int, first bool) []byte {
	n, size := 0, 0
	for ; n < len(batches); n++ {
		next := size + len(batches[n].Data)
		if next > limit && !(first && n == 0) {
			break
		}
		size = next
	}
	out := make([]byte, 0, size)
	for _, b := range batches[:n] {
		at := len(out)
		out = append(out, b.Data...)
		binary.BigEndian.PutUint64(out[at+baseOffsetAt:], uint64(b.Base))
		binary.BigEndian.PutUint32(out[at+leaderEpochAt:], uint32(b.Epoch))
	}
	return out
}

// Where the two fields of a batch are that the leader sets; both lie outside its checksum.
const (
	baseOffsetAt  = 0
	leaderEpochAt = 12
)

func encodeFetch(m replica.Message, version int16) kmsg.Request {
	b := m.Body.(*replica.Fetch)
	r := kmsg.NewPtrFetchRequest()
	r.Version = version
	r.ReplicaID = int32(m.From)
	r.MaxWaitMillis = int32(time.Duration(b.MaxWait).Milliseconds())
	r.MinBytes = 1
	r.MaxBytes = b.MaxBytes
	if b.BrokerEpoch != replica.NoBrokerEpoch {
		r.ReplicaState.ID, r.ReplicaState.Epoch = int32(m.From), b.BrokerEpoch
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = m.Partition.Index
	p.CurrentLeaderEpoch = b.LeaderEpoch
	p.LastFetchedEpoch = b.LastEpoch
	p.FetchOffset = b.Offset
	p.LogStartOffset = b.Start
	p.PartitionMaxBytes = b.MaxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic = m.Partition.Topic
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func decodeFetchAnswer(resp kmsg.Response) (replica.Body, error) {
	r := resp.(*kmsg.FetchResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("%w answer to Fetch v%d: want exactly one partition, error code is %d", errMalformed, r.Version, r.ErrorCode)
	}
	p := r.Topics[0].Partitions[0]
	batches, err := storage.Split(p.RecordBatches)
	if err != nil && !errors.Is(err, storage.ErrPartial) {
		return nil, fmt.Errorf("%w answer to Fetch v%d: %w", errMalformed, r.Version, err)
	}
	answer := &replica.FetchAnswer{
		Error: replica.Code(p.ErrorCode), HighWatermark: p.HighWatermark, Start: p.LogStartOffset, Batches: batches,
	}
	if d := p.DivergingEpoch; d.EndOffset >= 0 {
		answer.Diverging = &replica.EpochEnd{Epoch: d.Epoch, End: d.EndOffset}
	}
	return answer, nil
}

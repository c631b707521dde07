package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/kafka/batch"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
	"tidemark/node/storage"
)

var orders = replica.Partition{Topic: "orders", Index: 2}

// oneBatch is a batch as a log has it, with offset and epoch in its bytes.
func oneBatch(t testing.TB, base int64, epoch int32, values ...string) replica.Batch {
	b, err := storage.Header(batch.Encode(values, batch.NotIdempotent, time.UnixMilli(1)))
	require.NoError(t, err)
	b.Base, b.Epoch = base, epoch
	b.Data = joinBatches([]replica.Batch{b}, 0, true)
	return b
}

// overTheWire writes a request as a client does and reads it as a connection does.
func overTheWire(t testing.TB, req kmsg.Request, client string, number int32, into kmsg.Request) header {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, number)
	h, rest, err := parseHeader(frame[4:])
	require.NoError(t, err)
	into.SetVersion(h.version)
	require.NoError(t, parseBody(h, rest, into))
	return h
}

// backOverTheWire writes a response as a connection does and reads it as a client does.
func backOverTheWire(t testing.TB, req kmsg.Request, number int32, resp kmsg.Response) kmsg.Response {
	frame := appendResponse(nil, number, resp)
	into := req.ResponseKind()
	require.Equal(t, []byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}, frame[4:8])
	require.NoError(t, parseResponse(frame[8:], into))
	return into
}

// What one node asks another must arrive as it was sent, up to the fields that a version does not have.
func TestMessagesBetweenNodesCrossTheWireUnchanged(t *testing.T) {
	all := rules.Of(rules.KIP966)
	onFetch := rules.Of(rules.KIP320)
	onFetch.Truncation = rules.OnFetch
	addresses := []BrokerAddress{{1, "127.0.0.1", 9092}, {3, "broker-3.example", 19092}}
	for _, tc := range []struct {
		name    string
		rules   rules.Set
		version int16
		from    replica.ID
		to      replica.ID
		p       replica.Partition
		sent    replica.Body
		arrives replica.Body // nil: as sent
		answer  replica.Body
		back    replica.Body // nil: as answered
	}{
		{name: "a fetch before fencing has no epochs", rules: rules.Of(rules.HW), version: 8, from: 2, to: 1, p: orders,
			sent:    &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: 4, BrokerEpoch: 9, Start: 1, MaxBytes: 1000, MaxWait: milliseconds(500)},
			arrives: &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: -1, BrokerEpoch: -1, Start: 1, MaxBytes: 1000, MaxWait: milliseconds(500)},
			answer:  &replica.FetchAnswer{HighWatermark: 8, Start: 2, Batches: []replica.Batch{oneBatch(t, 7, 4, "a", "b"), oneBatch(t, 9, 5, "c")}}},
		{name: "a fenced fetch has the leader epoch", rules: rules.Of(rules.KIP320), version: 10, from: 2, to: 1, p: orders,
			sent:    &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: 4, BrokerEpoch: 9, Start: 1, MaxBytes: 1000},
			arrives: &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: 4, BrokerEpoch: -1, Start: 1, MaxBytes: 1000},
			answer:  &replica.FetchAnswer{Error: replica.FencedLeaderEpoch, HighWatermark: -1, Start: -1}},
		{name: "a fetch with broker epochs has both", rules: all, version: 12, from: 2, to: 1, p: orders,
			sent:   &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: 4, BrokerEpoch: 9, Start: 1, MaxBytes: 1000},
			answer: &replica.FetchAnswer{HighWatermark: 7}},
		{name: "a fetch that truncates names the last epoch, and hears where the logs part", rules: onFetch, version: 12, from: 2, to: 1, p: orders,
			sent:   &replica.Fetch{LastEpoch: 3, Offset: 7, LeaderEpoch: 4, BrokerEpoch: -1, MaxBytes: 1000},
			answer: &replica.FetchAnswer{HighWatermark: 7, Diverging: &replica.EpochEnd{Epoch: 2, End: 5}}},
		{name: "a fetch before registration has no broker epoch", rules: all, version: 12, from: 2, to: 1, p: orders,
			sent:   &replica.Fetch{LastEpoch: -1, LeaderEpoch: 4, BrokerEpoch: -1, MaxBytes: 1000},
			answer: &replica.FetchAnswer{Error: replica.StaleBrokerEpoch}},
		{name: "list offsets before fencing", rules: rules.Of(rules.KIP279), version: 2, from: 3, to: 1, p: orders,
			sent:    &replica.ListOffsets{LeaderEpoch: 5, Timestamp: replica.LatestOffset},
			arrives: &replica.ListOffsets{LeaderEpoch: -1, Timestamp: replica.LatestOffset},
			answer:  &replica.ListOffsetsAnswer{Offset: 12, LeaderEpoch: 5},
			back:    &replica.ListOffsetsAnswer{Offset: 12, LeaderEpoch: -1}},
		{name: "list offsets with fencing", rules: rules.Of(rules.KIP320), version: 5, from: 3, to: 1, p: orders,
			sent:   &replica.ListOffsets{LeaderEpoch: 5, Timestamp: replica.EarliestOffset},
			answer: &replica.ListOffsetsAnswer{Error: replica.UnknownLeaderEpoch, Offset: -1, LeaderEpoch: 4}},
		{name: "kip101 asks where an epoch ends", rules: rules.Of(rules.KIP101), version: 0, from: 2, to: 3, p: orders,
			sent:    &replica.OffsetForLeaderEpoch{LeaderEpoch: 6, Epoch: 3},
			arrives: &replica.OffsetForLeaderEpoch{LeaderEpoch: -1, Epoch: 3},
			answer:  &replica.OffsetForLeaderEpochAnswer{Epoch: 2, End: 30},
			back:    &replica.OffsetForLeaderEpochAnswer{Epoch: -1, End: 30}},
		{name: "kip279 asks also which epoch that is", rules: rules.Of(rules.KIP279), version: 1, from: 2, to: 3, p: orders,
			sent:    &replica.OffsetForLeaderEpoch{LeaderEpoch: 6, Epoch: 3},
			arrives: &replica.OffsetForLeaderEpoch{LeaderEpoch: -1, Epoch: 3},
			answer:  &replica.OffsetForLeaderEpochAnswer{Epoch: 2, End: 30}},
		{name: "kip320 fences the question", rules: rules.Of(rules.KIP320), version: 3, from: 2, to: 3, p: orders,
			sent:   &replica.OffsetForLeaderEpoch{LeaderEpoch: 6, Epoch: 3},
			answer: &replica.OffsetForLeaderEpochAnswer{Error: replica.FencedLeaderEpoch, Epoch: -1, End: -1}},
		{name: "an ISR change without broker epochs", rules: rules.Of(rules.KIP320), version: 1, from: 1, to: replica.Controller, p: orders,
			sent:    &replica.AlterPartition{BrokerEpoch: 5, LeaderEpoch: 2, PartitionEpoch: 8, ISR: []replica.Member{{ID: 1, BrokerEpoch: 5}, {ID: 3, BrokerEpoch: 6}}},
			arrives: &replica.AlterPartition{BrokerEpoch: 5, LeaderEpoch: 2, PartitionEpoch: 8, ISR: []replica.Member{{ID: 1, BrokerEpoch: -1}, {ID: 3, BrokerEpoch: -1}}},
			answer:  &replica.AlterPartitionAnswer{Leader: 1, LeaderEpoch: 2, PartitionEpoch: 9, ISR: []replica.ID{1, 3}}},
		{name: "an ISR change with broker epochs", rules: all, version: 3, from: 1, to: replica.Controller, p: orders,
			sent:   &replica.AlterPartition{BrokerEpoch: 5, LeaderEpoch: 2, PartitionEpoch: 8, ISR: []replica.Member{{ID: 1, BrokerEpoch: 5}, {ID: 3, BrokerEpoch: -1}}},
			answer: &replica.AlterPartitionAnswer{Error: replica.IneligibleReplica, LeaderEpoch: 2, PartitionEpoch: 8, ISR: []replica.ID{1}}},
		{name: "an ISR change of an earlier incarnation", rules: all, version: 3, from: 1, to: replica.Controller, p: orders,
			sent:   &replica.AlterPartition{BrokerEpoch: 5, ISR: []replica.Member{{ID: 1, BrokerEpoch: 5}}},
			answer: &replica.AlterPartitionAnswer{Error: replica.StaleBrokerEpoch, Leader: 3, LeaderEpoch: 2, PartitionEpoch: 8, ISR: []replica.ID{3}}},
		{name: "the controller's word", rules: all, version: 4, from: replica.Controller, to: 2, p: orders,
			sent: &replica.LeaderAndIsr{Version: 1 << 40, Leader: 3, LeaderEpoch: 4, PartitionEpoch: 11, Replicas: []replica.ID{1, 3, 2},
				ISR: []replica.ID{3, 2}, ELR: []replica.ID{1}, BrokerEpoch: 77,
				Brokers: []replica.BrokerState{{ID: 1, Epoch: 70, Fenced: true}, {ID: 2, Epoch: 77}, {ID: 3, Epoch: 72}}},
			answer: &replica.LeaderAndIsrAnswer{Version: 1 << 40}},
		{name: "the controller's word on a partition without a leader", rules: all, version: 4, from: replica.Controller, to: 2, p: orders,
			sent:   &replica.LeaderAndIsr{Version: 5, Leader: replica.None, LeaderEpoch: 5, Replicas: []replica.ID{1}, BrokerEpoch: -1},
			answer: &replica.LeaderAndIsrAnswer{Error: replica.StaleBrokerEpoch, Version: 5}},
		{name: "a registration", rules: all, version: 3, from: 2, to: replica.Controller,
			sent:   &session.Registration{Incarnation: 1<<63 + 7, Previous: 41, Host: "127.0.0.1", Port: 65535},
			answer: &session.RegistrationAnswer{BrokerEpoch: 42}},
		{name: "a registration that is refused", rules: all, version: 3, from: 2, to: replica.Controller,
			sent:   &session.Registration{Incarnation: 1, Previous: replica.NoBrokerEpoch, Host: "h", Port: 1},
			answer: &session.RegistrationAnswer{Error: replica.DuplicateBrokerRegistration, BrokerEpoch: -1}},
		{name: "a heartbeat", rules: all, version: 0, from: 2, to: replica.Controller,
			sent:   &session.Heartbeat{BrokerEpoch: 42, WantFence: true, WantShutdown: true},
			answer: &session.HeartbeatAnswer{Fenced: true}},
		{name: "a heartbeat of a stranger", rules: all, version: 0, from: 2, to: replica.Controller,
			sent:   &session.Heartbeat{BrokerEpoch: 42},
			answer: &session.HeartbeatAnswer{Error: replica.BrokerIDNotRegistered}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := replica.Message{From: tc.from, To: tc.to, Partition: tc.p, Number: 1<<31 - 1, Body: tc.sent}
			req, err := encodeRequest(sent, versionsOf(tc.rules), func() []BrokerAddress { return addresses })
			require.NoError(t, err)
			assert.Equal(t, tc.version, req.GetVersion())

			// On the receiver's side the same code runs as behind a socket, with a core that gives the answer.
			var got replica.Message
			core := delivererFunc(func(m replica.Message, reply func(replica.Message)) {
				got = m
				reply(m.Answer(tc.answer))
			})
			var learnt []BrokerAddress
			handlers := map[int16]handler{}
			to := receiver{core, tc.to}
			for _, h := range []handler{
				fetchHandler(to, nil, 1<<20), listOffsetsHandler(to), offsetForLeaderEpochHandler(to),
				leaderAndISRHandler(to, func(_ int64, b []BrokerAddress) { learnt = b }),
				alterPartitionHandler(to, func() []string { return []string{"payments", "orders"} }),
				brokerRegistrationHandler(to), brokerHeartbeatHandler(to),
			} {
				handlers[h.key] = h
			}
			handler := handlers[req.Key()]
			received := handler.empty()
			h := overTheWire(t, req, clientID(tc.from), sent.Number, received)
			w, err := handler.start(h, received)
			require.NoError(t, err)
			assert.True(t, w.peer, "answers between nodes do not wait for each other")

			want := sent
			if tc.arrives != nil {
				want.Body = tc.arrives
			}
			assert.Equal(t, want, got)
			if req.Key() == leaderAndISRKey {
				assert.Equal(t, addresses, learnt)
			}

			resp, err := w.finish(t.Context())
			require.NoError(t, err)
			back, err := decodeAnswer(backOverTheWire(t, req, sent.Number, resp))
			require.NoError(t, err)
			if tc.back == nil {
				tc.back = tc.answer
			}
			assert.Equal(t, tc.back, back)
		})
	}
}

// The table in the package's documentation.
func TestTheRulesChooseTheVersionsBetweenNodes(t *testing.T) {
	with := func(p rules.Protocol, settings ...string) rules.Set {
		s, err := rules.Parse(p, nil, settings)
		require.NoError(t, err)
		return s
	}
	for _, tc := range []struct {
		name  string
		rules rules.Set
		want  versions
	}{
		{"hw never asks where an epoch ends", with(rules.HW), versions{8, 2, 0, 1}},
		{"kip101", with(rules.KIP101), versions{8, 2, 0, 1}},
		{"kip279", with(rules.KIP279), versions{8, 2, 1, 1}},
		{"kip320", with(rules.KIP320), versions{10, 5, 3, 1}},
		{"kip966", with(rules.KIP966), versions{12, 5, 3, 3}},
		{"kip320 that truncates as kip101 is still fenced", with(rules.KIP320, "truncation=kip101"), versions{10, 5, 3, 1}},
		{"kip320 without fencing", with(rules.KIP320, "fetch-fencing=off"), versions{8, 2, 1, 1}},
		{"kip320 that truncates on fetch says where its log ends in every fetch", with(rules.KIP320, "truncation=on-fetch"), versions{12, 5, 3, 1}},
		{"kip966 without broker epochs", with(rules.KIP966, "broker-epoch=off"), versions{10, 5, 3, 1}},
	} {
		assert.Equal(t, tc.want, versionsOf(tc.rules), tc.name)
	}
}

type delivererFunc func(replica.Message, func(replica.Message))

func (f delivererFunc) Deliver(m replica.Message, reply func(replica.Message)) { f(m, reply) }

// Every version of every API that clients are offered must survive the way from kmsg's struct to core messages and back.
func TestClientsRequestsBecomeOneMessageAPartitionInEveryVersion(t *testing.T) {
	data := batch.Encode([]string{"v"}, batch.Producer{ID: 5, Epoch: 1, Sequence: 3}, time.UnixMilli(1))
	other := replica.Partition{Topic: "payments", Index: 0}

	for v := int16(produceMin); v <= produceMax; v++ {
		t.Run(fmt.Sprintf("Produce v%d", v), func(t *testing.T) {
			req := kmsg.NewPtrProduceRequest()
			req.Version, req.Acks, req.TimeoutMillis = v, -1, 1500
			req.Topics = []kmsg.ProduceRequestTopic{
				{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 2, Records: data}, {Partition: 3, Records: data[:65]}}},
				{Topic: "payments", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: data}}},
			}
			got := kmsg.NewPtrProduceRequest()
			h := overTheWire(t, req, "tidemark-p4", 9, got)
			parts := splitProduce(h, got, 1<<20)
			require.Len(t, parts, 3)
			b, err := storage.Header(data)
			require.NoError(t, err)
			for i, p := range []replica.Partition{orders, {Topic: "orders", Index: 3}, other} {
				body := &replica.Produce{Acks: -1, Timeout: milliseconds(1500), Batch: b}
				if i == 1 {
					body.Batch = replica.Batch{}
				}
				assert.Equal(t, replica.Message{From: replica.Client(4), Partition: p, Number: 9, Body: body}, parts[i].request)
			}
			assert.Equal(t, replica.Code(kerr.CorruptMessage.Code), parts[1].answer.(*replica.ProduceAnswer).Error, "it is cut off")

			parts[0].answer = &replica.ProduceAnswer{Base: 17, Start: 3}
			parts[2].answer = &replica.ProduceAnswer{Error: replica.NotLeaderOrFollower, Base: -1}
			resp := backOverTheWire(t, req, 9, joinProduce(got, parts)).(*kmsg.ProduceResponse)
			require.Len(t, resp.Topics, 2)
			first, bad, last := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1], resp.Topics[1].Partitions[0]
			assert.Equal(t, int64(17), first.BaseOffset)
			assert.Equal(t, int64(-1), first.LogAppendTime)
			assert.Zero(t, first.ErrorCode)
			assert.Nil(t, first.ErrorMessage)
			assert.Equal(t, kerr.CorruptMessage.Code, bad.ErrorCode)
			assert.Equal(t, kerr.NotLeaderForPartition.Code, last.ErrorCode)
			assert.Nil(t, last.ErrorMessage, "the core did not say that it came before append")
			if v >= produceReason {
				require.NotNil(t, bad.ErrorMessage)
				assert.Contains(t, *bad.ErrorMessage, "refused before append: ")
				assert.Contains(t, *bad.ErrorMessage, "partial record batch")
			}
			if v >= 5 {
				assert.Equal(t, int64(3), first.LogStartOffset)
			}
		})
	}

	for v := int16(fetchMin); v <= fetchMax; v++ {
		t.Run(fmt.Sprintf("Fetch v%d", v), func(t *testing.T) {
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.MaxBytes, req.MaxWaitMillis = v, 1<<20, 500
			for _, p := range []replica.Partition{orders, other} {
				rp := kmsg.NewFetchRequestTopicPartition()
				rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = p.Index, 7, 1<<30, 4
				req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: p.Topic, Partitions: []kmsg.FetchRequestTopicPartition{rp}})
			}
			got := kmsg.NewPtrFetchRequest()
			h := overTheWire(t, req, "rdkafka", 9, got)
			parts, err := splitFetch(h, got, 1<<18)
			require.NoError(t, err)
			want := &replica.Fetch{LastEpoch: -1, Offset: 7, LeaderEpoch: -1, BrokerEpoch: -1, Start: -1, MaxBytes: 1 << 18, FromFollower: v >= 11}
			if v >= 9 {
				want.LeaderEpoch = 4
			}
			require.Len(t, parts, 2)
			for i, p := range []replica.Partition{orders, other} {
				assert.Equal(t, replica.Message{From: replica.AnyClient, Partition: p, Number: 9, Body: want}, parts[i].request)
			}

			parts[0].answer = &replica.FetchAnswer{HighWatermark: 9, Start: 1, Batches: []replica.Batch{oneBatch(t, 7, 4, "x", "y")}}
			parts[1].answer = &replica.FetchAnswer{Error: replica.OffsetOutOfRange, HighWatermark: 3, Start: 1}
			resp := backOverTheWire(t, req, 9, joinFetch(got, parts, 1<<18)).(*kmsg.FetchResponse)
			require.Len(t, resp.Topics, 2)
			assert.Zero(t, resp.SessionID)
			first, second := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
			assert.Equal(t, int64(9), first.HighWatermark)
			assert.Equal(t, int64(9), first.LastStableOffset)
			records, err := batch.Decode(first.RecordBatches)
			require.NoError(t, err)
			require.Len(t, records, 2)
			assert.Equal(t, []any{int64(8), int32(4), "y"}, []any{records[1].Offset, records[1].Epoch, string(records[1].Value)})
			assert.Equal(t, kerr.OffsetOutOfRange.Code, second.ErrorCode)
			assert.NotNil(t, second.RecordBatches, "librdkafka takes null for a broken response")
			assert.Empty(t, second.RecordBatches)
		})
	}

	for v := int16(listOffsetsMin); v <= listOffsetsMax; v++ {
		t.Run(fmt.Sprintf("ListOffsets v%d", v), func(t *testing.T) {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = v, -1
			for i, timestamp := range []int64{-1, -2, -3, 1_700_000_000_000} {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = int32(i), timestamp, 4
				req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: "orders", Partitions: []kmsg.ListOffsetsRequestTopicPartition{rp}})
			}
			got := kmsg.NewPtrListOffsetsRequest()
			h := overTheWire(t, req, "", 9, got)
			parts, err := splitListOffsets(h, got)
			require.NoError(t, err)
			require.Len(t, parts, 4)
			epoch := int32(-1)
			if v >= 4 {
				epoch = 4
			}
			assert.Equal(t, &replica.ListOffsets{LeaderEpoch: epoch, Timestamp: -2}, parts[1].request.Body)
			parts[0].answer = &replica.ListOffsetsAnswer{Error: replica.OffsetNotAvailable, Offset: -1, LeaderEpoch: 4}
			parts[1].answer = &replica.ListOffsetsAnswer{Offset: 11, LeaderEpoch: 4}
			resp := backOverTheWire(t, req, 9, joinListOffsets(got, parts)).(*kmsg.ListOffsetsResponse)
			require.Len(t, resp.Topics, 4)
			unready := kerr.LeaderNotAvailable.Code
			if v >= 5 {
				unready = kerr.OffsetNotAvailable.Code
			}
			assert.Equal(t, unready, resp.Topics[0].Partitions[0].ErrorCode)
			assert.Equal(t, int64(11), resp.Topics[1].Partitions[0].Offset)
			for _, i := range []int{2, 3} {
				assert.Equal(t, kerr.UnsupportedForMessageFormat.Code, resp.Topics[i].Partitions[0].ErrorCode)
				assert.Equal(t, int64(-1), resp.Topics[i].Partitions[0].Offset)
			}
		})
	}

	for v := int16(0); v <= offsetForLeaderEpochMax; v++ {
		t.Run(fmt.Sprintf("OffsetForLeaderEpoch v%d", v), func(t *testing.T) {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = v, -1
			for range 2 {
				rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = 2, 4, 3
				req.Topics = append(req.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "orders", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}})
			}
			got := kmsg.NewPtrOffsetForLeaderEpochRequest()
			h := overTheWire(t, req, "tidemark-p0", 9, got)
			parts, peer, err := splitOffsetForLeaderEpoch(h, got)
			require.NoError(t, err)
			assert.False(t, peer)
			require.Len(t, parts, 2)
			want := &replica.OffsetForLeaderEpoch{LeaderEpoch: -1, Epoch: 3}
			if v >= 2 {
				want.LeaderEpoch = 4
			}
			assert.Equal(t, replica.Message{From: replica.Client(0), Partition: orders, Number: 9, Body: want}, parts[1].request)
			parts[0].answer = &replica.OffsetForLeaderEpochAnswer{Epoch: 3, End: 12}
			parts[1].answer = &replica.OffsetForLeaderEpochAnswer{Error: replica.UnknownLeaderEpoch, Epoch: -1, End: -1}
			resp := backOverTheWire(t, req, 9, joinOffsetForLeaderEpoch(got, parts)).(*kmsg.OffsetForLeaderEpochResponse)
			require.Len(t, resp.Topics, 2)
			first, second := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
			assert.Equal(t, int64(12), first.EndOffset)
			if v >= 1 {
				assert.Equal(t, int32(3), first.LeaderEpoch)
			}
			assert.Equal(t, kerr.UnknownLeaderEpoch.Code, second.ErrorCode)
		})
	}
}

func TestMetadataTellsWhatIsKnownInEveryVersion(t *testing.T) {
	now := Topology{
		Cluster: "tides",
		Brokers: []BrokerAddress{{1, "127.0.0.1", 9001}, {2, "127.0.0.1", 9002}},
		Topics: []Topic{
			{Name: "orders", Partitions: []PartitionState{
				{Index: 0, Leader: 2, LeaderEpoch: 3, Replicas: []replica.ID{1, 2, 3}, ISR: []replica.ID{2}},
				{Index: 1, Leader: replica.None, LeaderEpoch: 4, Replicas: []replica.ID{3}},
				{Index: 2, Leader: 3, LeaderEpoch: 1, Replicas: []replica.ID{3}, ISR: []replica.ID{3}},
			}},
			{Name: "payments"},
		},
	}
	for v := int16(metadataMin); v <= metadataMax; v++ {
		t.Run(fmt.Sprintf("Metadata v%d", v), func(t *testing.T) {
			ask := func(topics []kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
				req := kmsg.NewPtrMetadataRequest()
				req.Version, req.Topics = v, topics
				got := kmsg.NewPtrMetadataRequest()
				overTheWire(t, req, "", 9, got)
				return backOverTheWire(t, req, 9, describe(2, now, got)).(*kmsg.MetadataResponse)
			}
			all := ask(nil)
			assert.Equal(t, int32(2), all.ControllerID)
			require.Len(t, all.Brokers, 2)
			assert.Equal(t, int32(9002), all.Brokers[1].Port)
			require.Len(t, all.Topics, 2)
			partitions := all.Topics[0].Partitions
			require.Len(t, partitions, 3)
			assert.Equal(t, []int32{2, -1, -1}, []int32{partitions[0].Leader, partitions[1].Leader, partitions[2].Leader})
			assert.Zero(t, partitions[0].ErrorCode)
			assert.Equal(t, kerr.LeaderNotAvailable.Code, partitions[1].ErrorCode, "nobody leads")
			assert.Equal(t, kerr.LeaderNotAvailable.Code, partitions[2].ErrorCode, "the leader is gone")
			assert.Equal(t, []int32{1, 2, 3}, partitions[0].Replicas)
			assert.Equal(t, []int32{2}, partitions[0].ISR)
			if v >= 2 {
				assert.Equal(t, "tides", *all.ClusterID)
			}
			if v >= 5 {
				assert.Equal(t, []int32{3}, partitions[0].OfflineReplicas)
			}
			if v >= 7 {
				assert.Equal(t, int32(3), partitions[0].LeaderEpoch)
			}

			assert.Empty(t, ask([]kmsg.MetadataRequestTopic{}).Topics, "an empty list asks for none")

			some := ask([]kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("nope")}, {Topic: kmsg.StringPtr("orders")}})
			require.Len(t, some.Topics, 2)
			assert.Equal(t, kerr.UnknownTopicOrPartition.Code, some.Topics[0].ErrorCode)
			assert.Equal(t, "nope", *some.Topics[0].Topic)
			assert.Len(t, some.Topics[1].Partitions, 3)
		})
	}
}

func TestProducerIDsAreGivenInEveryVersionButNoTransactionalOnes(t *testing.T) {
	handler := initProducerIDHandler(func() (int64, int16) { return 4000, 0 })
	for v := int16(0); v <= initProducerIDMax; v++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = v
		got := handler.empty()
		h := overTheWire(t, req, "", 1, got)
		w, err := handler.start(h, got)
		require.NoError(t, err)
		resp, err := w.finish(t.Context())
		require.NoError(t, err)
		given := backOverTheWire(t, req, 1, resp).(*kmsg.InitProducerIDResponse)
		assert.Equal(t, []any{int64(4000), int16(0), int16(0)}, []any{given.ProducerID, given.ProducerEpoch, given.ErrorCode})

		req.TransactionalID = kmsg.StringPtr("t")
		h = overTheWire(t, req, "", 1, got)
		w, err = handler.start(h, got)
		require.NoError(t, err)
		resp, err = w.finish(t.Context())
		require.NoError(t, err)
		refused := backOverTheWire(t, req, 1, resp).(*kmsg.InitProducerIDResponse)
		assert.Equal(t, []any{int64(-1), kerr.InvalidRequest.Code}, []any{refused.ProducerID, refused.ErrorCode})
	}
}

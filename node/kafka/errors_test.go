package kafka

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"tidemark/node/replica"
	"tidemark/node/rules"
)

// What Kafka's clients see when the leadership moves: unmodified kgo, over loopback, against real replication cores.

// answerOf asks broker 1 in the newest version that client and broker have in common.
func answerOf[R kmsg.Response](t *testing.T, c *cluster, req kmsg.Request, opts ...kgo.Opt) R {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := kgoClient(t, c, opts...).Broker(1).Request(ctx, req)
	require.NoError(t, err)
	return resp.(R)
}

func latestRequest(epoch int32) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = replica.LatestOffset, epoch
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return req
}

// A new leader that does not know what its predecessor committed does not tell where the log ends (KIP-207).
func TestKgoWaitsForAnEndThatANewLeaderDoesNotKnowYet(t *testing.T) {
	c := newCluster(t, 2, 1, rules.Of(rules.KIP320))
	all := []replica.ID{1, 2}
	// 2 follows nobody, so that nothing that 1 has is known to be committed.
	c.publish(replica.None, 1, all)
	c.tell(2)
	c.publish(1, 0, all)
	produceAll(t, kgoClient(t, c, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())), 0, []string{"m0", "m1"})
	// 1 leads again, from offset 2 on, with its high watermark still at 0.
	c.publish(1, 2, all)
	c.tell(1)

	latest := func(opts ...kgo.Opt) kmsg.ListOffsetsResponseTopicPartition {
		return answerOf[*kmsg.ListOffsetsResponse](t, c, latestRequest(-1), opts...).Topics[0].Partitions[0]
	}
	assert.Equal(t, kerr.OffsetNotAvailable.Code, latest().ErrorCode)
	old := kmsgVersions(kmsg.ListOffsets, 4)
	assert.Equal(t, kerr.LeaderNotAvailable.Code, latest(kgo.MaxVersions(old)).ErrorCode, "for clients that are older than the error")

	// A consumer that wants to begin at the end is kept waiting, and begins at the end, not at 0.
	consumer := kgoClient(t, c, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtEnd()}}))
	polled := make(chan kgo.Fetches, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { polled <- consumer.PollFetches(ctx) }()

	c.tell(2) // it follows, and 1 hears what it has
	require.Eventually(t, func() bool { return latest().ErrorCode == 0 }, patience, time.Millisecond)
	assert.Equal(t, int64(2), latest().Offset)
	require.Eventually(t, func() bool { return c.brokers[0].watching(orderOf(0)) }, patience, time.Millisecond, "the consumer has not found the end")
	produceAll(t, kgoClient(t, c), 0, []string{"m2"})
	fetches := <-polled
	require.NoError(t, fetches.Err())
	require.Equal(t, 1, fetches.NumRecords())
	assert.Equal(t, "m2", string(fetches.Records()[0].Value))
}

// kmsgVersions caps one API.
func kmsgVersions(key kmsg.Key, newest int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(key.Int16(), newest)
	return v
}

// Who asks in an older leader epoch is fenced, who asks in a newer one knows more than the broker does (KIP-320).
func TestRequestsOfAnotherLeaderEpochAreRefused(t *testing.T) {
	c := newCluster(t, 1, 1, rules.Of(rules.KIP320))
	produceAll(t, kgoClient(t, c), 0, []string{"m0"})
	c.lead(1, 5)
	for _, tc := range []struct {
		name  string
		epoch int32
		want  *kerr.Error
	}{
		{"an older epoch", 4, kerr.FencedLeaderEpoch},
		{"a newer epoch", 6, kerr.UnknownLeaderEpoch},
		{"the leader's epoch", 5, nil},
		{"no epoch", -1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want int16
			if tc.want != nil {
				want = tc.want.Code
			}
			fetch := fetchRequest(12, -1, 1, 0, 0)
			fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = tc.epoch
			fetched := answerOf[*kmsg.FetchResponse](t, c, fetch)
			assert.Equal(t, want, fetched.Topics[0].Partitions[0].ErrorCode, "Fetch")

			latest := answerOf[*kmsg.ListOffsetsResponse](t, c, latestRequest(tc.epoch)).Topics[0].Partitions[0]
			assert.Equal(t, want, latest.ErrorCode, "ListOffsets")

			end := kmsg.NewPtrOffsetForLeaderEpochRequest()
			end.ReplicaID = -1
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.CurrentLeaderEpoch, p.LeaderEpoch = tc.epoch, 0
			end.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			ended := answerOf[*kmsg.OffsetForLeaderEpochResponse](t, c, end).Topics[0].Partitions[0]
			assert.Equal(t, want, ended.ErrorCode, "OffsetForLeaderEpoch")
			if tc.want == nil {
				assert.Equal(t, []int64{0, 1}, []int64{int64(ended.LeaderEpoch), ended.EndOffset}, "epoch 0 ends where epoch 5 began")
			}
		})
	}
}

// consumer is a kgo consumer, what it has read, and what went wrong on its way, in its own words.
type consumer struct {
	t       *testing.T
	client  *kgo.Client
	values  []string
	errors  []error
	mu      sync.Mutex
	refused []string // what its log says of fetches
}

func consuming(t *testing.T, c *cluster, from kgo.Offset) *consumer {
	x := &consumer{t: t}
	x.client = kgoClient(t, c, kgo.WithLogger(x), kgo.FetchMaxWait(time.Hour), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: from}}))
	return x
}

// Level and Log make it kgo's logger: kgo deals with leader epochs by itself and tells nobody else.
func (x *consumer) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (x *consumer) Log(_ kgo.LogLevel, _ string, keyvals ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, v := range keyvals {
		if why, ok := v.(string); ok && strings.HasPrefix(why, "fetch had inner topic errors") {
			x.refused = append(x.refused, why)
		}
	}
}

// wasRefused waits until a fetch was refused with the error.
func (x *consumer) wasRefused(with *kerr.Error) {
	require.Eventually(x.t, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return slices.ContainsFunc(x.refused, func(why string) bool { return strings.Contains(why, with.Message) })
	}, patience, time.Millisecond, "no fetch was refused with %s", with.Message)
}

// reads polls until it has read so many values since it began.
func (x *consumer) reads(n int) []string {
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	for len(x.values) < n {
		fetches := x.client.PollFetches(ctx)
		require.NoError(x.t, ctx.Err(), "read %v, errors %v", x.values, x.errors)
		fetches.EachRecord(func(r *kgo.Record) { x.values = append(x.values, string(r.Value)) })
		for _, e := range fetches.Errors() {
			x.errors = append(x.errors, e.Err)
		}
	}
	return x.values
}

func TestAKgoConsumerOfAnOldEpochIsFencedAndReadsOn(t *testing.T) {
	c := newCluster(t, 1, 1, rules.Of(rules.KIP320))
	produceAll(t, kgoClient(t, c), 0, []string{"m0"})
	x := consuming(t, c, kgo.NewOffset().AtStart())
	require.Equal(t, []string{"m0"}, x.reads(1))

	c.lead(1, 1)
	x.wasRefused(kerr.FencedLeaderEpoch)
	produceAll(t, kgoClient(t, c), 0, []string{"m1"})
	assert.Equal(t, []string{"m0", "m1"}, x.reads(2), "with the new epoch it reads on where it was")
	assert.Empty(t, x.errors, "nothing was lost")
}

func TestAKgoConsumerThatKnowsMoreThanTheBrokerAsksAgain(t *testing.T) {
	c := newCluster(t, 1, 1, rules.Of(rules.KIP320))
	produceAll(t, kgoClient(t, c), 0, []string{"m0"})
	c.publish(1, 1, []replica.ID{1}) // the metadata has the new epoch, the broker has not
	x := consuming(t, c, kgo.NewOffset().At(0))
	x.wasRefused(kerr.UnknownLeaderEpoch)

	c.tell(1)
	assert.Equal(t, []string{"m0"}, x.reads(1))
}

// An election from outside of the ISR cuts what a consumer has read. It finds out, and is told where the logs part.
func TestAKgoConsumerLearnsThatWhatItReadWasCut(t *testing.T) {
	c := newCluster(t, 2, 1, rules.Of(rules.KIP320))
	// 2 follows nobody and is not in the ISR: 1 commits alone.
	c.publish(replica.None, 1, []replica.ID{1})
	c.tell(2)
	c.publish(1, 2, []replica.ID{1})
	c.tell(1)
	produce := func(value string) {
		produceAll(t, kgoClient(t, c, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())), 0, []string{value})
	}
	produce("m0")
	produce("m1")
	x := consuming(t, c, kgo.NewOffset().AtStart())
	require.Equal(t, []string{"m0", "m1"}, x.reads(2))

	c.publish(2, 3, []replica.ID{2})
	c.tell(1, 2)
	produce("x")
	assert.Equal(t, []string{"m0", "m1", "x"}, x.reads(3), "it reads on where the logs part")
	require.Len(t, x.errors, 1)
	var lost *kgo.ErrDataLoss
	require.ErrorAs(t, x.errors[0], &lost)
	assert.Equal(t, []int64{2, 0}, []int64{lost.ConsumedTo, lost.ResetTo})
}

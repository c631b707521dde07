package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/rules"
)

// patience bounds what a test waits for; nothing takes that long.
const patience = 20 * time.Second

func kgoClient(t testing.TB, c *cluster, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.bootstrap()), kgo.DefaultProduceTopic("orders"),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// produceAll produces values to one partition, many of them at once, and waits until all are acknowledged.
func produceAll(t testing.TB, cl *kgo.Client, partition int32, values []string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results := make(chan error, len(values))
	for _, v := range values {
		cl.Produce(ctx, &kgo.Record{Partition: partition, Value: []byte(v)}, func(_ *kgo.Record, err error) { results <- err })
	}
	for range values {
		require.NoError(t, <-results)
	}
}

// consumeAll reads n records of a partition from its beginning.
func consumeAll(t testing.TB, c *cluster, partition int32, n int) []string {
	cl := kgoClient(t, c, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {partition: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			assert.Equal(t, int64(len(got)), r.Offset)
			got = append(got, string(r.Value))
		})
	}
	return got
}

func numberedValues(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("value-%04d-%s", i, strings.Repeat("tide", 20)))
	}
	return out
}

func TestKgoProducesAndConsumes(t *testing.T) {
	c := newCluster(t, 1, 5, rules.Of(rules.KIP320))
	for i, tc := range []struct {
		name string
		opts []kgo.Opt
	}{
		{"idempotent, uncompressed", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}},
		{"idempotent, gzip", []kgo.Opt{kgo.ProducerBatchCompression(kgo.GzipCompression())}},
		{"not idempotent, snappy", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.SnappyCompression())}},
		{"leader acks, lz4", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
		{"idempotent, zstd, one record a batch", []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.MaxBufferedRecords(1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			values := numberedValues(300)
			produceAll(t, kgoClient(t, c, append(tc.opts, kgo.ProducerLinger(0))...), int32(i), values)
			assert.Equal(t, values, consumeAll(t, c, int32(i), len(values)))
		})
	}
}

func TestKgoWithoutAcksLosesNothingOnAHealthyBroker(t *testing.T) {
	c := newCluster(t, 1, 1, rules.Of(rules.KIP320))
	values := numberedValues(50)
	produceAll(t, kgoClient(t, c, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())), 0, values)
	assert.Equal(t, values, consumeAll(t, c, 0, len(values)))
}

// A consumer that waits in a long poll gets a record as soon as it is committed, not when its wait is over.
func TestAWaitingKgoConsumerIsWokenByTheHighWatermark(t *testing.T) {
	c := newCluster(t, 1, 2, rules.Of(rules.KIP320))
	cl := kgoClient(t, c, kgo.FetchMaxWait(time.Hour), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"orders": {0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart()}}))
	polled := make(chan kgo.Fetches, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { polled <- cl.PollFetches(ctx) }()
	require.Eventually(t, func() bool { return c.brokers[0].watching(orderOf(1)) }, patience, time.Millisecond)
	produceAll(t, kgoClient(t, c), 1, []string{"m0"})
	fetches := <-polled
	require.NoError(t, fetches.Err())
	require.Equal(t, 1, fetches.NumRecords())
	assert.Equal(t, "m0", string(fetches.Records()[0].Value))
}

func (w *Watchers) watching(p replica.Partition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of[p]) > 0
}

// The whole way under every protocol: acks=all needs the followers' fetches, which have the protocol's versions.
func TestThreeBrokersReplicateUnderEveryProtocol(t *testing.T) {
	for _, p := range rules.Protocols() {
		t.Run(string(p), func(t *testing.T) {
			c := newCluster(t, 3, 1, rules.Of(p))
			values := numberedValues(100)
			produceAll(t, kgoClient(t, c), 0, values[:50])
			c.lead(2, 1) // the others find out whether they have to truncate, in the versions of their time
			produceAll(t, kgoClient(t, c), 0, values[50:])
			assert.Equal(t, values, consumeAll(t, c, 0, len(values)))
		})
	}
}

// Which replica serves a consumer is a matter of the request's version, as with Kafka (KIP-392).
func TestAFollowerServesConsumersFromFetchVersion11On(t *testing.T) {
	c := newCluster(t, 3, 1, rules.Of(rules.KIP320))
	produceAll(t, kgoClient(t, c), 0, []string{"m0"})
	nc, err := net.Dial("tcp", c.brokers[2].listen.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	follower := client{t, nc, "tidemark-p0"}

	insists := fetchRequest(10, -1, 1, 1, 0)
	follower.send(insists, 1)
	_, resp := follower.receive(insists)
	assert.Equal(t, kerr.NotLeaderForPartition.Code, resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode)

	// The follower learns one round trip later that m0 is committed; the consumer waits for it there.
	takesAny := fetchRequest(11, -1, 1, 1, int32(patience.Milliseconds()))
	follower.send(takesAny, 2)
	_, resp = follower.receive(takesAny)
	assert.Equal(t, []string{"m0"}, values(t, resp, 0))
}

// KIP-320's consumer finds out that what it read is gone.
func TestKgoDetectsATruncatedLog(t *testing.T) {
	c := newCluster(t, 1, 1, rules.Of(rules.KIP320))
	produceAll(t, kgoClient(t, c), 0, []string{"m0", "m1"})
	c.lead(1, 5)
	cl := kgoClient(t, c, kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepRetryableFetchErrors(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(9).WithEpoch(0)}}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, ctx.Err())
		var lost *kgo.ErrDataLoss
		if errors.As(fetches.Err(), &lost) {
			assert.Equal(t, []int64{9, 2}, []int64{lost.ConsumedTo, lost.ResetTo})
			return
		}
	}
}

// kcat runs the unmodified kcat, a client over librdkafka that knows nothing of Go.
func kcat(t *testing.T, c *cluster, stdin string, args ...string) string {
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed (Debian package kcat)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append([]string{"-b", c.bootstrap()}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	require.NoError(t, cmd.Run(), "kcat %v: %s", args, &stderr)
	return stdout.String()
}

func TestKcatProducesAndConsumes(t *testing.T) {
	c := newCluster(t, 1, 6, rules.Of(rules.KIP320))
	values := strings.Join(numberedValues(200), "\n") + "\n"
	for i, settings := range [][]string{
		{"-X", "acks=all"},
		{"-X", "enable.idempotence=true"},
		{"-X", "acks=all", "-z", "gzip"},
		{"-X", "acks=all", "-z", "snappy"},
		{"-X", "enable.idempotence=true", "-z", "lz4"},
		{"-X", "acks=1", "-z", "zstd"},
	} {
		t.Run(strings.Join(settings, " "), func(t *testing.T) {
			p := strconv.Itoa(i)
			kcat(t, c, values, append([]string{"-P", "-t", "orders", "-p", p}, settings...)...)
			assert.Equal(t, values, kcat(t, c, "", "-C", "-t", "orders", "-p", p, "-e", "-q", "-o", "beginning"))
		})
	}
	t.Run("it lists brokers, topics and partitions", func(t *testing.T) {
		listed := kcat(t, c, "", "-L")
		assert.Contains(t, listed, fmt.Sprintf("broker 1 at %s (controller)", c.bootstrap()))
		assert.Contains(t, listed, `topic "orders" with 6 partitions:`)
		assert.Contains(t, listed, "partition 5, leader 1, replicas: 1, isrs: 1")
	})
	t.Run("it asks for the end of the log", func(t *testing.T) {
		assert.Contains(t, kcat(t, c, "", "-Q", "-t", "orders:0:-1"), "offset 200")
	})
}

package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/kafka/batch"
	"tidemark/node/replica"
)

// polling runs a story about one consumer in a bubble in which time passes only when everybody waits. round answers the
// fetches that reach the cores by now: a partition's batch if there is one, its error, or nothing.
func polling(t *testing.T, c Config, story func(node *stub, c client, round func(answers ...*replica.FetchAnswer))) {
	synctest.Test(t, func(t *testing.T) {
		node := newStub()
		l, _, end := serving(t, brokerOver(node), c)
		defer end()
		nc := l.dial()
		defer nc.Close()
		story(node, client{t, nc, "tidemark-p0"}, func(answers ...*replica.FetchAnswer) {
			synctest.Wait()
			require.Len(t, node.delivered, len(answers), "every partition is asked")
			for i, a := range answers {
				d := <-node.delivered
				require.Equal(t, orderOf(int32(i)), d.m.Partition)
				d.answer(a)
			}
		})
	})
}

func with(batches ...replica.Batch) *replica.FetchAnswer {
	return &replica.FetchAnswer{Batches: batches}
}

func values(t testing.TB, resp kmsg.Response, partition int) []string {
	records, err := batch.Decode(resp.(*kmsg.FetchResponse).Topics[0].Partitions[partition].RecordBatches)
	require.NoError(t, err)
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

func TestAConsumerGetsAtOnceWhatIsThere(t *testing.T) {
	m0 := oneBatch(t, 0, 0, "m0")
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		started := time.Now()
		req := fetchRequest(12, -1, 2, 1, 5000)
		c.send(req, 1)
		round(with(m0), with())
		_, resp := c.receive(req)
		assert.Equal(t, []string{"m0"}, values(t, resp, 0))
		assert.Empty(t, values(t, resp, 1))
		assert.Zero(t, time.Since(started))
		assert.Empty(t, node.of, "it never watched")
	})
}

func TestAConsumerThatIsCaughtUpWaitsForAChange(t *testing.T) {
	m0, m1 := oneBatch(t, 0, 0, "m0"), oneBatch(t, 0, 0, "m1")
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		started := time.Now()
		req := fetchRequest(12, -1, 2, int32(len(m0.Data)+1), 5000)
		c.send(req, 1)
		round(with(), with())
		round(with(), with()) // what may have changed before the watch began

		time.Sleep(time.Second)
		node.Changed(orderOf(1))
		round(with(), with(m1)) // one batch is not enough
		time.Sleep(time.Second)
		node.Changed(orderOf(0))
		round(with(m0), with(m1))

		_, resp := c.receive(req)
		assert.Equal(t, []string{"m0"}, values(t, resp, 0))
		assert.Equal(t, []string{"m1"}, values(t, resp, 1))
		assert.Equal(t, 2*time.Second, time.Since(started))
		synctest.Wait()
		assert.Empty(t, node.of, "nobody watches any more")
	})
}

func TestAConsumerGetsAnEmptyAnswerWhenItsWaitIsOver(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		started := time.Now()
		req := fetchRequest(12, -1, 1, 1, 5000)
		c.send(req, 1)
		round(with())
		round(with())
		_, resp := c.receive(req)
		assert.Empty(t, values(t, resp, 0))
		assert.Equal(t, 5*time.Second, time.Since(started))
	})
}

func TestAnErrorEndsAConsumersWait(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		req := fetchRequest(12, -1, 2, 1, 5000)
		c.send(req, 1)
		round(with(), with())
		round(with(), with())
		node.Changed(orderOf(1)) // it no longer leads
		round(with(), &replica.FetchAnswer{Error: replica.NotLeaderOrFollower})
		_, resp := c.receive(req)
		assert.Equal(t, kerr.NotLeaderForPartition.Code, resp.(*kmsg.FetchResponse).Topics[0].Partitions[1].ErrorCode)
	})
}

func TestNoWaitIsKeptForAConsumerThatWentAway(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		c.send(fetchRequest(12, -1, 1, 1, 5000), 1)
		round(with())
		round(with())
		synctest.Wait()
		require.NotEmpty(t, node.of)
		require.NoError(t, c.nc.Close())
		synctest.Wait()
		assert.Empty(t, node.of)
	})
}

// A consumer's wait holds up the responses behind it, as in Kafka, but not the requests.
func TestRequestsBehindAWaitingConsumerReachTheirCores(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		fetch, produce := fetchRequest(12, -1, 1, 1, 5000), produceRequest(-1, orders, value("x"))
		c.send(fetch, 1)
		round(with())
		round(with())
		c.send(produce, 2)
		(<-node.delivered).answer(&replica.ProduceAnswer{Base: 3})
		number, _ := c.receive(fetch)
		assert.Equal(t, int32(1), number)
		number, _ = c.receive(produce)
		assert.Equal(t, int32(2), number)
	})
}

func TestAnAnswerIsCutToWhatTheConsumerAndTheBrokerAllow(t *testing.T) {
	a, b, c := oneBatch(t, 0, 0, "a"), oneBatch(t, 1, 0, "b"), oneBatch(t, 0, 0, "c")
	size := int32(len(a.Data))
	for _, tc := range []struct {
		name     string
		consumer int32
		broker   int
		want     [][]string
	}{
		{"everything fits", 3 * size, 0, [][]string{{"a", "b"}, {"c"}}},
		{"the second partition does not fit", 3*size - 1, 0, [][]string{{"a", "b"}, nil}},
		{"a batch is left out whole", 2*size - 1, 0, [][]string{{"a"}, nil}},
		{"the first batch always goes out", 1, 0, [][]string{{"a"}, nil}},
		{"the broker allows less", 1 << 20, 2*int(size) + 1, [][]string{{"a", "b"}, nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			polling(t, Config{MaxFetch: tc.broker}, func(node *stub, cl client, round func(...*replica.FetchAnswer)) {
				req := fetchRequest(12, -1, 2, 1, 0)
				req.MaxBytes = tc.consumer
				cl.send(req, 1)
				round(with(a, b), with(c))
				_, resp := cl.receive(req)
				assert.Equal(t, tc.want, [][]string{values(t, resp, 0), values(t, resp, 1)})
			})
		})
	}
}

func TestADebuggingConsumerSeesTheWholeLogAndDoesNotWait(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		req := fetchRequest(12, -2, 1, 1, 5000)
		c.send(req, 1)
		d := <-node.delivered
		assert.Equal(t, &replica.Fetch{LeaderEpoch: -1, LastEpoch: -1, BrokerEpoch: -1, Start: -1, MaxBytes: 1 << 20, Debug: true}, d.m.Body)
		assert.Equal(t, replica.Client(0), d.m.From)
		d.answer(with())
		_, resp := c.receive(req)
		assert.Empty(t, values(t, resp, 0))

		ask := kmsg.NewPtrListOffsetsRequest()
		ask.Version, ask.ReplicaID = 4, -2
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = replica.LogEndOffset
		ask.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		c.send(ask, 2)
		d = <-node.delivered
		assert.Equal(t, &replica.ListOffsets{LeaderEpoch: -1, Timestamp: replica.LogEndOffset}, d.m.Body)
		d.answer(&replica.ListOffsetsAnswer{Offset: 8})
		_, listed := c.receive(ask)
		assert.Equal(t, int64(8), listed.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset)
	})
}

func TestAFetchInASessionIsRefused(t *testing.T) {
	polling(t, Config{}, func(node *stub, c client, round func(...*replica.FetchAnswer)) {
		req := fetchRequest(12, -1, 1, 1, 5000)
		req.SessionID = 9
		c.send(req, 1)
		_, resp := c.receive(req)
		assert.Equal(t, kerr.FetchSessionIDNotFound.Code, resp.(*kmsg.FetchResponse).ErrorCode)

		req.SessionID, req.SessionEpoch, req.Topics = 0, 0, nil // a new session, of nothing yet
		c.send(req, 2)
		_, resp = c.receive(req)
		assert.Zero(t, resp.(*kmsg.FetchResponse).SessionID, "none is opened")
		assert.Empty(t, node.delivered)
	})
}

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
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

func brokerOver(s *stub) func(Config) *Server {
	return func(c Config) *Server { return NewBroker(7, s, c) }
}

func value(v string) []byte { return batch.Encode([]string{v}, batch.NotIdempotent, time.UnixMilli(1)) }

// A pipelining client's requests reach the core in order and at once; its responses come in the same order, whichever the
// core answers first.
func TestAClientsRequestsAndResponsesKeepTheirOrder(t *testing.T) {
	node := newStub()
	l, _, end := serving(t, brokerOver(node), Config{})
	defer end()
	c := client{t, l.dial(), "tidemark-p4"}
	defer c.nc.Close()

	req := produceRequest(-1, orders, value("x"))
	for n := range int32(5) {
		c.send(req, n)
	}
	var open []delivery
	for n := range 5 {
		d := <-node.delivered
		assert.Equal(t, fmt.Sprintf("p4 Produce#%d", n), numbered(d.m))
		assert.Equal(t, replica.ID(7), d.m.To)
		open = append(open, d)
	}
	for _, n := range []int{3, 1, 4, 0, 2} {
		open[n].answer(&replica.ProduceAnswer{Base: int64(n)})
	}
	for n := range int32(5) {
		number, resp := c.receive(req)
		assert.Equal(t, n, number)
		assert.Equal(t, int64(n), resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
	}
}

// A follower whose first request waits in an inbox still gets the answer to its second.
func TestAFollowersAnswersDoNotWaitForEachOther(t *testing.T) {
	node := newStub()
	l, _, end := serving(t, brokerOver(node), Config{})
	defer end()
	c := client{t, l.dial(), clientID(2)}
	defer c.nc.Close()

	req := fetchRequest(12, 2, 1, 1, 500)
	c.send(req, 1)
	first := <-node.delivered
	assert.Equal(t, "2 Fetch#1", numbered(first.m))
	c.send(req, 2)
	(<-node.delivered).answer(&replica.FetchAnswer{HighWatermark: 2})
	number, _ := c.receive(req)
	assert.Equal(t, int32(2), number)
	first.answer(&replica.FetchAnswer{HighWatermark: 1})
	number, resp := c.receive(req)
	assert.Equal(t, int32(1), number)
	assert.Equal(t, int64(1), resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark)
}

func TestADroppedRequestEndsAClientsConnectionButNotAFollowers(t *testing.T) {
	node := newStub()
	l, log, end := serving(t, brokerOver(node), Config{})
	drop := func(d delivery) { d.reply(replica.Message{}) }

	follower := client{t, l.dial(), clientID(2)}
	defer follower.nc.Close()
	follower.send(fetchRequest(12, 2, 1, 1, 500), 1)
	drop(<-node.delivered)
	follower.send(fetchRequest(12, 2, 1, 1, 500), 2)
	(<-node.delivered).answer(&replica.FetchAnswer{})
	number, _ := follower.receive(fetchRequest(12, 2, 1, 1, 500))
	assert.Equal(t, int32(2), number)

	c := client{t, l.dial(), "tidemark-p0"}
	c.send(produceRequest(-1, orders, value("x")), 1)
	drop(<-node.delivered)
	c.closed()
	end()
	assert.Contains(t, log.String(), "a request was dropped on its way: p0->7 Produce#1")
}

// A peer that asks again and again without an answer is not read any slower, and does not pile up.
func TestAFollowersOldestRequestIsGivenUpWhenTooManyAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newStub()
		l, _, end := serving(t, brokerOver(node), Config{MaxInFlight: 3})
		defer end()
		c := client{t, l.dial(), clientID(2)}
		defer c.nc.Close()
		req := fetchRequest(12, 2, 1, 1, 500)
		var open []delivery
		for n := range int32(5) {
			c.send(req, n)
			open = append(open, <-node.delivered)
		}
		synctest.Wait()
		open[0].answer(&replica.FetchAnswer{}) // given up: nobody waits for it
		open[4].answer(&replica.FetchAnswer{})
		number, _ := c.receive(req)
		assert.Equal(t, int32(4), number)
		open[2].answer(&replica.FetchAnswer{})
		number, _ = c.receive(req)
		assert.Equal(t, int32(2), number)
	})
}

func TestProduceWithoutAcksHasNoResponse(t *testing.T) {
	node := newStub()
	l, log, end := serving(t, brokerOver(node), Config{})
	c := client{t, l.dial(), "tidemark-p1"}

	c.send(produceRequest(replica.AcksNo, orders, value("x")), 1)
	(<-node.delivered).answer(&replica.ProduceAnswer{Base: 5})
	ask := kmsg.NewPtrApiVersionsRequest()
	c.send(ask, 2)
	number, _ := c.receive(ask)
	assert.Equal(t, int32(2), number, "the next response is to the next request")

	// The client can learn of a failure only by losing its connection (as in Kafka), upon which it refreshes its metadata.
	c.send(produceRequest(replica.AcksNo, orders, value("x")), 3)
	(<-node.delivered).answer(&replica.ProduceAnswer{Error: replica.NotLeaderOrFollower, Base: -1, Refused: true})
	c.closed()
	end()
	assert.Contains(t, log.String(), "produce to orders-2 with acks=0 failed: NOT_LEADER_OR_FOLLOWER")
}

func TestARefusalBeforeAppendSaysSo(t *testing.T) {
	node := newStub()
	l, _, end := serving(t, brokerOver(node), Config{MaxBatch: 200})
	defer end()
	c := client{t, l.dial(), "tidemark-p1"}
	defer c.nc.Close()

	spoiled := func(at int, bits byte) []byte {
		data := value("x")
		data[at] ^= bits
		return data
	}
	transactional := produceRequest(-1, orders, value("x"))
	transactional.TransactionID = kmsg.StringPtr("t1")
	oldZstd := produceRequest(-1, orders, signed(spoiled(22, 4)))
	oldZstd.Version = 6
	for _, tc := range []struct {
		name string
		req  *kmsg.ProduceRequest
		code *kerr.Error
		says string
	}{
		{"no records", produceRequest(-1, orders, nil), kerr.InvalidRecord, "0 record batches, want exactly one"},
		{"two batches", produceRequest(-1, orders, append(value("x"), value("y")...)), kerr.InvalidRecord, "2 record batches"},
		{"a batch that is too large", produceRequest(-1, orders, value(string(make([]byte, 300)))), kerr.MessageTooLarge, "the most is 200"},
		{"a wrong checksum", produceRequest(-1, orders, spoiled(60, 1)), kerr.CorruptMessage, "corrupt record batch"},
		{"an old format", produceRequest(-1, orders, spoiled(16, 2^1)), kerr.InvalidRecord, "message format v2"},
		{"a control batch", produceRequest(-1, orders, signed(spoiled(22, 0x20))), kerr.InvalidRecord, "control batch"},
		{"a transactional batch", produceRequest(-1, orders, signed(spoiled(22, 0x10))), kerr.InvalidTxnState, "transactional batch"},
		{"a transactional id", transactional, kerr.InvalidTxnState, `transactional id "t1"`},
		{"zstd in an old version", oldZstd, kerr.UnsupportedCompressionType, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := client{t, c.nc, c.id}
			c.send(tc.req, 1)
			_, resp := c.receive(tc.req)
			p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			assert.Equal(t, tc.code.Code, p.ErrorCode)
			assert.Equal(t, int64(-1), p.BaseOffset)
			if tc.req.Version >= produceReason {
				require.NotNil(t, p.ErrorMessage)
				assert.Contains(t, *p.ErrorMessage, RefusedBeforeAppend+": ")
				assert.Contains(t, *p.ErrorMessage, tc.says)
			}
			assert.Empty(t, node.delivered, "no core is asked")
		})
	}
	t.Run("a core's refusal has the code's name", func(t *testing.T) {
		c := client{t, c.nc, c.id}
		req := produceRequest(-1, orders, value("x"))
		for refused, want := range map[bool]*string{true: kmsg.StringPtr("refused before append: NOT_ENOUGH_REPLICAS"), false: nil} {
			c.send(req, 1)
			(<-node.delivered).answer(&replica.ProduceAnswer{Error: replica.NotEnoughReplicas, Base: -1, Refused: refused})
			_, resp := c.receive(req)
			assert.Equal(t, want, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorMessage)
		}
	})
}

// signed makes a batch's checksum right again.
func signed(data []byte) []byte {
	binary.BigEndian.PutUint32(data[17:], crc32.Checksum(data[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

func TestConnectionsEndWithTheReasonWhenTheyAreNotKafka(t *testing.T) {
	twoPartitions := kmsg.NewPtrOffsetForLeaderEpochRequest()
	twoPartitions.ReplicaID = 2
	for range 2 {
		twoPartitions.Topics = append(twoPartitions.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "orders",
			Partitions: make([]kmsg.OffsetForLeaderEpochRequestTopicPartition, 1)})
	}
	oldTwoPartitions := *twoPartitions
	twoPartitions.Version = 4
	word := kmsg.NewPtrLeaderAndISRRequest()
	word.Version = 4
	word.TopicStates = []kmsg.LeaderAndISRRequestTopicState{{Topic: "orders", PartitionStates: make([]kmsg.LeaderAndISRRequestTopicPartition, 1)}}
	frame := func(req kmsg.Request) []byte {
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID(2))).AppendRequest(nil, req, 1)
	}
	versioned := func(req kmsg.Request, v int16) kmsg.Request { req.SetVersion(v); return req }
	for _, tc := range []struct {
		name  string
		bytes []byte
		says  string
	}{
		{"a frame larger than allowed", []byte{0, 1, 0, 1}, "malformed frame: size 65537 is not in [0, 65536]"},
		{"a negative size", []byte{0xff, 0xff, 0xff, 0xff}, "malformed frame: size -1"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), "malformed frame: size 1195725856"},
		{"an empty frame", []byte{0, 0, 0, 0}, "malformed request header of 0 bytes"},
		{"a header that is cut off", []byte{0, 0, 0, 6, 0, 0, 0, 3, 0, 0}, "malformed request header of 6 bytes"},
		{"an API that is not offered", frame(kmsg.NewPtrFindCoordinatorRequest()), "unsupported request: FindCoordinator v0 (key 10) is not offered"},
		{"a version that is too new", frame(versioned(fetchRequest(4, -1, 1, 0, 0), 13)), "Fetch v13 (key 1) is not offered"},
		{"a version that is too old", frame(versioned(kmsg.NewPtrProduceRequest(), 2)), "Produce v2 (key 0) is not offered"},
		{"a body that is cut off", []byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0}, "malformed Metadata v1 of 2 bytes"},
		{"tagged fields that lie", []byte{0, 0, 0, 12, 0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 9, 1}, "malformed tagged fields in the header of ApiVersions v3"},
		{"a follower that fetches two partitions", frame(fetchRequest(12, 2, 2, 0, 0)), "Fetch v12 of broker 2: 2 partitions, followers fetch exactly one"},
		{"a follower that asks about two partitions", frame(twoPartitions), "OffsetForLeaderEpoch v4 of broker 2: 2 partitions"},
		{"a follower that asks so without a replica id", frame(&oldTwoPartitions), "OffsetForLeaderEpoch v0 of broker 2: 2 partitions"},
		{"a replica id that is nobody's", frame(fetchRequest(12, 0, 1, 0, 0)), "replica id 0 is no broker's"},
		{"a controller that is not ours", frame(word), "3 tagged fields are missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := newStub()
			l, log, end := serving(t, brokerOver(node), Config{MaxRequest: 1 << 16})
			c := client{t, l.dial(), ""}
			go c.nc.Write(tc.bytes) // the server closes before it has read everything
			c.closed()
			end()
			assert.Contains(t, log.String(), "level=WARN")
			assert.Contains(t, log.String(), tc.says)
			assert.Empty(t, node.delivered)
		})
	}
}

func TestAClientThatGoesAwayIsNoWarning(t *testing.T) {
	for name, sends := range map[string][]byte{"between requests": nil, "in the middle of one": {0, 0, 0, 90, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, log, end := serving(t, brokerOver(newStub()), Config{})
				defer end()
				nc := l.dial()
				_, err := nc.Write(sends)
				require.NoError(t, err)
				require.NoError(t, nc.Close())
				synctest.Wait()
				assert.Contains(t, log.String(), `level=DEBUG msg="connection closed"`)
				assert.NotContains(t, log.String(), "level=WARN")
			})
		})
	}
}

func TestANewerApiVersionsIsAnsweredInTheOldestVersion(t *testing.T) {
	l, _, end := serving(t, brokerOver(newStub()), Config{})
	defer end()
	c := client{t, l.dial(), ""}
	defer c.nc.Close()

	newer := kmsg.NewPtrApiVersionsRequest()
	newer.Version = 5
	c.send(newer, 1)
	_, resp := c.receive(kmsg.NewPtrApiVersionsRequest())
	refused := resp.(*kmsg.ApiVersionsResponse)
	assert.Equal(t, kerr.UnsupportedVersion.Code, refused.ErrorCode)
	assert.Equal(t, []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 4}}, refused.ApiKeys)

	for v := range int16(5) {
		known := kmsg.NewPtrApiVersionsRequest()
		known.Version = v
		c.send(known, 2)
		_, resp := c.receive(known)
		offered := map[string][2]int16{}
		for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
			offered[kmsg.NameForKey(k.ApiKey)] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		assert.Equal(t, map[string][2]int16{
			"Produce": {3, 9}, "Fetch": {4, 12}, "ListOffsets": {1, 6}, "Metadata": {1, 9}, "LeaderAndISR": {4, 4},
			"ApiVersions": {0, 4}, "InitProducerID": {0, 4}, "OffsetForLeaderEpoch": {0, 4},
		}, offered)
	}
}

func TestTheControllersListenerOffersItsOwnAPIs(t *testing.T) {
	node := newStub()
	l, log, end := serving(t, func(c Config) *Server { return NewController(node, c) }, Config{})
	c := client{t, l.dial(), clientID(2)}

	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID = 3, 2
	req.Topics = []kmsg.AlterPartitionRequestTopic{
		{TopicID: [16]byte{1}, Partitions: make([]kmsg.AlterPartitionRequestTopicPartition, 1)},
		{TopicID: TopicID("orders"), Partitions: make([]kmsg.AlterPartitionRequestTopicPartition, 1)},
	}
	c.send(req, 1)
	d := <-node.delivered
	assert.Equal(t, "2->controller AlterPartition#1", d.m.String())
	assert.Equal(t, orderOf(0), d.m.Partition)
	d.answer(&replica.AlterPartitionAnswer{PartitionEpoch: 9})
	_, resp := c.receive(req)
	topics := resp.(*kmsg.AlterPartitionResponse).Topics
	require.Len(t, topics, 2)
	assert.Equal(t, kerr.UnknownTopicID.Code, topics[0].Partitions[0].ErrorCode)
	assert.Equal(t, int32(9), topics[1].Partitions[0].PartitionEpoch)
	assert.Equal(t, TopicID("orders"), topics[1].TopidID)

	c.send(kmsg.NewPtrMetadataRequest(), 2)
	c.closed()
	end()
	assert.Contains(t, log.String(), "Metadata v0 (key 3) is not offered here")
}

// A client that sends and does not read stops being read, long before memory runs out.
func TestAClientThatDoesNotReadIsNotReadForEver(t *testing.T) {
	small, large := value("x"), value(string(make([]byte, 50_000)))
	for _, tc := range []struct {
		name string
		c    Config
		req  kmsg.Request
		most int // requests started: those that wait, the one being written, the one that cannot be queued
	}{
		{"because of the number of requests", Config{MaxInFlight: 4}, produceRequest(1, orders, small), 6},
		{"because of their size", Config{MaxRequest: 100_000, MaxFetch: 100_000}, produceRequest(1, orders, large), 4},
		{"because of what their answers may take", Config{MaxRequest: 50_000, MaxFetch: 100_000}, fetchRequest(12, -1, 1, 0, 0), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newStub()
				l, _, end := serving(t, brokerOver(node), tc.c)
				nc := l.dial()
				sent := newPromise(func() error {
					for n := int32(0); ; n++ {
						if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, tc.req, n)); err != nil {
							return nil
						}
					}
				})
				started := 0
				for settled := false; !settled; {
					synctest.Wait()
					settled = len(node.delivered) == 0
					for ; len(node.delivered) > 0; started++ {
						d := <-node.delivered
						if _, ok := d.m.Body.(*replica.Fetch); ok {
							d.answer(&replica.FetchAnswer{})
						} else {
							d.answer(&replica.ProduceAnswer{})
						}
					}
				}
				assert.LessOrEqual(t, started, tc.most)
				assert.Positive(t, started)
				require.NoError(t, nc.Close())
				require.NoError(t, sent())
				end()
			})
		})
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	node := newStub()
	s := NewBroker(7, node, Config{})
	l := newPipes()
	served := newPromise(func() error { return s.Serve(l) })
	c := client{t, l.dial(), ""}
	follower := client{t, l.dial(), clientID(2)}
	c.send(produceRequest(-1, orders, value("x")), 1)
	follower.send(fetchRequest(12, 2, 1, 1, 500), 1)
	<-node.delivered
	<-node.delivered
	require.NoError(t, s.Close())
	require.NoError(t, served())
	c.closed()
	follower.closed()
	require.NoError(t, s.Close(), "closing again does nothing")
	require.NoError(t, s.Serve(newPipes()), "a closed server serves nothing")
}

// failing is a listener that cannot accept at first.
type failing struct {
	*pipes
	left int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left > 0 {
		f.left--
		return nil, errors.New("too many open files")
	}
	return f.pipes.Accept()
}

func TestTheListenerIsTriedAgainWhenItCannotAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewBroker(7, newStub(), Config{Log: discard()})
		l := &failing{newPipes(), 20}
		served := newPromise(func() error { return s.Serve(l) })
		started := time.Now()
		c := client{t, l.dial(), ""}
		assert.Greater(t, time.Since(started), 10*time.Second, "pauses grow to a second each")
		ask := kmsg.NewPtrApiVersionsRequest()
		c.send(ask, 1)
		c.receive(ask)
		require.NoError(t, l.Close())
		require.ErrorIs(t, served(), net.ErrClosed, "somebody else closed the listener")
		require.NoError(t, s.Close())
	})
}

func TestWatchersWakeWhoWatchesAndNobodyElse(t *testing.T) {
	var w Watchers
	changed, stop := w.Watch([]replica.Partition{orderOf(0), orderOf(1)})
	other, stopOther := w.Watch([]replica.Partition{orderOf(2)})
	w.Changed(orderOf(1))
	w.Changed(orderOf(0))
	<-changed
	assert.Empty(t, changed, "two changes are one notice")
	assert.Empty(t, other)
	stop()
	stop()
	w.Changed(orderOf(0))
	assert.Empty(t, changed)
	stopOther()
	assert.Empty(t, w.of, "nothing is left")
}

func TestSendersAreReadFromClientIDs(t *testing.T) {
	for id, want := range map[string]struct{ client, follower replica.ID }{
		"tidemark-p0":                {replica.Client(0), replica.None},
		"tidemark-p41":               {replica.Client(41), replica.None},
		"tidemark-p-1":               {replica.AnyClient, replica.None},
		"tidemark-px":                {replica.AnyClient, replica.None},
		"tidemark-p99999999999":      {replica.AnyClient, replica.None},
		"rdkafka":                    {replica.AnyClient, replica.None},
		"":                           {replica.AnyClient, replica.None},
		clientID(3):                  {replica.AnyClient, 3},
		"broker-0-fetcher-0":         {replica.AnyClient, replica.None},
		"broker-3":                   {replica.AnyClient, replica.None},
		clientID(replica.Controller): {replica.AnyClient, replica.None},
	} {
		h := header{client: id}
		assert.Equal(t, want.client, h.sender(), id)
		assert.Equal(t, want.follower, h.follower(), id)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := receiver{newStub(), 7}.deliver([]part{{request: replica.Message{Body: &replica.Fetch{}}}})
	require.ErrorIs(t, g.wait(ctx), context.Canceled)
}

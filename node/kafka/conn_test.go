package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
	"tidemark/node/rules"
)

// asking runs a story about broker 2's connection to broker 1 in a bubble. The test is the network (each dial brings the
// far end of a pipe, or an error) and, through a real server on some of the pipes, broker 1.
type asking struct {
	*Conn
	t        *testing.T
	dials    chan func() (net.Conn, error)
	received chan replica.Message
}

func ask(t *testing.T, c ConnConfig, story func(a asking)) {
	synctest.Test(t, func(t *testing.T) {
		a := asking{t: t, dials: make(chan func() (net.Conn, error), 10), received: make(chan replica.Message, 100)}
		c.Self, c.Rules = 2, rules.Of(rules.KIP320)
		c.Dial = func(ctx context.Context) (net.Conn, error) {
			select {
			case d := <-a.dials:
				return d()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c.Receive = func(m replica.Message) { a.received <- m }
		a.Conn = NewConn(c)
		story(a)
		require.NoError(t, a.Close())
		assert.Empty(t, a.received, "every report was expected")
	})
}

// connects lets the next dial succeed.
func (a asking) connects() (far net.Conn) {
	near, far := net.Pipe()
	a.dials <- func() (net.Conn, error) { return near, nil }
	return far
}

// connectsTo lets the next dial reach a server in front of the stub.
func (a asking) connectsTo(node *stub) (end func()) {
	l, _, end := serving(a.t, brokerOver(node), Config{})
	a.dials <- func() (net.Conn, error) { return l.dial(), nil }
	return end
}

func (a asking) fetch(number int32) {
	a.Send(replica.Message{From: 2, To: 1, Partition: orders, Number: number,
		Body: &replica.Fetch{Offset: int64(number), LeaderEpoch: 1, BrokerEpoch: -1, MaxBytes: 1000}})
}

// reports takes everything that was reported by now, in the order of numbers.
func (a asking) reports() []string {
	synctest.Wait()
	var out []string
	for len(a.received) > 0 {
		m := <-a.received
		require.Equal(a.t, orders, m.Partition)
		s := fmt.Sprintf("#%d %s->%s %s", m.Number, m.From, m.To, m.Body.Kind())
		if lost, ok := m.Body.(*replica.ConnectionLost); ok {
			s += " of " + string(lost.Request)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func lost(numbers ...int) (out []string) {
	for _, n := range numbers {
		out = append(out, fmt.Sprintf("#%d 1->2 ConnectionLost of Fetch", n))
	}
	return out
}

func TestAnswersGoToTheirRequestsInAnyOrder(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		defer end()
		var open []delivery
		for n := range int32(3) {
			a.fetch(n)
			open = append(open, <-node.delivered)
		}
		assert.Equal(t, "2->7 Fetch#1", open[1].m.String(), "the server here is broker 7")
		assert.Equal(t, int64(1), open[1].m.Body.(*replica.Fetch).Offset)
		for _, n := range []int{2, 0, 1} {
			open[n].answer(&replica.FetchAnswer{HighWatermark: int64(10 + n)})
		}
		synctest.Wait()
		got := map[int32]int64{}
		for range 3 {
			m := <-a.received
			assert.Equal(t, []replica.ID{1, 2}, []replica.ID{m.From, m.To})
			got[m.Number] = m.Body.(*replica.FetchAnswer).HighWatermark
		}
		assert.Equal(t, map[int32]int64{0: 10, 1: 11, 2: 12}, got)
	})
}

func TestABrokenConnectionLosesEveryOutstandingRequestOnce(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		for n := range int32(4) {
			a.fetch(n)
		}
		for n := range 4 {
			if d := <-node.delivered; n == 1 {
				d.answer(&replica.FetchAnswer{})
			}
		}
		assert.Equal(t, []string{"#1 1->2 Fetch answer"}, a.reports())
		end()
		assert.Equal(t, lost(0, 2, 3), a.reports())

		// Nothing is sent again by itself; the next request has a new connection.
		again := newStub()
		end = a.connectsTo(again)
		defer end()
		a.fetch(4)
		(<-again.delivered).answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#4 1->2 Fetch answer"}, a.reports())
		assert.Empty(t, again.delivered)
	})
}

func TestARequestThatCannotConnectIsLost(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		a.dials <- func() (net.Conn, error) { return nil, errors.New("connection refused") }
		a.fetch(1)
		assert.Equal(t, lost(1), a.reports())

		// While a dial goes on, requests queue behind it and share its fate.
		a.fetch(2)
		synctest.Wait()
		a.fetch(3)
		assert.Empty(t, a.reports())
		a.dials <- func() (net.Conn, error) { return nil, errors.New("no route to host") }
		assert.Equal(t, lost(2, 3), a.reports())
	})
}

func TestASilentPeerCountsAsLostAfterTheTimeout(t *testing.T) {
	ask(t, ConnConfig{Timeout: 2 * time.Second}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		defer end()
		a.fetch(1)
		(<-node.delivered).answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#1 1->2 Fetch answer"}, a.reports())

		time.Sleep(time.Hour) // an idle connection is fine
		a.fetch(2)
		time.Sleep(time.Second)
		a.fetch(3)
		time.Sleep(999 * time.Millisecond)
		assert.Empty(t, a.reports())
		time.Sleep(time.Millisecond)
		assert.Equal(t, lost(2, 3), a.reports(), "the oldest decides")
	})
}

func TestDiallingAndWritingTakeNoLongerThanTheTimeout(t *testing.T) {
	ask(t, ConnConfig{Timeout: 2 * time.Second}, func(a asking) {
		a.fetch(1) // nobody answers the dial
		time.Sleep(2 * time.Second)
		assert.Equal(t, lost(1), a.reports())

		far := a.connects() // nobody reads
		defer far.Close()
		a.fetch(2)
		time.Sleep(2 * time.Second)
		assert.Equal(t, lost(2), a.reports())
	})
}

func TestWithoutATimeoutAPeerMayTakeForEver(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		defer end()
		a.fetch(1)
		d := <-node.delivered
		time.Sleep(24 * time.Hour)
		assert.Empty(t, a.reports())
		d.answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#1 1->2 Fetch answer"}, a.reports())
	})
}

func TestCloseReportsWhatWaitsAndNothingAfterwards(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		defer end()
		a.fetch(1)
		<-node.delivered
		require.NoError(t, a.Close())
		assert.Equal(t, lost(1), a.reports())
		a.fetch(2)
		assert.Empty(t, a.reports())
		require.NoError(t, a.Close(), "closing again does nothing")
	})
	ask(t, ConnConfig{}, func(a asking) {
		a.fetch(1) // the dial hangs
		synctest.Wait()
		a.fetch(2)
		require.NoError(t, a.Close())
		assert.Equal(t, lost(1, 2), a.reports())
	})
}

func TestTheOldestRequestIsLostWhenTooManyWait(t *testing.T) {
	ask(t, ConnConfig{MaxInFlight: 2}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		defer end()
		var open []delivery
		for n := range int32(3) {
			a.fetch(n)
			open = append(open, <-node.delivered)
		}
		assert.Equal(t, lost(0), a.reports())
		open[0].answer(&replica.FetchAnswer{}) // too late
		open[2].answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#2 1->2 Fetch answer"}, a.reports())
		open[1].answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#1 1->2 Fetch answer"}, a.reports())
	})
}

func TestARequestThatIsSentAgainIsReportedOnce(t *testing.T) {
	ask(t, ConnConfig{}, func(a asking) {
		node := newStub()
		end := a.connectsTo(node)
		a.fetch(1)
		<-node.delivered
		a.fetch(1)
		(<-node.delivered).answer(&replica.FetchAnswer{})
		assert.Equal(t, []string{"#1 1->2 Fetch answer"}, a.reports())
		end()
		assert.Empty(t, a.reports())
	})
}

func TestABrokenAnswerBreaksTheConnection(t *testing.T) {
	corrupt := kmsg.NewPtrFetchResponse()
	corrupt.Version = 10
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = value("x")
	p.RecordBatches[66] ^= 1
	corrupt.Topics = []kmsg.FetchResponseTopic{{Topic: "orders", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	empty := kmsg.NewPtrFetchResponse()
	empty.Version = 10
	for name, answer := range map[string][]byte{
		"a frame that is too large":   {0x7f, 0, 0, 0},
		"a frame without a number":    {0, 0, 0, 2, 0, 0},
		"a body that is cut off":      {0, 0, 0, 6, 0, 0, 0, 1, 0, 0},
		"no partition":                appendResponse(nil, 1, empty),
		"a batch whose bytes flipped": appendResponse(nil, 1, corrupt),
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, ConnConfig{}, func(a asking) {
				far := a.connects()
				defer far.Close()
				a.fetch(1)
				_, err := readFrame(far, 1<<20)
				require.NoError(t, err)
				_, err = far.Write(answer)
				require.NoError(t, err)
				assert.Equal(t, lost(1), a.reports())
				_, err = far.Write([]byte{0})
				require.Error(t, err, "the connection is closed")
			})
		})
	}
}

// A batch that the answer cuts off at its end is fetched again, as Kafka's followers do.
func TestABatchThatIsCutOffIsLeftForTheNextFetch(t *testing.T) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 10
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = append(value("x"), value("y")[:40]...)
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: "orders", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	got, err := decodeFetchAnswer(resp)
	require.NoError(t, err)
	assert.Len(t, got.(*replica.FetchAnswer).Batches, 1)
}

func TestAMessageThatNoNodeSendsIsLostAtOnce(t *testing.T) {
	ask(t, ConnConfig{Log: discard()}, func(a asking) {
		far := a.connects()
		defer far.Close()
		a.Send(replica.Message{From: 2, To: 1, Partition: orders, Number: 3, Body: &replica.Produce{}})
		assert.Equal(t, []string{"#3 1->2 ConnectionLost of Produce"}, a.reports())
	})
}

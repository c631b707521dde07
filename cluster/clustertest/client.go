package clustertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/cluster"
	"tidemark/node/kafka/batch"
)

// conn is a client's connection to one broker, on which one request is under way at a time.
type conn struct {
	net.Conn
	correlation int32
}

// dial connects to a broker.
func (f *fixture) dial(n cluster.NodeID) *conn {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	c, err := f.Dial(ctx, int32(n))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return &conn{Conn: c}
}

// send writes a request and gives the channel on which its answer, or the end of the connection, arrives.
func (c *conn) send(req kmsg.Request) <-chan answer {
	out := make(chan answer, 1)
	c.correlation++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("clustertest")).AppendRequest(nil, req, c.correlation)
	if _, err := c.Write(frame); err != nil {
		out <- answer{err: err}
		return out
	}
	resp, number := req.ResponseKind(), c.correlation
	go func() { out <- answer{resp, c.read(resp, number)} }()
	return out
}

type answer struct {
	kmsg.Response
	err error
}

func (c *conn) read(resp kmsg.Response, number int32) error {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 5 || n > 16<<20 {
		return fmt.Errorf("a response of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != number {
		return fmt.Errorf("an answer to request %d, not %d", got, number)
	}
	body = body[4:]
	if resp.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	return resp.ReadFrom(body)
}

// arrives waits for an answer.
func (f *fixture) arrives(a <-chan answer) kmsg.Response {
	f.t.Helper()
	select {
	case got := <-a:
		require.NoError(f.t, got.err)
		return got.Response
	case <-time.After(patience):
		require.FailNow(f.t, "no answer arrives")
		return nil
	}
}

// silent wants that no answer has arrived, and that the connection has not ended.
func (f *fixture) silent(a <-chan answer, why string) {
	f.t.Helper()
	select {
	case got := <-a:
		require.FailNow(f.t, "not silent: "+why, "%+v", got)
	default:
	}
}

// Requests in the versions that the stories need: produce from v8 on has a message with its error, fetch from v11 on is
// served by followers.

func metadataRequest() kmsg.Request {
	r := kmsg.NewPtrMetadataRequest()
	r.SetVersion(7)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	r.Topics = append(r.Topics, t)
	return r
}

func produceRequest(acks int16, values ...string) kmsg.Request {
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(9)
	r.Acks, r.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch.Encode(values, batch.NotIdempotent, time.Now())
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func fetchRequest(from int64) kmsg.Request {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(11)
	r.MaxBytes, r.MaxWaitMillis, r.MinBytes = 1<<20, 0, 0
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = from, 1<<20
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// produce appends a value with acks=all and waits until it is acknowledged: by whoever leads, as often as it has to be tried.
func (f *fixture) produce(value string) {
	f.t.Helper()
	f.eventually("produce "+value, func() error {
		r, _, err := f.record()
		if err != nil || r.Leader == 0 {
			return errors.Join(err, errors.New("nobody leads"))
		}
		_, err = f.try(r.Leader, produceRequest(-1, value))
		return err
	})
	f.acked = append(f.acked, value)
}

// keeps wants every acknowledged value in a broker's log, in order. A value that had to be tried again can be there twice.
func (f *fixture) keeps(n cluster.NodeID) {
	f.t.Helper()
	log := f.consume(n)
	rest := log
	for _, value := range f.acked {
		i := slices.Index(rest, value)
		require.GreaterOrEqual(f.t, i, 0, "%s is acknowledged and not where it belongs in the log %v of broker %d", value, log, n)
		rest = rest[i+1:]
	}
}

// consume reads a broker's log from its beginning to its high watermark.
func (f *fixture) consume(n cluster.NodeID) []string {
	f.t.Helper()
	resp, err := f.try(n, fetchRequest(0))
	require.NoError(f.t, err)
	p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	records, err := batch.Decode(p.RecordBatches)
	require.NoError(f.t, err)
	values := make([]string, len(records))
	for i, r := range records {
		require.EqualValues(f.t, i, r.Offset)
		values[i] = string(r.Value)
	}
	require.EqualValues(f.t, len(values), p.HighWatermark)
	return values
}

// try makes one attempt of a request to a broker over a connection of its own. An error that the broker answers is one.
func (f *fixture) try(n cluster.NodeID, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(f.ctx, 3*time.Second)
	defer cancel()
	nc, err := f.Dial(ctx, int32(n))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	c := &conn{Conn: nc}
	select {
	case a := <-c.send(req):
		if a.err != nil {
			return nil, a.err
		}
		return a.Response, refusal(a.Response)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refusal is the error that an answer has for the partition.
func refusal(resp kmsg.Response) error {
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.FetchResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.MetadataResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	}
	return fmt.Errorf("an answer of type %T", resp)
}

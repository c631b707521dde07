package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/node/kafka/batch"
)

// scripted is brokers that do to a connection what a test says, over pipes, so that no time need pass.
type scripted struct {
	brokers []int32
	// dial may refuse a connection; nil accepts all.
	dial func(ctx context.Context, node int32) error
	// serve answers one connection; it is closed when serve returns.
	serve func(p *peer)
	// over ends the peers that are stuck.
	over <-chan struct{}
}

var _ Dialer = (*scripted)(nil)

func (s *scripted) Brokers() []int32 { return s.brokers }

func (s *scripted) Dial(ctx context.Context, node int32) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.dial != nil {
		if err := s.dial(ctx, node); err != nil {
			return nil, err
		}
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		s.serve(&peer{theirs, node, s.over})
	}()
	return ours, nil
}

// peer is a broker's end of a connection.
type peer struct {
	net.Conn
	node int32
	over <-chan struct{}
}

// stuck neither reads nor writes, with the connection open, until the test is over.
func (p *peer) stuck() { <-p.over }

// request is one that a peer has read.
type request struct {
	kmsg.Request
	correlation int32
	client      string
}

// next reads a request; nil when the client has closed the connection.
func (p *peer) next() *request {
	var head [4]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p, frame); err != nil {
		return nil
	}
	r := kbin.Reader{Src: frame}
	key, version, correlation, client := r.Int16(), r.Int16(), r.Int32(), r.NullableString()
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := req.ReadFrom(r.Src); err != nil || client == nil {
		panic("a client sent a request that cannot be read")
	}
	return &request{req, correlation, *client}
}

// frame is an answer as it goes over the wire.
func (r *request) frame(resp kmsg.Response) []byte {
	resp.SetVersion(r.GetVersion())
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(r.correlation))
	if resp.IsFlexible() && resp.Key() != 18 {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (p *peer) answer(r *request, resp kmsg.Response) { _, _ = p.Write(r.frame(resp)) }

// offers are the versions of a broker; keys that are missing are offered in all versions.
type offers map[int16][2]int16

// greet answers the question for API versions.
func (p *peer) greet(o offers) bool {
	r := p.next()
	if r == nil {
		return false
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	for key := range int16(4) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, kmsg.RequestForKey(key).MaxVersion()
		if v, ok := o[key]; ok {
			k.MinVersion, k.MaxVersion = v[0], v[1]
		}
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	p.answer(r, resp)
	return true
}

// respond makes the answer to a request of one partition: an error, or what is asked for from a log that has two records, at 0
// and 1, in one batch.
func (r *request) respond(code int16, message *string) kmsg.Response {
	switch req := r.Request.(type) {
	case *kmsg.ProduceRequest:
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage, p.BaseOffset = req.Topics[0].Partitions[0].Partition, code, message, -1
		if code == 0 {
			p.BaseOffset = 2
		}
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.Partitions = req.Topics[0].Topic, append(t.Partitions, p)
		resp := kmsg.NewPtrProduceResponse()
		resp.Topics = append(resp.Topics, t)
		return resp
	case *kmsg.FetchRequest:
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode, p.HighWatermark, p.LogStartOffset = req.Topics[0].Partitions[0].Partition, code, -1, -1
		if code == 0 {
			p.HighWatermark, p.LogStartOffset = 2, 0
			p.RecordBatches = batch.Encode([]string{"x0", "x1"}, batch.NotIdempotent, time.Unix(0, 0))
		}
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.Partitions = req.Topics[0].Topic, append(t.Partitions, p)
		resp := kmsg.NewPtrFetchResponse()
		resp.Topics = append(resp.Topics, t)
		return resp
	case *kmsg.ListOffsetsRequest:
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Partition, p.ErrorCode, p.Offset = req.Topics[0].Partitions[0].Partition, code, -1
		if code == 0 {
			p.Offset = 2
		}
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic, t.Partitions = req.Topics[0].Topic, append(t.Partitions, p)
		resp := kmsg.NewPtrListOffsetsResponse()
		resp.Topics = append(resp.Topics, t)
		return resp
	}
	panic("no such request is expected")
}

// told is who leads what, as a broker tells it.
type told struct {
	leader, epoch int32
	replicas      []int32
}

// metadata makes the answer to a question about the topic orders.
func metadata(partitions ...told) *kmsg.MetadataResponse {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic = kmsg.StringPtr("orders")
	for i, p := range partitions {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition, rp.Leader, rp.LeaderEpoch, rp.Replicas = int32(i), p.leader, p.epoch, p.replicas
		t.Partitions = append(t.Partitions, rp)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Topics = append(resp.Topics, t)
	return resp
}

// clientOf makes a client of process 4, with the defaults, on a topic orders of one partition.
func clientOf(t *testing.T, ctx context.Context, d Dialer, change ...func(*Config)) *client {
	c := Config{Topics: []history.Topic{orders(1)}, Clients: 1}
	for _, f := range change {
		f(&c)
	}
	c = c.withDefaults()
	require.NoError(t, c.check())
	cl := newClient(ctx, &c, newRoutes(d, c.partitions(), c.Stats))
	cl.become(4)
	return cl
}

var errRefused = errors.New("connection refused")

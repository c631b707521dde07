package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/node/kafka/batch"
)

// client makes attempts for one process at a time, one after the other.
type client struct {
	ctx        context.Context
	config     *Config
	partitions []partition
	routes     *routes
	conns      map[int32]*conn
	process    int64
	formatter  *kmsg.RequestFormatter // names the process

	// Requests and answers are used again and again.
	produceReq *kmsg.ProduceRequest
	produceRes *kmsg.ProduceResponse
	fetchReq   *kmsg.FetchRequest
	fetchRes   *kmsg.FetchResponse
	endReq     *kmsg.ListOffsetsRequest
	endRes     *kmsg.ListOffsetsResponse
	padded     []string
}

func newClient(ctx context.Context, c *Config, r *routes) *client {
	cl := &client{
		ctx: ctx, config: c, partitions: r.partitions, routes: r, conns: map[int32]*conn{},
		produceReq: kmsg.NewPtrProduceRequest(), produceRes: kmsg.NewPtrProduceResponse(),
		fetchReq: kmsg.NewPtrFetchRequest(), fetchRes: kmsg.NewPtrFetchResponse(),
		endReq: kmsg.NewPtrListOffsetsRequest(), endRes: kmsg.NewPtrListOffsetsResponse(),
	}
	produce := kmsg.NewProduceRequestTopic()
	produce.Partitions = append(produce.Partitions, kmsg.NewProduceRequestTopicPartition())
	cl.produceReq.Topics = append(cl.produceReq.Topics, produce)
	cl.produceReq.Acks = acksOnWire[c.Acks]
	cl.produceReq.TimeoutMillis = int32(c.ProduceTimeout.Milliseconds())

	fetch := kmsg.NewFetchRequestTopic()
	fetch.Partitions = append(fetch.Partitions, kmsg.NewFetchRequestTopicPartition())
	cl.fetchReq.Topics = append(cl.fetchReq.Topics, fetch)

	end := kmsg.NewListOffsetsRequestTopic()
	end.Partitions = append(end.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	cl.endReq.Topics = append(cl.endReq.Topics, end)
	return cl
}

// clientPrefix and the number of a process are the client id of its requests, by which nodes tell whom they answer.
const clientPrefix = "tidemark-p"

// become makes the client speak for a process. Its connections stay: the client id stands in each request.
func (cl *client) become(process int64) {
	if cl.formatter != nil && cl.process == process {
		return
	}
	cl.process = process
	cl.formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientPrefix + strconv.FormatInt(process, 10)))
}

func (cl *client) close() {
	for node := range cl.conns {
		cl.drop(node)
	}
}

func (cl *client) drop(node int32) {
	if c := cl.conns[node]; c != nil {
		c.close()
		delete(cl.conns, node)
	}
}

// call sends one request to a broker and reads the answer. The request gets the newest version that the broker knows. With resp
// nil there will be no answer.
func (cl *client) call(node int32, api int, req kmsg.Request, resp kmsg.Response, deadline time.Time) (sent bool, err error) {
	for {
		c, used := cl.conns[node]
		if !used {
			if c, err = connect(cl.ctx, cl.routes.dial, node, cl.formatter, deadline); err != nil {
				cl.routes.silent(node)
				return false, fmt.Errorf("%w: %w", errConnect, err)
			}
			cl.conns[node] = c
		}
		req.SetVersion(c.versions[api])
		sent, err = c.exchange(req, resp, cl.formatter, deadline)
		if err == nil {
			cl.routes.heard(node)
			return sent, nil
		}
		cl.drop(node)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			cl.routes.silent(node)
		}
		if !used || !errors.Is(err, errGone) {
			return sent, err
		}
	}
}

// errConnect is wrapped by errors about connections that did not come to be.
var errConnect = errors.New(WhyCannotConnect)

// do makes one attempt of an operation at a broker.
func (cl *client) do(op *Operation, node int32) (a Answer, stale bool) {
	if node == nobody {
		return Answer{Kind: history.Fail, Error: WhyNoLeader}, true
	}
	deadline := time.Now().Add(cl.config.Timeout)
	switch op.Type {
	case history.Produce:
		return cl.produce(op, node, deadline)
	case history.Fetch:
		return cl.fetch(op, node, deadline)
	default:
		return cl.end(op, node, deadline)
	}
}

// broken ends a connection over an answer that is not one to the request. The request was sent, so its outcome is unknown.
func (cl *client) broken(node int32) (Answer, bool) {
	cl.drop(node)
	return Answer{Kind: history.Info, Error: whyMalformed}, true
}

func (cl *client) produce(op *Operation, node int32, deadline time.Time) (Answer, bool) {
	p, req, resp := &cl.partitions[op.Partition], cl.produceReq, cl.produceRes
	values := op.Values
	if size := cl.config.ValueSize; size > 0 {
		cl.padded = cl.padded[:0]
		for _, v := range values {
			cl.padded = append(cl.padded, pad(v, size))
		}
		values = cl.padded
	}
	t := &req.Topics[0]
	t.Topic = p.topic
	t.Partitions[0].Partition = p.index
	t.Partitions[0].Records = batch.Encode(values, batch.NotIdempotent, time.Now())
	if req.Acks == 0 {
		if sent, err := cl.call(node, produceAPI, req, nil, deadline); err != nil {
			return unanswered(cl.ctx, sent, err), true
		}
		return Answer{Kind: history.OK, Offset: history.Unknown}, false
	}
	if sent, err := cl.call(node, produceAPI, req, resp, deadline); err != nil {
		return unanswered(cl.ctx, sent, err), true
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != p.topic ||
		len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p.index {
		return cl.broken(node)
	}
	rp := &resp.Topics[0].Partitions[0]
	return produced(rp, req.Acks), StaleRoute(rp.ErrorCode)
}

func (cl *client) fetch(op *Operation, node int32, deadline time.Time) (Answer, bool) {
	return cl.fetchAs(consumer, op.Partition, op.From, node, cl.config.FetchBytes, deadline)
}

// Replica ids of those who are no replicas: consumers, and Kafka's debugging consumer, which reads beyond the high watermark.
const (
	consumer          = -1
	debuggingConsumer = -2
)

// fetchAs reads whole batches of one partition, at least one if there is any, without waiting for more.
func (cl *client) fetchAs(reader int32, place int, from int64, node int32, most int32, deadline time.Time) (Answer, bool) {
	p, req, resp := &cl.partitions[place], cl.fetchReq, cl.fetchRes
	req.ReplicaID = reader
	req.MaxBytes = most
	t := &req.Topics[0]
	t.Topic = p.topic
	t.Partitions[0].Partition = p.index
	t.Partitions[0].FetchOffset = from
	t.Partitions[0].PartitionMaxBytes = most
	if sent, err := cl.call(node, fetchAPI, req, resp, deadline); err != nil {
		return unanswered(cl.ctx, sent, err), true
	}
	if resp.ErrorCode != 0 {
		return RefusedRead(resp.ErrorCode), StaleRoute(resp.ErrorCode)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != p.topic ||
		len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p.index {
		return cl.broken(node)
	}
	rp := &resp.Topics[0].Partitions[0]
	switch {
	case rp.ErrorCode != 0:
		a := RefusedRead(rp.ErrorCode)
		a.Offset = rp.LogStartOffset
		return a, StaleRoute(rp.ErrorCode)
	case rp.HighWatermark < 0:
		return Answer{Kind: history.Fail, Error: "no high watermark in the answer"}, false
	}
	records, err := batch.Decode(rp.RecordBatches)
	if err != nil {
		return Answer{Kind: history.Fail, Error: err.Error()}, false
	}
	return Answer{Kind: history.OK, Records: cl.records(records, from), HighWatermark: rp.HighWatermark}, false
}

// records are what a history has of a fetch: not what a batch holds below the offset that was asked for.
func (cl *client) records(in []batch.Record, from int64) []history.Record {
	for len(in) > 0 && in[0].Offset < from {
		in = in[1:]
	}
	if len(in) == 0 {
		return nil
	}
	out := make([]history.Record, len(in))
	for i, r := range in {
		out[i] = history.Record{Offset: r.Offset, Epoch: r.Epoch, Value: unpad(r.Value, cl.config.ValueSize)}
	}
	return out
}

// Special timestamps of ListOffsets. The last one is understood by Tidemark's own broker only, from the debugging consumer.
const (
	latestOffset   = -1
	earliestOffset = -2
	logEndOffset   = -3
)

func (cl *client) end(op *Operation, node int32, deadline time.Time) (Answer, bool) {
	return cl.listAs(consumer, latestOffset, op.Partition, node, deadline)
}

func (cl *client) listAs(reader int32, timestamp int64, place int, node int32, deadline time.Time) (Answer, bool) {
	p, req, resp := &cl.partitions[place], cl.endReq, cl.endRes
	req.ReplicaID = reader
	t := &req.Topics[0]
	t.Topic = p.topic
	t.Partitions[0].Partition = p.index
	t.Partitions[0].Timestamp = timestamp
	if sent, err := cl.call(node, listOffsetsAPI, req, resp, deadline); err != nil {
		return unanswered(cl.ctx, sent, err), true
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != p.topic ||
		len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p.index {
		return cl.broken(node)
	}
	rp := &resp.Topics[0].Partitions[0]
	switch {
	case rp.ErrorCode != 0:
		return RefusedRead(rp.ErrorCode), StaleRoute(rp.ErrorCode)
	case rp.Offset < 0:
		return Answer{Kind: history.Fail, Error: "no offset in the answer"}, false
	}
	return Answer{Kind: history.OK, Offset: rp.Offset}, false
}

// askTimeout is how long one broker may take to tell who leads what, before another is asked.
const askTimeout = 500 * time.Millisecond

// metadata asks a broker about the workload's topics.
func (cl *client) metadata(node int32) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range cl.config.Topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t.Name)
		req.Topics = append(req.Topics, rt)
	}
	resp := kmsg.NewPtrMetadataResponse()
	if _, err := cl.call(node, metadataAPI, req, resp, time.Now().Add(min(askTimeout, cl.config.Timeout))); err != nil {
		return nil, err
	}
	return resp, nil
}

package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/control"
	"tidemark/node/kafka"
	"tidemark/node/kafka/batch"
)

// client is one request of a process on a stage: asking and being answered are two steps there.
type client struct {
	conn net.Conn
	resp kmsg.Response
}

// Versions of the requests: produce from v8 on says what was refused before it was appended, fetch from v11 on is served
// by followers too.
const (
	produceVersion = 9
	fetchVersion   = 11
	// Before version 5 a broker may not answer OFFSET_NOT_AVAILABLE (KIP-207).
	listOffsetsVersion = 5
)

// newClient sends a request. The connection is the client's from then on.
func newClient(conn net.Conn, process string, r control.Request) (*client, error) {
	topic, partition, err := topicOf(r.Partition)
	if err != nil {
		return nil, err
	}
	var req kmsg.Request
	switch {
	case r.Produce:
		p := kmsg.NewPtrProduceRequest()
		p.Acks, p.TimeoutMillis = -1, 0 // no time-out runs on a stage
		p.SetVersion(produceVersion)
		t := kmsg.NewProduceRequestTopic()
		t.Topic = topic
		tp := kmsg.NewProduceRequestTopicPartition()
		tp.Partition, tp.Records = partition, batch.Encode([]string{r.Value}, batch.NotIdempotent, time.Now())
		t.Partitions = append(t.Partitions, tp)
		p.Topics = append(p.Topics, t)
		req = p
	case r.Latest:
		l := kmsg.NewPtrListOffsetsRequest()
		l.ReplicaID = -1
		l.SetVersion(listOffsetsVersion)
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		tp := kmsg.NewListOffsetsRequestTopicPartition()
		tp.Partition, tp.Timestamp = partition, -1
		t.Partitions = append(t.Partitions, tp)
		l.Topics = append(l.Topics, t)
		req = l
	default:
		f := kmsg.NewPtrFetchRequest()
		f.MaxBytes, f.MinBytes, f.MaxWaitMillis = 1<<20, 0, 0
		f.SetVersion(fetchVersion)
		t := kmsg.NewFetchRequestTopic()
		t.Topic = topic
		tp := kmsg.NewFetchRequestTopicPartition()
		tp.Partition, tp.FetchOffset, tp.PartitionMaxBytes = partition, r.Offset, 1<<20
		t.Partitions = append(t.Partitions, tp)
		f.Topics = append(f.Topics, t)
		req = f
	}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark-"+process)).AppendRequest(nil, req, 1)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	return &client{conn: conn, resp: req.ResponseKind()}, nil
}

// answer reads the response.
func (c *client) answer(ctx context.Context) (control.Answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return control.Answer{}, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 5 || n > 16<<20 {
		return control.Answer{}, fmt.Errorf("a response of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c.conn, frame); err != nil {
		return control.Answer{}, err
	}
	body := frame[4:]
	if c.resp.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	if err := c.resp.ReadFrom(body); err != nil {
		return control.Answer{}, err
	}
	switch r := c.resp.(type) {
	case *kmsg.ProduceResponse:
		return produced(r)
	case *kmsg.FetchResponse:
		return fetched(r)
	case *kmsg.ListOffsetsResponse:
		return listed(r)
	}
	return control.Answer{}, errors.New("a response of another kind")
}

func produced(r *kmsg.ProduceResponse) (control.Answer, error) {
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return control.Answer{}, errors.New("a produce response without its partition")
	}
	p := r.Topics[0].Partitions[0]
	a := control.Answer{Error: errorName(p.ErrorCode), Offset: p.BaseOffset}
	a.Refused = a.Error != "" && p.ErrorMessage != nil && strings.HasPrefix(*p.ErrorMessage, kafka.RefusedBeforeAppend)
	return a, nil
}

func fetched(r *kmsg.FetchResponse) (control.Answer, error) {
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return control.Answer{Error: errorName(r.ErrorCode)}, nil
	}
	p := r.Topics[0].Partitions[0]
	a := control.Answer{Error: errorName(p.ErrorCode), HW: p.HighWatermark}
	records, err := batch.Decode(p.RecordBatches)
	if err != nil {
		return a, err
	}
	for _, r := range records {
		a.Records = append(a.Records, control.Record{Offset: r.Offset, Epoch: r.Epoch, Value: string(r.Value)})
	}
	return a, nil
}

func listed(r *kmsg.ListOffsetsResponse) (control.Answer, error) {
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return control.Answer{}, errors.New("a response to ListOffsets without its partition")
	}
	p := r.Topics[0].Partitions[0]
	return control.Answer{Error: errorName(p.ErrorCode), Offset: p.Offset}, nil
}

// errorName is Kafka's name of an error code, "" for none.
func errorName(code int16) string {
	switch code {
	case 0:
		return ""
	case kerr.NotLeaderForPartition.Code:
		return "NOT_LEADER_OR_FOLLOWER" // its name since KIP-392
	}
	if e := kerr.TypedErrorForCode(code); e.Code == code {
		return e.Message
	}
	return fmt.Sprintf("error code %d", code)
}

package workload

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errMalformed is wrapped by errors about an answer that is not Kafka's protocol, or not the answer to what was asked. Nothing that
// comes on that connection afterwards can be trusted.
var errMalformed = errors.New("malformed answer")

// errVersions is wrapped by the error about a broker with which no version of an API is shared.
var errVersions = errors.New("no common version")

// errGone says that the broker had closed an idle connection before it was used again.
var errGone = errors.New("connection was closed while idle")

const (
	// maxAnswer is the largest answer that is read: what claims to be larger is not Kafka.
	maxAnswer = 128 << 20
	// keepBuffer is the largest buffer that is kept for the next answer.
	keepBuffer = 1 << 20
	readBuffer = 16 << 10
)

// apis are the APIs that the clients use, with the versions that they understand: all that name topics by name.
var apis = [...]struct{ key, min, max int16 }{
	produceAPI:     {0, 3, 9},
	fetchAPI:       {1, 4, 12},
	listOffsetsAPI: {2, 1, 6},
	metadataAPI:    {3, 1, 9},
}

const (
	produceAPI = iota
	fetchAPI
	listOffsetsAPI
	metadataAPI
)

// conn is a client's connection to one broker. One request is under way at a time.
type conn struct {
	nc          net.Conn
	in          *bufio.Reader
	probe       *probe
	versions    [len(apis)]int16
	correlation int32
	out, answer []byte
	release     func() bool // stops watching the context
}

// connect dials a broker and agrees on versions with it. When ctx ends the connection is closed, whatever goes on on it.
func connect(ctx context.Context, d Dialer, node int32, f *kmsg.RequestFormatter, deadline time.Time) (*conn, error) {
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	nc, err := d.Dial(dialing, node)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, in: bufio.NewReaderSize(nc, readBuffer), probe: newProbe(nc)}
	c.release = context.AfterFunc(ctx, func() { _ = nc.Close() })
	if err := c.agree(f, deadline); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() {
	c.release()
	_ = c.nc.Close()
}

// agree takes the newest versions that both sides know. The question is of version 0, which every broker understands.
func (c *conn) agree(f *kmsg.RequestFormatter, deadline time.Time) error {
	req := kmsg.NewPtrApiVersionsRequest()
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if _, err := c.exchange(req, resp, f, deadline); err != nil {
		return err
	}
	if resp.ErrorCode != 0 {
		return fmt.Errorf("ask for API versions: %s", codeName(resp.ErrorCode))
	}
	offered := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range resp.ApiKeys {
		offered[k.ApiKey] = k
	}
	for i, a := range apis {
		k, ok := offered[a.key]
		v := min(a.max, k.MaxVersion)
		if !ok || v < max(a.min, k.MinVersion) {
			return fmt.Errorf("%w of %s: the broker offers %d-%d, known here are %d-%d",
				errVersions, kmsg.NameForKey(a.key), k.MinVersion, k.MaxVersion, a.min, a.max)
		}
		c.versions[i] = v
	}
	return nil
}

// exchange sends a request and reads its answer into resp; nil: there will be none (acks=0). After an error the connection is of no
// more use, and sent says whether any byte may have left: if not, the request certainly had no effect. What resp points to is valid
// until the next exchange.
func (c *conn) exchange(req kmsg.Request, resp kmsg.Response, f *kmsg.RequestFormatter, deadline time.Time) (sent bool, err error) {
	c.correlation = (c.correlation + 1) & (1<<31 - 1)
	c.out = f.AppendRequest(c.out[:0], req, c.correlation)
	if err := c.nc.SetDeadline(deadline); err != nil {
		return false, err
	}
	if c.probe.gone() {
		return false, errGone
	}
	if n, err := c.nc.Write(c.out); err != nil {
		return n > 0, err
	}
	if resp == nil {
		return true, nil
	}
	frame, err := c.read()
	if err != nil {
		return true, err
	}
	resp.SetVersion(req.GetVersion())
	if err := parse(frame, c.correlation, resp); err != nil {
		return true, fmt.Errorf("%w to %s v%d: %w", errMalformed, kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return true, nil
}

// read reads one frame into the connection's buffer.
func (c *conn) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("%w: a frame of %d bytes", errMalformed, size)
	}
	if cap(c.answer) < size || cap(c.answer) > keepBuffer {
		c.answer = make([]byte, size)
	}
	c.answer = c.answer[:size]
	_, err := io.ReadFull(c.in, c.answer)
	return c.answer, err
}

// parse reads a frame into resp, whose version is set.
func parse(frame []byte, correlation int32, resp kmsg.Response) error {
	r := kbin.Reader{Src: frame}
	if got := r.Int32(); got != correlation {
		return fmt.Errorf("correlation id %d, want %d", got, correlation)
	}
	// The header of flexible answers ends in tagged fields, but that of ApiVersions has none (KIP-511).
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		kmsg.SkipTags(&r)
		if err := r.Complete(); err != nil {
			return err
		}
	}
	return resp.ReadFrom(r.Src)
}

// codeName is Kafka's name of an error code.
func codeName(code int16) string {
	if code == kerr.NotLeaderForPartition.Code {
		return "NOT_LEADER_OR_FOLLOWER" // its name since KIP-392
	}
	if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code {
		return e.Message
	}
	return fmt.Sprintf("error code %d", code)
}

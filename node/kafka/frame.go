package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// errMalformed is wrapped by every error about bytes that are not Kafka's protocol. The connection ends with it: what
// follows cannot be trusted either.
var errMalformed = errors.New("malformed")

// firstRead is how much memory a frame gets on its length field's word alone. More comes with the bytes themselves, so that
// a length that lies costs nothing.
const firstRead = 64 << 10

// readSize reads a frame's length field. limit is the largest frame that is accepted.
func readSize(r io.Reader, limit int) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 0 || int(size) > limit {
		return 0, fmt.Errorf("%w frame: size %d is not in [0, %d]", errMalformed, size, limit)
	}
	return int(size), nil
}

// readBody reads the size bytes of a frame into memory of its own, which the messages decoded from it may keep.
func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, 0, min(size, firstRead))
	for len(body) < size {
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(size, 2*cap(body))), body...)
		}
		n, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// readFrame reads a whole frame.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	size, err := readSize(r, limit)
	if err != nil {
		return nil, err
	}
	return readBody(r, size)
}

// header is a request's header (version 1, or 2 in flexible versions).
type header struct {
	key, version int16
	correlation  int32
	client       string // client id, "" if there is none
}

// String names the request as Kafka does: "Produce v9".
func (h header) String() string { return fmt.Sprintf("%s v%d", kmsg.NameForKey(h.key), h.version) }

// parseHeader takes the header off a request's frame. The tagged fields that flexible versions add are still in the rest:
// whether there are any depends on the key and the version.
func parseHeader(frame []byte) (header, []byte, error) {
	r := kbin.Reader{Src: frame}
	h := header{key: r.Int16(), version: r.Int16(), correlation: r.Int32()}
	if id := r.NullableString(); id != nil {
		h.client = *id
	}
	if err := r.Complete(); err != nil {
		return header{}, nil, fmt.Errorf("%w request header of %d bytes: %w", errMalformed, len(frame), err)
	}
	return h, r.Src, nil
}

// parseBody reads what follows the header into req, whose version is set.
func parseBody(h header, rest []byte, req kmsg.Request) error {
	if req.IsFlexible() {
		r := kbin.Reader{Src: rest}
		kmsg.SkipTags(&r)
		if err := r.Complete(); err != nil {
			return fmt.Errorf("%w tagged fields in the header of %s: %w", errMalformed, h, err)
		}
		rest = r.Src
	}
	if err := req.ReadFrom(rest); err != nil {
		return fmt.Errorf("%w %s of %d bytes: %w", errMalformed, h, len(rest), err)
	}
	return nil
}

// appendResponse frames a response. The header of flexible responses ends in tagged fields, except that of ApiVersions,
// which a client reads before it knows what the broker speaks (KIP-511).
func appendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = kbin.AppendInt32(dst, correlation)
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// parseResponse reads a response's frame after its correlation id into resp, whose version is set.
func parseResponse(rest []byte, resp kmsg.Response) error {
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		r := kbin.Reader{Src: rest}
		kmsg.SkipTags(&r)
		rest = r.Src
	}
	if err := resp.ReadFrom(rest); err != nil {
		return fmt.Errorf("%w answer to %s v%d of %d bytes: %w",
			errMalformed, kmsg.NameForKey(resp.Key()), resp.GetVersion(), len(rest), err)
	}
	return nil
}

const (
	// clientPrefix begins the client id of a process of the workload, "tidemark-p4", by which journals and schedules name
	// the sender of a message.
	clientPrefix = "tidemark-p"
	// Kafka's own client id of a follower's connection is "broker-2-fetcher-0". It is the only place where requests name
	// the follower before OffsetForLeaderEpoch v3.
	brokerPrefix, brokerSuffix = "broker-", "-fetcher-0"
	controllerClient           = "controller"
)

// clientID is what a node writes into the headers of its requests.
func clientID(self replica.ID) string {
	if self.IsBroker() {
		return brokerPrefix + self.String() + brokerSuffix
	}
	return controllerClient
}

// sender is the client that the header names; requests that name a broker in their bodies go by that instead.
func (h header) sender() replica.ID {
	if p, ok := strings.CutPrefix(h.client, clientPrefix); ok {
		if n, err := strconv.ParseInt(p, 10, 31); err == nil && n >= 0 && n < 1<<30 {
			return replica.Client(n)
		}
	}
	return replica.AnyClient
}

// follower is the broker that the header names as the sender, replica.None if it names none.
func (h header) follower() replica.ID {
	id, ok := strings.CutPrefix(h.client, brokerPrefix)
	if !ok {
		return replica.None
	}
	id, _, ok = strings.Cut(id, "-fetcher-")
	n, err := strconv.ParseInt(id, 10, 32)
	if !ok || err != nil || n <= 0 {
		return replica.None
	}
	return replica.ID(n)
}

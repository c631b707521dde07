package kafka

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/node/replica"
)

func TestFramesAreReadWholeHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		if rapid.Bool().Draw(t, "large") {
			body = bytes.Repeat(append(body, 1), 1000)
		}
		framed := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		framed = append(framed, body...)
		got, err := readFrame(inPieces(framed, rapid.IntRange(1, 70_000).Draw(t, "piece")), len(body))
		require.NoError(t, err)
		require.Equal(t, body, append([]byte{}, got...))

		if cut := rapid.IntRange(0, len(framed)).Draw(t, "cut"); cut < len(framed) {
			_, err = readFrame(bytes.NewReader(framed[:cut]), len(body))
			if cut == 0 {
				require.Equal(t, io.EOF, err, "between frames")
			} else {
				require.Equal(t, io.ErrUnexpectedEOF, err, "within a frame")
			}
		}
		if len(body) > 0 {
			_, err = readFrame(bytes.NewReader(framed), len(body)-1)
			require.ErrorIs(t, err, errMalformed)
		}
	})
}

// inPieces gives at most n bytes a read, as a network does.
func inPieces(b []byte, n int) io.Reader {
	var pieces []io.Reader
	for len(b) > 0 {
		n := min(n, len(b))
		pieces = append(pieces, bytes.NewReader(b[:n]))
		b = b[n:]
	}
	return io.MultiReader(pieces...)
}

func TestALengthThatLiesCostsNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(bytes.NewReader([]byte{0x06, 0, 0, 0, 1, 2, 3}), 100<<20)
	runtime.ReadMemStats(&after)
	require.Equal(t, io.ErrUnexpectedEOF, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes allocated for a frame of 96 MiB of which 3 bytes came")
}

// refusing is a node whose cores turn everything down.
type refusing struct{ *stub }

func (refusing) Deliver(m replica.Message, reply func(replica.Message)) {
	answer, ok := replica.Refuse(m, replica.UnknownTopicOrPartition)
	if !ok {
		panic("a broker was asked " + m.String())
	}
	reply(answer)
}

func (r refusing) Learn(int64, []BrokerAddress) {}

func FuzzTheBrokersListenerEndsOnAnyBytes(f *testing.F) {
	request := func(req kmsg.Request, version int16) []byte {
		req.SetVersion(version)
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark-p1")).AppendRequest(nil, req, 1)
	}
	f.Add(request(produceRequest(-1, orders, value("x")), 9))
	f.Add(request(produceRequest(0, orders, value("x")), 3))
	f.Add(request(fetchRequest(12, -1, 2, 1, 0), 12))
	f.Add(request(fetchRequest(12, 2, 1, 1, 0), 4))
	f.Add(request(kmsg.NewPtrMetadataRequest(), 9))
	f.Add(request(kmsg.NewPtrApiVersionsRequest(), 5))
	f.Add(request(kmsg.NewPtrListOffsetsRequest(), 6))
	f.Add(request(kmsg.NewPtrOffsetForLeaderEpochRequest(), 0))
	f.Add(request(encodeLeaderAndISR(replica.Message{Body: &replica.LeaderAndIsr{ELR: []replica.ID{1}}}, nil), 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, _, end := serving(t, func(c Config) *Server { return NewBroker(7, refusing{newStub()}, c) }, Config{MaxRequest: 1 << 20})
		nc := l.dial()
		read := newPromise(func() error { _, err := io.Copy(io.Discard, nc); return err })
		_, _ = nc.Write(data)
		_ = nc.Close()
		_ = read()
		end() // returns only if nothing hangs
	})
}

func FuzzAnswersOfPeersAreReadOrRefused(f *testing.F) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = value("x")
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: "orders", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	f.Add(int16(fetchKey), int16(12), resp.AppendTo([]byte{0}))
	f.Add(int16(leaderAndISRKey), int16(4), joinLeaderAndISR(&kmsg.LeaderAndISRRequest{Version: 4},
		[]part{{answer: &replica.LeaderAndIsrAnswer{Version: 3}}}).AppendTo([]byte{0}))
	f.Add(int16(alterPartitionKey), int16(3), []byte{0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, key, version int16, data []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		into := req.ResponseKind()
		if err := parseResponse(data, into); err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		if body, err := decodeAnswer(into); err == nil {
			require.NotNil(t, body)
		}
	})
}

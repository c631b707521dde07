package history

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// anyOperation makes an event of an operation with odd numbers and texts.
func anyOperation(r *rand.Rand) Event {
	number := func() int64 {
		return []int64{0, 7, -1, 999, 123456789012345678, 1234567890123456789, -9223372036854775808}[r.IntN(7)]
	}
	text := func() string {
		return []string{"m0", "a value that is longer than eight bytes", `quo"ted`, `back\slash`, "näh", "", "tab\t", "12345678", "1234567"}[r.IntN(9)]
	}
	e := Event{Seq: 1 + r.Int64N(1e12), Time: number(), Kind: Kind(1 + r.IntN(4)), Process: number()}
	o := &e.Op
	o.Type, o.Partition = OpType(1+r.IntN(3)), []string{"orders-0", "orders-1", "päy-12"}[r.IntN(3)]
	if e.Kind == Fail || e.Kind == Info {
		o.Error = text()
		return e
	}
	switch o.Type {
	case Produce:
		if e.Kind == Invoke {
			o.Values, o.Acks = []string{"x"}, int16(r.IntN(3)-1)
			for range r.IntN(3) {
				o.Values = append(o.Values, text())
			}
			return e
		}
		o.Offset = number()
		return e
	case Fetch:
		if e.Kind == Invoke {
			o.From = number()
			break
		}
		o.HighWatermark = number()
		for range r.IntN(4) {
			o.Records = append(o.Records, Record{Offset: number(), Epoch: int32(r.IntN(3) - 1), Value: text()})
		}
	case End:
		if e.Kind == OK {
			o.Offset = number()
		}
	}
	o.Node, o.Final = int32(r.IntN(4)-1), r.IntN(5) == 0
	return e
}

// TestTheQuickDecoderIsTheDecoder: of what a writer writes, and of the same with one byte changed, the quick decoder says what the one that
// takes all spellings says, or nothing.
func TestTheQuickDecoderIsTheDecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken, spoilt := 0, 0
	var quick, slow decoder
	for range 60_000 {
		e := anyOperation(r)
		line, err := appendEvent(nil, &e)
		require.NoError(t, err)
		line = line[:len(line)-1]
		changed := r.IntN(2) == 0
		if changed {
			i := r.IntN(len(line))
			switch r.IntN(3) {
			case 0:
				line[i] = `0123456789"\,{}[]:-. eE+aok`[r.IntN(26)]
			case 1:
				line = append(line[:i], line[i+1:]...)
			case 2:
				line = line[:i]
			}
		}
		var got, want Event
		err = slow.event(line, &want)
		if !changed {
			require.NoError(t, err)
		}
		share := r.IntN(2) == 0
		if !quick.quick(line, &got, share) {
			continue
		}
		require.NoError(t, err, "the quick decoder takes %s", line)
		require.Equal(t, want, got, "%s", line)
		if taken++; changed {
			spoilt++
		}
	}
	assert.Greater(t, taken, 5_000)
	assert.Greater(t, spoilt, 500)
}

func TestWhatAWriterWritesOfPlainTextIsQuick(t *testing.T) {
	var d decoder
	for _, line := range []string{
		`{"seq":1,"time":12000,"kind":"invoke","process":4,"op":"produce","partition":"orders-0","values":["m0","m1"],"acks":-1}`,
		`{"seq":2,"time":15000,"kind":"ok","process":4,"op":"produce","partition":"orders-0","offset":0}`,
		`{"seq":3,"time":16000,"kind":"invoke","process":5,"op":"fetch","partition":"orders-0","from":0,"node":2}`,
		`{"seq":4,"time":17000,"kind":"ok","process":5,"op":"fetch","partition":"orders-0","records":[[0,0,"m0"],[1,-1,"m1"]],"hw":2,"node":2,"final":true}`,
		`{"seq":4,"time":17000,"kind":"ok","process":5,"op":"fetch","partition":"orders-0","records":[],"hw":0,"node":2}`,
		`{"seq":5,"time":18000,"kind":"invoke","process":6,"op":"end","partition":"orders-0","node":1}`,
		`{"seq":6,"time":19000,"kind":"ok","process":6,"op":"end","partition":"orders-0","offset":1,"node":1}`,
		`{"seq":7,"time":19000,"kind":"info","process":6,"op":"end","partition":"orders-0","error":"REQUEST_TIMED_OUT"}`,
		`{"seq":8,"time":19000,"kind":"fail","process":6,"op":"produce","partition":"orders-0"}`,
	} {
		var got, want Event
		require.True(t, d.quick([]byte(line), &got, true), line)
		require.NoError(t, d.event([]byte(line), &want))
		assert.Equal(t, want, got)
	}
}

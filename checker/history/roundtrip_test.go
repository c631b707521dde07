package history_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

// sample is a run in which every kind of event occurs, every field is set once, and texts need escapes.
func sample() (history.Header, []history.Event) {
	h := history.Header{
		Contract: history.Contract{Acks: "all", MinISR: 2, Unclean: true, Protocol: "kip320", CrashBudget: history.BudgetISR,
			Bar: "committed log"},
		Topics: []history.Topic{{Name: "orders", Partitions: 4, Replicas: 3}, {Name: "audit", Partitions: 1, Replicas: 2}},
		Meta:   map[string]string{"seed": "42", "run": "a \"quoted\"\nname"},
	}
	const p = "orders-0"
	return h, []history.Event{
		{Kind: history.Invoke, Process: 4, Op: history.Op{Type: history.Produce, Partition: p, Values: []string{"m0", "é\t\x01\"\\/𝄞"}, Acks: -1}},
		{Kind: history.OK, Process: 4, Op: history.Op{Type: history.Produce, Partition: p, Offset: 0}},
		{Kind: history.Invoke, Process: 5, Op: history.Op{Type: history.Produce, Partition: p, Values: []string{"m2"}, Acks: 0}},
		{Kind: history.Info, Process: 5, Op: history.Op{Type: history.Produce, Partition: p, Error: "REQUEST_TIMED_OUT"}},
		{Kind: history.Invoke, Process: 6, Op: history.Op{Type: history.Produce, Partition: p, Values: []string{"m3"}, Acks: 1}},
		{Kind: history.Fail, Process: 6, Op: history.Op{Type: history.Produce, Partition: p, Error: "NOT_ENOUGH_REPLICAS"}},
		{Kind: history.Invoke, Process: 7, Op: history.Op{Type: history.Fetch, Partition: p, From: 1, Node: 2, Final: true}},
		{Kind: history.OK, Process: 7, Op: history.Op{Type: history.Fetch, Partition: p, Node: 2, HighWatermark: 2, Final: true,
			Records: []history.Record{{Offset: 1, Epoch: -1, Value: "é\t\x01\"\\/𝄞"}}}},
		{Kind: history.Invoke, Process: 7, Op: history.Op{Type: history.Fetch, Partition: p, From: 2, Node: history.Unknown}},
		{Kind: history.OK, Process: 7, Op: history.Op{Type: history.Fetch, Partition: p, Node: 0, HighWatermark: 2}},
		{Kind: history.Invoke, Process: 7, Op: history.Op{Type: history.End, Partition: p, Node: 1}},
		{Kind: history.OK, Process: 7, Op: history.Op{Type: history.End, Partition: p, Offset: 2, Node: 1, Final: true}},
		{Kind: history.KindFault, Fault: &history.FaultEvent{ID: 1, Phase: history.Begin, Verb: "powerfail", Asked: "powerfail leader",
			Nodes: []int32{1}}},
		{Kind: history.KindFault, Fault: &history.FaultEvent{ID: 1, Phase: history.Over, Verb: "powerfail", Asked: "powerfail leader",
			Nodes: []int32{1}, Evidence: []history.Measurement{{Name: "bytes lost", Value: "132"}}, Proven: true}},
		{Kind: history.KindNode, Node: &history.NodeEvent{Node: 2, What: history.Truncated, Partition: p, Epoch: 1, From: 2, To: 1,
			HW: 1, Leader: 3, Why: "high watermark"}},
		{Kind: history.KindNode, Node: &history.NodeEvent{Node: history.Controller, What: history.Elected, Partition: p, Epoch: 2,
			PartitionEpoch: 4, Leader: history.Unknown, ISR: []int32{}, Why: "no replica is left", Unclean: true}},
		{Kind: history.KindNode, Node: &history.NodeEvent{Node: history.Controller, What: history.Registered, Broker: 3, BrokerEpoch: 9}},
		{Kind: history.KindNode, Node: &history.NodeEvent{Node: 1, What: history.PowerLoss, Partition: p, From: 2, To: 1, Bytes: 69}},
		{Kind: history.KindNode, Node: &history.NodeEvent{Node: 1, What: "something new", Role: "leader"}},
		{Kind: history.KindReplica, Replica: &history.Replica{Node: 1, Partition: p, HW: 1, LEO: 2,
			Entries: []history.Record{{Offset: 0, Epoch: 0, Value: "m0"}, {Offset: 1, Epoch: 2, Value: "m1"}},
			Epochs:  []history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 2, Start: 1}}}},
		{Kind: history.KindReplica, Replica: &history.Replica{Node: 2, Partition: p}},
		{Kind: history.KindSettled, Settled: &history.Settled{Partition: p, OK: false, Why: "ISR 1,2 lacks 3"}},
		{Kind: history.KindSettled, Settled: &history.Settled{Partition: p, OK: true}},
	}
}

func write(t *testing.T, h history.Header, events []history.Event) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := history.NewWriter(&buf, h, nil)
	require.NoError(t, err)
	for i := range events {
		require.NoError(t, w.Append(&events[i]))
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func read(t *testing.T, b []byte) (history.Header, []history.Event, *history.Reader) {
	t.Helper()
	r, err := history.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var events []history.Event
	for {
		var e history.Event
		err := r.Next(&e)
		if err == io.EOF {
			return r.Header(), events, r
		}
		require.NoError(t, err)
		events = append(events, e)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	h, events := sample()
	b := write(t, h, events)
	gotHeader, got, r := read(t, b)
	h.Version = history.Version
	assert.Equal(t, h, gotHeader)
	assert.False(t, r.Torn())
	assert.Equal(t, len(events)+1, r.Line())
	require.Len(t, got, len(events))
	for i := range events {
		assert.Equal(t, int64(i+1), got[i].Seq)
		assert.Equal(t, events[i], got[i], "event %d", i)
	}
	assert.Equal(t, string(b), string(write(t, gotHeader, got)), "writing what was read gives the same bytes")
}

package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/control"
)

// written gives what a stream writes of events that are added between two flushes.
func written(t require.TestingT, events ...control.Event) []control.Event {
	var b bytes.Buffer
	s := newStream(&b)
	for _, e := range events {
		s.add(e)
	}
	require.NoError(t, s.flush())
	return lines(t, &b)
}

func lines(t require.TestingT, b *bytes.Buffer) []control.Event {
	var out []control.Event
	for in := bufio.NewScanner(b); in.Scan(); {
		var l Line
		require.NoError(t, json.Unmarshal(in.Bytes(), &l))
		require.Nil(t, l.Ready)
		out = append(out, *l.Event)
	}
	return out
}

func appended(from, to int64) control.Event {
	return control.Event{Node: 1, Partition: "orders-0", What: "append", From: from, To: to}
}

func raised(from, to int64) control.Event {
	return control.Event{Node: 1, Partition: "orders-0", What: "hw", From: from, To: to}
}

func acked(from, to int64, isr ...control.NodeID) control.Event {
	return control.Event{Node: 1, Partition: "orders-0", What: "ack", From: from, To: to, ISR: isr}
}

func in(partition string, e control.Event) control.Event { e.Partition = partition; return e }
func by(epoch int32, e control.Event) control.Event      { e.Epoch = epoch; return e }
func under(version int32, e control.Event) control.Event { e.PartitionEpoch = version; return e }

var (
	cut     = control.Event{Node: 1, Partition: "orders-0", What: "truncated", From: 3, To: 1}
	rolesto = control.Event{Node: 1, Partition: "orders-0", What: "role", Role: "follower"}
)

func TestEventsThatContinueEachOtherAreWrittenAsOne(t *testing.T) {
	type list = []control.Event
	for _, tc := range []struct {
		name      string
		add, want list
	}{
		{"appends", list{appended(0, 1), appended(1, 3), appended(3, 4)}, list{appended(0, 4)}},
		{"high watermarks", list{raised(0, 2), raised(2, 5)}, list{raised(0, 5)}},
		{"acknowledgements by the same ISR", list{acked(0, 1, 1, 2), acked(1, 2, 1, 2)}, list{acked(0, 2, 1, 2)}},
		{"each kind by itself", list{appended(0, 1), raised(0, 1), acked(0, 1, 1), appended(1, 2), raised(1, 2), acked(1, 2, 1)},
			list{appended(0, 2), raised(0, 2), acked(0, 2, 1)}},
		{"each partition by itself", list{appended(0, 1), in("orders-1", cut), in("orders-1", appended(1, 2)), appended(1, 2)},
			list{appended(0, 2), in("orders-1", cut), in("orders-1", appended(1, 2))}},
		{"not with a gap", list{appended(0, 1), appended(2, 3)}, list{appended(0, 1), appended(2, 3)}},
		{"not over a cut", list{appended(0, 3), cut, appended(3, 4)}, list{appended(0, 3), cut, appended(3, 4)}},
		{"not over a change of role", list{acked(0, 1, 1), rolesto, acked(1, 2, 1)}, list{acked(0, 1, 1), rolesto, acked(1, 2, 1)}},
		{"not in another epoch", list{by(1, appended(0, 1)), by(2, appended(1, 2))}, list{by(1, appended(0, 1)), by(2, appended(1, 2))}},
		{"not with another ISR", list{acked(0, 1, 1, 2), acked(1, 2, 1)}, list{acked(0, 1, 1, 2), acked(1, 2, 1)}},
		{"not under another record of the controller", list{under(1, acked(0, 1, 1)), under(2, acked(1, 2, 1))}, list{under(1, acked(0, 1, 1)), under(2, acked(1, 2, 1))}},
		{"not a fall with a rise", list{raised(5, 3), raised(3, 5)}, list{raised(5, 3), raised(3, 5)}},
		{"not a rise with a fall", list{raised(3, 5), raised(5, 3)}, list{raised(3, 5), raised(5, 3)}},
		{"nor what only looks alike", list{cut, cut, rolesto, rolesto}, list{cut, cut, rolesto, rolesto}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, written(t, tc.add...))
		})
	}
}

func TestWhatIsWrittenIsNotContinued(t *testing.T) {
	var b bytes.Buffer
	s := newStream(&b)
	s.add(appended(0, 1))
	assert.Empty(t, b.Bytes(), "nothing is written before it has to be")
	require.NoError(t, s.flush())
	s.add(appended(1, 2))
	require.NoError(t, s.flush())
	require.NoError(t, s.flush())
	assert.Equal(t, []control.Event{appended(0, 1), appended(1, 2)}, lines(t, &b))
}

// spelledOut are the events of one partition and kind, one record each, with a mark for everything of that partition that must
// stay where it is.
func spelledOut(events []control.Event, partition, what string) []string {
	var out []string
	for _, e := range events {
		switch {
		case e.Partition != partition:
		case !merges(e.What):
			out = append(out, fmt.Sprintf("%s %d %d", e.What, e.From, e.To))
		case e.What == what && e.To < e.From:
			out = append(out, fmt.Sprintf("fall %d %d", e.From, e.To))
		case e.What == what:
			for k := e.From; k < e.To; k++ {
				out = append(out, fmt.Sprintf("%d epoch %d version %d isr %v", k, e.Epoch, e.PartitionEpoch, e.ISR))
			}
		}
	}
	return out
}

func TestMergedEventsSayTheSame(t *testing.T) {
	event := rapid.Custom(func(t *rapid.T) control.Event {
		e := control.Event{Node: 1, Partition: rapid.SampledFrom([]string{"a-0", "b-0"}).Draw(t, "partition"),
			What: rapid.SampledFrom([]string{"append", "append", "hw", "hw", "ack", "role", "truncated", "isr"}).Draw(t, "what"),
			From: rapid.Int64Range(0, 4).Draw(t, "from"), To: rapid.Int64Range(0, 4).Draw(t, "to"),
			Epoch: rapid.Int32Range(0, 1).Draw(t, "epoch")}
		if e.What == "ack" {
			e.PartitionEpoch = rapid.Int32Range(0, 1).Draw(t, "version")
			e.ISR = [][]control.NodeID{{1}, {1, 2}}[rapid.IntRange(0, 1).Draw(t, "isr")]
		}
		if e.What != "hw" && e.To < e.From {
			e.From, e.To = e.To, e.From
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(event, 0, 30).Draw(t, "events")
		got := written(t, events...)
		require.LessOrEqual(t, len(got), len(events))
		for _, partition := range []string{"a-0", "b-0"} {
			for _, what := range []string{"append", "hw", "ack"} {
				require.Equal(t, spelledOut(events, partition, what), spelledOut(got, partition, what), "%s of %s", what, partition)
			}
		}
	})
}

func TestAStreamThatCannotBeWrittenIsAnError(t *testing.T) {
	gone := errors.New("nobody reads")
	s := newStream(failing{gone})
	s.add(appended(0, 1))
	require.ErrorIs(t, s.flush(), gone)
	require.ErrorIs(t, newStream(failing{gone}).ready(Ready{Node: 1}), gone)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

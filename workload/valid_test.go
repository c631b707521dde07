package workload

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

// verified is what a recorded history says, after it was written, read back and found to make sense.
type verified struct {
	ok, failed, unknown map[history.OpType]int
	processes           map[int64]int               // operations by process
	retired             map[int64]bool              // processes whose last outcome is unknown
	values              map[string]map[int64]string // what was acked or read, by partition and offset
	produced            map[int64][]string          // values in the order of their produces, by process
	errors              map[string]int
	final               map[string][]history.Record // of the final reads, by partition
	proved              map[string]int64            // length of the log, by what has returned so far
	atCall              map[int64]int64             // the same when the open operation of a process was called
}

// verify writes a history to a file's format and reads it back, and demands of it what histories promise: a process does one thing
// at a time and nothing after an unknown outcome, returns are of what was called, and values are unique. Of the cluster, which in
// these tests is a faultless one, it demands that an offset has one value only, and that no answer says less than what was known
// before its question: were an invoke written after its request left, or a return before its answer came, that would show.
func verify(t testing.TB, events []history.Event) *verified {
	var file bytes.Buffer
	w, err := history.NewWriter(&file, history.Header{}, nil)
	require.NoError(t, err)
	for _, e := range events {
		require.NoError(t, w.Append(&e))
	}
	require.NoError(t, w.Close())
	r, err := history.NewReader(&file)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()

	v := &verified{ok: map[history.OpType]int{}, failed: map[history.OpType]int{}, unknown: map[history.OpType]int{},
		processes: map[int64]int{}, retired: map[int64]bool{}, values: map[string]map[int64]string{}, produced: map[int64][]string{},
		errors: map[string]int{}, final: map[string][]history.Record{}, proved: map[string]int64{}, atCall: map[int64]int64{}}
	open := map[int64]*history.Event{}
	appended := map[string]bool{}
	for e, err := range r.All() {
		require.NoError(t, err)
		if e.Kind == history.Invoke {
			require.Nil(t, open[e.Process], "process %d does two things at once", e.Process)
			require.False(t, v.retired[e.Process], "process %d is retired", e.Process)
			for _, value := range e.Op.Values {
				require.False(t, appended[value], "%q is produced twice", value)
				appended[value] = true
				v.produced[e.Process] = append(v.produced[e.Process], value)
			}
			v.processes[e.Process]++
			v.atCall[e.Process] = v.proved[e.Op.Partition]
			open[e.Process] = &e
			continue
		}
		require.True(t, e.Kind.IsReturn())
		call := open[e.Process]
		require.NotNil(t, call, "process %d returns without a call", e.Process)
		delete(open, e.Process)
		require.Equal(t, call.Op.Type, e.Op.Type)
		require.Equal(t, call.Op.Partition, e.Op.Partition)
		v.returned(t, &call.Op, &e)
	}
	require.Empty(t, open, "every operation has returned")
	return v
}

func (v *verified) returned(t testing.TB, call *history.Op, e *history.Event) {
	switch e.Kind {
	case history.Info:
		v.unknown[e.Op.Type]++
		v.retired[e.Process] = true
		v.errors[e.Op.Error]++
	case history.Fail:
		v.failed[e.Op.Type]++
		v.errors[e.Op.Error]++
	default:
		v.ok[e.Op.Type]++
		least, most := e.Op.Offset, e.Op.Offset // of the log's length when the operation happened
		if e.Op.Type == history.Produce {
			most += int64(len(call.Values))
		} else if e.Op.Type == history.Fetch {
			least, most = e.Op.HighWatermark, e.Op.HighWatermark
		}
		if e.Op.Offset != history.Unknown {
			require.GreaterOrEqual(t, least, v.atCall[e.Process], "%s of process %d knows less than what was known before", e.Op.Type, e.Process)
			v.proved[e.Op.Partition] = max(v.proved[e.Op.Partition], most)
		}
		switch e.Op.Type {
		case history.Produce:
			for i, value := range call.Values {
				if e.Op.Offset != history.Unknown {
					v.at(t, e.Op.Partition, e.Op.Offset+int64(i), value)
				}
			}
		case history.Fetch:
			require.Equal(t, call.Node, e.Op.Node)
			for i, r := range e.Op.Records {
				require.Equal(t, call.From+int64(i), r.Offset, "records are dense from the offset asked for")
				require.Less(t, r.Offset, e.Op.HighWatermark)
				v.at(t, e.Op.Partition, r.Offset, r.Value)
			}
			if e.Op.Final {
				require.True(t, call.Final)
				v.final[e.Op.Partition] = append(v.final[e.Op.Partition], e.Op.Records...)
			}
		}
	}
}

// at demands that an offset has one value.
func (v *verified) at(t testing.TB, partition string, offset int64, value string) {
	p := v.values[partition]
	if p == nil {
		p = map[int64]string{}
		v.values[partition] = p
	}
	if was, ok := p[offset]; ok {
		require.Equal(t, was, value, "offset %d of %s", offset, partition)
	}
	p[offset] = value
}

// acked is how many values are known of a partition.
func (v *verified) known(partition string) int { return len(v.values[partition]) }

package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

func TestEventsOfManyClientsStandInTheOrderOfTheirNumbersAndTimes(t *testing.T) {
	const clients, each = 8, 500
	var buf bytes.Buffer
	w, err := history.NewWriter(&buf, history.Header{}, history.Since(time.Now()))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				e := history.Event{Kind: history.Invoke, Process: int64(c),
					Op: history.Op{Type: history.Produce, Partition: "orders-0", Values: []string{fmt.Sprint(c, "-", i)}, Acks: -1}}
				assert.NoError(t, w.Append(&e))
				assert.Positive(t, e.Seq)
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())

	_, got, _ := read(t, buf.Bytes())
	require.Len(t, got, clients*each)
	for i, e := range got {
		require.Equal(t, int64(i+1), e.Seq)
		if i > 0 {
			require.GreaterOrEqual(t, e.Time, got[i-1].Time)
		}
	}
}

func TestMemoryNumbersAndStampsAsTheWriterDoes(t *testing.T) {
	now := int64(0)
	m := history.Memory{Clock: func() int64 { now += 10; return now }}
	_, events := sample()
	for i := range events {
		require.NoError(t, m.Append(&events[i]))
	}
	got := m.Events()
	require.Equal(t, events, got)
	assert.Equal(t, int64(2), got[1].Seq)
	assert.Equal(t, int64(20), got[1].Time)

	more := history.Event{Kind: history.KindSettled, Settled: &history.Settled{}}
	require.NoError(t, m.Append(&more))
	assert.Len(t, got, len(events), "a slice that was handed out does not grow")
	assert.Len(t, m.Events(), len(events)+1)
}

// full is a disk that takes so many bytes and no more.
type full struct{ left int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

func TestAFullDiskIsAnErrorThatSticks(t *testing.T) {
	_, err := history.NewWriter(&full{}, history.Header{}, nil)
	require.ErrorIs(t, err, errFull)

	w, err := history.NewWriter(&full{left: 100}, history.Header{}, nil)
	require.NoError(t, err)
	_, events := sample()
	require.NoError(t, w.Append(&events[0]))
	require.ErrorIs(t, w.Flush(), errFull)
	require.ErrorIs(t, w.Append(&events[1]), errFull)
	require.ErrorIs(t, w.Close(), errFull)
}

func TestAnEventThatCannotBeWrittenIsRefusedAndLeavesNoHole(t *testing.T) {
	produce := func(v string) history.Event {
		return history.Event{Kind: history.Invoke, Op: history.Op{Type: history.Produce, Partition: "p-0", Values: []string{v}}}
	}
	var buf bytes.Buffer
	w, err := history.NewWriter(&buf, history.Header{}, nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		event history.Event
		want  string
	}{
		"a value that is not UTF-8":  {produce("\xff"), `field "values": "\xff" is not UTF-8`},
		"a kind that is none":        {history.Event{}, "event kind 0 is not a kind of history event"},
		"an operation without type":  {history.Event{Kind: history.Invoke}, "operation type 0 is none of produce, fetch, end"},
		"a fault without its fields": {history.Event{Kind: history.KindFault}, "fault event without its fault field"},
		"a node event without them":  {history.Event{Kind: history.KindNode}, "node event without its node field"},
		"a replica without them":     {history.Event{Kind: history.KindReplica}, "replica event without its replica field"},
		"a settled without them":     {history.Event{Kind: history.KindSettled}, "settled event without its settled field"},
		"a fault without phase":      {history.Event{Kind: history.KindFault, Fault: &history.FaultEvent{}}, "fault phase 0 is neither begin nor end"},
	} {
		assert.EqualError(t, w.Append(&c.event), c.want, name)
	}
	good := produce("v")
	require.NoError(t, w.Append(&good))
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "a second close does nothing")
	require.ErrorIs(t, w.Append(&good), history.ErrClosed)
	_, got, _ := read(t, buf.Bytes())
	require.Len(t, got, 1)
	assert.Equal(t, int64(1), got[0].Seq)
}

func TestAHistoryOnDiskIsNeverOverwrittenAndSurvivesCompression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h, events := sample()
	w, err := history.Create(path, h, nil)
	require.NoError(t, err)
	_, err = history.Create(path, h, nil)
	require.ErrorIs(t, err, os.ErrExist)
	for i := range events {
		require.NoError(t, w.Append(&events[i]))
	}
	require.NoError(t, w.Close())

	compressed, err := history.Compress(path)
	require.NoError(t, err)
	assert.Equal(t, path+".zst", compressed)
	assert.NoFileExists(t, path)
	r, err := history.Open(compressed)
	require.NoError(t, err)
	var got []history.Event
	for e, err := range r.All() {
		require.NoError(t, err)
		got = append(got, e)
	}
	require.NoError(t, r.Close())
	assert.Equal(t, events, got)

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = history.Compress(path)
	require.ErrorIs(t, err, os.ErrExist)
	assert.FileExists(t, path, "what could not be compressed stays")
	_, err = history.Compress(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = history.Open(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

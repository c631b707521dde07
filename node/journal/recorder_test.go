package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/control"
	"tidemark/node/inbox"
	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

// readAll reads a journal to its end; cut is what is not whole there.
func readAll(path string) (records []Record, cut int64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	return readBytes(path, data)
}

func readBytes(path string, data []byte) (records []Record, cut int64, err error) {
	r, err := newReader(path, io.NopCloser(bytes.NewReader(data)), int64(len(data)))
	if err != nil {
		return nil, 0, err
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records, r.Cut(), nil
		}
		if err != nil {
			return records, 0, err
		}
		records = append(records, record)
	}
}

func mustRead(t *testing.T, path string) []Record {
	t.Helper()
	records, cut, err := readAll(path)
	require.NoError(t, err)
	require.Zero(t, cut)
	return records
}

func start() *Start {
	return &Start{Node: 2, Broker: &inbox.Config{Hosted: []inbox.Hosted{{Partition: replica.Partition{Topic: "orders"}, MinISR: 2}}}}
}

// echo is a core that answers what it gets, and looks at the world when it does.
type echo struct{ look func(replica.Message) }

func (e echo) Step(_ replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	if e.look != nil {
		e.look(m)
	}
	return append(out, m.Answer(&replica.Registered{BrokerEpoch: int64(m.Number)}))
}

func (e echo) Deadline() replica.Time { return replica.Never }

func poll(number int32) replica.Message {
	return replica.Message{From: 1, To: 2, Number: number, Body: &replica.Poll{}}
}

// record begins a journal of broker 2.
func record(t *testing.T, path string) *Recorder {
	t.Helper()
	r, err := Append(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	require.NoError(t, r.Start(start()))
	require.NoError(t, r.Opened(Opened{Marked: true, BrokerEpoch: 5}, func(replica.Time) []byte { return []byte("state") }))
	return r
}

func TestInputsAreInTheFileBeforeACoreSeesThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.journal")
	r := record(t, path)
	var seen []Record
	core := r.Core(echo{func(replica.Message) { seen = mustRead(t, path) }})

	require.NoError(t, r.Begin(7, true, poll(1), poll(2)))
	core.Step(7, poll(1), nil)
	require.Len(t, seen, 3)
	assert.Equal(t, &Inputs{Now: 7, Tick: true, Messages: []replica.Message{poll(1), poll(2)}}, seen[2], "both, with one write")
	core.Step(7, poll(2), nil)
	require.Len(t, seen, 3, "the outcome of the first waits for the next write")
	r.End(7)
	require.Len(t, mustRead(t, path), 3)

	core.Step(9, poll(3), nil)
	require.Len(t, seen, 5, "a step that nobody announced is announced all the same, behind the outcome of those before")
	assert.Equal(t, &Inputs{Now: 9, Messages: []replica.Message{poll(3)}}, seen[4])

	var trace Trace
	want := &Outcome{}
	for n := range int32(2) {
		trace.Message(poll(n + 1).Answer(&replica.Registered{BrokerEpoch: int64(n + 1)}))
		want.Sums = append(want.Sums, trace.Sum())
	}
	assert.Equal(t, want, seen[3])
	require.NoError(t, r.Flush())
	assert.IsType(t, &Outcome{}, mustRead(t, path)[5])
}

func TestTheStateIsHashedAfterEachStepOfANodeThatHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.journal")
	r, err := Append(path)
	require.NoError(t, err)
	defer r.Close()
	s := start()
	s.Hold = true
	require.NoError(t, r.Start(s))
	require.NoError(t, r.Opened(Opened{}, func(now replica.Time) []byte { return []byte{byte(now)} }))
	core := r.Core(echo{})
	core.Step(1, poll(1), nil)
	core.Step(2, poll(2), nil)
	require.NoError(t, r.Flush())
	records := mustRead(t, path)
	require.Len(t, records, 6)
	assert.Equal(t, StateSum([]byte{1}), *records[3].(*Outcome).State)
	assert.Equal(t, StateSum([]byte{2}), *records[5].(*Outcome).State)
}

// broken is a log that cannot be written.
type broken struct{ replica.Disk }

type brokenLog struct{ replica.Log }

func (b broken) Log(p replica.Partition) (replica.Log, error) {
	l, err := b.Disk.Log(p)
	return brokenLog{l}, err
}

func (brokenLog) Append(replica.Batch) error { return errors.New("no space") }

func TestErrorsOfTheLogAreNotedByStepAndCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.journal")
	r := record(t, path)
	l, err := r.Disk(broken{memory.New()}).Log(replica.Partition{Topic: "orders"})
	require.NoError(t, err)
	require.Error(t, l.Append(replica.Batch{Count: 1}), "outside of a step it is nobody's")
	core := r.Core(echo{func(m replica.Message) {
		if m.Number == 2 {
			_, _ = l.Read(0, 1)
			_ = l.SetEpochs(nil)
			assert.EqualError(t, l.Append(replica.Batch{Count: 1}), "no space")
		}
	}})
	require.NoError(t, r.Begin(0, true, poll(1), poll(2)))
	core.Step(0, poll(1), nil)
	core.Step(0, poll(2), nil)
	r.End(0)
	require.NoError(t, r.Mark(Stopping, nil))
	require.NoError(t, r.Mark(Stopped, errors.New("no way")))
	records := mustRead(t, path)
	require.Len(t, records, 6)
	assert.Equal(t, []Failure{{Step: 1, Call: 2, Error: "no space"}}, records[3].(*Outcome).Failures)
	assert.Equal(t, []Record{&Mark{Event: Stopping}, &Mark{Event: Stopped, Error: "no way"}}, records[4:])
}

func TestWhatIsWrittenToALogIsHashedToo(t *testing.T) {
	sums := map[uint32]string{}
	for name, change := range map[string]func(l replica.Log){
		"nothing":       func(replica.Log) {},
		"an append":     func(l replica.Log) { _ = l.Append(replica.Batch{Count: 1, Data: []byte("twenty bytes of data")}) },
		"other bytes":   func(l replica.Log) { _ = l.Append(replica.Batch{Count: 1, Data: []byte("twenty bytes of date")}) },
		"a truncation":  func(l replica.Log) { _ = l.TruncateTo(0) },
		"a reset":       func(l replica.Log) { _ = l.Reset(4) },
		"epochs":        func(l replica.Log) { _ = l.SetEpochs([]replica.EpochStart{{Epoch: 1}}) },
		"other epochs":  func(l replica.Log) { _ = l.SetEpochs([]replica.EpochStart{{Epoch: 1, Start: 1}}) },
		"two resets":    func(l replica.Log) { _, _ = l.Reset(4), l.Reset(4) },
		"a reset and 0": func(l replica.Log) { _, _ = l.Reset(4), l.Reset(0) },
	} {
		r := &Recorder{}
		l, err := r.Disk(memory.New()).Log(replica.Partition{Topic: "orders"})
		require.NoError(t, err)
		change(l)
		_, _ = l.Read(0, 1) // reading changes nothing
		require.Empty(t, sums[r.trace.Sum()], "%s and %s have one hash", name, sums[r.trace.Sum()])
		sums[r.trace.Sum()] = name
	}
}

func TestANodeWithoutAJournalNeedsNoQuestions(t *testing.T) {
	var r *Recorder
	d, core := memory.New(), echo{}
	assert.Same(t, d, r.Disk(d))
	assert.IsType(t, core, r.Core(core))
	require.NoError(t, r.Start(nil))
	require.NoError(t, r.Opened(Opened{}, nil))
	require.NoError(t, r.Begin(0, true))
	r.End(0)
	require.NoError(t, r.Mark(Flushing, nil))
	require.NoError(t, r.Flush())
	require.NoError(t, r.Close())
}

func TestAJournalThatCannotBeWrittenIsAnErrorFromThenOn(t *testing.T) {
	r := record(t, filepath.Join(t.TempDir(), "node.journal"))
	core := r.Core(echo{})
	require.NoError(t, r.f.Close())
	require.ErrorIs(t, r.Begin(0, true, poll(1)), os.ErrClosed)
	require.ErrorContains(t, r.Mark(Stopping, nil), "journal: ")
	core.Step(0, poll(1), nil)
	require.Error(t, r.Flush())
}

// sample is a journal with every kind of record in it, and those records.
func sample(t *testing.T, path string) []Record {
	t.Helper()
	r, err := Append(path)
	require.NoError(t, err)
	var records []Record
	next := int64(0)
	for _, x := range []Record{&Start{}, &Opened{}, &Inputs{}, &Outcome{}, &Mark{}} {
		fill0(reflect.ValueOf(x).Elem(), &next)
		switch x := x.(type) {
		case *Start:
			x.Controller = nil
		case *Mark:
			x.Event = Flushing
		}
		r.add(x)
		records = append(records, x)
	}
	require.NoError(t, r.Flush())
	require.NoError(t, r.Close())
	return records
}

// fill0 is fill, for records, which have messages in them.
func fill0(v reflect.Value, next *int64) {
	if messages, ok := v.Addr().Interface().(*Inputs); ok {
		*messages = Inputs{Now: 5, Tick: true}
		for _, k := range kinds {
			messages.Messages = append(messages.Messages, filled(k))
		}
		return
	}
	fill(v, next)
}

func TestEveryRecordComesBackWithAllItsFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.journal")
	want := sample(t, path)
	require.Equal(t, want, mustRead(t, path))

	s := &Start{Node: control.Controller}
	next := int64(0)
	fill(reflect.ValueOf(s).Elem(), &next)
	s.Broker = nil
	data, err := appendRecord(nil, s)
	require.NoError(t, err)
	got, err := readRecord(data, nil)
	require.NoError(t, err)
	assert.Equal(t, s, got, "the controller's start too")
}

func TestAJournalThatIsCutOffAnywhereIsReadUpToThereAndGoesOnFromThere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	want := sample(t, whole)
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	ends := 0
	for n := range len(data) {
		path := filepath.Join(dir, "cut")
		records, cut, err := readBytes(path, data[:n])
		require.NoError(t, err, "cut off at byte %d", n)
		require.Less(t, len(records), len(want))
		require.Equal(t, want[:len(records)], append([]Record{}, records...))
		if cut == 0 {
			ends++
		} else if n%50 != 0 {
			continue
		}
		require.NoError(t, os.WriteFile(path, data[:n], 0o644))
		// The next process takes the rest away and writes on.
		r, err := Append(path)
		require.NoError(t, err)
		require.NoError(t, r.Mark(Stopped, nil))
		require.NoError(t, r.Close())
		again, cut, err := readAll(path)
		require.NoError(t, err)
		require.Zero(t, cut)
		require.Equal(t, append(append([]Record{}, records...), &Mark{Event: Stopped}), again)
	}
	assert.Equal(t, len(want)+1, ends, "nothing is missing only between two records, behind the first line, and in an empty file")
}

func TestADamagedByteIsNamedAndNeverRead(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	want := sample(t, whole)
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	path := filepath.Join(dir, "damaged")
	for n := range data {
		changed := append([]byte{}, data...)
		changed[n] ^= 0x10
		records, _, err := readBytes(path, changed)
		require.Error(t, err, "byte %d", n)
		require.ErrorContains(t, err, path)
		if n < len(header) {
			require.True(t, errors.Is(err, ErrNoJournal) || errors.Is(err, ErrVersion), "byte %d: %v", n, err)
		} else {
			require.ErrorIs(t, err, ErrDamaged, "byte %d", n)
			require.ErrorContains(t, err, "record ")
		}
		require.Equal(t, want[:len(records)], append([]Record{}, records...), "byte %d", n)
		if n%50 == 0 {
			require.NoError(t, os.WriteFile(path, changed, 0o644))
			_, err = Append(path)
			require.ErrorContains(t, err, "move it away to begin another", "nothing is written behind it")
		}
	}
}

func TestOtherFilesAndOtherVersionsAreNoJournals(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, content string
		want          error
		says          string
	}{
		{"another version", "tidemark journal 2\n...", ErrVersion, `has version "2", this is 1`},
		{"another file", "offset: 0 position: 0 CreateTime: -1\n", ErrNoJournal, `does not begin with "tidemark journal 1"`},
		{"another file without lines", string(make([]byte, 100)), ErrNoJournal, "does not begin with"},
		{"a word", "tidemark?", ErrNoJournal, "does not begin with"},
	} {
		path := filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o644))
		_, err := Open(path)
		require.ErrorIs(t, err, tc.want, tc.name)
		require.ErrorContains(t, err, tc.says, tc.name)
		_, err = Append(path)
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	_, err := Open(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, ErrNoJournal)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(dir)
	require.ErrorIs(t, err, ErrNoJournal)
}

func FuzzReadingARecordNeverPanics(f *testing.F) {
	for _, k := range kinds {
		data, err := appendRecord(nil, &Inputs{Now: 1, Messages: []replica.Message{filled(k)}})
		require.NoError(f, err)
		f.Add(data)
	}
	for _, x := range []Record{start(), &Opened{Error: "x"}, &Outcome{Sums: []uint32{1, 2}, Failures: []Failure{{1, 2, "y"}}}, &Mark{Event: Stopped}} {
		data, err := appendRecord(nil, x)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readRecord(data, map[string]string{})
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		again, err := appendRecord(nil, r)
		require.NoError(t, err)
		same, err := readRecord(again, nil)
		require.NoError(t, err)
		require.Equal(t, r, same, "what can be read can be written and is the same")
	})
}

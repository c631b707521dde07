package replay_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/journal"
	"tidemark/node/replay"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
)

func TestAKilledProcessRunsAgainUpToTheCallOfItsLogBeforeWhichItDied(t *testing.T) {
	for _, tc := range []struct {
		before  string
		call    int
		handled int
	}{{"a is appended", 1, 0}, {"b is", 2, 1}, {"the epoch of c is written", 3, 2}, {"c is appended", 4, 3}, {"its answers leave", 0, 4}} {
		t.Run("before "+tc.before, func(t *testing.T) {
			w := newWorld(t).boot().lead(3)
			w.dying.calls, w.dying.at = 0, tc.call
			assert.Equal(t, tc.call > 0, w.handle(produce("a"), produce("b"), w.word(4), produce("c")))
			w.boot().lead(5).handle(produce("d"))
			r := w.same()
			require.Len(t, r.Incarnations, 2)
			assert.Equal(t, replay.Incarnation{Inputs: 7, Hashes: 3, Unknown: 4, Handled: tc.handled, Ended: replay.Killed}, r.Incarnations[0])
			assert.Equal(t, replay.Incarnation{Inputs: 4, Hashes: 3, Unknown: 1, Handled: -1, Ended: replay.Open}, r.Incarnations[1])
		})
	}
}

func TestAPowerFailureTakesWhatTheSameCutTakes(t *testing.T) {
	for keep := range 4 {
		t.Run(fmt.Sprint("that leaves ", keep), func(t *testing.T) {
			w := newWorld(t).boot().lead(3)
			w.handle(produce("a"), produce("b"))
			require.NoError(t, w.r.Mark(journal.Flushing, nil))
			require.NoError(t, w.disk.Flush(orders))
			require.NoError(t, w.r.Mark(journal.Flushed, nil))
			w.handle(produce("c"), produce("d"), produce("e"))
			w.boot(replica.LogCut{Keep: keep}).lead(5).handle(produce("f"))
			r := w.same()
			assert.Equal(t, replay.Power, r.Incarnations[0].Ended)
			require.NoError(t, w.r.Flush())

			// It is not believed that more was lost than can have been.
			d := w.changed(func(all []journal.Record) []journal.Record {
				for _, x := range all {
					if s, ok := x.(*journal.Start); ok && s.Power != nil {
						s.Power.Lost = []replica.Lost{{Partition: orders, Operations: 4 - keep}}
					}
				}
				return all
			}).again().Difference
			require.NotNil(t, d)
			assert.Equal(t, 2, d.Incarnation)
			assert.Contains(t, d.What, fmt.Sprintf("what a power failure that leaves %d unflushed operations takes from the log of orders-0", keep))
			assert.Equal(t, fmt.Sprintf("%d operations", 4-keep), d.There)
		})
	}
}

// A flush beside the steps covers at least what was there when it began. What the power failure took says how much it was.
func TestAFlushThatIsUnderWayMayHaveCoveredMore(t *testing.T) {
	for _, ended := range []bool{false, true} {
		for covered := 1; covered <= 3; covered++ {
			w := newWorld(t).boot().lead(3)
			w.handle(produce("a"))
			require.NoError(t, w.r.Mark(journal.Flushing, nil))
			w.handle(produce("b"))
			w.handle(produce("c"))
			w.disk.FlushOldest(orders, covered)
			if ended {
				require.NoError(t, w.r.Mark(journal.Flushed, nil))
			}
			w.handle(produce("d"))
			require.NoError(t, w.r.Flush())
			w.boot(replica.LogCut{}).lead(5)
			w.same()
		}
	}
	// One that is over has covered what was there when it began.
	w := newWorld(t).boot().lead(3)
	w.handle(produce("a"))
	require.NoError(t, w.r.Mark(journal.Flushing, nil))
	require.NoError(t, w.r.Mark(journal.Flushed, nil))
	w.boot(replica.LogCut{}) // nothing was flushed there
	d := w.again().Difference
	require.NotNil(t, d)
	assert.Contains(t, d.What, "what a power failure that leaves 0 unflushed operations takes")
}

func TestACheckpointThatWasBegunIsWrittenOrNot(t *testing.T) {
	for _, written := range []bool{false, true} {
		w := newWorld(t).boot().lead(3)
		w.handle(produce("a"))
		require.NoError(t, w.r.Mark(journal.Checkpointing, nil))
		if written {
			require.NoError(t, w.disk.Checkpoint(w.broker.HighWatermarks()))
		}
		w.boot()
		w.same()
	}
	w := newWorld(t).boot().lead(3)
	w.handle(produce("a"))
	require.NoError(t, w.r.Mark(journal.Checkpointing, nil))
	require.NoError(t, w.r.Mark(journal.Checkpointed, nil))
	w.boot()
	d := w.again().Difference
	require.NotNil(t, d, "one that is over is written")
	assert.Contains(t, d.There, "high watermark 0")
	assert.Contains(t, d.Here, "high watermark 1")
}

func TestACleanStopLeavesItsMarkerForTheNextProcess(t *testing.T) {
	w := newWorld(t).boot().lead(3)
	w.handle(produce("a"))
	require.NoError(t, w.r.Mark(journal.Stopping, nil))
	require.NoError(t, w.broker.Stop())
	require.NoError(t, w.r.Mark(journal.Stopped, nil))
	w.boot().boot()
	r := w.same()
	assert.Equal(t, []replay.How{replay.Clean, replay.Killed, replay.Open}, []replay.How{r.Incarnations[0].Ended, r.Incarnations[1].Ended, r.Incarnations[2].Ended})

	w.changed(func(all []journal.Record) []journal.Record {
		opened := 0
		for i, x := range all {
			if o, ok := x.(*journal.Opened); ok {
				if opened++; opened == 2 {
					require.True(t, o.Marked)
					all[i] = &journal.Opened{State: o.State}
				}
			}
		}
		return all
	})
	d := w.again().Difference
	require.NotNil(t, d)
	assert.Equal(t, 2, d.Incarnation)
	assert.Contains(t, d.Here, "marker of a clean shutdown: there false (broker epoch 0), here true (broker epoch 3)")
}

func TestAStopThatIsKilledIsAsFarAsItGot(t *testing.T) {
	for before, call := range map[string]int{"the checkpoint": 1, "the marker": 2, "it says that it is done": 0} {
		t.Run("before "+before, func(t *testing.T) {
			w := newWorld(t).boot().lead(3)
			w.handle(produce("a"))
			w.dying.calls, w.dying.at = 0, call
			require.NoError(t, w.r.Mark(journal.Stopping, nil))
			require.Equal(t, call > 0, w.until(func() { require.NoError(t, w.broker.Stop()) }))
			w.boot()
			assert.Equal(t, replay.Killed, w.same().Incarnations[0].Ended)
		})
	}
}

// A process that dies between its start and its cores may have taken the marker, or not.
func TestAProcessThatDiesBeforeItHasCoresMayHaveTakenTheMarker(t *testing.T) {
	for _, taken := range []bool{false, true} {
		w := newWorld(t).boot().lead(3)
		require.NoError(t, w.r.Mark(journal.Stopping, nil))
		require.NoError(t, w.broker.Stop())
		require.NoError(t, w.r.Mark(journal.Stopped, nil))
		marked := w.disk.Clone()
		w.boot()
		if !taken {
			w.disk = marked
		}
		w.boot()
		w.changed(func(all []journal.Record) []journal.Record {
			last := slices.IndexFunc(all, func(x journal.Record) bool { m, ok := x.(*journal.Mark); return ok && m.Event == journal.Stopped })
			require.IsType(t, &journal.Opened{}, all[last+2])
			return slices.Delete(all, last+2, last+3)
		})
		r := w.same()
		assert.Equal(t, replay.NoStart, r.Incarnations[1].Ended)
	}
}

func TestErrorsOfTheLogAreMetAgain(t *testing.T) {
	w := newWorld(t).boot().lead(3)
	w.dying.fails = errors.New("append to orders-0: input/output error")
	w.handle(produce("a"), produce("b"))
	v, _ := w.broker.View(orders)
	require.Equal(t, replica.RoleOffline, v.Role)
	w.handle(produce("c"))
	w.boot().lead(5)
	require.NoError(t, w.r.Mark(journal.FailAppend, nil))
	w.broker.FailNextAppend()
	w.handle(produce("d"))
	w.boot()
	w.same()

	// Without the error the same messages come to something else.
	w.changed(func(all []journal.Record) []journal.Record {
		for _, x := range all {
			if o, ok := x.(*journal.Outcome); ok {
				o.Failures = nil
			}
		}
		return all
	})
	d := w.again().Difference
	require.NotNil(t, d)
	assert.Equal(t, "p0->1 Produce#1 of orders-0 (Acks 1, Batch (Count 1, Producer -1, Data 18 bytes))", d.Message)
	assert.Contains(t, d.Here, "Event of orders-0 (What append")
}

// planted is a journal of two incarnations to plant differences in: 3 inputs to lead, and 3 that produce, in each.
func planted(t *testing.T) *world {
	w := newWorld(t).boot().lead(3)
	w.handle(produce("a"), produce("b"))
	w.handle(produce("c"))
	require.NoError(t, w.r.Flush())
	w.boot().lead(5)
	w.handle(produce("d"), produce("e"))
	w.handle(produce("f"))
	require.NoError(t, w.r.Flush())
	assert.Equal(t, 12, w.same().Hashes())
	return w
}

// of changes the n-th record of a kind, counted from 0.
func of[R journal.Record](n int, change func(R)) func([]journal.Record) []journal.Record {
	return func(all []journal.Record) []journal.Record {
		for _, x := range all {
			if r, ok := x.(R); ok {
				if n == 0 {
					change(r)
				}
				n--
			}
		}
		return all
	}
}

func TestADifferenceIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name        string
		change      func([]journal.Record) []journal.Record
		incarnation int
		input       int
		message     string
		what        string
		there, here string
	}{
		{"a bit of a record that was produced", of(3, func(x *journal.Inputs) {
			b := &x.Messages[1].Body.(*replica.Produce).Batch
			b.Data = slices.Clone(b.Data)
			b.Data[17] ^= 1
		}), 1, 5, "p0->1 Produce#1 of orders-0", "what comes of it", "hash ", "What append, Epoch 3, From 1, To 2"},
		{"another sender", of(2, func(x *journal.Inputs) { x.Messages[0].Number = 9 }), 1, 3, "controller->1 LeaderAndIsr#9 of orders-0", "what comes of it",
			"hash ", "1->controller LeaderAndIsr answer#9"},
		{"a message too many", of(4, func(x *journal.Inputs) { x.Messages = append(x.Messages, produce("x")) }), 1, 7, "p0->1 Produce#1", "whether it was handled",
			"it was not", "it is: "},
		{"a message too few", of(3, func(x *journal.Inputs) { x.Messages = x.Messages[:1] }), 1, 5, "1->1 Tick", "whether time is due", "a tick", "none"},
		{"another hash", of(8, func(x *journal.Outcome) { x.Sums[1]++ }), 2, 5, "p0->1 Produce#1", "what comes of it", "hash ", "hash "},
		{"another state at the start", of(1, func(x *journal.Opened) { x.State++ }), 2, 0, "", "the state after the start", "hash ", "broker epoch -1, fenced true; orders-0 {Role:none"},
		{"another state later", of(3, func(x *journal.Outcome) { x.State = new(uint32) }), 1, 5, "p0->1 Produce#1", "the state behind it", "hash 00000000", "orders-0 {Role:leader Truncating:false Leader:1 LeaderEpoch:3"},
		{"another content of the log", of(1, func(x *journal.Start) { x.Disk[0].Content++ }), 2, 0, "", "what the process found in the log of orders-0", "content ", "offsets [0, 3)"},
		{"another end of the log", of(1, func(x *journal.Start) { x.Disk[0].End-- }), 2, 0, "", "what the process found in the log of orders-0", "offsets [0, 2)", "offsets [0, 3)"},
		{"an error that no call meets", of(3, func(x *journal.Outcome) { x.Failures = []journal.Failure{{Step: 1, Call: 7, Error: "full"}} }), 1, 5, "p0->1 Produce#1",
			"the calls of the log", "call 8 failed: full", "1 calls"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := planted(t).changed(tc.change).again()
			d := r.Difference
			require.NotNil(t, d)
			assert.Equal(t, tc.incarnation, d.Incarnation)
			assert.Equal(t, tc.input, d.Input)
			assert.Contains(t, d.Message, tc.message)
			assert.Equal(t, tc.what, d.What)
			assert.Contains(t, d.There, tc.there)
			assert.Contains(t, d.Here, tc.here)
			assert.Contains(t, d.String(), fmt.Sprintf("incarnation %d", tc.incarnation))
			if tc.input > 0 {
				assert.Contains(t, d.String(), fmt.Sprintf(", input %d, at 0.000000 s: %s", tc.input, d.Message))
			}
		})
	}
}

func TestOtherRulesAreNoticedWhereTheyFirstMatter(t *testing.T) {
	w := planted(t)
	r, err := replay.Run(t.Context(), w.path, replay.Options{Rules: func(s rules.Set) (rules.Set, error) {
		assert.Equal(t, rules.Of(rules.KIP320), s)
		return s.With([]string{"fetch-fencing"}, nil)
	}})
	require.NoError(t, err)
	assert.Nil(t, r.Difference, "nobody fetches here")
	w.handle(replica.Message{From: 2, To: 1, Partition: orders, Number: 1, Body: &replica.Fetch{Offset: 0, LeaderEpoch: 4}})
	require.NoError(t, w.r.Flush())
	w.same()
	r, err = replay.Run(t.Context(), w.path, replay.Options{Rules: func(s rules.Set) (rules.Set, error) { return s.With([]string{"fetch-fencing"}, nil) }})
	require.NoError(t, err)
	require.NotNil(t, r.Difference)
	assert.Equal(t, "2->1 Fetch#1 of orders-0 (LeaderEpoch 4)", r.Difference.Message)
	_, err = replay.Run(t.Context(), w.path, replay.Options{Rules: func(s rules.Set) (rules.Set, error) { return s.With([]string{"no-such"}, nil) }})
	require.ErrorContains(t, err, "no-such")
}

func TestAJournalThatIsCutOffRunsAgainUpToItsEnd(t *testing.T) {
	w := planted(t)
	data, err := os.ReadFile(w.path)
	require.NoError(t, err)
	whole := records(t, w.path)
	seen := map[bool]bool{}
	for n := 0; n < len(data); n += 3 {
		require.NoError(t, os.WriteFile(w.path, data[:n], 0o644))
		r := w.same()
		seen[r.Cut > 0] = true
		require.LessOrEqual(t, r.Hashes(), 12)
	}
	assert.True(t, seen[true])
	// Also where it ends between two records.
	for n := range whole {
		w.changed(func([]journal.Record) []journal.Record { return whole[:n] })
		require.Zero(t, w.same().Cut)
	}
}

func TestWhatIsNoJournalOrNotFromTheBeginningIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.journal")
	run := func() error {
		_, err := replay.Run(t.Context(), path, replay.Options{})
		return err
	}
	require.ErrorIs(t, run(), journal.ErrNoJournal)
	require.NoError(t, os.WriteFile(path, []byte("tidemark journal 7\n"), 0o644))
	require.ErrorIs(t, run(), journal.ErrVersion)
	data, err := os.ReadFile(planted(t).path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
	require.ErrorIs(t, run(), journal.ErrDamaged)

	w := newWorld(t)
	l, _ := w.disk.Log(orders)
	require.NoError(t, l.Append(replica.Batch{Count: 1}))
	w.boot()
	_, err = replay.Run(t.Context(), w.path, replay.Options{})
	require.ErrorIs(t, err, replay.ErrNoBeginning)
	require.ErrorContains(t, err, "orders-0 had the offsets [0, 1) then")

	for name, change := range map[string]func([]journal.Record) []journal.Record{
		"it begins with something else than a start": func(all []journal.Record) []journal.Record { return all[1:] },
		"cores are opened twice":                     func(all []journal.Record) []journal.Record { return slices.Insert(all, 2, all[1]) },
		"inputs in the middle of others":             func(all []journal.Record) []journal.Record { return slices.Delete(all, 3, 4) },
		"an outcome without inputs":                  func(all []journal.Record) []journal.Record { return slices.Delete(all, 2, 3) },
		"a mark in the middle of inputs": func(all []journal.Record) []journal.Record {
			return slices.Insert(all, 3, journal.Record(&journal.Mark{Event: journal.Flushing}))
		},
		"it is of node 1 and goes on with node 2": of(1, func(s *journal.Start) { s.Node = 2 }),
	} {
		w := planted(t).changed(change)
		_, err := replay.Run(t.Context(), w.path, replay.Options{})
		require.ErrorIs(t, err, journal.ErrDamaged, name)
		require.ErrorContains(t, err, name)
	}
}

// The controller's record is durable before anything of a step leaves.
func TestTheControllerRunsAgainFromTheRecordThatItFinds(t *testing.T) {
	config := controller.Config{Rules: rules.Of(rules.KIP320), Brokers: []replica.ID{1}, Topics: []controller.Topic{{Partition: orders, Replicas: []replica.ID{1}, MinISR: 1}}}
	register := replica.Message{From: 1, To: replica.Controller, Number: 1, Body: &session.Registration{Incarnation: 5, Previous: replica.NoBrokerEpoch}}
	beat := replica.Message{From: 1, To: replica.Controller, Number: 2, Body: &session.Heartbeat{BrokerEpoch: 1}}
	for _, written := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "node.journal")
		var record []byte
		boot := func() (*journal.Recorder, *controller.Controller) {
			r, err := journal.Append(path)
			require.NoError(t, err)
			require.NoError(t, r.Start(&journal.Start{Node: control.Controller, Controller: &config, Record: record}))
			k, err := controller.Open(config)
			if record != nil {
				k, err = controller.Restore(config, 0, record)
			}
			require.NoError(t, err)
			require.NoError(t, r.Opened(journal.Opened{}, func(replica.Time) []byte { return k.AppendState(nil) }))
			return r, k
		}
		r, k := boot()
		core := r.Core(k)
		core.Step(1, register, nil)
		var err error
		record, err = k.AppendSnapshot(nil)
		require.NoError(t, err)
		core.Step(2, beat, nil)
		if written {
			record, err = k.AppendSnapshot(nil)
			require.NoError(t, err)
		}
		require.NoError(t, r.Close())
		r, k = boot()
		r.Core(k).Step(3, beat, nil)
		require.NoError(t, r.Mark(journal.Stopping, nil))
		require.NoError(t, r.Mark(journal.Stopped, nil))
		require.NoError(t, r.Close())
		got, err := replay.Run(t.Context(), path, replay.Options{})
		require.NoError(t, err)
		require.Nil(t, got.Difference, "%s", got.Difference)
		assert.Equal(t, control.Controller, got.Node)
		assert.Equal(t, replay.Clean, got.Incarnations[1].Ended)

		record = append([]byte(nil), record...)
		record[len(record)-2] ^= 1
		r, err = journal.Append(path)
		require.NoError(t, err)
		require.NoError(t, r.Start(&journal.Start{Node: control.Controller, Controller: &config, Record: record}))
		require.NoError(t, r.Close())
		got, err = replay.Run(t.Context(), path, replay.Options{})
		require.NoError(t, err)
		require.NotNil(t, got.Difference)
		assert.Equal(t, "the record that the controller found", got.Difference.What)
	}
}

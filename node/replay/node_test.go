package replay_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/node/inbox"
	"tidemark/node/journal"
	"tidemark/node/replay"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

var orders = replica.Partition{Topic: "orders"}

// world is broker 1 in tests: its disk and its journal, and the process that runs, if one does.
type world struct {
	t       *testing.T
	path    string
	disk    *memory.Disk
	r       *journal.Recorder
	broker  *inbox.Broker
	core    inbox.Core
	dying   *dying
	numbers int32
}

func newWorld(t *testing.T) *world {
	return &world{t: t, path: filepath.Join(t.TempDir(), "node.journal"), disk: memory.New()}
}

// dying is a disk on which the process dies before a change of a log, counted from 1; 0: it does not. Logs of it can be made to fail.
type dying struct {
	replica.Disk
	at, calls int
	fails     error // of the next append
}

type dyingLog struct {
	replica.Log
	d *dying
}

func (d *dying) Log(p replica.Partition) (replica.Log, error) {
	l, err := d.Disk.Log(p)
	return dyingLog{l, d}, err
}

func (d *dying) call() {
	if d.calls++; d.calls == d.at {
		panic(d)
	}
}

func (l dyingLog) Append(b replica.Batch) error {
	l.d.call()
	if err := l.d.fails; err != nil {
		l.d.fails = nil
		return err
	}
	return l.Log.Append(b)
}
func (l dyingLog) TruncateTo(offset int64) error          { l.d.call(); return l.Log.TruncateTo(offset) }
func (l dyingLog) SetEpochs(e []replica.EpochStart) error { l.d.call(); return l.Log.SetEpochs(e) }
func (d *dying) CleanShutdown(epoch int64) error          { d.call(); return d.Disk.CleanShutdown(epoch) }
func (d *dying) Checkpoint(h map[replica.Partition]int64) error {
	d.call()
	return d.Disk.Checkpoint(h)
}

// until runs something and says whether the process died in it.
func (w *world) until(do func()) (died bool) {
	defer func() {
		if x := recover(); x != nil {
			require.Equal(w.t, any(w.dying), x)
			died = true
		}
	}()
	do()
	return false
}

// boot starts a process, after a power failure with that cut, if there is one.
func (w *world) boot(power ...replica.LogCut) *world {
	w.t.Helper()
	if w.r != nil {
		require.NoError(w.t, w.r.Close()) // what was not written is not there: the process was killed
	}
	var err error
	w.r, err = journal.Append(w.path)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = w.r.Close() })
	w.numbers += 1000
	c := inbox.Config{Session: session.Config{Self: 1, Incarnation: uint64(w.numbers), FirstNumber: w.numbers},
		Replica: replica.Config{Self: 1, Rules: rules.Of(rules.KIP320), FirstNumber: w.numbers},
		Hosted:  []inbox.Hosted{{Partition: orders, MinISR: 1}}}
	s := &journal.Start{Node: 1, Broker: &c}
	if len(power) > 0 {
		lost, _ := w.disk.Power(replica.Cut{orders: power[0]})
		s.Power = &journal.Power{Cut: []journal.Cut{{Partition: orders, LogCut: power[0]}}, Lost: lost}
	}
	l, _ := w.disk.Log(orders)
	found, err := journal.Look(orders, l)
	require.NoError(w.t, err)
	s.Disk = []journal.Found{found}
	require.NoError(w.t, w.r.Start(s))
	epoch, marked, _ := w.disk.Clone().TakeCleanShutdown()
	w.dying = &dying{Disk: w.disk}
	w.broker, err = inbox.Start(c, w.r.Disk(w.dying))
	require.NoError(w.t, err)
	require.NoError(w.t, w.r.Opened(journal.Opened{Marked: marked, BrokerEpoch: epoch}, func(now replica.Time) []byte { return w.broker.AppendState(now, nil) }))
	w.core = w.r.Core(w.broker)
	return w
}

// handle has messages handled together. The outcome is in the journal unless the process dies in it or next.
func (w *world) handle(messages ...replica.Message) (died bool) {
	return w.until(func() {
		require.NoError(w.t, w.r.Begin(1, false, messages...))
		for _, m := range messages {
			w.core.Step(1, m, nil)
		}
		w.r.End(1)
	})
}

// lead registers the broker, with a broker epoch that is the leader epoch too, and lets it lead, alone.
func (w *world) lead(epoch int32) *world {
	w.handle(replica.Message{From: 1, To: 1, Body: &replica.Poll{}})
	w.handle(replica.Message{From: replica.Controller, To: 1, Number: w.numbers, Body: &session.RegistrationAnswer{BrokerEpoch: int64(epoch)}})
	w.handle(w.word(epoch))
	return w
}

// word is the controller's word that the broker leads.
func (w *world) word(epoch int32) replica.Message {
	isr := []replica.ID{1}
	return replica.Message{From: replica.Controller, To: 1, Partition: orders, Number: epoch, Body: &replica.LeaderAndIsr{Version: int64(epoch), Leader: 1,
		LeaderEpoch: epoch, PartitionEpoch: epoch, Replicas: isr, ISR: isr, BrokerEpoch: w.broker.Session().BrokerEpoch()}}
}

func produce(value string) replica.Message {
	return replica.Message{From: replica.Client(0), To: 1, Partition: orders, Number: 1, Body: &replica.Produce{Acks: replica.AcksOne,
		Batch: replica.Batch{Count: 1, Producer: replica.NoProducer, Data: []byte("sixteen bytes... " + value)}}}
}

// again runs the node again from its journal.
func (w *world) again() *replay.Report {
	w.t.Helper()
	r, err := replay.Run(w.t.Context(), w.path, replay.Options{})
	require.NoError(w.t, err)
	return r
}

// same wants the node to run again without a difference.
func (w *world) same() *replay.Report {
	w.t.Helper()
	r := w.again()
	require.Nil(w.t, r.Difference, "%s", r.Difference)
	return r
}

// records reads a journal.
func records(t *testing.T, path string) []journal.Record {
	t.Helper()
	r, err := journal.Open(path)
	require.NoError(t, err)
	defer r.Close()
	var all []journal.Record
	for {
		x, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, x)
	}
}

// changed writes the journal anew, changed.
func (w *world) changed(change func([]journal.Record) []journal.Record) *world {
	w.t.Helper()
	data, err := journal.Encode(change(slices.Clone(records(w.t, w.path)))...)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(w.path, data, 0o644))
	return w
}

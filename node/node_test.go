package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"tidemark/node/control"
	"tidemark/node/replay"
	"tidemark/node/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; nothing takes that long.
const patience = 30 * time.Second

const anyPort = "127.0.0.1:0"

var quiet = slog.New(slog.DiscardHandler)

// running is a node that runs in this process, so that the race detector sees into it.
type running struct {
	t     *testing.T
	ready Ready
	stop  context.CancelFunc
	ended chan struct{} // closed when it has ended
	err   error         // read after ended

	mu     sync.Mutex
	events []control.Event
}

// run runs a node until the test ends or it is stopped, and returns when it is ready or has failed.
func run(t *testing.T, node func(ctx context.Context, out io.Writer) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stop: cancel, ended: make(chan struct{})}
	in, out := io.Pipe()
	ready := make(chan Ready, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var l Line
			if !assert.NoError(t, json.Unmarshal(lines.Bytes(), &l)) {
				return
			}
			if l.Ready != nil {
				ready <- *l.Ready
				continue
			}
			r.mu.Lock()
			r.events = append(r.events, *l.Event)
			r.mu.Unlock()
		}
	}()
	go func() {
		defer close(r.ended)
		r.err = node(ctx, out)
		_ = out.Close()
		<-read
	}()
	t.Cleanup(func() { cancel(); <-r.ended })
	select {
	case r.ready = <-ready:
	case <-r.ended:
	case <-time.After(patience):
		require.FailNow(t, "the node does not get ready")
	}
	return r
}

// shutDown stops the node in order.
func (r *running) shutDown() {
	r.t.Helper()
	r.stop()
	<-r.ended
	require.NoError(r.t, r.err)
}

// command gives the node a command.
func (r *running) command(c control.Command) control.Reply {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.ready.Control)
	require.NoError(r.t, err)
	k := control.NewClient(nc)
	defer k.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	reply, err := k.Do(ctx, c)
	require.NoError(r.t, err)
	return reply
}

func (r *running) look() control.View { return r.command(control.Command{Do: control.Look}).View }

// reported lists what the node has reported so far.
func (r *running) reported(what string) []control.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e control.Event) bool { return e.What != what })
}

// trio is a controller and three brokers.
type trio struct {
	t          *testing.T
	dir        string
	hold       bool
	topics     []Topic
	controller *running
	brokers    map[control.NodeID]*running
}

var ids = []control.NodeID{1, 2, 3}

func newTrio(t *testing.T) *trio {
	x := &trio{t: t, dir: t.TempDir(), topics: []Topic{{Name: "orders", Partitions: [][]control.NodeID{{1, 2, 3}, {2, 3, 1}}}}, brokers: map[control.NodeID]*running{}}
	x.startController(anyPort)
	for _, n := range ids {
		x.start(n)
	}
	x.inSync()
	return x
}

func (x *trio) controllerConfig(listen string) ControllerConfig {
	return ControllerConfig{Listen: listen, Control: anyPort, Brokers: ids, Dir: filepath.Join(x.dir, "controller"), Rules: rules.Of(rules.KIP320),
		Topics: x.topics, Settings: Defaults(), Log: quiet}
}

func (x *trio) startController(listen string) {
	c := x.controllerConfig(listen)
	x.controller = run(x.t, func(ctx context.Context, out io.Writer) error { c.Out = out; return RunController(ctx, c) })
	require.Equal(x.t, control.Controller, x.controller.ready.Node)
}

func (x *trio) brokerConfig(n control.NodeID) BrokerConfig {
	return BrokerConfig{ID: n, Listen: anyPort, Control: anyPort, Controller: x.controller.ready.Listen, Dir: filepath.Join(x.dir, n.String()), Hold: x.hold,
		Rules: rules.Of(rules.KIP320), Topics: x.topics, Settings: Defaults(), Log: quiet}
}

// start starts a broker on whatever port is free: others learn of it from the controller.
func (x *trio) start(n control.NodeID) {
	c := x.brokerConfig(n)
	x.brokers[n] = run(x.t, func(ctx context.Context, out io.Writer) error { c.Out = out; return RunBroker(ctx, c) })
	require.Equal(x.t, n, x.brokers[n].ready.Node)
}

// inSync waits until every broker's process is a member of the cluster and has its part in every partition's ISR.
func (x *trio) inSync() {
	x.t.Helper()
	require.Eventually(x.t, func() bool {
		for _, r := range x.controller.look().Records {
			if r.Leader == 0 || len(r.ISR) < len(ids) {
				return false
			}
			for _, b := range x.brokers {
				v := b.look()
				i := slices.IndexFunc(v.Partitions, func(p control.PartitionView) bool { return p.Partition == r.Partition })
				if v.Fenced || v.Partitions[i].Role == "none" || v.Partitions[i].LeaderEpoch != r.LeaderEpoch {
					return false
				}
			}
		}
		return true
	}, patience, 10*time.Millisecond)
}

func (x *trio) seeds() (addresses []string) {
	for _, n := range ids {
		addresses = append(addresses, x.brokers[n].ready.Listen)
	}
	return addresses
}

// client is an ordinary client: idempotent, with acks=all and retries without end.
func (x *trio) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(x.seeds()...), kgo.DefaultProduceTopic("orders"), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))...)
	require.NoError(x.t, err)
	x.t.Cleanup(cl.Close)
	return cl
}

// holds wants exactly these values in a partition, in order.
func (x *trio) holds(partition int32, values []string) {
	x.t.Helper()
	cl := x.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {partition: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	var got []string
	for len(got) < len(values) {
		fetches := cl.PollFetches(ctx)
		require.NoError(x.t, fetches.Err(), "after %d of %d values", len(got), len(values))
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	require.Equal(x.t, values, got)
}

func TestAnIdempotentClientSeesEachValueOnceWhileNodesComeAndGo(t *testing.T) {
	x := newTrio(t)
	cl := x.client()
	var values []string
	results := make(chan error, 1000)
	waiting := 0
	produce := func(n int) {
		for range n {
			v := fmt.Sprintf("value-%d", len(values))
			values = append(values, v)
			cl.Produce(t.Context(), &kgo.Record{Partition: 1, Value: []byte(v)}, func(_ *kgo.Record, err error) { results <- err })
			waiting++
		}
	}
	acknowledged := func() {
		for ; waiting > 0; waiting-- {
			select {
			case err := <-results:
				require.NoError(t, err)
			case <-time.After(patience):
				require.FailNow(t, "a record is not acknowledged")
			}
		}
	}
	produce(20)
	acknowledged()

	// Each broker in turn, on another port, with records on the way.
	for _, n := range ids {
		produce(20)
		x.brokers[n].shutDown()
		produce(20)
		x.start(n)
		x.inSync()
	}
	acknowledged()

	// The controller is back with its record, where the brokers know it to be; and a leader moves after that.
	before := x.controller.look()
	listen := x.controller.ready.Listen
	x.controller.shutDown()
	produce(20)
	x.startController(listen)
	x.inSync()
	after := x.controller.look()
	for i, r := range after.Records {
		was := before.Records[i]
		require.True(t, r.Created)
		require.Equal(t, was.Replicas, r.Replicas)
		require.GreaterOrEqual(t, r.LeaderEpoch, was.LeaderEpoch, "epochs never fall")
		require.GreaterOrEqual(t, r.PartitionEpoch, was.PartitionEpoch)
	}
	for _, b := range after.Brokers {
		i := slices.IndexFunc(before.Brokers, func(o control.BrokerView) bool { return o.Node == b.Node })
		require.Equal(t, before.Brokers[i].Epoch, b.Epoch, "sessions go on over a restart of the controller")
	}
	former := after.Records[1].Leader
	x.brokers[former].shutDown()
	produce(20)
	acknowledged()
	require.NotEqual(t, former, x.controller.look().Records[1].Leader)
	x.start(former)
	x.inSync()
	x.holds(1, values)

	// All of it runs again from the journals: the clean stops, and the producers' state.
	x.controller.shutDown()
	for _, dir := range []string{"controller", "1", "2", "3"} {
		if b := x.brokers[parseID(dir)]; b != nil {
			b.shutDown()
		}
		r, err := replay.Run(t.Context(), JournalPath(filepath.Join(x.dir, dir)), replay.Options{})
		require.NoError(t, err)
		require.Nil(t, r.Difference, "%s: %s", dir, r.Difference)
		require.GreaterOrEqual(t, len(r.Incarnations), 2)
		for _, i := range r.Incarnations {
			require.Equal(t, replay.Clean, i.Ended, dir)
			require.Zero(t, i.Unknown, "who stops cleanly writes everything down")
		}
	}
}

// parseID is the broker whose folder that is, 0 if it is none's.
func parseID(dir string) control.NodeID {
	n, _ := strconv.Atoi(dir)
	return control.NodeID(n)
}

func TestAJournalIsWrittenByNodesThatAHarnessWatches(t *testing.T) {
	x := &trio{t: t, dir: t.TempDir(), topics: []Topic{{Name: "orders", Partitions: [][]control.NodeID{{1, 2, 3}}}}, brokers: map[control.NodeID]*running{}}
	x.startController(anyPort)
	for _, tc := range []struct {
		name   string
		change func(*BrokerConfig)
		want   bool
	}{
		{"with a control listener", func(*BrokerConfig) {}, true},
		{"without one", func(c *BrokerConfig) { c.Control = "" }, false},
		{"that are told not to", func(c *BrokerConfig) { c.NoJournal = true }, false},
	} {
		c := x.brokerConfig(1)
		c.Dir = t.TempDir()
		tc.change(&c)
		run(t, func(ctx context.Context, out io.Writer) error { c.Out = out; return RunBroker(ctx, c) }).shutDown()
		_, err := os.Stat(JournalPath(c.Dir))
		require.Equal(t, tc.want, err == nil, tc.name)
	}
	c := x.controllerConfig(anyPort)
	c.Dir, c.NoJournal = t.TempDir(), true
	run(t, func(ctx context.Context, out io.Writer) error { c.Out = out; return RunController(ctx, c) }).shutDown()
	require.NoFileExists(t, JournalPath(c.Dir))
	require.FileExists(t, JournalPath(filepath.Join(x.dir, "controller")))
}

func TestProducersGetTheirIdsFromMembersOfTheClusterOnly(t *testing.T) {
	x := &trio{t: t, dir: t.TempDir(), topics: []Topic{{Name: "orders", Partitions: [][]control.NodeID{{1, 2, 3}}}}, brokers: map[control.NodeID]*running{}}
	later, err := net.Listen("tcp", anyPort) // where the controller will be
	require.NoError(t, err)
	x.controller = &running{ready: Ready{Listen: later.Addr().String()}}
	ask := func(n control.NodeID) *kmsg.InitProducerIDResponse {
		cl, err := kgo.NewClient(kgo.SeedBrokers(x.brokers[n].ready.Listen))
		require.NoError(t, err)
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := cl.SeedBrokers()[0].Request(ctx, req)
		require.NoError(t, err)
		return resp.(*kmsg.InitProducerIDResponse)
	}
	// Brokers that do not know their epoch yet would all begin with the same number.
	for _, n := range ids {
		x.start(n)
		resp := ask(n)
		require.ErrorIs(t, kerr.ErrorForCode(resp.ErrorCode), kerr.CoordinatorLoadInProgress)
		require.EqualValues(t, -1, resp.ProducerID)
	}
	require.NoError(t, later.Close())
	x.startController(later.Addr().String())
	x.inSync()
	given := map[int64]bool{}
	for range 3 {
		for _, n := range ids {
			resp := ask(n)
			require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
			require.False(t, given[resp.ProducerID], "%d is given twice", resp.ProducerID)
			given[resp.ProducerID] = true
		}
	}
}

func TestANodeThatMovesByItselfTakesLooksAndElectionsOnly(t *testing.T) {
	x := newTrio(t)
	b, k := x.brokers[2], x.controller
	for _, do := range []control.Verb{control.Poll, control.Heartbeat, control.Lag, control.Flush, control.Checkpoint, control.FailAppend,
		control.Deliver, control.Drop, control.Break, control.Cut} {
		assert.Contains(t, b.command(control.Command{Do: do}).Error, string(do)+": the node moves by itself")
	}
	assert.Contains(t, k.command(control.Command{Do: control.Push, Node: 2}).Error, "the node moves by itself")
	assert.Contains(t, b.command(control.Command{Do: "jump"}).Error, "jump")
	assert.Contains(t, k.command(control.Command{Do: control.Await}).Error, "await names no message")
	assert.Contains(t, k.command(control.Command{Do: control.Resend}).Error, "resend names no message")

	v := b.look()
	require.Len(t, v.Partitions, 2)
	assert.Empty(t, v.Held)
	assert.Equal(t, control.NodeID(2), v.Node)

	// An election that people ask for is one that the brokers follow.
	require.Equal(t, control.NodeID(1), k.look().Records[0].Leader)
	require.Empty(t, k.command(control.Command{Do: control.Transfer, Node: 3}).Error)
	require.Eventually(t, func() bool { return x.brokers[3].look().Partitions[0].Role == "leader" }, patience, 5*time.Millisecond)
	require.Empty(t, k.command(control.Command{Do: control.Fence, Node: 3}).Error)
	require.Eventually(t, func() bool { return len(k.reported("fenced")) > 0 }, patience, 5*time.Millisecond)
	x.inSync() // its next heartbeat brings it back
	assert.NotEqual(t, control.NodeID(3), k.look().Records[0].Leader)
	x.holdsNothing()
}

// holdsNothing wants every log to be empty: commands have written nothing.
func (x *trio) holdsNothing() {
	for _, n := range ids {
		for _, p := range x.brokers[n].look().Partitions {
			require.Zero(x.t, p.LEO, "%s on %d", p.Partition, n)
		}
	}
}

func TestANodeUnderHoldMovesByCommandsOnly(t *testing.T) {
	x := &trio{t: t, dir: t.TempDir(), hold: true, topics: []Topic{{Name: "orders", Partitions: [][]control.NodeID{{1}}}}, brokers: map[control.NodeID]*running{}}
	c := x.controllerConfig(anyPort)
	c.Hold, c.Brokers = true, ids[:1]
	k := run(t, func(ctx context.Context, out io.Writer) error { c.Out = out; return RunController(ctx, c) })
	x.controller = k
	x.start(1)
	b := x.brokers[1]

	// It registers when it is told to. The request waits at the controller, by its name, until it is delivered.
	require.Empty(t, k.look().Held)
	sent := b.command(control.Command{Do: control.Heartbeat}).Sent
	require.Equal(t, []control.Message{{From: "1", To: "controller", Kind: "BrokerRegistration", Number: 1}}, sent)
	require.Eventually(t, func() bool {
		return k.command(control.Command{Do: control.Await, Message: &sent[0]}).Fate == control.FateHeld
	}, patience, time.Millisecond)
	require.Equal(t, sent, k.look().Held)
	require.Empty(t, k.look().Brokers, "nobody has read it")

	// Sent once more it is still one, and once it was taken it does not come back.
	require.Empty(t, b.command(control.Command{Do: control.Resend, Message: &sent[0]}).Error)
	reply := k.command(control.Command{Do: control.Deliver, Message: &sent[0]})
	require.Empty(t, reply.Error)
	require.Equal(t, "BrokerRegistration answer", reply.Sent[0].Kind)
	require.Empty(t, k.look().Held)
	require.Contains(t, k.command(control.Command{Do: control.Deliver, Message: &sent[0]}).Error, "1->controller BrokerRegistration#1 does not wait at controller")
	require.Len(t, k.look().Brokers, 1)

	// The answer waits at the broker, where it can be lost.
	require.Eventually(t, func() bool { return len(b.look().Held) == 1 }, patience, time.Millisecond)
	require.Empty(t, b.command(control.Command{Do: control.Drop, Message: &reply.Sent[0]}).Error)
	require.Empty(t, b.look().Held)
	require.True(t, b.look().Fenced)

	// What nobody sent has not arrived, and cannot be sent again.
	ghost := control.Message{From: "1", To: "controller", Kind: "BrokerHeartbeat", Number: 77}
	reply = k.command(control.Command{Do: control.Await, Message: &ghost})
	require.Empty(t, reply.Fate)
	require.Empty(t, reply.Error)
	require.Contains(t, b.command(control.Command{Do: control.Resend, Message: &ghost}).Error, "1->controller BrokerHeartbeat#77 was not sent from here")
}

func TestANodeThatCannotStartSaysWhy(t *testing.T) {
	busy, err := net.Listen("tcp", anyPort)
	require.NoError(t, err)
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	gone := errors.New("nobody reads")
	notes := t.TempDir()
	require.NoError(t, os.WriteFile(JournalPath(notes), []byte("Dear diary,\n"), 0o644))

	x := &trio{t: t, dir: t.TempDir(), topics: []Topic{{Name: "orders", Partitions: [][]control.NodeID{{1, 2, 3}}}}, brokers: map[control.NodeID]*running{}}
	x.startController(anyPort)
	x.start(1)
	for _, tc := range []struct {
		name   string
		change func(*BrokerConfig)
		want   string
	}{
		{"a port that is taken", func(c *BrokerConfig) { c.Listen = busy.Addr().String() }, "address already in use"},
		{"a control port that is taken", func(c *BrokerConfig) { c.Control = busy.Addr().String() }, "control listener: "},
		{"a folder that is a file", func(c *BrokerConfig) { c.Dir = file }, "not a directory"},
		{"a journal that is none", func(c *BrokerConfig) { c.Dir = notes }, "journal: no journal: "},
		{"a folder that another broker uses", func(c *BrokerConfig) { c.Dir = filepath.Join(x.dir, "1") }, "is in use by another broker"},
		{"an output that nobody reads", func(c *BrokerConfig) { c.Out = failing{gone} }, gone.Error()},
	} {
		t.Run("a broker with "+tc.name, func(t *testing.T) {
			c := x.brokerConfig(2)
			c.Out = io.Discard
			tc.change(&c)
			require.ErrorContains(t, RunBroker(t.Context(), c), tc.want)
		})
	}

	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, snapshotFile), []byte(`{"Version":`), 0o644))
	x.controller.shutDown()
	for _, tc := range []struct {
		name   string
		change func(*ControllerConfig)
		want   string
	}{
		{"a port that is taken", func(c *ControllerConfig) { c.Listen = busy.Addr().String() }, "address already in use"},
		{"a folder that is a file", func(c *ControllerConfig) { c.Dir = file }, "not a directory"},
		{"a record that is damaged", func(c *ControllerConfig) { c.Dir = damaged }, "controller snapshot: unexpected end of JSON"},
		{"a journal that is none", func(c *ControllerConfig) { c.Dir = notes }, "journal: no journal: "},
		{"a record of other topics", func(c *ControllerConfig) {
			c.Topics = []Topic{{Name: "payments", Partitions: [][]control.NodeID{{1, 2, 3}}}}
		}, "start with an empty folder or the old topics"},
		{"an output that nobody reads", func(c *ControllerConfig) { c.Out = failing{gone} }, gone.Error()},
	} {
		t.Run("a controller with "+tc.name, func(t *testing.T) {
			c := x.controllerConfig(anyPort)
			c.Out = io.Discard
			tc.change(&c)
			require.ErrorContains(t, RunController(t.Context(), c), tc.want)
		})
	}
}

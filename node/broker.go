package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/node/control"
	"tidemark/node/inbox"
	"tidemark/node/journal"
	"tidemark/node/kafka"
	"tidemark/node/kafka/batch"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/storage"
)

// BrokerConfig is what a broker process is started with.
type BrokerConfig struct {
	ID         control.NodeID
	Listen     string                    // where it listens for clients, brokers and the controller; port 0: the system's choice
	Advertise  string                    // where those reach it; "": where it listens
	Controller string                    // where it reaches the controller
	Peers      map[control.NodeID]string // where it reaches other brokers, if not where they advertise
	Dir        string                    // its disk
	Control    string                    // where it listens for commands; "": nowhere
	Hold       bool                      // nothing moves but by commands
	Rules      rules.Set
	Topics     []Topic
	Settings   Settings
	// NoJournal: it does not write a journal. It writes one only if it has a control listener.
	NoJournal bool
	// PowerCut, if not nil, plays a power failure before the disk is recovered: nothing that was not flushed survives, but
	// for the logs that are named, or all by EveryLog.
	PowerCut map[string]replica.LogCut
	// Damaged is what was done to the disk since the broker was stopped ([DamageDisk]): for its journal, since what it finds then does
	// not follow from what it left.
	Damaged []DamageKind
	// Start counts the starts of this broker, from 1: requests of one incarnation have other numbers than those of another.
	// 0 is 1.
	Start int32
	// Out gets a line when the broker is ready, and then its events.
	Out io.Writer
	Log *slog.Logger
}

// EveryLog stands for all logs of a broker in its PowerCut.
const EveryLog = "*"

// RequestsPerStart is how many requests an incarnation can number before it comes into the next one's numbers.
const RequestsPerStart = 100_000

// RunBroker runs a broker until the context ends, which is a clean shutdown, or something fails that it cannot go on after.
func RunBroker(ctx context.Context, c BrokerConfig) (err error) {
	disk, err := storage.Open(c.Dir, storage.Options{SegmentBytes: c.Settings.SegmentBytes})
	if err != nil {
		return fmt.Errorf("broker %d: %w", c.ID, err)
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	var notes *journal.Recorder
	if c.Control != "" && !c.NoJournal {
		if notes, err = journal.Append(JournalPath(c.Dir)); err != nil {
			return fmt.Errorf("broker %d: %w", c.ID, err)
		}
		defer func() { err = errors.Join(err, notes.Close()) }()
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("broker %d: %w", c.ID, err)
	}
	if c.Advertise == "" {
		c.Advertise = listener.Addr().String()
	}
	b := &brokerProcess{config: c, disk: disk, calls: disk, journal: notes, learned: -1, book: map[replica.ID]kafka.BrokerAddress{}}
	if c.Control != "" {
		b.faults = &diskFaults{}
		b.calls = &faultyDisk{disk, b.faults}
	}
	b.epoch.Store(replica.NoBrokerEpoch)
	recovered, err := b.recover()
	if err != nil {
		return errors.Join(fmt.Errorf("broker %d: %w", c.ID, err), listener.Close())
	}
	return b.run(ctx, listener, recovered)
}

// brokerProcess assembles a broker's cores with their surroundings.
type brokerProcess struct {
	config BrokerConfig
	disk   *storage.Files
	faults *diskFaults  // of the disk, that commands ask for; nil: it takes none
	calls  replica.Disk // the disk, with its faults
	broker *inbox.Broker
	shell  *shell
	// journal is nil if there is none.
	journal *journal.Recorder
	kafka.Watchers

	learned   int
	topology  atomic.Pointer[kafka.Topology]
	epoch     atomic.Int64
	producers atomic.Int64

	mu        sync.Mutex
	version   int64                              // of addresses
	addresses []kafka.BrokerAddress              // of live brokers: what clients are told of
	book      map[replica.ID]kafka.BrokerAddress // of every broker that was ever live: whom cores may still ask
}

func (b *brokerProcess) run(ctx context.Context, listener net.Listener, recovered []control.Event) error {
	c := b.config
	b.shell = newShell(c.ID, c.Hold, b.broker, b.journal, c.Out, c.Log)
	read := values
	if !c.Hold {
		read = nil // logs of a free run are too long to be looked at in a view
	}
	b.shell.host = control.NewBroker(c.ID, b.shell.inbox, b.broker, read)
	b.shell.connect = b.connect
	b.shell.settled = b.settled
	b.shell.faults = b.faults
	b.Learn(-1, nil)

	server := kafka.NewBroker(replica.ID(c.ID), b, kafka.Config{Log: c.Log})
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(listener); err != nil {
			stop(fmt.Errorf("broker %d: %w", c.ID, err))
		}
	})
	ready := Ready{Node: c.ID, Listen: listener.Addr().String(), Recovered: recovered}
	if c.Control != "" {
		commands, err := b.shell.serveControl(c.Control)
		if err != nil {
			stop(err)
		} else {
			defer commands.Close()
			ready.Control = commands.Address
		}
	}
	if err := b.shell.events.ready(ready); err != nil {
		stop(err)
	}
	if !c.Hold {
		wg.Go(func() { b.flushes(running) })
		wg.Go(func() { b.checkpoints(running) })
	}
	err := b.shell.run(running)
	stop(err)
	err = errors.Join(err, server.Close())
	wg.Wait()
	if cause := context.Cause(running); err == nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	if err != nil {
		return err
	}
	if err := b.journal.Mark(journal.Stopping, nil); err != nil {
		return err
	}
	err = b.broker.Stop()
	return errors.Join(err, b.journal.Mark(journal.Stopped, err))
}

// values reads the values out of a batch for people.
func values(data []byte) []string {
	records, err := batch.Decode(data)
	if err != nil {
		return []string{fmt.Sprintf("(%v)", err)}
	}
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	return out
}

// connect opens the way to the controller or to another broker.
func (b *brokerProcess) connect(to replica.ID) *kafka.Conn {
	timeout := time.Duration(0)
	if !b.config.Hold {
		timeout = b.config.Settings.FetchWait + b.config.Settings.RequestTimeout
	}
	return kafka.NewConn(kafka.ConnConfig{Self: replica.ID(b.config.ID), Rules: b.config.Rules, Receive: b.shell.receive,
		Timeout: timeout, Log: b.config.Log,
		Dial: func(ctx context.Context) (net.Conn, error) {
			address, err := b.address(to)
			if err != nil {
				return nil, err
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}})
}

func (b *brokerProcess) address(to replica.ID) (string, error) {
	if to == replica.Controller {
		return b.config.Controller, nil
	}
	if a := b.config.Peers[control.NodeID(to)]; a != "" {
		return a, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.book[to]; ok {
		return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))), nil
	}
	return "", fmt.Errorf("the address of broker %s is not known", to)
}

// settled publishes what other goroutines ask for.
func (b *brokerProcess) settled(out []replica.Message) error {
	for _, m := range out {
		if e, ok := m.Body.(*replica.Event); ok && (e.What == replica.EventHW || e.What == replica.EventRole || e.What == replica.EventOffline) {
			b.Changed(m.Partition)
		}
	}
	b.epoch.Store(b.broker.Session().BrokerEpoch())
	if n := b.broker.Learned(); n != b.learned {
		b.learned = n
		b.publish()
	}
	return nil
}

// publish makes the answer to Metadata from the controller's last words.
func (b *brokerProcess) publish() {
	t := kafka.Topology{Cluster: "tidemark"}
	b.mu.Lock()
	t.Brokers = b.addresses
	b.mu.Unlock()
	for _, topic := range b.config.Topics {
		known := kafka.Topic{Name: topic.Name}
		for i := range topic.Partitions {
			name := replica.Partition{Topic: topic.Name, Index: int32(i)}
			state := kafka.PartitionState{Index: name.Index, LeaderEpoch: replica.NoEpoch}
			for _, id := range topic.Partitions[i] {
				state.Replicas = append(state.Replicas, replica.ID(id))
			}
			b.broker.Words(func(p replica.Partition, w *replica.LeaderAndIsr) {
				if p == name {
					state.Leader, state.LeaderEpoch, state.Replicas, state.ISR = w.Leader, w.LeaderEpoch, w.Replicas, w.ISR
				}
			})
			known.Partitions = append(known.Partitions, state)
		}
		t.Topics = append(t.Topics, known)
	}
	b.topology.Store(&t)
}

// Deliver satisfies kafka.Deliverer.
func (b *brokerProcess) Deliver(m replica.Message, reply func(replica.Message)) {
	b.shell.Deliver(m, reply)
}

// Learn satisfies kafka.Broker.
func (b *brokerProcess) Learn(version int64, brokers []kafka.BrokerAddress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if version >= b.version || b.addresses == nil {
		b.version, b.addresses = version, brokers
		for _, a := range brokers {
			b.book[a.ID] = a
		}
	}
	if t := b.topology.Load(); t != nil {
		updated := *t
		updated.Brokers = b.addresses
		b.topology.Store(&updated)
	} else {
		b.topology.Store(&kafka.Topology{Cluster: "tidemark", Brokers: b.addresses})
	}
}

// Topology satisfies kafka.Broker.
func (b *brokerProcess) Topology() kafka.Topology { return *b.topology.Load() }

// NewProducerID satisfies kafka.Broker: a broker epoch is given out once in a cluster's life, so that ids made of it are
// unique without asking anybody. Who has none yet has no ids to give.
func (b *brokerProcess) NewProducerID() (int64, int16) {
	const perIncarnation = 24 // bits
	epoch := b.epoch.Load()
	if epoch < 0 {
		return replica.NoProducer, -1
	}
	return epoch<<perIncarnation + b.producers.Add(1), 0
}

// flushes makes the logs durable by time, beside the loop: an fsync holds nothing up.
func (b *brokerProcess) flushes(ctx context.Context) {
	every(ctx, b.config.Settings.FlushInterval, func() {
		err := b.shell.beside(ctx, journal.Flushing, journal.Flushed, func() {}, func() error {
			var errs []error
			for _, p := range b.broker.Partitions() {
				errs = append(errs, b.calls.Flush(p))
			}
			return errors.Join(errs...)
		})
		if err != nil && ctx.Err() == nil {
			b.config.Log.Error("flush", "error", err)
		}
	})
}

// checkpoints makes the high watermarks durable by time.
func (b *brokerProcess) checkpoints(ctx context.Context) {
	every(ctx, b.config.Settings.CheckpointInterval, func() {
		var hw map[replica.Partition]int64
		err := b.shell.beside(ctx, journal.Checkpointing, journal.Checkpointed, func() { hw = b.broker.HighWatermarks() },
			func() error { return b.calls.Checkpoint(hw) })
		if err != nil && ctx.Err() == nil {
			b.config.Log.Error("checkpoint", "error", err)
		}
	})
}

func every(ctx context.Context, interval time.Duration, do func()) {
	if interval <= 0 {
		return
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

func splitHostPort(address string) (string, int32, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: want a number", port)
	}
	return host, int32(n), nil
}

// JournalPath is the file in a node's folder that its journal is in.
func JournalPath(dir string) string { return filepath.Join(dir, "node.journal") }

// LogPath is the file in a node's folder that its standard error goes to.
func LogPath(dir string) string { return filepath.Join(dir, "node.log") }

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/journal"
	"tidemark/node/kafka"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// ControllerConfig is what the controller's process is started with.
type ControllerConfig struct {
	Listen   string
	Brokers  []control.NodeID
	Peers    map[control.NodeID]string // where it reaches brokers, if not where they advertise
	Dir      string                    // where its record is kept
	Control  string
	Hold     bool
	Rules    rules.Set
	Topics   []Topic
	Settings Settings
	// NoJournal: it does not write a journal. It writes one only if it has a control listener.
	NoJournal bool
	Out       io.Writer
	Log       *slog.Logger
}

// snapshotFile is the controller's record in its folder.
const snapshotFile = "controller-record"

// RunController runs the controller until the context ends or something fails that it cannot go on after.
func RunController(ctx context.Context, c ControllerConfig) (err error) {
	config := controller.Config{Rules: c.Rules, Unclean: c.Settings.Unclean}
	for _, n := range c.Brokers {
		config.Brokers = append(config.Brokers, replica.ID(n))
	}
	for _, t := range c.Topics {
		for i, replicas := range t.Partitions {
			topic := controller.Topic{Partition: replica.Partition{Topic: t.Name, Index: int32(i)}, MinISR: c.Settings.MinISR}
			for _, n := range replicas {
				topic.Replicas = append(topic.Replicas, replica.ID(n))
			}
			config.Topics = append(config.Topics, topic)
		}
	}
	if !c.Hold {
		config.SessionTimeout = replica.Time(c.Settings.SessionTimeout)
		config.PushInterval = replica.Time(c.Settings.RequestTimeout / 2)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	k := &controllerProcess{config: c, path: filepath.Join(c.Dir, snapshotFile)}
	if c.Control != "" && !c.NoJournal {
		if k.journal, err = journal.Append(JournalPath(c.Dir)); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		defer func() { err = errors.Join(err, k.journal.Close()) }()
	}
	if err := k.open(config); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	k.written = k.controller.Version()
	return k.run(ctx)
}

// open makes the core of the record in the folder, if there is one, and writes down of what.
func (k *controllerProcess) open(c controller.Config) error {
	data, err := os.ReadFile(k.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := k.journal.Start(&journal.Start{Node: control.Controller, Hold: k.config.Hold, Controller: &c, Record: data}); err != nil {
		return err
	}
	if data == nil {
		k.controller, err = controller.Open(c)
	} else {
		k.controller, err = controller.Restore(c, 0, data)
	}
	if err != nil {
		return errors.Join(err, k.journal.Opened(journal.Opened{Error: err.Error()}, nil))
	}
	return k.journal.Opened(journal.Opened{}, func(replica.Time) []byte { return k.controller.AppendState(nil) })
}

type controllerProcess struct {
	config     ControllerConfig
	controller *controller.Controller
	journal    *journal.Recorder // nil if there is none
	shell      *shell
	path       string
	written    int64
	live       atomic.Pointer[[]kafka.BrokerAddress] // who has a session: what clients and brokers are told of
	known      atomic.Pointer[[]kafka.BrokerAddress] // who has registered: whom the controller's word goes to, fenced or not
}

func (k *controllerProcess) run(ctx context.Context) error {
	c := k.config
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	k.shell = newShell(control.Controller, c.Hold, k.controller, k.journal, c.Out, c.Log)
	k.shell.host = control.NewController(k.shell.inbox, k.controller)
	k.shell.connect = k.connect
	k.shell.settled = k.settled
	k.publish()

	server := kafka.NewController(k, kafka.Config{Log: c.Log})
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(listener); err != nil {
			stop(fmt.Errorf("controller: %w", err))
		}
	})
	ready := Ready{Node: control.Controller, Listen: listener.Addr().String()}
	if c.Control != "" {
		commands, err := k.shell.serveControl(c.Control)
		if err != nil {
			stop(err)
		} else {
			defer commands.Close()
			ready.Control = commands.Address
		}
	}
	if err := k.shell.events.ready(ready); err != nil {
		stop(err)
	}
	err = k.shell.run(running)
	stop(err)
	err = errors.Join(err, server.Close())
	wg.Wait()
	if cause := context.Cause(running); err == nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	if err != nil {
		return err
	}
	if err := k.journal.Mark(journal.Stopping, nil); err != nil {
		return err
	}
	return k.journal.Mark(journal.Stopped, nil)
}

// settled makes a changed record durable before anything that follows from it leaves.
func (k *controllerProcess) settled([]replica.Message) error {
	if k.controller.Version() == k.written {
		return nil
	}
	data, err := k.controller.AppendSnapshot(nil)
	if err != nil {
		return err
	}
	if err := writeDurably(k.path, data); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	k.written = k.controller.Version()
	k.publish()
	return nil
}

func (k *controllerProcess) publish() {
	live, known := []kafka.BrokerAddress{}, []kafka.BrokerAddress{}
	for _, b := range k.controller.Brokers() {
		a := kafka.BrokerAddress{ID: b.ID, Host: b.Host, Port: b.Port}
		known = append(known, a)
		if !b.Fenced {
			live = append(live, a)
		}
	}
	k.live.Store(&live)
	k.known.Store(&known)
}

func (k *controllerProcess) connect(to replica.ID) *kafka.Conn {
	timeout := k.config.Settings.RequestTimeout
	if k.config.Hold {
		timeout = 0
	}
	return kafka.NewConn(kafka.ConnConfig{Self: replica.Controller, Rules: k.config.Rules, Receive: k.shell.receive, Timeout: timeout,
		Log: k.config.Log, Brokers: func() []kafka.BrokerAddress { return *k.live.Load() },
		Dial: func(ctx context.Context) (net.Conn, error) {
			address := k.config.Peers[control.NodeID(to)]
			if address == "" {
				for _, a := range *k.known.Load() {
					if a.ID == to {
						address = net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
					}
				}
			}
			if address == "" {
				return nil, fmt.Errorf("the address of broker %s is not known", to)
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}})
}

// Deliver satisfies kafka.Deliverer.
func (k *controllerProcess) Deliver(m replica.Message, reply func(replica.Message)) {
	k.shell.Deliver(m, reply)
}

// Topics satisfies kafka.Controller.
func (k *controllerProcess) Topics() []string {
	names := make([]string, len(k.config.Topics))
	for i, t := range k.config.Topics {
		names[i] = t.Name
	}
	return names
}

// writeDurably replaces a file atomically and waits for the disk.
func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

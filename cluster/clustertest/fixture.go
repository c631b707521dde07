package clustertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// patience bounds what a story waits for. When all is well nothing takes a quarter of it.
const patience = 30 * time.Second

// topic and partition are what every story is about.
const (
	topic     = "orders"
	partition = "orders-0"
)

// fixture is a cluster in a story.
type fixture struct {
	cluster.Cluster
	t       *testing.T
	ctx     context.Context
	brokers []cluster.NodeID
	events  *journal
	acked   []string // values, in order
}

// newConfig is a cluster of three brokers with one partition on all of them.
func newConfig(t *testing.T) cluster.Config {
	brokers := []cluster.NodeID{1, 2, 3}
	return cluster.Config{
		Run: "conformance-" + strings.ToLower(rand.Text()[:8]), Dir: t.TempDir(), Brokers: brokers,
		Topics: []node.Topic{{Name: topic, Partitions: [][]cluster.NodeID{brokers}}},
		Rules:  rules.Of(rules.KIP320), Settings: node.Defaults(),
	}
}

// start opens a cluster and waits until its partition is created. It is closed with the test.
func start(t *testing.T, open Open, change ...func(*cluster.Config)) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	c := newConfig(t)
	for _, x := range change {
		x(&c)
	}
	k := open(t, c)
	f := &fixture{Cluster: k, t: t, ctx: ctx, brokers: c.Brokers, events: follow(k.Events())}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		require.NoError(t, k.Close(closing))
		<-f.events.ended
	})
	f.inSync()
	return f
}

// eventually waits until a condition holds.
func (f *fixture) eventually(what string, condition func() error) {
	f.t.Helper()
	err := cluster.WaitFor(f.ctx, patience, func(context.Context) error { return condition() })
	require.NoError(f.t, err, what)
}

// look is how a node looks.
func (f *fixture) look(n cluster.NodeID) (control.View, error) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	reply, err := f.Control(ctx, n, control.Command{Do: control.Look})
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	return reply.View, err
}

// record is the controller's record of the partition, and what it knows of the brokers.
func (f *fixture) record() (control.RecordView, []control.BrokerView, error) {
	v, err := f.look(control.Controller)
	if err == nil && len(v.Records) != 1 {
		err = fmt.Errorf("the controller knows %d partitions", len(v.Records))
	}
	if err != nil {
		return control.RecordView{}, nil, err
	}
	return v.Records[0], v.Brokers, nil
}

// replica is a broker's replica of the partition.
func (f *fixture) replica(n cluster.NodeID) (control.PartitionView, error) {
	v, err := f.look(n)
	if err == nil && len(v.Partitions) != 1 {
		err = fmt.Errorf("broker %d has %d replicas", n, len(v.Partitions))
	}
	if err != nil {
		return control.PartitionView{}, err
	}
	return v.Partitions[0], nil
}

// inSync waits until every broker is in the ISR and has the whole log, committed.
func (f *fixture) inSync() {
	f.t.Helper()
	f.eventually("all replicas are in sync", func() error {
		r, _, err := f.record()
		if err != nil {
			return err
		}
		if !r.Created || r.Leader == 0 || len(r.ISR) < len(r.Replicas) {
			return fmt.Errorf("leader %d, ISR %v of %v", r.Leader, r.ISR, r.Replicas)
		}
		leader, err := f.replica(r.Leader)
		if err != nil {
			return err
		}
		for _, n := range f.brokers {
			v, err := f.replica(n)
			if err != nil {
				return err
			}
			if v.LEO != leader.LEO || v.HW != v.LEO || v.LeaderEpoch != r.LeaderEpoch {
				return fmt.Errorf("broker %d ends at %d with high watermark %d in epoch %d, leader %d at %d in epoch %d",
					n, v.LEO, v.HW, v.LeaderEpoch, r.Leader, leader.LEO, r.LeaderEpoch)
			}
		}
		return nil
	})
}

// leader is who leads, by the controller's record.
func (f *fixture) leader() cluster.NodeID {
	f.t.Helper()
	var leader cluster.NodeID
	f.eventually("somebody leads", func() error {
		r, _, err := f.record()
		if err == nil && r.Leader == 0 {
			err = errors.New("nobody leads")
		}
		leader = r.Leader
		return err
	})
	return leader
}

// newLeader waits until somebody else leads.
func (f *fixture) newLeader(than cluster.NodeID) cluster.NodeID {
	f.t.Helper()
	var leader cluster.NodeID
	f.eventually(fmt.Sprintf("the leadership moves away from %d", than), func() error {
		r, _, err := f.record()
		if err == nil && (r.Leader == 0 || r.Leader == than) {
			err = fmt.Errorf("leader %d, ISR %v", r.Leader, r.ISR)
		}
		leader = r.Leader
		return err
	})
	return leader
}

// fenced waits until the controller holds a broker for gone, and out of the ISR unless that would be empty.
func (f *fixture) fenced(n cluster.NodeID) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("broker %d is fenced", n), func() error {
		_, brokers, err := f.record()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(brokers, func(b control.BrokerView) bool { return b.Node == n })
		if i < 0 || !brokers[i].Fenced {
			return fmt.Errorf("the controller knows %+v", brokers)
		}
		return nil
	})
}

// others are the brokers but for those named.
func (f *fixture) others(than ...cluster.NodeID) []cluster.NodeID {
	return slices.DeleteFunc(slices.Clone(f.brokers), func(n cluster.NodeID) bool { return slices.Contains(than, n) })
}

// stop stops a broker and wants it proved.
func (f *fixture) stop(n cluster.NodeID, how cluster.How) cluster.Evidence {
	f.t.Helper()
	e, err := f.Stop(f.ctx, n, how, nil)
	require.NoError(f.t, err)
	f.proved(e)
	return e
}

// proved wants evidence with measurements.
func (f *fixture) proved(e cluster.Evidence) {
	f.t.Helper()
	require.True(f.t, e.Proven, "%+v", e)
	require.NotEmpty(f.t, e.Measured)
	for _, m := range e.Measured {
		require.NotEmpty(f.t, m.Name)
		require.NotEmpty(f.t, m.Value, m.Name)
	}
}

// startNode starts a broker and returns what it found on its disk.
func (f *fixture) startNode(n cluster.NodeID) []control.Event {
	f.t.Helper()
	found, err := f.Start(f.ctx, n)
	require.NoError(f.t, err)
	return found
}

// only is the one event of a kind.
func only(t *testing.T, events []control.Event, what string) control.Event {
	t.Helper()
	var found []control.Event
	for _, e := range events {
		if e.What == what && e.Partition == partition {
			found = append(found, e)
		}
	}
	require.Len(t, found, 1, "events %q of %s among %+v", what, partition, events)
	return found[0]
}

// journal keeps what the nodes reported.
type journal struct {
	mu    sync.Mutex
	all   []control.Event
	ended chan struct{} // closed when the cluster's events are
}

func follow(events <-chan control.Event) *journal {
	j := &journal{ended: make(chan struct{})}
	go func() {
		defer close(j.ended)
		for e := range events {
			j.mu.Lock()
			j.all = append(j.all, e)
			j.mu.Unlock()
		}
	}()
	return j
}

// from lists the events from a place on.
func (j *journal) from(place int) []control.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all[place:])
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.all)
}

// reported waits for an event behind a place in the journal.
func (f *fixture) reported(place int, what string, is func(control.Event) bool) control.Event {
	f.t.Helper()
	var found control.Event
	f.eventually("the event: "+what, func() error {
		events := f.events.from(place)
		if i := slices.IndexFunc(events, is); i >= 0 {
			found = events[i]
			return nil
		}
		return fmt.Errorf("%d events, none of which is it", len(events))
	})
	return found
}

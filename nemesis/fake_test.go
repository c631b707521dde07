package nemesis

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCluster is a cluster that only keeps in mind what state it is to be in, and measures what a test says.
type fakeCluster struct {
	brokers []int32

	mu     sync.Mutex
	calls  []string
	down   map[cluster.NodeID]bool
	paused map[cluster.NodeID]bool
	cut    []cluster.Link
	disk   map[cluster.NodeID]control.DiskFault
	broken map[cluster.NodeID]bool // a replica is offline
	// counts is what a disk counts while it has a fault, and moved what a controller answers when it is to move something.
	counts control.DiskCounts
	moved  []control.Event
	// met is what each link in force has met.
	met map[cluster.Link]int
	// fail gives the error of a call, written as in calls.
	fail map[string]error
	// unproven are calls whose effect is not shown.
	unproven map[string]bool
	// on is called with each call.
	on func(call string)
}

func newFake(brokers ...int32) *fakeCluster {
	return &fakeCluster{brokers: brokers, down: map[cluster.NodeID]bool{}, paused: map[cluster.NodeID]bool{}, fail: map[string]error{}, unproven: map[string]bool{},
		disk: map[cluster.NodeID]control.DiskFault{}, broken: map[cluster.NodeID]bool{}, counts: control.DiskCounts{Refused: 3}}
}

// call notes a call and changes the state unless it is to fail.
func (f *fakeCluster) call(change func(), format string, args ...any) (cluster.Evidence, error) {
	call := fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.calls = append(f.calls, call)
	err := f.fail[call]
	if err == nil {
		change()
	}
	proven := !f.unproven[call]
	on := f.on
	f.mu.Unlock()
	if on != nil {
		on(call)
	}
	return cluster.Evidence{Measured: []history.Measurement{{Name: "call", Value: call}}, Proven: proven && err == nil}, err
}

func (f *fakeCluster) Brokers() []int32 { return f.brokers }

func (f *fakeCluster) Start(_ context.Context, n cluster.NodeID) ([]control.Event, error) {
	_, err := f.call(func() {
		if f.down[n] {
			delete(f.broken, n) // it opens its logs again
		}
		delete(f.down, n)
	}, "start %s", n)
	return nil, err
}

func (f *fakeCluster) Stop(_ context.Context, n cluster.NodeID, how cluster.How, cut map[string]schedule.Cut) (cluster.Evidence, error) {
	detail := ""
	if cut != nil {
		detail = fmt.Sprint(" ", cut)
	}
	return f.call(func() { f.down[n] = true; delete(f.paused, n) }, "%s %s%s", how, n, detail)
}

func (f *fakeCluster) Pause(_ context.Context, n cluster.NodeID, on bool) (cluster.Evidence, error) {
	if !on {
		return f.call(func() { delete(f.paused, n) }, "resume %s", n)
	}
	return f.call(func() { f.paused[n] = true }, "pause %s", n)
}

func (f *fakeCluster) Links(_ context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	before := f.cut
	e, err := f.call(func() { f.cut = slices.Clone(cut) }, "links %v", cut)
	if f.met != nil {
		e = cluster.Evidence{}
		for _, l := range before {
			e.Measured = append(e.Measured, history.Measurement{Name: "met on " + l.String(), Value: fmt.Sprint(f.met[l])})
			e.Proven = e.Proven || f.met[l] > 0
		}
	}
	return e, err
}

func (f *fakeCluster) Control(_ context.Context, n cluster.NodeID, c control.Command) (control.Reply, error) {
	var reply control.Reply
	words := fmt.Sprintf("%s %s", c.Do, n)
	switch c.Do {
	case control.Disk:
		words += fmt.Sprintf(" %+v", *c.Disk)
	case control.Transfer, control.Fence:
		words += fmt.Sprintf(" %s", c.Node)
	}
	_, err := f.call(func() {
		switch c.Do {
		case control.Disk:
			if f.disk[n] != (control.DiskFault{}) {
				counts := f.counts
				reply.Disk = &counts
			} else {
				reply.Disk = &control.DiskCounts{}
			}
			f.disk[n] = *c.Disk
		case control.Look:
			role := "follower"
			if f.broken[n] {
				role = "offline"
			}
			reply.View.Partitions = []control.PartitionView{{Partition: "orders-0", Role: role}}
		case control.Transfer, control.Fence:
			reply.Events = f.moved
		}
	}, "%s", words)
	return reply, err
}

func (f *fakeCluster) Damage(_ context.Context, n cluster.NodeID, d node.Damage) (cluster.Evidence, error) {
	return f.call(func() {}, "damage %s %s %d", n, d.Kind, d.Bytes)
}

// What the nemesis has no business with.

func (f *fakeCluster) Dial(context.Context, int32) (net.Conn, error) { panic("dial") }
func (f *fakeCluster) Bootstrap() []string                           { panic("bootstrap") }
func (f *fakeCluster) Events() <-chan control.Event                  { panic("events") }
func (f *fakeCluster) Close(context.Context) error                   { panic("close") }

var _ cluster.Cluster = (*fakeCluster)(nil)

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
	// fail gives the error of a call, written as in calls.
	fail map[string]error
	// unproven are calls whose effect is not shown.
	unproven map[string]bool
	// on is called with each call.
	on func(call string)
}

func newFake(brokers ...int32) *fakeCluster {
	return &fakeCluster{brokers: brokers, down: map[cluster.NodeID]bool{}, paused: map[cluster.NodeID]bool{}, fail: map[string]error{}, unproven: map[string]bool{}}
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
	_, err := f.call(func() { delete(f.down, n) }, "start %s", n)
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
	return f.call(func() { f.cut = slices.Clone(cut) }, "links %v", cut)
}

// What the nemesis has no business with.

func (f *fakeCluster) Dial(context.Context, int32) (net.Conn, error) { panic("dial") }
func (f *fakeCluster) Bootstrap() []string                           { panic("bootstrap") }
func (f *fakeCluster) Events() <-chan control.Event                  { panic("events") }
func (f *fakeCluster) Close(context.Context) error                   { panic("close") }
func (f *fakeCluster) Control(context.Context, cluster.NodeID, control.Command) (control.Reply, error) {
	panic("control")
}

var _ cluster.Cluster = (*fakeCluster)(nil)

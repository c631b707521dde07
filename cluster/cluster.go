package cluster

import (
	"context"
	"errors"
	"net"
	"time"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// NodeID is a broker's id or control.Controller. Brokers of the harness have ids from 1 on, those of others from 0 on.
type NodeID = control.NodeID

// Evidence is what was measured to show that a fault took effect, or that it is over.
type Evidence = schedule.Evidence

// Stage is a cluster in which nothing moves by itself.
type Stage interface {
	schedule.Stage
	// Close ends every process and leaves nothing behind but the folder of the run.
	Close(ctx context.Context) error
}

// ErrUnsupported is wrapped by the error for a fault that a backend does not have.
var ErrUnsupported = errors.New("not supported by this backend")

// Config is what a cluster is made of.
type Config struct {
	// Run is the id of the run: everything that is created carries it, so that leftovers can be found.
	Run string
	// Dir is the folder of the run, an absolute path. Each node gets a folder in it, for its data and its output.
	Dir     string
	Brokers []NodeID
	Topics  []node.Topic
	Rules   rules.Set
	// Settings are the nodes' settings.
	Settings node.Settings
	// Hold makes nodes that move only by commands, for a [Stage].
	Hold bool
	// Direct lets connections run without links between, where a backend would make some: faster, and without faults of
	// the network.
	Direct bool
	// NoJournal lets nodes write no journals, which they can be run again from (node/replay).
	NoJournal bool
	// Binary names the executable that nodes run; "" lets the backend find or build one.
	Binary string
}

// How a node is stopped.
type How string

// The ways to stop a node.
const (
	Clean How = "stop"      // SIGTERM: logs flushed, marker of a clean shutdown written
	Kill  How = "kill"      // SIGKILL: what was written stays, as the page cache does
	Power How = "powerfail" // SIGKILL, and at the next start what was not flushed is undone, down to a cut
)

// ClientsID stands for all clients in a [Link]. It is the id of no node: brokers have ids from 0 on where others number them.
const ClientsID NodeID = -2

// Cluster is a cluster that runs freely. Its methods set a state and are idempotent, so that healing is setting the
// healthy one. They may be called from several goroutines.
type Cluster interface {
	// Brokers lists the brokers' ids in order.
	Brokers() []int32
	// Dial connects a client to a broker, over a link that faults can cut.
	Dial(ctx context.Context, to int32) (net.Conn, error)
	// Bootstrap is where clients on this machine reach each broker.
	Bootstrap() []string
	// Start starts a broker that is down and returns when its process is ready, with what that found on its disk.
	Start(ctx context.Context, n NodeID) ([]control.Event, error)
	// Stop ends a broker's process. For Power, cut says what survives of each log; nil: nothing unflushed.
	Stop(ctx context.Context, n NodeID, how How, cut map[string]schedule.Cut) (Evidence, error)
	// Pause freezes a broker's process or lets it go on.
	Pause(ctx context.Context, n NodeID, on bool) (Evidence, error)
	// Links replaces all faults of the network; none heals. The evidence is of the links that were impaired until now, a measurement
	// for each in their order, which begins with a count ([Counted]) of what it met since it was impaired in this way.
	Links(ctx context.Context, faults []Link) (Evidence, error)
	// Control gives a node a command over its control connection. Most commands need a node that holds its messages.
	Control(ctx context.Context, n NodeID, c control.Command) (control.Reply, error)
	// Events has what the nodes report in a free run, from the beginning of the cluster on, each node's in its own order.
	// Somebody has to read it. It is closed by Close.
	Events() <-chan control.Event
	// Close ends every process and leaves nothing behind but the folder of the run.
	Close(ctx context.Context) error
}

// Damager is a cluster whose nodes' files can be damaged while they are down. [ErrUnsupported]: the files are out of reach.
type Damager interface {
	// Damage changes files of a broker that is down. What a log lost is reported as a power failure's loss, in front of what the
	// broker reports at its next start, since that is what it comes to.
	Damage(ctx context.Context, n NodeID, d node.Damage) (Evidence, error)
}

// WaitFor calls a condition until it holds, at most until the deadline. The error is the condition's last one.
func WaitFor(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Measured makes evidence of one measurement that proves a fault.
func Measured(name, value string) Evidence {
	return Evidence{Measured: []history.Measurement{{Name: name, Value: value}}, Proven: true}
}

package schedule

import (
	"context"
	"errors"
	"fmt"

	"tidemark/checker/history"
	"tidemark/node/control"
)

// Stage is a cluster in which nothing moves by itself: messages wait in their receiver's inbox, clocks stand still. Every
// method returns when all that it gave rise to has arrived, is known to be lost, or waits in front of a paused node; so
// that the player always knows what is under way, and no step waits for silence.
//
// The player keeps track of who is up and asks nothing of nodes that are down or paused.
type Stage interface {
	// Do gives a command to a broker or to control.Controller. Each message that the reply names has its fate.
	Do(ctx context.Context, at control.NodeID, c control.Command) (control.Reply, error)
	// Start starts a broker's process with what its disk holds. It has not registered yet.
	Start(ctx context.Context, n control.NodeID) (control.Reply, error)
	// Kill ends a broker's process at once. Its inbox is gone; what it sent stays in others'.
	Kill(ctx context.Context, n control.NodeID) (Evidence, error)
	// PowerFail kills a broker's process and, before it starts again, undoes what its disk had not flushed, down to the cut.
	PowerFail(ctx context.Context, n control.NodeID, cut Cut) (Evidence, error)
	// Pause freezes a broker's process or, when on is false, lets it go on; the reply then lists the messages that waited in
	// front of it, with their fates.
	Pause(ctx context.Context, n control.NodeID, on bool) (control.Reply, Evidence, error)
	// Send sends a client's request. The message's fate is FateHeld when it waits in the broker's inbox.
	Send(ctx context.Context, process int64, to control.NodeID, r control.Request) (control.Message, error)
	// Receive is the answer to the process's request, which a reply has said was sent.
	Receive(ctx context.Context, process int64) (control.Answer, error)
}

// Evidence is what was measured to show that a fault took effect.
type Evidence struct {
	Measured []history.Measurement
	Proven   bool
}

// ErrImpossible is wrapped by the error of a step that cannot happen as things are.
var ErrImpossible = errors.New("impossible")

func impossible(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrImpossible, fmt.Sprintf(format, args...))
}

// Register makes brokers that were just started members of the cluster: each registers and sends its first heartbeat. A
// stage calls it once before it is handed out.
func Register(ctx context.Context, s Stage, brokers []control.NodeID) error {
	p := &player{file: &File{}, stage: s, sink: &history.Memory{}, nodes: map[control.NodeID]*broker{}, ids: brokers}
	for _, n := range brokers {
		p.nodes[n] = &broker{up: true}
	}
	for _, n := range brokers {
		if err := p.beat(ctx, n); err != nil {
			return fmt.Errorf("registering broker %d: %w", n, err)
		}
	}
	return nil
}

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
)

// answerWithin is how long a node may take to answer a command. One that is paused does not.
const answerWithin = 3 * time.Second

// command gives a node a command.
func command(ctx context.Context, c Commander, id cluster.NodeID, cmd control.Command) (control.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	reply, err := c.Control(ctx, id, cmd)
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	return reply, err
}

func (n *Player) commander(verb string) (Commander, error) {
	c, ok := n.cluster.(Commander)
	if !ok {
		return nil, fmt.Errorf("%s: its nodes take no commands: %w", verb, cluster.ErrUnsupported)
	}
	return c, nil
}

// breakDisk has a broker's disk fail from now on. A broker that does not answer proves nothing.
func (n *Player) breakDisk(ctx context.Context, s Step, id cluster.NodeID) (cluster.Evidence, error) {
	c, err := n.commander(s.Verb)
	if err != nil {
		return cluster.Evidence{}, err
	}
	var f control.DiskFault
	switch s.Verb {
	case "eio":
		f.FailAppends = 1
	case "full":
		f.Full = true
	case "slowsync":
		f.SlowSync = time.Duration(s.Amount)
	}
	_, err = command(ctx, c, id, control.Command{Do: control.Disk, Disk: &f})
	if err == nil || ctx.Err() != nil || errors.Is(err, cluster.ErrUnsupported) {
		return cluster.Evidence{}, err
	}
	return cluster.Evidence{Measured: []history.Measurement{{Name: "disk", Value: err.Error()}}}, nil
}

// diskOver ends what goes on at a broker's disk, if anything does, and takes what was measured. A broker that does not answer any more
// has nothing to show.
func (n *Player) diskOver(ctx context.Context, id cluster.NodeID) error {
	if n.open[diskOf(id)] == nil {
		return nil
	}
	c, err := n.commander("mend")
	if err != nil {
		return err
	}
	reply, err := command(ctx, c, id, control.Command{Do: control.Disk, Disk: &control.DiskFault{}})
	var e cluster.Evidence
	switch {
	case err != nil:
		e.Measured = []history.Measurement{{Name: "disk", Value: err.Error()}}
	case reply.Disk != nil:
		e = diskEvidence(*reply.Disk)
	}
	return n.over(diskOf(id), &e)
}

// diskEvidence is what a broker counted while its disk was broken.
func diskEvidence(d control.DiskCounts) cluster.Evidence {
	var e cluster.Evidence
	add := func(name string, count int64, more string) {
		if count > 0 {
			e.Proven = true
			e.Measured = append(e.Measured, history.Measurement{Name: name, Value: fmt.Sprint(count) + more})
		}
	}
	add("appends failed", d.Failed, "")
	add("writes refused", d.Refused, "")
	add("fsyncs slowed", d.Slowed, fmt.Sprintf(" (%s in all)", d.SlowedFor))
	if !e.Proven {
		e.Measured = []history.Measurement{{Name: "calls of the disk that failed or were slowed", Value: "0"}}
	}
	return e
}

// mend makes a broker's disk whole, and has the broker open again what its failure closed.
func (n *Player) mend(ctx context.Context, id cluster.NodeID) error {
	if err := n.diskOver(ctx, id); err != nil {
		return err
	}
	c, err := n.commander("mend")
	if err != nil {
		return err
	}
	return reopen(ctx, n.cluster, c, id)
}

// healDisk is mend for whoever does not know what goes on.
func healDisk(ctx context.Context, c Target, nodes Commander, id cluster.NodeID) error {
	_, err := command(ctx, nodes, id, control.Command{Do: control.Disk, Disk: &control.DiskFault{}})
	switch {
	case errors.Is(err, cluster.ErrUnsupported):
		return nil // nothing that this package can have broken
	case err != nil:
		return err
	}
	return reopen(ctx, c, nodes, id)
}

// reopen starts a broker again that has a replica offline: it opens its logs only at its start.
func reopen(ctx context.Context, c Target, nodes Commander, id cluster.NodeID) error {
	reply, err := command(ctx, nodes, id, control.Command{Do: control.Look})
	if err != nil {
		return err
	}
	for _, p := range reply.View.Partitions {
		if p.Role == "offline" {
			_, stopped := c.Stop(ctx, id, cluster.Kill, nil)
			_, started := c.Start(ctx, id)
			return errors.Join(stopped, started)
		}
	}
	return nil
}

// damage changes the files of a broker that is down.
func (n *Player) damage(ctx context.Context, s Step, id cluster.NodeID) (cluster.Evidence, error) {
	c, ok := n.cluster.(cluster.Damager)
	if !ok {
		return cluster.Evidence{}, fmt.Errorf("%s: the files of its nodes are out of reach: %w", s.Verb, cluster.ErrUnsupported)
	}
	return c.Damage(ctx, id, node.Damage{Kind: node.DamageKind(s.Verb), Bytes: s.Amount})
}

// move has the controller move leaders to a broker, or end its session. A controller that does not answer, or has nothing to do, proves
// nothing.
func (n *Player) move(ctx context.Context, s Step, id cluster.NodeID) (cluster.Evidence, error) {
	c, err := n.commander(s.Verb)
	if err != nil {
		return cluster.Evidence{}, err
	}
	do := control.Transfer
	if s.Verb == "fence" {
		do = control.Fence
	}
	reply, err := command(ctx, c, control.Controller, control.Command{Do: do, Node: id})
	if ctx.Err() != nil {
		return cluster.Evidence{}, err
	}
	var seen []string
	for _, e := range reply.Events {
		switch {
		case do == control.Transfer && e.What == "elected" && e.Leader == id:
			seen = append(seen, fmt.Sprintf("%s in epoch %d", e.Partition, e.Epoch))
		case do == control.Fence && e.What == "fenced" && e.Broker == id:
			seen = append(seen, fmt.Sprintf("broker %d with epoch %d", id, e.BrokerEpoch))
		}
	}
	value := strings.Join(seen, ", ")
	switch {
	case err != nil:
		value = err.Error()
	case value == "":
		value = "the controller changed nothing"
	}
	name := "elected"
	if do == control.Fence {
		name = "fenced"
	}
	return cluster.Evidence{Measured: []history.Measurement{{Name: name, Value: value}}, Proven: len(seen) > 0}, nil
}

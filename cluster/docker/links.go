package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/docker/sandbox"
	"tidemark/node/control"
)

// links are the faults of the network in force.
type links struct {
	mu sync.Mutex
	// rules are the links whose rules each node's sandbox has, in the order of the rules.
	rules map[cluster.NodeID][]cluster.Link
	// asked are the links that were asked for last, in that order, and met is how many packets each has met since then, but for what
	// its rule in force has counted.
	asked []cluster.Link
	met   map[cluster.Link]uint64
}

// Links sets what is wrong with the links named and heals all others, in every sandbox at once. The evidence counts the packets that
// the faults in force until now have met since they were.
func (k *Cluster) Links(ctx context.Context, faults []cluster.Link) (cluster.Evidence, error) {
	wanted := map[cluster.NodeID][]cluster.Link{}
	for _, l := range faults {
		at, err := k.guard(l)
		if err == nil {
			err = possible(l)
		}
		if err != nil {
			return cluster.Evidence{}, err
		}
		wanted[at] = append(wanted[at], l)
	}
	k.links.mu.Lock()
	defer k.links.mu.Unlock()
	var mu sync.Mutex
	met := map[cluster.Link]uint64{}
	maps.Copy(met, k.links.met)
	inForce := map[cluster.NodeID][]cluster.Link{}
	err := k.each(func(m *member) error {
		counters, err := m.sandbox.rules.Replace(ctx, k.rules(wanted[m.id]))
		mu.Lock()
		defer mu.Unlock()
		before := k.links.rules[m.id]
		if err != nil {
			inForce[m.id] = before
			return fmt.Errorf("links of %s: %w", nodeName(m.id), err)
		}
		inForce[m.id] = wanted[m.id]
		for i, c := range counters {
			if i < len(before) {
				met[before[i]] += c.Packets
			}
		}
		return nil
	})
	e := cluster.Evidence{Proven: len(k.links.asked) == 0}
	for _, l := range k.links.asked {
		e.Proven = e.Proven || met[l] > 0
		e.Measured = append(e.Measured, history.Measurement{Name: measured(l.Kind) + " " + l.Ends(), Value: fmt.Sprint(met[l])})
	}
	k.links.rules, k.links.met = inForce, met
	if err != nil {
		return e, err
	}
	maps.DeleteFunc(met, func(l cluster.Link, _ uint64) bool { return !slices.Contains(faults, l) })
	k.links.asked = slices.Clone(faults)
	return e, nil
}

// measured is what a rule counts.
func measured(kind cluster.LinkFault) string {
	switch kind {
	case cluster.Loss:
		return "packets lost"
	case cluster.Rate:
		return "packets dropped above the rate"
	case cluster.Reset:
		return "packets answered with a reset"
	}
	return "packets dropped"
}

// possible says whether packet rules can do it. They drop or refuse a packet and keep none, so none can be late.
func possible(l cluster.Link) error {
	if l.Kind == cluster.Delay {
		return fmt.Errorf("link %s: packet rules cannot delay, and the kernel's netem cannot be assumed; use processes: %w", l, cluster.ErrUnsupported)
	}
	return l.Check()
}

// guard is the node in whose sandbox a link is cut: the receiver, since what is dropped there looks to the sender's kernel
// as lost on the way; for what goes to clients, which have no sandbox, the sender.
func (k *Cluster) guard(l cluster.Link) (cluster.NodeID, error) {
	at := l.To
	if at == cluster.ClientsID {
		at = l.From
	}
	for _, n := range []cluster.NodeID{l.From, l.To} {
		if n != cluster.ClientsID && k.members[n] == nil || l.From == l.To {
			return at, fmt.Errorf("no link from %s to %s", linkEnd(l.From), linkEnd(l.To))
		}
	}
	return at, nil
}

// rules are the packet rules for the faults of links at one node.
func (k *Cluster) rules(faults []cluster.Link) []sandbox.Rule {
	var rules []sandbox.Rule
	for _, l := range faults {
		var r sandbox.Rule
		switch {
		case l.From == cluster.ClientsID:
			r = sandbox.Rule{Peer: k.pool.network.gateway, Direction: sandbox.In, Ports: portsOfClients(l.To)}
		case l.To == cluster.ClientsID:
			r = sandbox.Rule{Peer: k.pool.network.gateway, Direction: sandbox.Out, Ports: portsOfClients(l.From)}
		default:
			r = sandbox.Rule{Peer: k.members[l.From].sandbox.addr, Direction: sandbox.In}
		}
		switch l.Kind {
		case cluster.Loss:
			r.Percent = l.Percent
		case cluster.Rate:
			r.Rate = uint64(l.Impair.Rate)
		case cluster.Reset:
			r.Reset = true
		}
		rules = append(rules, r)
	}
	return rules
}

// portsOfClients keeps the port for commands out of a cut between a node and clients, which come from the same address as
// the harness.
func portsOfClients(n cluster.NodeID) []uint16 {
	if n == control.Controller {
		return []uint16{controllerPort}
	}
	return []uint16{clientPort}
}

func linkEnd(n cluster.NodeID) string {
	if n == cluster.ClientsID {
		return "clients"
	}
	return n.String()
}

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
	// cut are the links whose rules each node's sandbox has, in the order of the rules.
	cut map[cluster.NodeID][]cluster.Link
	// asked are the links that were asked for last, in that order, and dropped is what each has dropped since it was cut,
	// but for what its rule in force has counted.
	asked   []cluster.Link
	dropped map[cluster.Link]uint64
}

// Links cuts the links named and opens all others, in every sandbox at once. The evidence counts the packets that the
// links cut until now have dropped since they were.
func (k *Cluster) Links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	wanted := map[cluster.NodeID][]cluster.Link{}
	for _, l := range cut {
		at, err := k.guard(l)
		if err != nil {
			return cluster.Evidence{}, err
		}
		wanted[at] = append(wanted[at], l)
	}
	k.links.mu.Lock()
	defer k.links.mu.Unlock()
	var mu sync.Mutex
	dropped := map[cluster.Link]uint64{}
	maps.Copy(dropped, k.links.dropped)
	inForce := map[cluster.NodeID][]cluster.Link{}
	err := k.each(func(m *member) error {
		counters, err := m.sandbox.rules.Replace(ctx, k.rules(wanted[m.id]))
		mu.Lock()
		defer mu.Unlock()
		before := k.links.cut[m.id]
		if err != nil {
			inForce[m.id] = before
			return fmt.Errorf("links of %s: %w", nodeName(m.id), err)
		}
		inForce[m.id] = wanted[m.id]
		for i, c := range counters {
			if i < len(before) {
				dropped[before[i]] += c.Packets
			}
		}
		return nil
	})
	e := cluster.Evidence{Proven: len(k.links.asked) == 0}
	for _, l := range k.links.asked {
		e.Proven = e.Proven || dropped[l] > 0
		e.Measured = append(e.Measured, history.Measurement{Name: fmt.Sprintf("packets dropped from %s to %s", linkEnd(l.From), linkEnd(l.To)), Value: fmt.Sprint(dropped[l])})
	}
	k.links.cut, k.links.dropped = inForce, dropped
	if err != nil {
		return e, err
	}
	maps.DeleteFunc(dropped, func(l cluster.Link, _ uint64) bool { return !slices.Contains(cut, l) })
	k.links.asked = slices.Clone(cut)
	return e, nil
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

// rules are the packet rules that cut the links at one node.
func (k *Cluster) rules(cut []cluster.Link) []sandbox.Rule {
	var rules []sandbox.Rule
	for _, l := range cut {
		switch {
		case l.From == cluster.ClientsID:
			rules = append(rules, sandbox.Rule{Peer: k.pool.network.gateway, Direction: sandbox.In, Ports: portsOfClients(l.To)})
		case l.To == cluster.ClientsID:
			rules = append(rules, sandbox.Rule{Peer: k.pool.network.gateway, Direction: sandbox.Out, Ports: portsOfClients(l.From)})
		default:
			rules = append(rules, sandbox.Rule{Peer: k.members[l.From].sandbox.addr, Direction: sandbox.In})
		}
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

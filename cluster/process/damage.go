package process

import (
	"context"
	"fmt"

	"tidemark/cluster"
	"tidemark/node"
)

var _ cluster.Damager = (*Cluster)(nil)

// Damage damages the disk of a broker that is down.
func (k *Cluster) Damage(_ context.Context, n cluster.NodeID, d node.Damage) (cluster.Evidence, error) {
	m, err := k.member(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.child != nil {
		return cluster.Evidence{}, fmt.Errorf("%s is up: its files are damaged only at rest; stop it first", nodeName(n))
	}
	e, events, err := cluster.DamageFolder(n, dataDir(k.config.Dir, n), d)
	if e.Proven {
		m.damaged = append(m.damaged, d.Kind)
	}
	for _, x := range events {
		k.tell(x) // its process has ended, and everything that it told was told before
	}
	return e, err
}

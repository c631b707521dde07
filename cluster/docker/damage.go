package docker

import (
	"context"
	"fmt"

	"tidemark/cluster"
	"tidemark/node"
)

var _ cluster.Damager = (*Cluster)(nil)

// Damage damages the disk of a broker that is down. It needs the files of nodes to be on this machine.
func (k *Cluster) Damage(_ context.Context, n cluster.NodeID, d node.Damage) (cluster.Evidence, error) {
	m, err := k.member(n)
	if err != nil {
		return cluster.Evidence{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.life != nil:
		return cluster.Evidence{}, fmt.Errorf("%s is up: its files are damaged only at rest; stop it first", nodeName(n))
	case !k.pool.place.files:
		return cluster.Evidence{}, fmt.Errorf("damage to the files of %s: they are in a volume of an engine that does not see our files: %w", nodeName(n), cluster.ErrUnsupported)
	}
	e, events, err := cluster.DamageFolder(n, dataDir(k.config.Dir, n), d)
	if e.Proven {
		m.damaged = append(m.damaged, d.Kind)
	}
	for _, x := range events {
		k.tell(x, nil)
	}
	return e, err
}

package process

import (
	"context"
	"fmt"
	"slices"

	"tidemark/checker/history"
	"tidemark/cluster"
)

// Links sets what is wrong with the links named and heals all others. The evidence counts what each fault that was in force until now
// has met.
func (k *Cluster) Links(_ context.Context, faults []cluster.Link) (cluster.Evidence, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ports != nil && len(faults) > 0 {
		return cluster.Evidence{}, fmt.Errorf("faults of links: the cluster was started without any: %w", cluster.ErrUnsupported)
	}
	wanted := map[cluster.Link][]cluster.Impair{}
	for _, l := range faults {
		way := cluster.Link{From: l.From, To: l.To}
		if k.gates[way] == nil || l.From == l.To {
			return cluster.Evidence{}, fmt.Errorf("no link from %s to %s", l.From, l.To)
		}
		if err := l.Check(); err != nil {
			return cluster.Evidence{}, err
		}
		if slices.ContainsFunc(wanted[way], func(i cluster.Impair) bool { return i.Kind == l.Kind }) {
			return cluster.Evidence{}, fmt.Errorf("link %s: stands there twice", l)
		}
		wanted[way] = append(wanted[way], l.Impair)
	}
	e := cluster.Evidence{Proven: len(k.faults) == 0}
	for _, l := range k.faults {
		name, value := k.gates[cluster.Link{From: l.From, To: l.To}].measured(l.Kind)
		m := history.Measurement{Name: name + " " + l.Ends(), Value: value}
		e.Proven = e.Proven || cluster.Counted(m) > 0
		e.Measured = append(e.Measured, m)
	}
	for way, g := range k.gates {
		g.impair(wanted[way])
	}
	k.faults = slices.Clone(faults)
	return e, nil
}

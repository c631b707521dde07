package cluster

import (
	"fmt"

	"tidemark/checker/history"
	"tidemark/node"
	"tidemark/node/control"
)

// DamageFolder damages the disk in the folder of a broker that is down, for a backend that has it at hand. The events are for the
// backend to tell before it starts the broker again.
func DamageFolder(n NodeID, dir string, d node.Damage) (Evidence, []control.Event, error) {
	damaged, events, err := node.DamageDisk(n, dir, d)
	var e Evidence
	for _, x := range damaged {
		name := x.Log
		if name == "" {
			name = "disk"
		}
		value := x.What
		if d.Kind != node.DamageForget {
			value = fmt.Sprintf("%s: it ended at %d and ends at %d", x.What, x.From, x.To)
		}
		e.Measured = append(e.Measured, history.Measurement{Name: fmt.Sprintf("%s of broker %s", name, n), Value: value})
	}
	e.Proven = len(damaged) > 0
	if !e.Proven {
		e.Measured = []history.Measurement{{Name: fmt.Sprintf("disk of broker %s", n), Value: "there was nothing to damage"}}
	}
	return e, events, err
}

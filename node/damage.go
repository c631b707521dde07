package node

import (
	"fmt"

	"tidemark/node/control"
	"tidemark/node/storage"
)

// DamageKind is a way in which a disk loses or changes what was written to it: flip, chop, forget.
type DamageKind = storage.DamageKind

// The kinds of damage.
const (
	DamageFlip   = storage.Flip
	DamageChop   = storage.Chop
	DamageForget = storage.Forget
)

// Damage is what happens to the files of a broker that is down.
type Damage struct {
	Kind  DamageKind
	Bytes int64 // flip, chop: so far in front of the end of each log
}

// DamageDisk damages the disk in a broker's folder. The events say, as of a power failure, what each log lost of its records; they
// belong in front of what the broker reports at its next start.
func DamageDisk(broker control.NodeID, dir string, d Damage) ([]storage.Damaged, []control.Event, error) {
	if d.Kind != DamageForget && d.Bytes < 1 {
		return nil, nil, fmt.Errorf("%s: %d bytes: want 1 or more", d.Kind, d.Bytes)
	}
	all, err := storage.Damage(dir, d.Kind, d.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("broker %d: %w", broker, err)
	}
	var events []control.Event
	for _, x := range all {
		if d.Kind != DamageForget {
			events = append(events, control.Event{Node: broker, Partition: x.Log, What: "powerloss", From: x.From, To: x.To, Bytes: x.Bytes, Why: x.What})
		}
	}
	return all, events, nil
}

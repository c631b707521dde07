package controller

import (
	"encoding/json"
	"fmt"
	"slices"

	"tidemark/node/replica"
)

// snapshot is what outlives the controller's process. Who acknowledged what does not: everything is pushed again.
type snapshot struct {
	Version int64
	Number  int32
	Brokers []*broker
	Records []*record
	Created []bool
}

// AppendSnapshot appends the controller's durable state. The driver makes it durable before it lets the messages of a step
// out that changed it.
func (k *Controller) AppendSnapshot(b []byte) ([]byte, error) {
	s := snapshot{Version: k.version, Number: k.number, Brokers: k.brokers, Records: k.parts}
	for _, r := range k.parts {
		s.Created = append(s.Created, r.created)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return b, fmt.Errorf("controller snapshot: %w", err)
	}
	return append(b, data...), nil
}

// Version counts the accepted changes: the snapshot is the same while it is.
func (k *Controller) Version() int64 { return k.version }

// Restore is Open for a controller that was there before. Sessions start anew at now, and every broker is pushed to again.
// The topics of the configuration must be those of the snapshot.
func Restore(c Config, now replica.Time, data []byte) (*Controller, error) {
	k, err := Open(c)
	if err != nil {
		return nil, err
	}
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("controller snapshot: %w", err)
	}
	if len(s.Records) != len(k.parts) || len(s.Created) != len(k.parts) {
		return nil, fmt.Errorf("controller snapshot has %d partitions, the configuration %d: start with an empty folder or the old topics",
			len(s.Records), len(k.parts))
	}
	for i, r := range s.Records {
		if is := k.parts[i]; r.Partition != is.Partition || r.MinISR != is.MinISR || !slices.Equal(r.Replicas, is.Replicas) {
			return nil, fmt.Errorf("controller snapshot has partition %s on %v with min.insync.replicas=%d, the configuration in its place %s on %v with %d: start with an empty folder or the old topics",
				r.Partition, r.Replicas, r.MinISR, is.Partition, is.Replicas, is.MinISR)
		}
		r.created = s.Created[i]
		for _, b := range s.Brokers {
			p := push{to: b.ID}
			if r.created {
				p.sent, p.retryAt = s.Version, now
			}
			r.pushes = append(r.pushes, p)
		}
	}
	for _, b := range s.Brokers {
		b.heard = now
	}
	k.version, k.number, k.brokers, k.parts = s.Version, s.Number, s.Brokers, s.Records
	return k, nil
}

// Peek shows what a snapshot says, without a controller.
func Peek(data []byte) ([]View, []BrokerView, error) {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, nil, fmt.Errorf("controller snapshot: %w", err)
	}
	if len(s.Created) != len(s.Records) {
		return nil, nil, fmt.Errorf("controller snapshot: %d partitions, %d of them known to be created or not", len(s.Records), len(s.Created))
	}
	for i, r := range s.Records {
		r.created = s.Created[i]
	}
	k := &Controller{parts: s.Records, brokers: s.Brokers}
	return k.Views(), k.Brokers(), nil
}

package replay

import (
	"bytes"
	"fmt"

	"tidemark/node/controller"
	"tidemark/node/journal"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// ruler is the controller that runs again.
type ruler struct {
	config     controller.Config
	controller *controller.Controller
	record     []byte // as it is durable
	version    int64  // of record
	points     [][]byte
}

func newController(s *journal.Start) (*ruler, error) {
	if len(s.Record) > 0 {
		return nil, fmt.Errorf("%w: the controller had a record then", ErrNoBeginning)
	}
	return &ruler{}, nil
}

func (k *ruler) begin(s *journal.Start, _ *journal.Trace, _ *watch) *rules.Set {
	k.config, k.controller, k.points = *s.Controller, nil, nil
	return &k.config.Rules
}

func (k *ruler) open(o *journal.Opened) (err error) {
	if o == nil {
		return nil // it changes nothing
	}
	if k.record == nil {
		k.controller, err = controller.Open(k.config)
	} else {
		k.controller, err = controller.Restore(k.config, 0, k.record)
	}
	if err == nil {
		k.version = k.controller.Version()
	}
	return err
}

func (k *ruler) step(now replica.Time, m replica.Message) []replica.Message {
	return k.controller.Step(now, m, nil)
}

func (k *ruler) deadline() replica.Time     { return k.controller.Deadline() }
func (k *ruler) state(replica.Time) []byte  { return k.controller.AppendState(nil) }
func (k *ruler) mark(m *journal.Mark) error { return nil }
func (k *ruler) last()                      { k.points = [][]byte{k.record} }

func (k *ruler) words() string {
	return fmt.Sprintf("brokers %+v; records %+v", k.controller.Brokers(), k.controller.Views())
}

func (k *ruler) settled() error {
	if k.controller.Version() == k.version {
		return nil
	}
	data, err := k.controller.AppendSnapshot(nil)
	if err != nil {
		return err
	}
	k.record, k.version = data, k.controller.Version()
	return nil
}

func (k *ruler) next(s *journal.Start) (int, *Difference, error) {
	for i, record := range append(k.points, k.record) {
		if bytes.Equal(record, s.Record) {
			k.record = record
			return i, nil, nil
		}
	}
	return 0, &Difference{What: "the record that the controller found", There: string(s.Record), Here: string(k.record)}, nil
}

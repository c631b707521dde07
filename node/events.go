package node

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"

	"tidemark/node/control"
)

// Line is one line of a node's standard output: it is ready, or something happened.
type Line struct {
	Ready *Ready         `json:"ready,omitempty"`
	Event *control.Event `json:"event,omitempty"`
}

// Ready says where a node that was told to listen on a port of the system's choice can be reached.
type Ready struct {
	Node    control.NodeID `json:"node"`
	Listen  string         `json:"listen"`
	Control string         `json:"control,omitempty"`
	// Recovered is what the node found on its disk: a power failure's losses, and where each log ends.
	Recovered []control.Event `json:"recovered,omitempty"`
}

// stream writes a node's events to its standard output. Appends, high watermarks and acknowledgements that continue each
// other become one event between two flushes, because under load they are many and each says the same.
type stream struct {
	w    *bufio.Writer
	out  *json.Encoder
	open []control.Event // in order, not yet written
}

func newStream(w io.Writer) *stream {
	b := bufio.NewWriter(w)
	return &stream{w: b, out: json.NewEncoder(b)}
}

func (s *stream) ready(r Ready) error {
	if err := s.out.Encode(Line{Ready: &r}); err != nil {
		return err
	}
	return s.w.Flush()
}

func (s *stream) add(e control.Event) {
	if merges(e.What) {
		for i := len(s.open) - 1; i >= 0; i-- {
			o := &s.open[i]
			if o.Partition != e.Partition {
				continue
			}
			if !merges(o.What) {
				break // what happened between the two must stay between them
			}
			if o.What == e.What {
				if o.To == e.From && o.To >= o.From && e.To >= e.From && o.Epoch == e.Epoch && o.PartitionEpoch == e.PartitionEpoch && slices.Equal(o.ISR, e.ISR) {
					o.To = e.To
					return
				}
				break
			}
		}
	}
	s.open = append(s.open, e)
}

func merges(what string) bool { return what == "append" || what == "hw" || what == "ack" }

// flush writes what was added: before the answers that tell the same to others leave the node.
func (s *stream) flush() error {
	if len(s.open) == 0 {
		return nil
	}
	for i := range s.open {
		if err := s.out.Encode(Line{Event: &s.open[i]}); err != nil {
			return err
		}
	}
	s.open = s.open[:0]
	return s.w.Flush()
}

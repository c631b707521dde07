package workload

import (
	"fmt"

	"tidemark/checker/history"
)

// recorder writes down what one client does, as processes that are used one after the other.
type recorder struct {
	sink    history.Sink
	stats   *Stats
	process int64
	stride  int64 // to the number of the client's next process
	// event is used again and again, since a sink does not keep it.
	event history.Event
}

// newRecorder is that of client i of n.
func newRecorder(sink history.Sink, c *Config, i int) *recorder {
	r := &recorder{sink: sink, stats: c.Stats, process: c.FirstProcess + int64(i), stride: int64(c.Clients)}
	c.Stats.used(r.process)
	return r
}

// invoke writes that an operation begins. It must come before any byte of the request leaves.
func (r *recorder) invoke(op history.Op) error { return r.append(history.Invoke, op) }

// returned writes what came of the operation, after the answer is there. After an unknown outcome the process is retired, and the
// recorder goes on with the next; retired tells.
func (r *recorder) returned(kind history.Kind, op history.Op) (retired bool, err error) {
	if err := r.append(kind, op); err != nil || kind != history.Info {
		return false, err
	}
	if r.process >= maxProcess-r.stride {
		return false, fmt.Errorf("process numbers are used up: %d is the last, too many operations have unknown outcomes", r.process)
	}
	r.process += r.stride
	r.stats.used(r.process)
	return true, nil
}

func (r *recorder) append(kind history.Kind, op history.Op) error {
	r.event = history.Event{Kind: kind, Process: r.process, Op: op}
	if err := r.sink.Append(&r.event); err != nil {
		return fmt.Errorf("record %s of process %d: %w", kind, r.process, err)
	}
	return nil
}

// asked is the invoke of an operation at a broker.
func asked(op *Operation, p *partition, node int32, acks int16) history.Op {
	return history.Op{Type: op.Type, Partition: p.name, Values: op.Values, Acks: acks, From: op.From, Node: node}
}

// answered is its return.
func answered(op *Operation, p *partition, node int32, a *Answer) history.Op {
	return history.Op{Type: op.Type, Partition: p.name, Node: node, Offset: a.Offset, Records: a.Records,
		HighWatermark: a.HighWatermark, Error: a.Error}
}

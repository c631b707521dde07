package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/checker/history"
)

// ErrIncomplete is wrapped by the error about a log that could not be read to its end.
var ErrIncomplete = errors.New("log not read to its end")

const (
	// wholeLog is how many bytes of records a read of a whole log asks for at a time.
	wholeLog = 256 << 10
	// emptyReads is how often in a row a broker may give nothing where it says that there is something.
	emptyReads = 3
	// patience is for how many timeouts a log may be out of reach before it is given up.
	patience = 5
)

// FinalReads reads every partition from its leader, from the first offset up to the high watermark, and records the reads as the
// authoritative ones, as a process that nobody else may have used. It is for a cluster that has come to rest; then it reads
// each log once, in pieces. What fails is recorded too, and tried again until nothing was answered for five times Timeout. Then the
// partition is left, the others are read, and the error, which wraps [ErrIncomplete], names each that was left.
//
// Of the configuration it uses Topics, ValueSize and Timeout.
func FinalReads(ctx context.Context, c Config, d Dialer, sink history.Sink, process int64) error {
	r, err := newReader(ctx, c, d, process)
	if err != nil {
		return err
	}
	defer r.client.close()
	record := newRecorder(sink, r.config, 0)
	var incomplete error
	for i := range r.routes.partitions {
		err := r.final(record, i)
		incomplete = errors.Join(incomplete, err)
		if err != nil && !errors.Is(err, ErrIncomplete) || ctx.Err() != nil {
			break
		}
	}
	return incomplete
}

// Dump reads the log of one replica up to its log end offset, also what is not committed, in whatever role the replica is. It is
// for the comparison of replicas and not a part of the history of operations: who calls it adds the leader epoch cache, of
// which Kafka's protocol does not tell, and records the whole as a replica event.
//
// It reads as Kafka's debugging consumer (Fetch with replica id -2), and asks Tidemark's own broker for the log end offset
// (ListOffsets with timestamp -3 of that consumer). What fails is tried again until nothing was answered for five times Timeout. That,
// and that the log became shorter while it was read, is an error that wraps [ErrIncomplete].
func Dump(ctx context.Context, c Config, d Dialer, node int32, topic string, index int32) (*history.Replica, error) {
	r, err := newReader(ctx, c, d, 0)
	if err != nil {
		return nil, err
	}
	defer r.client.close()
	place, ok := r.routes.place[topic][index]
	if !ok {
		return nil, wrong("partition", fmt.Sprintf("%s-%d", topic, index), "it is none of the workload's")
	}
	return r.dump(place, node)
}

// reader reads whole logs.
type reader struct {
	config *Config
	routes *routes
	client *client
}

func newReader(ctx context.Context, c Config, d Dialer, process int64) (*reader, error) {
	c.Clients, c.FirstProcess, c.Stats = 1, process, nil
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	routes := newRoutes(d, c.partitions(), c.Stats)
	cl := newClient(ctx, &c, routes)
	cl.become(process)
	return &reader{config: &c, routes: routes, client: cl}, nil
}

// persist makes attempts until one is answered, cannot be answered better by trying again, or there is no patience left.
func (r *reader) persist(place int, attempt func(deadline time.Time) (Answer, error)) (Answer, error) {
	ctx, name := r.client.ctx, r.routes.partitions[place].name
	giveUp := time.Now().Add(patience * r.config.Timeout)
	for wait := (pause{}); ; {
		a, err := attempt(time.Now().Add(r.config.Timeout))
		if err != nil || a.Kind == history.OK || a.OutOfRange {
			return a, err
		}
		wait.longer(ctx)
		switch {
		case ctx.Err() != nil:
			return a, fmt.Errorf("%w: %s: %s (%w)", ErrIncomplete, name, a.Error, context.Cause(ctx))
		case time.Now().After(giveUp):
			return a, fmt.Errorf("%w: %s: %s, for %s", ErrIncomplete, name, a.Error, patience*r.config.Timeout)
		}
	}
}

// leader is who leads a partition, asked for anew if it is not known or if the last attempt failed.
func (r *reader) leader(place int, failed bool) int32 {
	seen := r.routes.now.Load()
	if failed || seen.partitions[place].leader == nobody {
		_ = r.routes.refresh(r.client, seen) // if nobody can tell, the attempt shows it
	}
	return r.routes.now.Load().partitions[place].leader
}

func (r *reader) final(record *recorder, place int) error {
	p := &r.routes.partitions[place]
	failed := false
	start, err := r.persist(place, func(deadline time.Time) (Answer, error) {
		node := r.leader(place, failed)
		failed = true
		if node == nobody {
			return Answer{Kind: history.Fail, Error: whyNoLeader}, nil
		}
		a, _ := r.client.listAs(consumer, earliestOffset, place, node, deadline)
		return a, nil
	})
	if err != nil {
		return err
	}
	for from, empty := start.Offset, 0; ; {
		failed = false
		a, err := r.persist(place, func(deadline time.Time) (Answer, error) {
			op := Operation{Type: history.Fetch, Partition: place, From: from}
			node := r.leader(place, failed)
			failed = true
			return r.finalFetch(record, &op, node, deadline)
		})
		switch {
		case err != nil:
			return err
		case a.OutOfRange:
			return fmt.Errorf("%w: %s: the leader has no offset %d any more", ErrIncomplete, p.name, from)
		case len(a.Records) > 0:
			from, empty = a.Records[len(a.Records)-1].Offset+1, 0
		default:
			empty++
		}
		switch {
		case from >= a.HighWatermark:
			return nil
		case empty == emptyReads:
			return fmt.Errorf("%w: %s: nothing at offset %d, below the high watermark %d", ErrIncomplete, p.name, from, a.HighWatermark)
		}
	}
}

func (r *reader) finalFetch(record *recorder, op *Operation, node int32, deadline time.Time) (Answer, error) {
	p := &r.routes.partitions[op.Partition]
	begin := asked(op, p, node, 0)
	begin.Final = true
	if err := record.invoke(begin); err != nil {
		return Answer{}, err
	}
	a := Answer{Kind: history.Fail, Error: whyNoLeader}
	if node != nobody {
		a, _ = r.client.fetchAs(consumer, op.Partition, op.From, node, wholeLog, deadline)
	}
	end := answered(op, p, node, &a)
	end.Final = true
	retired, err := record.returned(a.Kind, end)
	if retired {
		r.client.become(record.process)
	}
	return a, err
}

func (r *reader) dump(place int, node int32) (*history.Replica, error) {
	p := &r.routes.partitions[place]
	incomplete := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s on broker %d: %s", ErrIncomplete, p.name, node, fmt.Sprintf(format, args...))
	}
	end, err := r.persist(place, func(deadline time.Time) (Answer, error) {
		a, _ := r.client.listAs(debuggingConsumer, logEndOffset, place, node, deadline)
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	out := &history.Replica{Node: node, Partition: p.name, LEO: end.Offset}
	for from, empty := int64(0), 0; ; {
		a, err := r.persist(place, func(deadline time.Time) (Answer, error) {
			a, _ := r.client.fetchAs(debuggingConsumer, place, from, node, wholeLog, deadline)
			return a, nil
		})
		switch {
		case err != nil:
			return nil, err
		case a.OutOfRange && a.Offset > from:
			from = a.Offset // where the log starts
			continue
		case a.OutOfRange:
			return nil, incomplete("it ended at offset %d and has no offset %d any more", out.LEO, from)
		case len(a.Records) > 0:
			out.Entries = append(out.Entries, a.Records...)
			from, empty = a.Records[len(a.Records)-1].Offset+1, 0
		default:
			empty++
		}
		out.HW, out.LEO = a.HighWatermark, max(out.LEO, from)
		switch {
		case from >= out.LEO:
			return out, nil
		case empty == emptyReads:
			return nil, incomplete("nothing at offset %d, below its log end offset %d", from, out.LEO)
		}
	}
}

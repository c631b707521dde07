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
	defer r.close()
	return r.finalReads(sink)
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
	defer r.close()
	return r.dumpOf(node, topic, index)
}

// dumpOf finds the partition's place.
func (r *reader) dumpOf(node int32, topic string, index int32) (*history.Replica, error) {
	place, ok := r.routes.place[topic][index]
	if !ok {
		return nil, wrong("partition", fmt.Sprintf("%s-%d", topic, index), "it is none of the workload's")
	}
	return r.dump(place, node)
}

// Reads are single attempts to read, one after the other, in the time of whoever makes them: what reading a whole log takes. For
// [FinalReads] and [Dump] a client makes them, for [Crew] a simulation does.
type Reads interface {
	// Fetch reads whole batches, as the consumer or the debugging consumer (replica id -2). Place is the partition's, as in an [Operation].
	Fetch(reader int32, place int, from int64, node int32, most int32) Answer
	// List asks for an offset by one of ListOffsets' special timestamps.
	List(reader int32, timestamp int64, place int, node int32) Answer
	// Refresh asks who leads, if nobody has found out since; that nobody can tell is no error.
	Refresh()
	// Sleep returns an error if there is no more time.
	Sleep(time.Duration) error
	Now() time.Time
}

// clientReads are those of a client.
type clientReads struct {
	*client
	timeout time.Duration
}

// Fetch is what [Reads] says.
func (c clientReads) Fetch(reader int32, place int, from int64, node int32, most int32) Answer {
	a, _ := c.fetchAs(reader, place, from, node, most, time.Now().Add(c.timeout))
	return a
}

// List is what [Reads] says.
func (c clientReads) List(reader int32, timestamp int64, place int, node int32) Answer {
	a, _ := c.listAs(reader, timestamp, place, node, time.Now().Add(c.timeout))
	return a
}

// Refresh is what [Reads] says.
func (c clientReads) Refresh() { _ = c.routes.refresh(c.client, c.routes.now.Load()) }

// Sleep is what [Reads] says.
func (c clientReads) Sleep(d time.Duration) error {
	if !sleep(c.ctx, d) {
		return context.Cause(c.ctx)
	}
	return nil
}

// Now is what [Reads] says.
func (c clientReads) Now() time.Time { return time.Now() }

// reader reads whole logs.
type reader struct {
	Reads
	config *Config
	routes *routes
	client *client // nil in a simulation
}

func (r *reader) close() {
	if r.client != nil {
		r.client.close()
	}
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
	return &reader{Reads: clientReads{cl, c.Timeout}, config: &c, routes: routes, client: cl}, nil
}

// finalReads reads every partition.
func (r *reader) finalReads(sink history.Sink) error {
	record := newRecorder(sink, r.config, 0)
	var incomplete error
	for i := range r.routes.partitions {
		err := r.final(record, i)
		incomplete = errors.Join(incomplete, err)
		if err != nil && !errors.Is(err, ErrIncomplete) || r.Sleep(0) != nil {
			break
		}
	}
	return incomplete
}

// persist makes attempts until one is answered, cannot be answered better by trying again, or there is no patience left.
func (r *reader) persist(place int, attempt func() (Answer, error)) (Answer, error) {
	name := r.routes.partitions[place].name
	giveUp := r.Now().Add(patience * r.config.Timeout)
	for wait := (pause{}); ; {
		a, err := attempt()
		if err != nil || a.Kind == history.OK || a.OutOfRange {
			return a, err
		}
		ended := r.Sleep(wait.next())
		switch {
		case ended != nil:
			return a, fmt.Errorf("%w: %s: %s (%w)", ErrIncomplete, name, a.Error, ended)
		case r.Now().After(giveUp):
			return a, fmt.Errorf("%w: %s: %s, for %s", ErrIncomplete, name, a.Error, patience*r.config.Timeout)
		}
	}
}

// leader is who leads a partition, asked for anew if it is not known or if the last attempt failed.
func (r *reader) leader(place int, failed bool) int32 {
	if failed || r.routes.now.Load().partitions[place].leader == nobody {
		r.Refresh() // if nobody can tell, the attempt shows it
	}
	return r.routes.now.Load().partitions[place].leader
}

func (r *reader) final(record *recorder, place int) error {
	p := &r.routes.partitions[place]
	failed := false
	start, err := r.persist(place, func() (Answer, error) {
		node := r.leader(place, failed)
		failed = true
		if node == nobody {
			return Answer{Kind: history.Fail, Error: WhyNoLeader}, nil
		}
		return r.List(consumer, earliestOffset, place, node), nil
	})
	if err != nil {
		return err
	}
	for from, empty := start.Offset, 0; ; {
		failed = false
		a, err := r.persist(place, func() (Answer, error) {
			op := Operation{Type: history.Fetch, Partition: place, From: from}
			node := r.leader(place, failed)
			failed = true
			return r.finalFetch(record, &op, node)
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

func (r *reader) finalFetch(record *recorder, op *Operation, node int32) (Answer, error) {
	p := &r.routes.partitions[op.Partition]
	begin := asked(op, p, node, 0)
	begin.Final = true
	if err := record.invoke(begin); err != nil {
		return Answer{}, err
	}
	a := Answer{Kind: history.Fail, Error: WhyNoLeader}
	if node != nobody {
		a = r.Fetch(consumer, op.Partition, op.From, node, wholeLog)
	}
	end := answered(op, p, node, &a)
	end.Final = true
	retired, err := record.returned(a.Kind, end)
	if retired && r.client != nil {
		r.client.become(record.process)
	}
	return a, err
}

func (r *reader) dump(place int, node int32) (*history.Replica, error) {
	p := &r.routes.partitions[place]
	incomplete := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s on broker %d: %s", ErrIncomplete, p.name, node, fmt.Sprintf(format, args...))
	}
	end, err := r.persist(place, func() (Answer, error) {
		return r.List(debuggingConsumer, logEndOffset, place, node), nil
	})
	if err != nil {
		return nil, err
	}
	out := &history.Replica{Node: node, Partition: p.name, LEO: end.Offset}
	for from, empty := int64(0), 0; ; {
		a, err := r.persist(place, func() (Answer, error) {
			return r.Fetch(debuggingConsumer, place, from, node, wholeLog), nil
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

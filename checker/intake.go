package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"tidemark/checker/history"
)

// Source gives a history event by event. [*history.Reader] is one; [Events] makes one of a slice.
type Source interface {
	Header() history.Header
	// Next reads the next event into e; io.EOF after the last.
	Next(e *history.Event) error
	// Torn reports, after io.EOF, that the history breaks off.
	Torn() bool
}

var _ Source = (*history.Reader)(nil)

// Events is a history in memory as a [Source].
func Events(h history.Header, events []history.Event) Source { return &eventSource{h, events} }

type eventSource struct {
	header history.Header
	events []history.Event
}

func (s *eventSource) Header() history.Header { return s.header }
func (s *eventSource) Torn() bool             { return false }
func (s *eventSource) Next(e *history.Event) error {
	if len(s.events) == 0 {
		return io.EOF
	}
	*e, s.events = s.events[0], s.events[1:]
	return nil
}

// ErrInvalid says that a history contradicts itself, so that judging it would judge its writer: a return without a call, a process
// that does two things at once, a value produced twice.
var ErrInvalid = errors.New("invalid history")

// InvalidError is the first contradiction of a history.
type InvalidError struct {
	// Seq is the number of the event, Line its line if the source is a file, else 0.
	Seq  int64
	Line int
	// Field is the key at fault.
	Field string
	Msg   string
}

// Error names line or number, field and what is wrong.
func (e *InvalidError) Error() string {
	at := fmt.Sprintf("event %d", e.Seq)
	if e.Line > 0 {
		at = fmt.Sprintf("line %d", e.Line)
	}
	return fmt.Sprintf("%v: %s: field %q: %s", ErrInvalid, at, e.Field, e.Msg)
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// process is what a logical client is doing.
type process struct {
	partition *partition
	op        int32
	busy      bool
	// retired: its last operation may still happen, so that another would be concurrent with it.
	retired bool
}

// processes are found by their numbers. Those near to zero, as most recorders give them, are in a table; others are in a map, so that a wild
// number costs no more than any.
type processes struct {
	near []*[processPage]process
	far  map[int64]*process
}

const (
	processPage  = 256
	nearestPages = 1 << 17
)

func (ps *processes) get(id int64) *process {
	if page := uint64(id) / processPage; page < uint64(len(ps.near)) {
		return &ps.near[page][uint64(id)%processPage]
	}
	return ps.first(id)
}

// first looks for a process that is not in the table. Numbers that rise one by one make the table grow.
func (ps *processes) first(id int64) *process {
	if page := uint64(id) / processPage; page == uint64(len(ps.near)) && page < nearestPages {
		near := new([processPage]process)
		ps.near = append(ps.near, near)
		for i := 0; i < processPage && len(ps.far) > 0; i++ {
			if p := ps.far[int64(page)*processPage+int64(i)]; p != nil {
				near[i] = *p
				delete(ps.far, int64(page)*processPage+int64(i))
			}
		}
		return &near[uint64(id)%processPage]
	}
	if ps.far[id] == nil {
		if ps.far == nil {
			ps.far = map[int64]*process{}
		}
		ps.far[id] = &process{}
	}
	return ps.far[id]
}

// intake sorts the events of a history by partition and checks that they make sense.
type intake struct {
	header     history.Header
	partitions map[string]*partition
	processes  processes
	// last is the partition of the event before: most histories are of one.
	last     *partition
	faults   []*fault
	nodes    map[string]*nodeIndex
	evidence Evidence
	labels   labels
	// lastSeq is the history's number of the event before, place how many there were.
	lastSeq int64
	place   uint32
	torn    bool
}

// fault is a fault of the history, begin and end joined.
type fault struct {
	history.FaultEvent
	begin, over int64
	beginTime   int64
}

const (
	// polled is how many events are taken in between two looks at the context.
	polled = 1 << 12
	// told is how many are taken in between two reports of progress.
	told = 1 << 18
)

func take(ctx context.Context, src Source, progress func(Progress)) (*intake, error) {
	in := &intake{header: src.Header(), partitions: map[string]*partition{},
		nodes: map[string]*nodeIndex{}}
	var e history.Event
	next := src.Next
	if shared, ok := src.(interface {
		NextShared(e *history.Event) error
	}); ok {
		// What is kept of an operation is copied; what is not need not be.
		next = shared.NextShared
	}
	for n := 0; ; n++ {
		if n%polled == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if progress != nil && n > 0 && n%told == 0 {
			progress(Progress{Events: int64(n)})
		}
		err := next(&e)
		if errors.Is(err, io.EOF) {
			in.torn = src.Torn()
			in.release(n)
			return in, nil
		}
		if err == nil {
			err = in.event(&e)
		}
		if err == nil {
			continue
		}
		var bad *InvalidError
		if lines, ok := src.(interface{ Line() int }); ok && errors.As(err, &bad) {
			bad.Line = lines.Line()
		}
		return nil, err
	}
}

// manyEvents is how long a history is whose index is worth a collection of its own.
const manyEvents = 1 << 16

// release gives back what finds values by their texts: all are known now. In a long history that is a tenth of the memory, and what decides
// needs as much: collected now, it serves for both.
func (in *intake) release(events int) {
	for _, p := range in.partitions {
		p.ids = index{}
	}
	if events > manyEvents {
		runtime.GC()
	}
}

func (in *intake) event(e *history.Event) error {
	if e.Seq <= in.lastSeq {
		return invalid(e, "seq", "%d follows %d: numbers must rise", e.Seq, in.lastSeq)
	}
	in.lastSeq = e.Seq
	if in.place++; in.place == unanswered {
		return invalid(e, "seq", "is that of the %dth event: a history has fewer; split it by partition", uint32(unanswered))
	}
	in.labels.number(in.place, e.Seq)
	e.Seq = int64(in.place)
	err := in.file(e)
	e.Seq = in.lastSeq
	var bad *InvalidError
	if errors.As(err, &bad) {
		bad.Seq = e.Seq
	}
	return err
}

// file sorts an event in. It bears its place among the events as its number.
func (in *intake) file(e *history.Event) error {
	switch e.Kind {
	case history.Invoke:
		return in.invoke(e)
	case history.OK, history.Fail, history.Info:
		return in.ret(e)
	case history.KindFault:
		return in.fault(e)
	case history.KindNode:
		if e.Node == nil {
			return invalid(e, "kind", "a node event without its fields")
		}
		in.node(e)
	case history.KindReplica:
		return in.replica(e)
	case history.KindSettled:
		if e.Settled == nil {
			return invalid(e, "kind", "a settled event without its fields")
		}
		in.partition(e.Settled.Partition).settled = e.Settled
	default:
		return invalid(e, "kind", "%d is no kind of event", e.Kind)
	}
	return nil
}

func invalid(e *history.Event, field, format string, args ...any) error {
	return &InvalidError{Seq: e.Seq, Field: field, Msg: fmt.Sprintf(format, args...)}
}

func (in *intake) partition(name string) *partition {
	if in.last != nil && in.last.name == name {
		return in.last
	}
	p := in.partitions[name]
	if p == nil {
		p = newPartition(name, &in.labels)
		in.partitions[name] = p
	}
	in.last = p
	return p
}

func (in *intake) invoke(e *history.Event) error {
	q := &e.Op
	proc := in.processes.get(e.Process)
	switch {
	case proc.busy:
		return invalid(e, "process", "process %d calls again before the operation that it called at %d has returned", e.Process,
			proc.partition.callSeq(proc.partition.ops.at(proc.op)))
	case proc.retired:
		return invalid(e, "process", "process %d calls after an operation of unknown outcome: use a new process", e.Process)
	case q.Partition == "":
		return invalid(e, "partition", "is empty")
	case q.Type < history.Produce || q.Type > history.End:
		return invalid(e, "op", "%d is no operation", q.Type)
	case q.Type == history.Produce && len(q.Values) == 0:
		return invalid(e, "values", "is empty: a produce has at least one value")
	case q.Type == history.Produce && (q.Acks < -1 || q.Acks > 1):
		return invalid(e, "acks", "%d is none of -1 (all), 0, 1", q.Acks)
	case q.Type == history.Fetch && q.From < 0:
		return invalid(e, "from", "%d is negative", q.From)
	case q.Type == history.Fetch && q.From > maxOffset:
		return invalid(e, "from", "%d is beyond %d", q.From, int64(maxOffset))
	}
	p := in.partition(q.Partition)
	id, twice, unique := p.invoke(e)
	if !unique {
		return invalid(e, "values", "%q is produced twice to %s: values must be unique", twice, q.Partition)
	}
	*proc = process{partition: p, op: id, busy: true}
	return nil
}

func (in *intake) ret(e *history.Event) error {
	q := &e.Op
	proc := in.processes.get(e.Process)
	if !proc.busy {
		return invalid(e, "process", "process %d returns without having called", e.Process)
	}
	o := proc.partition.ops.at(proc.op)
	switch {
	case q.Partition != proc.partition.name:
		return invalid(e, "partition", "%q returns, %q was called", q.Partition, proc.partition.name)
	case q.Type != o.kind():
		return invalid(e, "op", "%s returns, %s was called", q.Type, o.kind())
	case e.Time < o.callTime:
		return invalid(e, "time", "%d is before the call's %d", e.Time, o.callTime)
	}
	if e.Kind == history.OK {
		if err := checkAnswer(e); err != nil {
			return err
		}
	}
	node, fits := in.labels.nodes.narrow(q.Node)
	if !fits {
		return invalid(e, "node", "%d is the id of one broker more than %d that are not below %d", q.Node, mostNodes, nodeBit)
	}
	in.count(o, e)
	proc.partition.ret(proc.op, e, node)
	*proc = process{retired: e.Kind == history.Info}
	return nil
}

// maxOffset keeps sums of offsets and counts far from overflow.
const maxOffset = 1 << 60

func checkAnswer(e *history.Event) error {
	q := &e.Op
	switch {
	case q.Offset > maxOffset:
		return invalid(e, "offset", "%d is beyond %d", q.Offset, int64(maxOffset))
	case q.HighWatermark > maxOffset:
		return invalid(e, "hw", "%d is beyond %d", q.HighWatermark, int64(maxOffset))
	case q.Type == history.Produce && q.Offset < history.Unknown, q.Type == history.End && q.Offset < 0:
		return invalid(e, "offset", "%d is negative", q.Offset)
	case q.Type == history.Fetch && q.HighWatermark < 0:
		return invalid(e, "hw", "%d is negative", q.HighWatermark)
	}
	for i := range q.Records {
		switch o := q.Records[i].Offset; {
		case o < 0:
			return invalid(e, "records", "offset %d is negative", o)
		case o > maxOffset:
			return invalid(e, "records", "offset %d is beyond %d", o, int64(maxOffset))
		}
	}
	return nil
}

func (in *intake) count(o *op, e *history.Event) {
	ev := &in.evidence
	switch {
	case e.Kind == history.Info:
		ev.Unknown++
	case e.Kind == history.Fail:
		ev.Failed++
	case o.kind() == history.Produce && e.Op.Offset == history.Unknown:
		ev.Unknown++
	case o.kind() == history.Produce:
		ev.Acked++
	case o.final() || e.Op.Final:
		ev.FinalReads++
	default:
		ev.Reads++
	}
}

func (in *intake) fault(e *history.Event) error {
	f := e.Fault
	if f == nil {
		return invalid(e, "kind", "a fault event without its fields")
	}
	i := slices.IndexFunc(in.faults, func(g *fault) bool { return g.ID == f.ID })
	switch {
	case f.Phase == history.Begin && i >= 0:
		return invalid(e, "id", "fault %d begins twice", f.ID)
	case f.Phase == history.Begin:
		in.faults = append(in.faults, &fault{FaultEvent: *f, begin: e.Seq, beginTime: e.Time})

	case i < 0:
		return invalid(e, "id", "fault %d ends without having begun", f.ID)
	case in.faults[i].over != 0:
		return invalid(e, "id", "fault %d ends twice", f.ID)
	default:
		g := in.faults[i]
		g.over, g.Evidence, g.Proven = e.Seq, f.Evidence, f.Proven
		if len(f.Nodes) > 0 {
			g.Nodes = f.Nodes
		}
	}
	return nil
}

func (in *intake) replica(e *history.Event) error {
	r := e.Replica
	if r == nil {
		return invalid(e, "kind", "a replica event without its fields")
	}
	p := in.partition(r.Partition)
	i := slices.IndexFunc(p.replicas, func(o *history.Replica) bool { return o.Node == r.Node })
	var entries []history.Record
	if i >= 0 {
		entries = p.replicas[i].Entries
	}
	last := int64(none)
	if len(entries) > 0 {
		last = entries[len(entries)-1].Offset
	}
	for _, x := range r.Entries {
		if x.Offset <= last {
			return invalid(e, "entries", "offset %d follows %d: offsets must rise", x.Offset, last)
		}
		last = x.Offset
	}
	if i < 0 {
		c := *r
		p.replicas = append(p.replicas, &c)
		return nil
	}
	// A further piece of a long dump.
	c := *r
	c.Entries = append(entries, r.Entries...)
	p.replicas[i] = &c
	return nil
}

// sorted returns the partitions by name, numbers in the order of numbers.
func (in *intake) sorted() []*partition {
	ps := make([]*partition, 0, len(in.partitions))
	for _, p := range in.partitions {
		slices.SortFunc(p.replicas, func(a, b *history.Replica) int { return int(a.Node) - int(b.Node) })
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b *partition) int { return comparePartitions(a.name, b.name) })
	return ps
}

func comparePartitions(a, b string) int {
	ta, na := splitPartition(a)
	tb, nb := splitPartition(b)
	if c := strings.Compare(ta, tb); c != 0 {
		return c
	}
	if len(na) != len(nb) {
		return len(na) - len(nb)
	}
	return strings.Compare(na, nb)
}

func splitPartition(s string) (topic, number string) {
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

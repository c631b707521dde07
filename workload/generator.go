package workload

import (
	"fmt"

	"tidemark/checker/history"
)

// Operation is what a process asks next.
type Operation struct {
	// Type is what is asked: a produce, a fetch, or where the log ends.
	Type history.OpType
	// Partition is the place of a partition in the configuration, counted through all topics.
	Partition int
	// Values are what a produce appends, without padding.
	Values []string
	// From is the offset that a fetch asks for.
	From int64
	// Follower says that a replica that does not lead is to be asked, if there is one; Pick chooses which of them.
	Follower bool
	Pick     uint64
}

// Answer is what came of an operation.
type Answer struct {
	// Kind is [history.OK], [history.Fail] or [history.Info].
	Kind history.Kind
	// Offset is where the first value of a produce is, or where the log ends; [history.Unknown] if the answer does not say.
	Offset int64
	// Records and HighWatermark answer a fetch.
	Records       []history.Record
	HighWatermark int64
	// OutOfRange says that a fetch failed because the log has no such offset (any more).
	OutOfRange bool
	// Error says why an operation is not OK, as the history has it.
	Error string
}

// Generator chooses the operations of one process, and knows nothing but its seed and the answers that the process got: two
// generators of the same seed, process and answers ask the same. It is not safe for concurrent use.
type Generator struct {
	rng        random
	name       string // of the process, in its values
	count      int64  // values made
	partitions []progress

	produce, fetch, end int64 // weights
	follower, batch     chance
	batchValues         int64
}

// progress is what a process knows of one partition.
type progress struct {
	position int64 // the next offset to read
	end      int64 // where the log ended, by the last answer that said so
}

// NewGenerator makes the generator of a process. Of the configuration it uses what decides the questions: Topics, Seed, Mix,
// FollowerReads, BatchShare and BatchValues. The error is one of the configuration.
func NewGenerator(c Config, process int64) (*Generator, error) {
	c = c.withDefaults()
	if c.Clients == 0 {
		c.Clients = 1 // a generator is of one process, however many there are
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if process < 0 || process >= maxProcess {
		return nil, wrong("process", process, fmt.Sprintf("numbers are from 0 to %d", maxProcess-1))
	}
	return newGenerator(&c, process), nil
}

func newGenerator(c *Config, process int64) *Generator {
	return &Generator{
		rng:        stream(c.Seed, process),
		name:       processName(process),
		partitions: make([]progress, len(c.partitions())),
		produce:    int64(c.Mix.Produce), fetch: int64(c.Mix.Fetch), end: int64(c.Mix.End),
		follower: chanceOf(c.FollowerReads), batch: chanceOf(c.BatchShare), batchValues: int64(c.BatchValues),
	}
}

// Next is the next operation of the process. What it was answered must be learnt before the next is asked for.
func (g *Generator) Next() Operation {
	op := Operation{Partition: int(g.rng.below(int64(len(g.partitions))))}
	switch n := g.rng.below(g.produce + g.fetch + g.end); {
	case n < g.produce:
		op.Type = history.Produce
		op.Values = g.values()
	case n < g.produce+g.fetch:
		op.Type = history.Fetch
		op.From = g.from(&g.partitions[op.Partition])
		if g.rng.hits(g.follower) {
			op.Follower, op.Pick = true, g.rng.next()
		}
	default:
		op.Type = history.End
	}
	return op
}

func (g *Generator) values() []string {
	n := int64(1)
	if g.rng.hits(g.batch) {
		n = 2 + g.rng.below(g.batchValues-1)
	}
	values := make([]string, n)
	for i := range values {
		values[i] = valueName(g.name, g.count)
		g.count++
	}
	return values
}

const (
	// farBehind is the number of records after which a process that reads on leaves out what it missed: faults show at the end of
	// the log, and the final reads see the rest.
	farBehind = 500
	// tail is how many records at the end of the log a process looks at that wants the newest.
	tail = 4
)

// from chooses where to read: mostly on from the last record, often the newest records once more, sometimes anything that was read
// before, the beginning, or the end itself.
func (g *Generator) from(p *progress) int64 {
	draw, at := g.rng.below(100), random(g.rng.next())
	switch {
	case p.end == 0 || draw < 60:
		if p.end-p.position > farBehind {
			p.position = p.end - tail
		}
		return p.position
	case draw < 80:
		return max(0, p.end-1-at.below(tail))
	case draw < 90:
		return at.below(p.end)
	case draw < 95:
		return 0
	}
	return p.end
}

// Learn takes in what the operation that was asked last was answered.
func (g *Generator) Learn(op Operation, a Answer) {
	p := &g.partitions[op.Partition]
	switch {
	case a.OutOfRange && !op.Follower:
		// The log is shorter than it was (a follower's may just not be as long yet). Where it ends is to be found out anew.
		*p = progress{}
	case a.Kind != history.OK:
	case op.Type == history.Produce:
		if a.Offset != history.Unknown {
			p.end = max(p.end, a.Offset+int64(len(op.Values)))
		}
	case op.Type == history.End:
		p.end = a.Offset
	default:
		p.end = a.HighWatermark
		if n := len(a.Records); n > 0 {
			next := a.Records[n-1].Offset + 1
			p.end = max(p.end, next)
			if op.From == p.position {
				p.position = next // other reads look at the log beside the position
			}
		}
	}
}

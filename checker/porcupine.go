package checker

import (
	"context"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"tidemark/checker/history"
)

// Outcome is porcupine's own verdict on a partition, at the level of the bar and with the final reads taken as such.
type Outcome string

// The outcomes. Porcupine's Unknown is NotRun: an unfinished search proves nothing.
const (
	Ok      Outcome = "Ok"
	Illegal Outcome = "Illegal"
	NotRun  Outcome = "NotRun"
)

// entry is one record of the model's log, with all below it. It never changes, so that porcupine can keep any number of
// states; a state is the topmost entry, nil for the empty log.
type entry struct {
	n      int64
	hash   uint64
	value  int32
	parent *entry
	// jump leads far down, so that any entry is found in logarithmic time (Myers, An applicative random-access stack, 1983).
	jump *entry
}

func (e *entry) len() int64 {
	if e == nil {
		return 0
	}
	return e.n
}

func (e *entry) push(v int32) *entry {
	n := &entry{n: 1, hash: mix(0, v), value: v, parent: e}
	if e == nil {
		n.jump = n
		return n
	}
	n.n, n.hash, n.jump = e.n+1, mix(e.hash, v), e
	if j := e.jump; e.n-j.n == j.n-j.jump.n {
		n.jump = j.jump
	}
	return n
}

// at returns the value at an offset below the length.
func (e *entry) at(offset int64) int32 {
	for e.n-1 > offset {
		if e.jump.n-1 >= offset && e.jump != e {
			e = e.jump
		} else {
			e = e.parent
		}
	}
	return e.value
}

// mix is the finalizer of splitmix64 over hash and value.
func mix(h uint64, v int32) uint64 {
	h = (h ^ uint64(uint32(v))) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// request is an operation as porcupine's model sees it: question and answer together.
type request struct {
	kind history.OpType
	// at is the offset of a produce, none if nobody knows, or of a fetch, or the answer of an end.
	at     int64
	hw     int64
	values []int32
	// exact: the end must be the log's, not only within it.
	exact bool
	bad   bool
	text  string
}

// model is the log as a state machine: what one operation may answer, given the log, and what the log is afterwards.
func model(ctx context.Context) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return (*entry)(nil) },
		StepContext: func(search context.Context, state, input, _ any) (bool, any) {
			if ctx.Err() != nil || search.Err() != nil {
				return false, state
			}
			return step(state.(*entry), input.(*request))
		},
		Equal: func(a, b any) bool {
			x, y := a.(*entry), b.(*entry)
			return x == y || x != nil && y != nil && x.n == y.n && x.hash == y.hash
		},
		Hash: func(state any) uint64 {
			if e := state.(*entry); e != nil {
				return e.hash
			}
			return 0
		},
		DescribeOperation: func(input, _ any) string { return input.(*request).text },
		DescribeState:     func(state any) string { return fmt.Sprintf("log of %d", state.(*entry).len()) },
	}
}

func step(log *entry, r *request) (bool, *entry) {
	n := log.len()
	switch r.kind {
	case history.Produce:
		if r.at != none && r.at != n {
			return false, log
		}
		for _, v := range r.values {
			log = log.push(v)
		}
		return true, log
	case history.End:
		return r.at == n || !r.exact && r.at < n, log
	}
	end := r.at + int64(len(r.values))
	if r.bad || r.hw > n || r.exact && r.hw != n || len(r.values) > 0 && end > r.hw ||
		len(r.values) == 0 && r.at < r.hw {
		return false, log
	}
	for i, v := range r.values {
		if log.at(r.at+int64(i)) != v {
			return false, log
		}
	}
	return true, log
}

// judged is what porcupine said, or why it was not asked.
type judged struct {
	outcome Outcome
	why     string
}

// feed is a partition's operations as porcupine gets them: what did not happen is left out, and an unknown produce whose value
// was seen is one that was acknowledged when it was first seen.
func (p *partition) feed(level Level, pending bool) []porcupine.Operation {
	end := int64(0)
	for i := range p.ops.len() {
		end = max(end, p.ops.at(i).call())
		if p.ops.at(i).ret() != never {
			end = max(end, p.ops.at(i).ret())
		}
	}
	var fed []porcupine.Operation
	for i := range p.ops.len() {
		o := p.ops.at(i)
		r := &request{kind: o.kind(), at: o.offset, hw: p.hw(o), bad: o.bad() == notDense}
		ret := o.ret()
		switch {
		case o.kind() == history.Produce && o.out() == failed:
			continue
		case o.kind() == history.Produce:
			for v := o.first; v < o.first+o.count; v++ {
				r.values = append(r.values, v)
			}
			if o.out() != happened {
				switch seen := p.firstSeen(o); {
				case seen != never:
					// Seen before its call it is a phantom: then it happens at its call, and the observer has no place.
					ret = max(seen, o.call())
				case !pending:
					continue
				default:
					r.at, ret = none, end+1
				}
			}
		case o.out() != happened:
			continue
		case o.kind() == history.Fetch:
			r.values = p.records(o, nil)
		}
		_, breaks := p.allows(o)
		r.exact = breaks <= level
		fed = append(fed, porcupine.Operation{ClientId: int(p.processOf(o)), Input: r, Call: o.call(), Return: ret})
	}
	return fed
}

// firstSeen is when a produce of unknown outcome was first observed, or never.
func (p *partition) firstSeen(o *op) int64 {
	at := int64(never)
	for v := o.first; v < o.first+o.count; v++ {
		if by := p.values.at(v).seenBy; by != none {
			at = min(at, p.ops.at(by).ret())
		}
	}
	return at
}

const (
	// smallFeed is a history so small that porcupine is asked whatever its shape.
	smallFeed        = 100
	smallFeedClients = 20
)

// ask lets porcupine judge the partition within the limits. pending tells it to keep unknown produces that nobody saw, which is needed
// if the log has holes that they may fill.
func (p *partition) ask(ctx context.Context, level Level, pending bool, l Limits) judged {
	if level < CommittedLog {
		return judged{NotRun, "the model has no level below committed log"}
	}
	if l.Operations < 0 {
		return judged{NotRun, "switched off"}
	}
	if int(p.ops.len()) > l.Operations {
		return judged{NotRun, fmt.Sprintf("%d operations, the budget is %d", int(p.ops.len()), l.Operations)}
	}
	fed := p.feed(level, pending)
	if len(fed) == 0 {
		return judged{Ok, ""}
	}
	width, budget := concurrency(fed), l.Clients
	if len(fed) <= smallFeed {
		budget = max(budget, smallFeedClients)
	}
	if width > budget {
		return judged{NotRun, fmt.Sprintf("%d operations are concurrent, the budget is %d", width, budget)}
	}
	res := porcupine.CheckOperationsTimeout(model(ctx), fed, l.Timeout)
	switch {
	case ctx.Err() != nil:
		return judged{NotRun, context.Cause(ctx).Error()}
	case res == porcupine.Ok:
		return judged{Ok, ""}
	case res == porcupine.Illegal:
		return judged{Illegal, ""}
	}
	return judged{NotRun, fmt.Sprintf("no answer within %v", l.Timeout)}
}

// concurrency is the largest number of operations that are open at one moment.
func concurrency(fed []porcupine.Operation) int {
	calls, rets := make([]int64, len(fed)), make([]int64, len(fed))
	for i := range fed {
		calls[i], rets[i] = fed[i].Call, fed[i].Return
	}
	slices.Sort(calls)
	slices.Sort(rets)
	width, done := 0, 0
	for i, c := range calls {
		for rets[done] < c {
			done++
		}
		width = max(width, i+1-done)
	}
	return width
}

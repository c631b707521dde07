package checker

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"tidemark/checker/history"
)

// nodeIndex is what the nodes reported of one partition, condensed: appends and acknowledgements, one event a record, become spans.
//
// What orders these facts. Events of one node are in that node's order. Between nodes nothing is taken from arrival or time, but:
//   - a fact happened before its event arrived, so a request that was sent after the arrival came after the fact;
//   - faults and client operations are numbered by one recorder, so "answered before the fault was asked for" is an order;
//   - leader epochs and partition epochs rise with the controller's decisions, and a node that is in one has been told of it;
//   - a record is (leader epoch, offset): appended once by its leader, and whoever has it got it after that.
type nodeIndex struct {
	streams map[int32]*stream
	acks    []ackSpan
	// decisions are all statements of who leads and who is in the ISR, by controller and brokers.
	decisions []decision
	// elections are the controller's own, in its order.
	elections []decision
}

// stream is what one broker did to its replica, in its own order.
type stream struct {
	deeds []deed
}

// deed is one thing that a broker did, or a run of appends.
type deed struct {
	history.NodeEvent
	seq, time int64
}

// ackSpan says under which ISR the records [from, to) of an epoch were acknowledged.
type ackSpan struct {
	node           int32
	epoch          int32
	partitionEpoch int32
	from, to       int64
	isr            []int32
}

// decision is who leads and who is in sync from some moment on.
type decision struct {
	// node reported it.
	node                  int32
	epoch, partitionEpoch int32
	leader                int32
	// elected: the event says who leads; otherwise leader is not told.
	elected bool
	unclean bool
	isr     []int32
	why     string
	seq     int64
	time    int64
}

func (x *nodeIndex) stream(node int32) *stream {
	s := x.streams[node]
	if s == nil {
		s = &stream{}
		x.streams[node] = s
	}
	return s
}

// brokers are the ids of those that reported, in order.
func (x *nodeIndex) brokers() []int32 { return slices.Sorted(maps.Keys(x.streams)) }

func (in *intake) index(partition string) *nodeIndex {
	x := in.nodes[partition]
	if x == nil {
		x = &nodeIndex{streams: map[int32]*stream{}}
		in.nodes[partition] = x
	}
	return x
}

// node files an event under its partition. What concerns a whole node is filed under the partition "".
func (in *intake) node(e *history.Event) {
	n := e.Node
	x := in.index(n.Partition)
	switch n.What {
	case history.Ack:
		x.ack(n)
		return
	case history.Elected:
		d := decision{node: n.Node, epoch: n.Epoch, partitionEpoch: n.PartitionEpoch, leader: n.Leader, elected: true, unclean: n.Unclean, isr: n.ISR,
			why: n.Why, seq: e.Seq, time: e.Time}
		x.decisions = append(x.decisions, d)
		x.elections = append(x.elections, d)
		return
	case history.ISRChanged:
		d := decision{node: n.Node, epoch: n.Epoch, partitionEpoch: n.PartitionEpoch, isr: n.ISR, seq: e.Seq, time: e.Time}
		x.decisions = append(x.decisions, d)
		return
	}
	if n.Node == history.Controller {
		s := x.stream(history.Controller)
		s.deeds = append(s.deeds, deed{*n, e.Seq, e.Time})
		return
	}
	s := x.stream(n.Node)
	switch n.What {
	case history.HW:
		// Only a fall is of interest; a truncation takes the high watermark down with it and says so itself.
		if n.To < n.From {
			s.deeds = append(s.deeds, deed{*n, e.Seq, e.Time})
		}
		return
	case history.Append:
		if len(s.deeds) > 0 {
			if last := &s.deeds[len(s.deeds)-1]; last.What == history.Append && last.Epoch == n.Epoch && last.To == n.From {
				last.To = n.To
				return
			}
		}
	case history.RoleChanged:
		d := decision{node: n.Node, epoch: n.Epoch, partitionEpoch: n.PartitionEpoch, leader: n.Leader, elected: true, isr: n.ISR, seq: e.Seq, time: e.Time}
		x.decisions = append(x.decisions, d)
	case history.Truncated:
		if n.To < n.From {
			in.evidence.Truncations++
		}
	case history.PowerLoss:
		in.evidence.PowerLosses++
		in.evidence.BytesLost += n.Bytes
	}
	s.deeds = append(s.deeds, deed{*n, e.Seq, e.Time})
}

func (x *nodeIndex) ack(n *history.NodeEvent) {
	if len(x.acks) > 0 {
		last := &x.acks[len(x.acks)-1]
		if last.node == n.Node && last.epoch == n.Epoch && last.partitionEpoch == n.PartitionEpoch && last.to == n.From &&
			slices.Equal(last.isr, n.ISR) {
			last.to = n.To
			return
		}
	}
	x.acks = append(x.acks, ackSpan{n.Node, n.Epoch, n.PartitionEpoch, n.From, n.To, n.ISR})
}

// leaderChanges counts the epochs in which a leader was elected, without the first epoch that anybody spoke of. Where the controller
// reported no elections the brokers' roles are counted.
func (x *nodeIndex) leaderChanges() int {
	elections := x.elections
	if len(elections) == 0 {
		elections = x.decisions
	}
	first := int32(math.MaxInt32)
	for _, d := range x.decisions {
		first = min(first, d.epoch)
	}
	epochs := map[int32]bool{}
	for _, d := range elections {
		if d.elected && d.leader != history.Unknown && d.epoch > first {
			epochs[d.epoch] = true
		}
	}
	return len(epochs)
}

// isrChanges counts the versions of the controller's record that changed the ISR and not the leader.
func (x *nodeIndex) isrChanges() int {
	versions := map[int32]bool{}
	for _, d := range x.decisions {
		if !d.elected && d.isr != nil {
			versions[d.partitionEpoch] = true
		}
	}
	for _, d := range x.elections {
		delete(versions, d.partitionEpoch)
	}
	return len(versions)
}

// acksOf are the acknowledgements that can be those of a record. If its epoch is not known, those of epochs that the offset is known to
// have had with other values are left out.
func (x *nodeIndex) acksOf(offset int64, epoch int32, others []int32) []ackSpan {
	var as []ackSpan
	for _, a := range x.acks {
		if a.from <= offset && offset < a.to && (a.epoch == epoch || epoch == history.Unknown && !slices.Contains(others, a.epoch)) {
			as = append(as, a)
		}
	}
	return as
}

// isrIn is the last ISR stated for a leader epoch, nil if none is.
func (x *nodeIndex) isrIn(epoch int32) ([]int32, int32) {
	var last *decision
	for i := range x.decisions {
		d := &x.decisions[i]
		if d.epoch == epoch && d.isr != nil && (last == nil || d.partitionEpoch >= last.partitionEpoch) {
			last = d
		}
	}
	if last == nil {
		return nil, 0
	}
	return last.isr, last.partitionEpoch
}

// held reports whether the broker can have had the record just before its i-th deed: its last append over the offset was of that epoch,
// or none is reported.
func (s *stream) held(i int, offset int64, epoch int32) bool {
	for i--; i >= 0; i-- {
		switch d := &s.deeds[i]; d.What {
		case history.Append:
			if d.From <= offset && offset < d.To {
				return epoch == history.Unknown || d.Epoch == epoch
			}
		case history.Truncated, history.PowerLoss:
			if d.To <= offset && (d.From > offset || d.What == history.PowerLoss) {
				return false
			}
		}
	}
	return true
}

// refetched is the index of the first append of the record after the i-th deed, or none.
func (s *stream) refetched(i int, offset int64, epoch int32) int {
	for j := i + 1; j < len(s.deeds); j++ {
		d := &s.deeds[j]
		if d.What == history.Append && d.From <= offset && offset < d.To && (epoch == history.Unknown || d.Epoch == epoch) {
			return j
		}
	}
	return none
}

// epochBefore is the leader epoch that the broker had been told before its i-th deed, Unknown if none is reported.
func (s *stream) epochBefore(i int) int32 {
	for i--; i >= 0; i-- {
		if s.deeds[i].What == history.RoleChanged {
			return s.deeds[i].Epoch
		}
	}
	return history.Unknown
}

// powerLoss is one power failure that may have taken a record from a broker.
type powerLoss struct {
	broker int32
	deed   *deed
	index  int
}

// powerLosses are the power failures after which a broker's log ended at or below the offset, in the broker's order.
func (x *nodeIndex) powerLosses(broker int32, offset int64) []powerLoss {
	s := x.streams[broker]
	if s == nil {
		return nil
	}
	var ps []powerLoss
	for i := range s.deeds {
		if d := &s.deeds[i]; d.What == history.PowerLoss && d.To <= offset {
			ps = append(ps, powerLoss{broker, d, i})
		}
	}
	return ps
}

// beforeAck reports whether the power failure certainly came before the acknowledgement of a produce that was called at call, and
// acknowledged under a partition epoch.
func (in *intake) beforeAck(partition string, l powerLoss, call int64, partitionEpoch int32) bool {
	if call > l.deed.seq {
		return true
	}
	if f := powerFault(in.faults, l.broker, l.deed.seq); f != nil && f.over != 0 && call > f.over {
		return true
	}
	told, ok := in.index(partition).streams[l.broker].toldAfter(l.index)
	return ok && partitionEpoch > told
}

// powerFault is the fault that a broker's report of a power loss belongs to: the last one asked for that node before the report arrived
// as event seq.
func powerFault(faults []*fault, broker int32, seq int64) *fault {
	var last *fault
	for _, f := range faults {
		if losesLogs(f.Verb) && f.begin < seq && slices.Contains(f.Nodes, broker) {
			last = f
		}
	}
	return last
}

// losesLogs says whether a fault takes the end of a broker's logs: a power failure, or damage at rest, which is reported and judged as one.
func losesLogs(verb string) bool { return verb == "powerfail" || verb == "chop" || verb == "flip" }

// toldAfter is the partition epoch of the controller's record that the broker was told first after its i-th deed, a power failure. The
// controller sends the newest record to an incarnation that has registered, so it decided on any later one after the power failure: an
// acknowledgement under a later record came after it, and counts a broker that was let in without what it had lost.
func (s *stream) toldAfter(i int) (int32, bool) {
	for _, d := range s.deeds[i:] {
		if d.What == history.RoleChanged {
			return d.PartitionEpoch, true
		}
	}
	return 0, false
}

// joinedAfter reports whether the broker was let into the ISR after an acknowledgement and certainly before it lost power, so that it must
// have had the record: it had been told so itself, or the news had arrived before the fault was asked for.
func (in *intake) joinedAfter(x *nodeIndex, a ackSpan, l powerLoss) bool {
	f := powerFault(in.faults, l.broker, l.deed.seq)
	return slices.ContainsFunc(x.decisions, func(d decision) bool {
		return d.partitionEpoch > a.partitionEpoch && slices.Contains(d.isr, l.broker) &&
			(d.node == l.broker && d.seq < l.deed.seq || f != nil && d.seq < f.begin)
	})
}

// lastISR is the newest ISR that anybody stated, nil if nobody did.
func (x *nodeIndex) lastISR() []int32 {
	var last *decision
	for i := range x.decisions {
		if d := &x.decisions[i]; d.isr != nil && (last == nil || d.partitionEpoch >= last.partitionEpoch) {
			last = d
		}
	}
	if last == nil {
		return nil
	}
	return last.isr
}

// ledWithout reports whether the broker, after a power failure took the record, led or counted in the ISR before it had fetched
// it again.
func (x *nodeIndex) ledWithout(l powerLoss, offset int64, epoch, partitionEpoch int32) bool {
	s := x.streams[l.broker]
	again := s.refetched(l.index, offset, epoch)
	stop := len(s.deeds)
	if again != none {
		stop = again
	}
	for _, d := range s.deeds[l.index:stop] {
		if d.What == history.RoleChanged && d.Role == "leader" {
			return true
		}
	}
	told := s.epochBefore(l.index)
	if told == history.Unknown {
		told = epoch
	}
	for i := range x.decisions {
		d := &x.decisions[i]
		after := d.epoch > told || d.epoch == told && d.partitionEpoch > partitionEpoch
		before := again == none || d.epoch < s.epochBefore(again)
		if after && before && (d.elected && d.leader == l.broker || slices.Contains(d.isr, l.broker)) {
			return true
		}
	}
	return false
}

// uncleanAfter is the first election from outside the ISR in a later epoch, that was not reported before the event seq, or nil.
func (x *nodeIndex) uncleanAfter(epoch int32, seq int64) *decision {
	var first *decision
	for i := range x.elections {
		if d := &x.elections[i]; d.unclean && d.epoch > epoch && d.seq > seq && (first == nil || d.epoch < first.epoch) {
			first = d
		}
	}
	return first
}

// firstElection is the first election of a broker in a later epoch than the given one, or nil.
func (x *nodeIndex) firstElection(broker, after int32) *decision {
	var found []decision
	for _, d := range x.elections {
		if d.leader == broker && d.epoch > after {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := slices.MinFunc(found, func(a, b decision) int { return cmp.Compare(a.epoch, b.epoch) })
	return &first
}

package schedule

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/node/control"
	"tidemark/node/rules"
)

// File is a schedule.
type File struct {
	Name    string
	Title   string
	Cluster Cluster
	Steps   []Step
	Expects []Expect
}

// Cluster is what a schedule plays on: one partition.
type Cluster struct {
	Replicas     []control.NodeID // in assignment order: the first live member of the ISR is elected
	MinISR       int              // min.insync.replicas
	Registration rules.Registration
	Unclean      bool // unclean.leader.election.enable
	// Level is the weakest level of consistency that passes, in checker's words with dashes: "monotonic-end"; "": committed-log.
	Level string
}

// Partition is the one partition that schedules speak of.
const Partition = "orders-0"

// Verb is what a step does.
type Verb string

// The verbs of a schedule.
const (
	Produce    Verb = "produce"    // V [to N]
	Consume    Verb = "consume"    // [N]
	Latest     Verb = "latest"     // [N]
	Fetch      Verb = "fetch"      // N [send|request|answer|drop] [max=K]
	Learn      Verb = "learn"      // N..
	Truncate   Verb = "truncate"   // N [request|answer]
	Settle     Verb = "settle"     // [N..]
	Lag        Verb = "lag"        // N
	Flush      Verb = "flush"      // N..
	Checkpoint Verb = "checkpoint" // N..
	Kill       Verb = "kill"       // N..
	PowerFail  Verb = "powerfail"  // N.. [cut=K[+T]]
	Start      Verb = "start"      // N..
	Pause      Verb = "pause"      // N..
	Resume     Verb = "resume"     // N..
	Isolate    Verb = "isolate"    // N..
	Heal       Verb = "heal"       // [N..]
	Fence      Verb = "fence"      // N
	Unfence    Verb = "unfence"    // N
	Transfer   Verb = "transfer"   // N
	Fail       Verb = "fail"       // N append
	Deliver    Verb = "deliver"    // MSG
	Drop       Verb = "drop"       // MSG
	Require    Verb = "require"    // PREMISE, ..
)

// Step is one line of a schedule: a verb with what belongs to it.
type Step struct {
	Line     int      // in the file, from 1; 0 for a step that was not read from one
	Comment  []string // the lines above it, without their #
	Only     Range    // the protocols under which it is taken
	Optional bool     // may be impossible
	Verb     Verb
	Nodes    []control.NodeID
	Value    string
	To       control.NodeID // produce: instead of the controller's leader; 0: that
	Mode     string         // fetch: "", send, request, answer, drop; truncate: "", request, answer
	Max      int32          // fetch: records, 0: no limit
	Cut      Cut
	Message  control.Message // deliver, drop: number 0 is the oldest that waits
	Premises []Premise
}

// Cut is what a power failure leaves of a log: the first Keep of its unsynced operations, and Torn bytes of the next.
type Cut struct{ Keep, Torn int }

// Premise is something that has to be true for the schedule to be about what it says.
type Premise struct {
	What   string // acked, hw, log, leader, isr
	Node   control.NodeID
	Value  string   // acked
	Offset int64    // hw
	Values []string // log
	Nodes  []control.NodeID
}

// Expect is what has to be found under some protocols, or under one with a rule changed.
type Expect struct {
	Line     int
	Only     Range
	Change   string   // "fetch-fencing=off", as rules.Set.With takes it; "": the protocol as it was
	Verdict  string   // consistent, allowed, violation, or inconclusive with the reason for it
	Findings []string // "lost-acked m1", sorted
	Because  string   // the clause that allows it, or that a pass has to name
}

// Range is a set of consecutive protocols, or all but one.
type Range struct {
	First, Last rules.Protocol // both empty: every protocol
	Not         bool           // every protocol but First
}

// Contains says whether the protocol is in the range.
func (r Range) Contains(p rules.Protocol) bool {
	switch {
	case r.Not:
		return p != r.First
	case r.First == "":
		return true
	}
	return r.First.Index() <= p.Index() && p.Index() <= r.Last.Index()
}

// String is the range as a schedule writes it: hw, kip101+, kip101..kip320, !hw, or nothing for every protocol.
func (r Range) String() string {
	all := rules.Protocols()
	switch {
	case r.Not:
		return "!" + string(r.First)
	case r.First == r.Last:
		return string(r.First)
	case r.Last == all[len(all)-1]:
		return string(r.First) + "+"
	}
	return string(r.First) + ".." + string(r.Last)
}

// ParseRange reads what [Range.String] writes.
func ParseRange(s string) (Range, error) {
	all := rules.Protocols()
	if p, ok := strings.CutPrefix(s, "!"); ok {
		first, err := rules.ParseProtocol(p)
		return Range{First: first, Last: first, Not: true}, err
	}
	if p, ok := strings.CutSuffix(s, "+"); ok {
		first, err := rules.ParseProtocol(p)
		return Range{First: first, Last: all[len(all)-1]}, err
	}
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		to = from
	}
	first, err := rules.ParseProtocol(from)
	if err != nil {
		return Range{}, err
	}
	last, err := rules.ParseProtocol(to)
	if err == nil && last.Index() < first.Index() {
		err = fmt.Errorf("protocols %s: %s is older than %s; turn them round", s, last, first)
	}
	return Range{First: first, Last: last}, err
}

// Expected is what the schedule expects under the protocol, with a rule changed unless change is "". A change that the
// schedule does not speak of makes no difference to it.
func (f *File) Expected(p rules.Protocol, change string) Expect {
	var found Expect
	for _, e := range f.Expects {
		if e.Only.Contains(p) && (e.Change == change || e.Change == "" && found.Verdict == "") {
			found = e
		}
	}
	return found
}

// Rules is the protocol's rules as the schedule's cluster runs them: registration as the header says, except that a
// protocol that cannot run with zk registration runs with kraft.
func (f *File) Rules(p rules.Protocol) rules.Set {
	s := rules.Of(p)
	s.Registration = f.Cluster.Registration
	if s.Validate() != nil {
		s.Registration = rules.KRaft
	}
	return s
}

// String writes the step without its comment: what [Parse] reads, and what stands in transcripts.
func (s Step) String() string {
	var b strings.Builder
	if only := s.Only.String(); only != "" {
		b.WriteString("[" + only + "] ")
	}
	if s.Optional {
		b.WriteString("? ")
	}
	b.WriteString(string(s.Verb))
	if s.Value != "" {
		b.WriteString(" " + s.Value)
	}
	for _, n := range s.Nodes {
		b.WriteString(" " + n.String())
	}
	if s.To != 0 {
		b.WriteString(" to " + s.To.String())
	}
	if s.Mode != "" {
		b.WriteString(" " + s.Mode)
	}
	if s.Max > 0 {
		fmt.Fprintf(&b, " max=%d", s.Max)
	}
	if s.Cut.Torn > 0 {
		fmt.Fprintf(&b, " cut=%d+%d", s.Cut.Keep, s.Cut.Torn)
	} else if s.Cut.Keep > 0 {
		fmt.Fprintf(&b, " cut=%d", s.Cut.Keep)
	}
	if s.Verb == Fail {
		b.WriteString(" append")
	}
	if s.Message.Kind != "" {
		b.WriteString(" " + strings.TrimSuffix(s.Message.String(), "#0"))
	}
	for i, p := range s.Premises {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(" " + p.String())
	}
	return b.String()
}

// String writes the premise as a schedule has it.
func (p Premise) String() string {
	switch p.What {
	case "acked":
		return "acked " + p.Value
	case "hw":
		return fmt.Sprintf("hw %s = %d", p.Node, p.Offset)
	case "log":
		return strings.TrimRight(fmt.Sprintf("log %s = %s", p.Node, strings.Join(p.Values, " ")), " ")
	case "leader":
		if p.Node == 0 {
			return "leader = none"
		}
		return "leader = " + p.Node.String()
	}
	return "isr = " + joinNodes(p.Nodes, " ")
}

// String writes the expectation as a schedule has it.
func (e Expect) String() string {
	s := "expect " + e.Only.String()
	if rule, off := strings.CutSuffix(e.Change, "=off"); off {
		s += " without " + rule
	} else if e.Change != "" {
		s += " with " + e.Change
	}
	s += " " + e.Verdict
	if len(e.Findings) > 0 {
		s += " " + strings.Join(e.Findings, ", ")
	}
	if e.Because != "" {
		s += " because " + e.Because
	}
	return s
}

// String writes the whole schedule so that [Parse] reads it back.
func (f *File) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schedule %s  %s\n", f.Name, f.Title)
	fmt.Fprintf(&b, "cluster replicas=%s min.insync.replicas=%d", joinNodes(f.Cluster.Replicas, ","), f.Cluster.MinISR)
	if f.Cluster.Registration != rules.KRaft {
		fmt.Fprintf(&b, " registration=%s", f.Cluster.Registration)
	}
	if f.Cluster.Unclean {
		b.WriteString(" unclean.leader.election.enable=true")
	}
	if f.Cluster.Level != "" {
		b.WriteString(" level=" + f.Cluster.Level)
	}
	b.WriteByte('\n')
	for _, s := range f.Steps {
		for _, c := range s.Comment {
			b.WriteString(strings.TrimRight("# "+c, " ") + "\n")
		}
		b.WriteString(s.String() + "\n")
	}
	for _, e := range f.Expects {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

func joinNodes(nodes []control.NodeID, by string) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = strconv.Itoa(int(n))
	}
	return strings.Join(words, by)
}

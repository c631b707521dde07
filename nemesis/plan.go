package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
)

// Step is one thing that is done to a cluster at a time.
type Step struct {
	// Note is the comment above the step, which is for people.
	Note string
	At   time.Duration // since the plan began
	// When, if not nil, has the step wait from At on for a state of the protocol.
	When *Aim
	// Optional: what the step names may not be there, or its state not come; then it is no fault.
	Optional bool
	Verb     string // kill, stop, cut, ...: README.md lists them
	// Amount belongs to some verbs: loss: percent; delay, slowsync: nanoseconds; rate: bytes a second; flip, chop: bytes.
	Amount int64
	// Nodes, Roles and Names say together whom the step is about. Roles are resolved when the step is played; Names are those that
	// earlier steps gave to their nodes with As.
	Nodes []cluster.NodeID
	Roles []Role
	Names []string
	As    string
	// Links or Shape say what is impaired from now on, in place of what the same verb did before. A shape is about the step's nodes.
	Links []cluster.Link
	Shape Shape
	// Heals are the verbs that a heal undoes; none: all.
	Heals []string
	Cut   schedule.Cut // powerfail: what survives of each log
}

// Plan is what is done to a cluster, in order of time.
type Plan []Step

// String is "at 2.310s kill 2".
func (s Step) String() string { return fmt.Sprintf("at %.3fs %s", s.At.Seconds(), s.Asked()) }

// Asked is the step without its time.
func (s Step) Asked() string {
	var words []string
	if s.Optional {
		words = append(words, "?")
	}
	if s.When != nil {
		words = append(words, s.When.String())
	}
	words = append(words, s.Verb)
	if v, _ := verbOf(s.Verb); v.amount != nothing {
		words = append(words, v.amount.text(s.Amount))
	}
	if s.Shape != "" {
		words = append(words, string(s.Shape))
	}
	for _, n := range s.Nodes {
		words = append(words, n.String())
	}
	for _, r := range s.Roles {
		words = append(words, r.String())
	}
	words = append(words, s.Names...)
	for _, l := range s.Links {
		words = append(words, linkEnd(l.From)+"->"+linkEnd(l.To))
	}
	words = append(words, s.Heals...)
	if s.Verb == "powerfail" {
		words = append(words, fmt.Sprintf("cut=%d+%d", s.Cut.Keep, s.Cut.Torn))
	}
	if s.As != "" {
		words = append(words, "as", s.As)
	}
	return strings.Join(words, " ")
}

// isOpen says whether something of the step is decided only when it is played.
func (s Step) isOpen() bool { return s.When != nil || len(s.Roles)+len(s.Names) > 0 || s.Shape != "" }

// Watches says whether somebody has to tell the player what the nodes report: for a step by role or by a state.
func (p Plan) Watches() bool {
	return slices.ContainsFunc(p, func(s Step) bool { return s.When != nil || len(s.Roles) > 0 })
}

// Partitions are the partitions that the plan speaks of, each once, in order.
func (p Plan) Partitions() []string {
	var names []string
	for _, s := range p {
		if s.When != nil {
			names = append(names, s.When.Partition)
		}
		for _, r := range s.Roles {
			names = append(names, r.Partition)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func linkEnd(n cluster.NodeID) string {
	if n == cluster.ClientsID {
		return "clients"
	}
	return n.String()
}

// String is the plan's text, a line a step and its note above it. [ParsePlan] reads it back.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		if s.Note != "" {
			for _, line := range strings.Split(s.Note, "\n") {
				b.WriteString("# " + line + "\n")
			}
		}
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// ErrPlan is wrapped by every error of [ParsePlan].
var ErrPlan = errors.New("not a plan of faults")

// ParsePlan reads a plan. The name is the file's, for errors. Lines that begin with # are the note of the step right below them;
// an empty line between parts them from it.
func ParsePlan(name, text string, brokers []cluster.NodeID) (Plan, error) {
	var p Plan
	var notes []string
	given := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			notes = nil
			continue
		}
		if note, ok := strings.CutPrefix(line, "#"); ok {
			if note = strings.TrimSpace(note); note != "" {
				notes = append(notes, note)
			}
			continue
		}
		s, err := parseStep(strings.Fields(line), brokers, given)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %w", name, i+1, ErrPlan, err)
		}
		if s.As != "" {
			given[s.As] = true
		}
		s.Note, notes = strings.Join(notes, "\n"), nil
		p = append(p, s)
	}
	if !slices.IsSortedFunc(p, func(a, b Step) int { return cmp.Compare(a.At, b.At) }) {
		return nil, fmt.Errorf("%s: %w: the times do not rise", name, ErrPlan)
	}
	return p, nil
}

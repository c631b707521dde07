package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

// Fault is a kind of fault that a random plan draws from.
type Fault string

// The kinds of fault.
const (
	Kill      Fault = "kill"      // SIGKILL, then start: the page cache survives
	Pause     Fault = "pause"     // SIGSTOP, then SIGCONT
	Partition Fault = "partition" // a node alone, two halves, or one way only; then heal
	Power     Fault = "power"     // what was not flushed is gone at the next start
)

// Faults lists the kinds of fault.
func Faults() []Fault { return []Fault{Kill, Pause, Partition, Power} }

// ParseFaults reads "kill,pause"; "none" or nothing is none.
func ParseFaults(s string) ([]Fault, error) {
	if s == "" || s == "none" {
		return nil, nil
	}
	var faults []Fault
	for _, word := range strings.Split(s, ",") {
		f := Fault(strings.TrimSpace(word))
		if !slices.Contains(Faults(), f) {
			return nil, fmt.Errorf("fault %q: there are kill, pause, partition, power, and none", word)
		}
		if !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	return faults, nil
}

// Step is one thing that is done to a cluster at a time.
type Step struct {
	At    time.Duration // since the plan began
	Verb  string        // kill, powerfail, start, pause, resume, cut, heal
	Nodes []cluster.NodeID
	Links []cluster.Link // cut: what is lost from now on, in place of what was before
	Cut   schedule.Cut   // powerfail: what survives of each log
}

// Plan is what is done to a cluster, in order of time.
type Plan []Step

// String is "at 2.310s kill 2".
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %.3fs %s", s.At.Seconds(), s.Asked())
	return b.String()
}

// Asked is the step without its time.
func (s Step) Asked() string {
	words := []string{s.Verb}
	for _, n := range s.Nodes {
		words = append(words, n.String())
	}
	for _, l := range s.Links {
		words = append(words, linkEnd(l.From)+"->"+linkEnd(l.To))
	}
	if s.Verb == "powerfail" {
		words = append(words, fmt.Sprintf("cut=%d+%d", s.Cut.Keep, s.Cut.Torn))
	}
	return strings.Join(words, " ")
}

func linkEnd(n cluster.NodeID) string {
	if n == cluster.ClientsID {
		return "clients"
	}
	return n.String()
}

// String is the plan's text, a line a step. [ParsePlan] reads it back.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// ErrPlan is wrapped by every error of [ParsePlan].
var ErrPlan = errors.New("not a plan of faults")

// ParsePlan reads a plan. The name is the file's, for errors. Empty lines and lines that begin with # are passed over.
func ParsePlan(name, text string, brokers []cluster.NodeID) (Plan, error) {
	var p Plan
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseStep(strings.Fields(line), brokers)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %w", name, i+1, ErrPlan, err)
		}
		p = append(p, s)
	}
	if !slices.IsSortedFunc(p, func(a, b Step) int { return cmp.Compare(a.At, b.At) }) {
		return nil, fmt.Errorf("%s: %w: the times do not rise", name, ErrPlan)
	}
	return p, nil
}

func parseStep(words []string, brokers []cluster.NodeID) (Step, error) {
	if len(words) < 3 || words[0] != "at" {
		return Step{}, fmt.Errorf("%q: want at TIME VERB .., for example at 2.5s kill 2", strings.Join(words, " "))
	}
	at, err := time.ParseDuration(words[1])
	if err != nil || at < 0 || at != at.Truncate(time.Millisecond) {
		return Step{}, fmt.Errorf("time %q: want a duration such as 2.5s, in whole milliseconds", words[1])
	}
	s := Step{At: at, Verb: words[2]}
	for _, w := range words[3:] {
		switch {
		case strings.Contains(w, "->"):
			from, to, _ := strings.Cut(w, "->")
			l := cluster.Link{}
			if l.From, err = parseEnd(from, brokers); err == nil {
				l.To, err = parseEnd(to, brokers)
			}
			if err == nil && l.From == l.To {
				err = fmt.Errorf("%s: both ends are the same", w)
			}
			if err == nil && slices.Contains(s.Links, l) {
				err = fmt.Errorf("%s: stands there twice", w)
			}
			s.Links = append(s.Links, l)
		case strings.HasPrefix(w, "cut="):
			keep, torn, isTorn := strings.Cut(strings.TrimPrefix(w, "cut="), "+")
			if s.Cut.Keep, err = strconv.Atoi(keep); err == nil && isTorn {
				s.Cut.Torn, err = strconv.Atoi(torn)
			}
			if err != nil || s.Cut.Keep < 0 || s.Cut.Torn < 0 {
				err = fmt.Errorf("%s: want cut=KEEP or cut=KEEP+TORN", w)
			}
		default:
			var n cluster.NodeID
			n, err = parseEnd(w, brokers)
			if err == nil && n == cluster.ClientsID {
				err = fmt.Errorf("%s: is no node", w)
			}
			if err == nil && slices.Contains(s.Nodes, n) {
				err = fmt.Errorf("%s: stands there twice", w)
			}
			s.Nodes = append(s.Nodes, n)
		}
		if err != nil {
			return s, err
		}
	}
	nodes, links := len(s.Nodes), len(s.Links)
	switch s.Verb {
	case "kill", "powerfail", "start", "pause", "resume":
		if nodes == 0 || links > 0 {
			return s, fmt.Errorf("%s: want the nodes, for example %s 2", s.Verb, s.Verb)
		}
	case "cut":
		if nodes > 0 || links == 0 {
			return s, fmt.Errorf("cut: want the links, for example cut 1->2 2->1")
		}
	case "heal":
		if nodes+links > 0 {
			return s, fmt.Errorf("heal: takes nothing: it heals every link")
		}
	default:
		return s, fmt.Errorf("unknown verb %q: there are kill, powerfail, start, pause, resume, cut, heal", s.Verb)
	}
	if s.Verb != "powerfail" && s.Cut != (schedule.Cut{}) {
		return s, fmt.Errorf("%s: only powerfail has a cut=", s.Verb)
	}
	return s, nil
}

func parseEnd(w string, brokers []cluster.NodeID) (cluster.NodeID, error) {
	switch w {
	case "clients":
		return cluster.ClientsID, nil
	case control.Controller.String():
		return control.Controller, nil
	}
	n, err := strconv.ParseInt(w, 10, 32)
	if err != nil || !slices.Contains(brokers, cluster.NodeID(n)) {
		return 0, fmt.Errorf("%q: no such node; there are %v and controller", w, brokers)
	}
	return cluster.NodeID(n), nil
}

package nemesis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/cluster"
	"tidemark/node/control"
)

// parser reads one line of a plan, word by word.
type parser struct {
	words   []string
	brokers []cluster.NodeID
	given   map[string]bool // names that earlier steps gave to their nodes
	step    Step
}

func parseStep(words []string, brokers []cluster.NodeID, given map[string]bool) (Step, error) {
	if len(words) < 3 || words[0] != "at" {
		return Step{}, fmt.Errorf("%q: want at TIME VERB .., for example at 2.5s kill 2", strings.Join(words, " "))
	}
	at, err := time.ParseDuration(words[1])
	if err != nil || at < 0 || at != at.Truncate(time.Millisecond) {
		return Step{}, fmt.Errorf("time %q: want a duration such as 2.5s, in whole milliseconds", words[1])
	}
	p := &parser{words: words[2:], brokers: brokers, given: given, step: Step{At: at}}
	if err := p.parse(); err != nil {
		return p.step, err
	}
	return p.step, nil
}

// next takes the next word, "" at the end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// has takes words if they are the next ones.
func (p *parser) has(words ...string) bool {
	if len(p.words) < len(words) || !slices.Equal(p.words[:len(words)], words) {
		return false
	}
	p.words = p.words[len(words):]
	return true
}

func (p *parser) parse() error {
	s := &p.step
	var err error
	s.Optional = p.has("?")
	if p.has("when") {
		if s.When, err = p.aim(); err != nil {
			return err
		}
	}
	s.Verb = p.next()
	v, ok := verbOf(s.Verb)
	if !ok {
		return unknownVerb(s.Verb)
	}
	if v.amount != nothing {
		if s.Amount, err = v.amount.parse(s.Verb, p.next()); err != nil {
			return err
		}
	}
	if v.takes == takesLinks && len(p.words) > 0 && slices.Contains(Shapes(), Shape(p.words[0])) {
		s.Shape = Shape(p.next())
	}
	for len(p.words) > 0 {
		if err := p.one(v); err != nil {
			return err
		}
	}
	return p.fits(v)
}

// one reads one thing that the step is about.
func (p *parser) one(v verb) error {
	s := &p.step
	if role, ok, err := p.role(); ok || err != nil {
		if err == nil && slices.Contains(s.Roles, role) {
			err = fmt.Errorf("%s: stands there twice", role)
		}
		s.Roles = append(s.Roles, role)
		return err
	}
	w := p.next()
	switch {
	case w == "as":
		return p.name()
	case strings.Contains(w, "->"):
		return p.link(w)
	case strings.HasPrefix(w, "cut="):
		return p.cut(w)
	case v.takes == takesVerbs:
		if other, ok := verbOf(w); !ok || other.takes != takesLinks {
			return fmt.Errorf("heal: takes nothing, and heals every link, or the verbs that it undoes: cut, loss, delay, rate, reset; not %s", w)
		}
		if slices.Contains(s.Heals, w) {
			return fmt.Errorf("%s: stands there twice", w)
		}
		s.Heals = append(s.Heals, w)
		return nil
	case p.given[w]:
		if slices.Contains(s.Names, w) {
			return fmt.Errorf("%s: stands there twice", w)
		}
		s.Names = append(s.Names, w)
		return nil
	}
	n, err := parseEnd(w, p.brokers)
	switch {
	case err != nil:
		return err
	case n == cluster.ClientsID:
		return fmt.Errorf("%s: is no node", w)
	case slices.Contains(s.Nodes, n):
		return fmt.Errorf("%s: stands there twice", w)
	}
	s.Nodes = append(s.Nodes, n)
	return nil
}

// name reads the name that the step gives to its nodes, the last word of the line.
func (p *parser) name() error {
	name := p.next()
	switch _, isVerb := verbOf(name); {
	case !isName(name) || isVerb || len(p.words) > 0:
		return fmt.Errorf("as: want one name of letters at the end of the line that is no word of plans, for example as victim")
	case p.given[name]:
		return fmt.Errorf("as %s: an earlier step gave that name", name)
	}
	p.step.As = name
	return nil
}

// isName says whether a word can be a name: letters that mean nothing else in a plan.
func isName(w string) bool {
	if w == "" || strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return false
	}
	taken := []string{"clients", "controller", "leader", "follower", "isr", "last", "of", "as", "when", "within"}
	return !slices.Contains(taken, w) && !slices.Contains(Shapes(), Shape(w))
}

func (p *parser) link(w string) error {
	from, to, _ := strings.Cut(w, "->")
	var l cluster.Link
	var err error
	if l.From, err = parseEnd(from, p.brokers); err != nil {
		return err
	}
	if l.To, err = parseEnd(to, p.brokers); err != nil {
		return err
	}
	if l.From == l.To {
		return fmt.Errorf("%s: both ends are the same", w)
	}
	if slices.Contains(p.step.Links, l) {
		return fmt.Errorf("%s: stands there twice", w)
	}
	p.step.Links = append(p.step.Links, l)
	return nil
}

func (p *parser) cut(w string) error {
	s := &p.step
	if s.Verb != "powerfail" {
		return fmt.Errorf("%s: only powerfail has a cut=", s.Verb)
	}
	keep, torn, isTorn := strings.Cut(strings.TrimPrefix(w, "cut="), "+")
	var err error
	if s.Cut.Keep, err = strconv.Atoi(keep); err == nil && isTorn {
		s.Cut.Torn, err = strconv.Atoi(torn)
	}
	if err != nil || s.Cut.Keep < 0 || s.Cut.Torn < 0 {
		return fmt.Errorf("%s: want cut=KEEP or cut=KEEP+TORN", w)
	}
	return nil
}

// fits says whether the step is about what its verb takes.
func (p *parser) fits(v verb) error {
	s := &p.step
	whom := len(s.Nodes) + len(s.Roles) + len(s.Names)
	if s.Optional && (!v.fault || s.When == nil && len(s.Roles)+len(s.Names) == 0) {
		return fmt.Errorf("%s: only a fault that names a role or a name, or waits for a state, can be impossible", s.Verb)
	}
	switch v.takes {
	case takesNodes, takesBrokers:
		if whom == 0 || len(s.Links) > 0 {
			return fmt.Errorf("%s: want the nodes, for example %s", s.Verb, v.example)
		}
		if v.takes == takesBrokers && slices.Contains(s.Nodes, control.Controller) {
			return fmt.Errorf("%s: is for brokers, not for the controller", s.Verb)
		}
	case takesLinks:
		if s.Shape != "" {
			if len(s.Links) > 0 {
				return fmt.Errorf("%s %s: want the nodes, not links", s.Verb, s.Shape)
			}
			return s.Shape.fits(s, p.brokers)
		}
		if whom > 0 || len(s.Links) == 0 {
			return fmt.Errorf("%s: want the links, for example %s, or one of the shapes %s", s.Verb, v.example, shapeNames())
		}
		if s.As != "" {
			return fmt.Errorf("%s: links have no name", s.Verb)
		}
	case takesVerbs:
		if whom+len(s.Links) > 0 || s.As != "" {
			return fmt.Errorf("heal: takes nothing, and heals every link, or the verbs that it undoes")
		}
	}
	return nil
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

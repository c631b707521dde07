package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/node/control"
	"tidemark/node/rules"
)

// ErrSyntax is wrapped by every error of [Parse]; the message has file, line and what was meant.
var ErrSyntax = errors.New("not a schedule")

// Parse reads a schedule. The name is the file's, for errors.
func Parse(name, text string) (*File, error) {
	p := parser{file: &File{}}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		if err := p.take(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %w", name, i+1, ErrSyntax, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w: %w", name, p.line, ErrSyntax, err)
	}
	return p.file, nil
}

type parser struct {
	file    *File
	line    int
	comment []string
}

func (p *parser) take(line string) error {
	f := p.file
	if c, ok := strings.CutPrefix(line, "#"); ok {
		p.comment = append(p.comment, strings.TrimPrefix(c, " "))
		return nil
	}
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return nil
	case word == "schedule":
		if f.Name != "" {
			return fmt.Errorf("a second schedule line: one schedule a file")
		}
		name, title, _ := strings.Cut(strings.TrimSpace(rest), " ")
		f.Name, f.Title = name, strings.TrimSpace(title)
		if f.Name == "" || f.Title == "" {
			return fmt.Errorf("schedule: want a name and a title")
		}
		return nil
	case f.Name == "":
		return fmt.Errorf("%q before the schedule line: the file begins with schedule NAME TITLE", line)
	case word == "cluster":
		if len(f.Cluster.Replicas) > 0 {
			return fmt.Errorf("a second cluster line: one cluster a schedule")
		}
		return p.cluster(strings.Fields(rest))
	case len(f.Cluster.Replicas) == 0:
		return fmt.Errorf("%q before the cluster line: it comes second, for example cluster replicas=1,2,3 min.insync.replicas=2", line)
	case word == "expect":
		return p.expect(rest)
	case len(f.Expects) > 0:
		return fmt.Errorf("%q after an expect line: steps come first", line)
	}
	step, err := p.step(line)
	if err != nil {
		return err
	}
	step.Line, step.Comment, p.comment = p.line, p.comment, nil
	f.Steps = append(f.Steps, step)
	return nil
}

func (p *parser) finish() error {
	f := p.file
	switch {
	case f.Name == "":
		return fmt.Errorf("empty: the file begins with schedule NAME TITLE")
	case len(f.Cluster.Replicas) == 0:
		return fmt.Errorf("no cluster line, for example cluster replicas=1,2,3 min.insync.replicas=2")
	case len(f.Steps) == 0:
		return fmt.Errorf("no steps")
	}
	for _, protocol := range rules.Protocols() {
		var lines []string
		for _, e := range f.Expects {
			if e.Change == "" && e.Only.Contains(protocol) {
				lines = append(lines, strconv.Itoa(e.Line))
			}
		}
		switch {
		case len(lines) == 0:
			return fmt.Errorf("no expect line covers protocol %s", protocol)
		case len(lines) > 1:
			return fmt.Errorf("protocol %s is covered by the expect lines %s: one is wanted", protocol, strings.Join(lines, " and "))
		}
	}
	return nil
}

func (p *parser) cluster(words []string) error {
	c := &p.file.Cluster
	c.MinISR = 1
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("cluster %q: want key=value", w)
		}
		var err error
		switch key {
		case "replicas":
			if len(c.Replicas) > 0 {
				return fmt.Errorf("cluster: replicas stands there twice")
			}
			for _, s := range strings.Split(value, ",") {
				n, err := strconv.Atoi(s)
				if err != nil || n < 1 {
					return fmt.Errorf("replicas=%s: want the brokers' numbers in assignment order, for example 1,3,2", value)
				}
				if slices.Contains(c.Replicas, control.NodeID(n)) {
					return fmt.Errorf("replicas=%s: %d stands there twice", value, n)
				}
				c.Replicas = append(c.Replicas, control.NodeID(n))
			}
		case "min.insync.replicas":
			if c.MinISR, err = strconv.Atoi(value); err != nil || c.MinISR < 1 {
				return fmt.Errorf("min.insync.replicas=%s: want a number of 1 or more", value)
			}
		case "registration":
			switch value {
			case "zk":
				c.Registration = rules.ZK
			case "kraft":
				c.Registration = rules.KRaft
			default:
				return fmt.Errorf("registration=%s: want zk or kraft", value)
			}
		case "unclean.leader.election.enable":
			if c.Unclean, err = strconv.ParseBool(value); err != nil {
				return fmt.Errorf("unclean.leader.election.enable=%s: want true or false", value)
			}
		case "level":
			if !slices.Contains(levels, value) {
				return fmt.Errorf("level=%s: there are %s", value, strings.Join(levels, ", "))
			}
			c.Level = value
		default:
			return fmt.Errorf("cluster %s: no such setting; there are replicas, min.insync.replicas, registration, unclean.leader.election.enable, level", key)
		}
	}
	if len(c.Replicas) == 0 {
		return fmt.Errorf("cluster: replicas= is missing")
	}
	return nil
}

// levels are those of the checker, weakest first.
var levels = []string{"agreement", "committed-log", "monotonic-end", "linearizable"}

// step reads one step, its prefixes included.
func (p *parser) step(line string) (Step, error) {
	var s Step
	if rest, ok := strings.CutPrefix(line, "["); ok {
		only, after, ok := strings.Cut(rest, "]")
		if !ok {
			return s, fmt.Errorf("%q: the ] after the protocols is missing", line)
		}
		r, err := ParseRange(strings.TrimSpace(only))
		if err != nil {
			return s, err
		}
		s.Only, line = r, strings.TrimSpace(after)
	}
	if rest, ok := strings.CutPrefix(line, "?"); ok {
		s.Optional, line = true, strings.TrimSpace(rest)
	}
	verb, rest, _ := strings.Cut(line, " ")
	s.Verb = Verb(verb)
	grammar, known := verbs[s.Verb]
	if !known {
		return s, fmt.Errorf("unknown verb %q%s", verb, nearest(verb))
	}
	if err := grammar.parse(&s, strings.TrimSpace(rest)); err != nil {
		return s, fmt.Errorf("%s: %w; want %s %s", verb, err, verb, grammar.form)
	}
	for _, end := range []string{s.Message.From, s.Message.To} {
		if n, err := strconv.Atoi(end); err == nil && !slices.Contains(p.file.Cluster.Replicas, control.NodeID(n)) {
			return s, fmt.Errorf("%s: no broker %d; the cluster has %s", verb, n, joinNodes(p.file.Cluster.Replicas, ","))
		}
	}
	named := append(slices.Clone(s.Nodes), s.To)
	for _, premise := range s.Premises {
		named = append(append(named, premise.Node), premise.Nodes...)
	}
	for _, n := range named {
		if n != 0 && !slices.Contains(p.file.Cluster.Replicas, n) {
			return s, fmt.Errorf("%s: no broker %d; the cluster has %s", verb, n, joinNodes(p.file.Cluster.Replicas, ","))
		}
	}
	return s, nil
}

func (p *parser) expect(rest string) error {
	e := Expect{Line: p.line}
	words := strings.Fields(rest)
	if len(words) < 2 {
		return fmt.Errorf("expect: want protocols, a verdict, and findings, for example expect hw violation lost-acked m1")
	}
	var err error
	if e.Only, err = ParseRange(words[0]); err != nil {
		return fmt.Errorf("expect: %w", err)
	}
	if words[1] == "with" || words[1] == "without" {
		if len(words) < 4 {
			return fmt.Errorf("expect %s %s: want a rule and then a verdict", words[0], words[1])
		}
		if e.Change = words[2]; words[1] == "without" {
			e.Change += "=off"
		}
		if e.Only.First != e.Only.Last || e.Only.Not {
			return fmt.Errorf("expect %s %s %s: a rule is changed in one protocol, not in %s", words[0], words[1], words[2], words[0])
		}
		if _, err := rules.Of(e.Only.First).With(nil, []string{e.Change}); err != nil {
			return fmt.Errorf("expect: %w", err)
		}
		for _, o := range p.file.Expects {
			if o.Only == e.Only && o.Change == e.Change {
				return fmt.Errorf("expect %s %s %s: line %d expects something of it already", words[0], words[1], words[2], o.Line)
			}
		}
		words = append(words[:1:1], words[3:]...)
	}
	e.Verdict = words[1]
	if !slices.Contains([]string{"consistent", "allowed", "inconclusive", "violation"}, e.Verdict) {
		return fmt.Errorf("expect %s: no such verdict; there are consistent, allowed, inconclusive, violation", e.Verdict)
	}
	findings, because, found := strings.Cut(" "+strings.Join(words[2:], " ")+" ", " because ")
	if e.Because = strings.TrimSpace(because); found && e.Because == "" {
		return fmt.Errorf("expect: because what?")
	}
	for _, finding := range strings.Split(strings.TrimSpace(findings), ",") {
		if finding = strings.TrimSpace(finding); finding != "" {
			e.Findings = append(e.Findings, finding)
		}
	}
	slices.Sort(e.Findings)
	switch {
	case e.Verdict == "consistent" && len(e.Findings) > 0:
		return fmt.Errorf("expect consistent: has findings %s", strings.Join(e.Findings, ", "))
	case e.Verdict != "consistent" && e.Verdict != "inconclusive" && len(e.Findings) == 0:
		return fmt.Errorf("expect %s: has no findings", e.Verdict)
	case (e.Verdict == "allowed" || e.Verdict == "inconclusive") && e.Because == "":
		return fmt.Errorf("expect %s: because what?", e.Verdict)
	}
	p.file.Expects = append(p.file.Expects, e)
	return nil
}

// nearest suggests the verb that differs least.
func nearest(word string) string {
	best, least := "", len(word)/2+1
	for _, v := range verbNames() {
		if d := distance(word, v); d < least {
			best, least = v, d
		}
	}
	if best == "" {
		return "; there are " + strings.Join(verbNames(), ", ")
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the number of letters to insert, delete or replace between two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

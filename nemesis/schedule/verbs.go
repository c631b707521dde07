package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/node/control"
)

// grammar is how the rest of a verb's line is read.
type grammar struct {
	form  string
	parse func(*Step, string) error
}

var verbs = map[Verb]grammar{
	Produce:    {"V [to N]", parseProduce},
	Consume:    {"[N]", nodes(0, 1)},
	Latest:     {"[N]", nodes(0, 1)},
	Fetch:      {"N [send|request|answer|drop] [max=K]", parseFetch},
	Learn:      {"N..", nodes(1, many)},
	Truncate:   {"N [request|answer]", parseTruncate},
	Settle:     {"[N..]", nodes(0, many)},
	Lag:        {"N", nodes(1, 1)},
	Flush:      {"N..", nodes(1, many)},
	Checkpoint: {"N..", nodes(1, many)},
	Kill:       {"N..", nodes(1, many)},
	PowerFail:  {"N.. [cut=K[+T]]", parsePowerFail},
	Start:      {"N..", nodes(1, many)},
	Pause:      {"N..", nodes(1, many)},
	Resume:     {"N..", nodes(1, many)},
	Isolate:    {"N..", nodes(1, many)},
	Heal:       {"[N..]", nodes(0, many)},
	Fence:      {"N", nodes(1, 1)},
	Unfence:    {"N", nodes(1, 1)},
	Transfer:   {"N", nodes(1, 1)},
	Fail:       {"N append", parseFail},
	Deliver:    {"FROM->TO KIND[#NUMBER], for example deliver 2->1 Fetch#7, or without the number the oldest that waits", parseMessage},
	Drop:       {"FROM->TO KIND[#NUMBER], for example drop 2->1 Fetch#7, or without the number the oldest that waits", parseMessage},
	Require:    {"acked V | hw N = K | log N = V.. | leader = N | isr = N.., separated by commas", parseRequire},
}

const many = 1 << 10

func verbNames() []string {
	names := make([]string, 0, len(verbs))
	for v := range verbs {
		names = append(names, string(v))
	}
	slices.Sort(names)
	return names
}

// nodes reads from least to most brokers.
func nodes(least, most int) func(*Step, string) error {
	return func(s *Step, rest string) error {
		for _, w := range strings.Fields(rest) {
			n, err := node(w)
			if err != nil {
				return err
			}
			if slices.Contains(s.Nodes, n) {
				return fmt.Errorf("broker %d stands there twice", n)
			}
			s.Nodes = append(s.Nodes, n)
		}
		switch {
		case len(s.Nodes) < least:
			return fmt.Errorf("a broker is missing")
		case len(s.Nodes) > most:
			return fmt.Errorf("more brokers than it takes")
		}
		return nil
	}
}

func node(w string) (control.NodeID, error) {
	n, err := strconv.ParseInt(w, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no broker", w)
	}
	return control.NodeID(n), nil
}

func parseProduce(s *Step, rest string) error {
	words := strings.Fields(rest)
	switch {
	case len(words) == 1:
	case len(words) == 3 && words[1] == "to":
		n, err := node(words[2])
		if err != nil {
			return err
		}
		s.To = n
	default:
		return fmt.Errorf("%q", rest)
	}
	s.Value = words[0]
	return nil
}

func parseFetch(s *Step, rest string) error {
	words := strings.Fields(rest)
	if len(words) == 0 {
		return fmt.Errorf("a broker is missing")
	}
	n, err := node(words[0])
	if err != nil {
		return err
	}
	s.Nodes = []control.NodeID{n}
	for _, w := range words[1:] {
		limit, isMax := strings.CutPrefix(w, "max=")
		switch {
		case isMax:
			k, err := strconv.ParseInt(limit, 10, 32)
			if err != nil || k < 1 {
				return fmt.Errorf("max=%s is no number of records", limit)
			}
			s.Max = int32(k)
		case s.Mode == "" && slices.Contains([]string{"send", "request", "answer", "drop"}, w):
			s.Mode = w
		default:
			return fmt.Errorf("%q", w)
		}
	}
	return nil
}

func parseTruncate(s *Step, rest string) error {
	for _, mode := range []string{"request", "answer"} {
		if before, ok := strings.CutSuffix(rest, " "+mode); ok {
			rest, s.Mode = before, mode
		}
	}
	return nodes(1, 1)(s, rest)
}

func parsePowerFail(s *Step, rest string) error {
	before, cut, found := strings.Cut(rest, "cut=")
	if found {
		keep, torn, both := strings.Cut(cut, "+")
		var err error
		if s.Cut.Keep, err = strconv.Atoi(keep); err != nil || s.Cut.Keep < 0 {
			return fmt.Errorf("cut=%s: the number of operations that survive is missing", cut)
		}
		if both {
			if s.Cut.Torn, err = strconv.Atoi(torn); err != nil || s.Cut.Torn < 1 {
				return fmt.Errorf("cut=%s: %q is no number of torn bytes", cut, torn)
			}
		}
	}
	return nodes(1, many)(s, before)
}

func parseFail(s *Step, rest string) error {
	before, ok := strings.CutSuffix(rest, " append")
	if !ok {
		return fmt.Errorf("%q", rest)
	}
	return nodes(1, 1)(s, before)
}

func parseMessage(s *Step, rest string) (err error) {
	numbered := rest
	if !strings.Contains(rest, "#") {
		numbered += "#1"
	}
	s.Message, err = control.ParseMessage(numbered)
	if numbered != rest {
		s.Message.Number = 0 // the oldest
	}
	return err
}

func parseRequire(s *Step, rest string) error {
	for _, text := range strings.Split(rest, ",") {
		p, err := parsePremise(strings.Fields(text))
		if err != nil {
			return fmt.Errorf("%q: %w", strings.TrimSpace(text), err)
		}
		s.Premises = append(s.Premises, p)
	}
	return nil
}

func parsePremise(words []string) (Premise, error) {
	var p Premise
	var err error
	if len(words) == 0 {
		return p, fmt.Errorf("a premise is missing")
	}
	p.What = words[0]
	switch {
	case p.What == "acked" && len(words) == 2:
		p.Value = words[1]
	case p.What == "hw" && len(words) == 4 && words[2] == "=":
		if p.Node, err = node(words[1]); err == nil {
			if p.Offset, err = strconv.ParseInt(words[3], 10, 64); err != nil || p.Offset < 0 {
				err = fmt.Errorf("%s is no offset", words[3])
			}
		}
	case p.What == "log" && len(words) >= 3 && words[2] == "=":
		p.Node, err = node(words[1])
		p.Values = words[3:]
	case p.What == "leader" && len(words) == 3 && words[1] == "=":
		if words[2] != "none" {
			p.Node, err = node(words[2])
		}
	case p.What == "isr" && len(words) >= 2 && words[1] == "=":
		for _, w := range words[2:] {
			n, err := node(w)
			if err != nil {
				return p, err
			}
			p.Nodes = append(p.Nodes, n)
		}
	default:
		return p, fmt.Errorf("no such premise")
	}
	return p, err
}

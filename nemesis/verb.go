package nemesis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidemark/cluster"
)

// takes says what a verb is about.
type takes int

const (
	takesNodes   takes = iota // nodes, the controller among them
	takesBrokers              // brokers alone
	takesLinks                // links, or the shape of a partition
	takesVerbs                // verbs about links; none: all of them
)

// verb is a word of a plan.
type verb struct {
	name    string
	takes   takes
	fault   bool   // it begins a fault; the others end some
	amount  amount // what stands between the verb and what it is about
	example string
}

// verbs lists them all.
func verbs() []verb {
	return []verb{
		{"kill", takesNodes, true, nothing, "kill 2"},
		{"stop", takesNodes, true, nothing, "stop 2"},
		{"restart", takesNodes, true, nothing, "restart 2"},
		{"powerfail", takesNodes, true, nothing, "powerfail 2 cut=0"},
		{"start", takesNodes, false, nothing, "start 2"},
		{"pause", takesNodes, true, nothing, "pause 2"},
		{"resume", takesNodes, false, nothing, "resume 2"},
		{"cut", takesLinks, true, nothing, "cut 1->2 2->1"},
		{"loss", takesLinks, true, percent, "loss 20% 1->2 2->1"},
		{"delay", takesLinks, true, duration, "delay 200ms 1->2"},
		{"rate", takesLinks, true, bytesPerSecond, "rate 20000B/s 1->2"},
		{"reset", takesLinks, true, nothing, "reset 1->2"},
		{"heal", takesVerbs, false, nothing, "heal, or heal loss delay"},
		{"eio", takesBrokers, true, nothing, "eio 2"},
		{"full", takesBrokers, true, nothing, "full 2"},
		{"slowsync", takesBrokers, true, duration, "slowsync 300ms 2"},
		{"mend", takesBrokers, false, nothing, "mend 2"},
		{"flip", takesBrokers, true, bytes, "flip 40B 2"},
		{"chop", takesBrokers, true, bytes, "chop 40B 2"},
		{"forget", takesBrokers, true, nothing, "forget 2"},
		{"transfer", takesBrokers, true, nothing, "transfer 2"},
		{"fence", takesBrokers, true, nothing, "fence 2"},
	}
}

// verbOf is the verb of that name; false: there is none.
func verbOf(name string) (verb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

// unknownVerb names all verbs.
func unknownVerb(name string) error {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	return fmt.Errorf("unknown verb %q: there are %s", name, strings.Join(names, ", "))
}

// IsFault says whether a step begins a fault, which has to be shown by a measurement; the other steps end some.
func (s Step) IsFault() bool {
	v, _ := verbOf(s.Verb)
	return v.fault
}

// IsOfLinks says whether a step is about the network, which needs links between the nodes.
func (s Step) IsOfLinks() bool {
	v, _ := verbOf(s.Verb)
	return v.takes == takesLinks
}

// amount is how the number of a verb is read and written.
type amount int

const (
	nothing amount = iota
	percent
	duration // in the plan's text in units of time, in a Step in nanoseconds
	bytesPerSecond
	bytes
)

// text is a number as it stands in a plan.
func (a amount) text(n int64) string {
	switch a {
	case percent:
		return fmt.Sprintf("%d%%", n)
	case duration:
		return time.Duration(n).String()
	case bytesPerSecond:
		return fmt.Sprintf("%dB/s", n)
	default:
		return fmt.Sprintf("%dB", n)
	}
}

// parse reads what text writes.
func (a amount) parse(verb, word string) (int64, error) {
	var suffix, want string
	most := int64(1) << 40
	switch a {
	case duration:
		d, err := time.ParseDuration(word)
		if err != nil || d <= 0 || d != d.Truncate(time.Millisecond) {
			return 0, fmt.Errorf("%s: %q: want a duration such as 200ms, in whole milliseconds", verb, word)
		}
		return int64(d), nil
	case percent:
		suffix, want, most = "%", "a part of what is sent such as 20%, from 1% to 99%", 99
	case bytesPerSecond:
		suffix, want = "B/s", "bytes a second such as 20000B/s"
	default:
		suffix, want = "B", "a number of bytes such as 40B"
	}
	digits, ok := strings.CutSuffix(word, suffix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s: %q: want %s", verb, word, want)
	}
	return n, nil
}

// impair is what a step's verb does to a link.
func (s Step) impair() cluster.Impair {
	switch s.Verb {
	case "loss":
		return cluster.Impair{Kind: cluster.Loss, Percent: int(s.Amount)}
	case "delay":
		return cluster.Impair{Kind: cluster.Delay, Delay: time.Duration(s.Amount)}
	case "rate":
		return cluster.Impair{Kind: cluster.Rate, Rate: s.Amount}
	case "reset":
		return cluster.Impair{Kind: cluster.Reset}
	}
	return cluster.Impair{}
}

package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Protocol is a point in the protocol's history, by the name of the improvement that defines it.
type Protocol string

// The protocols, oldest first.
const (
	HW     Protocol = "hw"
	KIP101 Protocol = "kip101"
	KIP279 Protocol = "kip279"
	KIP320 Protocol = "kip320"
	KIP966 Protocol = "kip966"
)

// Protocols lists every protocol, oldest first: the order in which "kip101+" and "hw..kip279" count.
func Protocols() []Protocol { return []Protocol{HW, KIP101, KIP279, KIP320, KIP966} }

// Index is the protocol's place in history, 0 for the oldest; -1 if there is no such protocol.
func (p Protocol) Index() int { return slices.Index(Protocols(), p) }

// ParseProtocol accepts the names of [Protocols].
func ParseProtocol(s string) (Protocol, error) {
	if p := Protocol(s); p.Index() >= 0 {
		return p, nil
	}
	return "", fmt.Errorf("unknown protocol %q: want one of %s", s, joined(Protocols()))
}

// Truncation is how a new follower decides which tail of its log to cut.
type Truncation uint8

// The ways of truncation, in the order in which Kafka had them.
const (
	// ToHighWatermark cuts to the follower's own high watermark, which it learns one round trip late.
	ToHighWatermark Truncation = iota
	// ToEpochEnd asks the leader where the follower's last epoch ends (KIP-101, OffsetForLeaderEpoch v0).
	ToEpochEnd
	// ToCommonEpoch asks also which epoch the answer is about, and asks again until both agree (KIP-279, v1 and later).
	ToCommonEpoch
	// OnFetch asks nothing beforehand: each fetch names the epoch of the follower's last record, and the leader says where the
	// two part instead of giving records (KIP-595, Fetch v12).
	OnFetch
)

var truncationNames = [...]string{"hw", "kip101", "kip279", "on-fetch"}

// String is the word that --rule truncation= takes.
func (t Truncation) String() string {
	if int(t) < len(truncationNames) {
		return truncationNames[t]
	}
	return fmt.Sprintf("truncation(%d)", uint8(t))
}

// Registration is how the controller sees a broker that comes back.
type Registration uint8

const (
	// KRaft fences the old incarnation before it accepts a new one, so that every restart leaves the ISR.
	KRaft Registration = iota
	// ZK changes nothing when a broker restarts inside its session, as with ZooKeeper's ephemeral nodes; only a leader
	// that restarts gets a new leader epoch, because the same epoch would reuse (epoch, offset) pairs after a loss.
	ZK
)

// String is the word that registration= takes.
func (r Registration) String() string {
	if r == ZK {
		return "zk"
	}
	return "kraft"
}

// Set says which rules are in force. The zero value is the oldest protocol, [HW], with [KRaft] registration.
type Set struct {
	Truncation         Truncation
	Registration       Registration
	FetchFencing       bool
	EpochAtElection    bool
	TruncateEveryEpoch bool
	IsrFromEpochStart  bool
	OffsetNotAvailable bool
	HWNeedsMinISR      bool
	ELR                bool
	BrokerEpoch        bool

	// Defect is what is wrong beside that, on purpose.
	Defect Seeded
}

// Rule describes one rule to people.
type Rule struct {
	Name   string   // as --without and --rule take it
	Source string   // KIP or JIRA
	Since  Protocol // the first protocol that has it
	Says   string   // one sentence
	field  func(*Set) *bool
}

// Has says whether the set has the rule in force. The truncation rule counts as in force when it is not the oldest one.
func (r Rule) Has(s Set) bool {
	if r.field == nil {
		return s.Truncation != ToHighWatermark
	}
	return *r.field(&s)
}

const truncation = "truncation"

// Rules is the registry, in the order of history.
func Rules() []Rule {
	return []Rule{
		{truncation, "KIP-101, KIP-279", KIP101,
			"a new follower cuts its log where its leader's epochs say that the two part, not at its own high watermark", nil},
		{"fetch-fencing", "KIP-320, KAFKA-6880", KIP320,
			"a leader refuses fetches and epoch requests of another leader epoch, and a follower drops answers of another",
			func(s *Set) *bool { return &s.FetchFencing }},
		{"epoch-at-election", "KAFKA-7415", KIP320,
			"a new leader enters its epoch into the epoch cache at once, also if it never writes a record in it",
			func(s *Set) *bool { return &s.EpochAtElection }},
		{"truncate-every-epoch", "KAFKA-7164, KAFKA-7395", KIP320,
			"a follower checks for truncation at every new leader epoch, not only when the leader is another broker",
			func(s *Set) *bool { return &s.TruncateEveryEpoch }},
		{"isr-from-epoch-start", "KAFKA-7128", KIP320,
			"a follower joins the ISR only from the leader epoch's start offset on, not from a lagging high watermark on",
			func(s *Set) *bool { return &s.IsrFromEpochStart }},
		{"offset-not-available", "KIP-207", KIP320,
			"a new leader does not tell the latest offset while its high watermark is below its leader epoch's start offset",
			func(s *Set) *bool { return &s.OffsetNotAvailable }},
		{"hw-needs-min-isr", "KIP-966, KAFKA-15583", KIP966,
			"the high watermark does not advance while the ISR has fewer than min.insync.replicas members",
			func(s *Set) *bool { return &s.HWNeedsMinISR }},
		{"elr", "KIP-966", KIP966,
			"replicas that leave an ISR below min.insync.replicas stay eligible to lead, and an unclean restart ends that",
			func(s *Set) *bool { return &s.ELR }},
		{"broker-epoch", "KIP-903, KAFKA-14139", KIP966,
			"fetches and ISR changes name the incarnation of the replica they speak of, and stale ones are refused",
			func(s *Set) *bool { return &s.BrokerEpoch }},
	}
}

// Of is the set of rules that the protocol had.
func Of(p Protocol) Set {
	var s Set
	switch i := p.Index(); {
	case i >= KIP279.Index():
		s.Truncation = ToCommonEpoch
	case i == KIP101.Index():
		s.Truncation = ToEpochEnd
	}
	for _, r := range Rules() {
		if r.field != nil && p.Index() >= r.Since.Index() {
			*r.field(&s) = true
		}
	}
	return s
}

// Parse makes a set of a protocol, rules taken away (their names), and rules set by "name=value": truncation=hw|kip101|kip279|on-fetch,
// registration=zk|kraft, name=on|off for every other rule, and defect=Z11 for what [Defects] lists, with all that it needs, or
// defect=none. Later settings win. A combination that makes no sense is refused with the reason ([Set.Validate]).
func Parse(p Protocol, without, settings []string) (Set, error) {
	if p.Index() < 0 {
		return Set{}, fmt.Errorf("unknown protocol %q: want one of %s", p, joined(Protocols()))
	}
	return Of(p).With(without, settings)
}

// With is the set with rules taken away and then set, as [Parse] does.
func (s Set) With(without, settings []string) (Set, error) {
	for _, name := range without {
		if err := s.set(name, "off"); err != nil {
			return Set{}, err
		}
	}
	for _, kv := range settings {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return Set{}, fmt.Errorf("rule %q: want name=value, for example truncation=kip101", kv)
		}
		if err := s.set(name, value); err != nil {
			return Set{}, err
		}
	}
	return s, s.Validate()
}

// Validate refuses combinations that no broker could live by.
func (s Set) Validate() error {
	if s.ELR && s.Registration == ZK {
		return fmt.Errorf("elr with zk registration: eligibility ends at an unclean restart, which zk registration does not notice; use registration=kraft or take elr away")
	}
	return nil
}

func (s *Set) set(name, value string) error {
	switch name {
	case truncation:
		if value == "off" {
			value = truncationNames[ToHighWatermark]
		}
		i := slices.Index(truncationNames[:], value)
		if i < 0 {
			return fmt.Errorf("rule truncation=%s: want %s", value, strings.Join(truncationNames[:], ", "))
		}
		s.Truncation = Truncation(i)
		return nil
	case "registration":
		switch value {
		case "zk":
			s.Registration = ZK
		case "kraft":
			s.Registration = KRaft
		default:
			return fmt.Errorf("rule registration=%s: want zk or kraft", value)
		}
		return nil
	case defect:
		return s.seed(value)
	}
	names := []string{truncation, "registration"}
	for _, r := range Rules() {
		if r.field == nil {
			continue
		}
		if r.Name == name {
			switch value {
			case "on":
				*r.field(s) = true
			case "off":
				*r.field(s) = false
			default:
				return fmt.Errorf("rule %s=%s: want on or off", name, value)
			}
			return nil
		}
		names = append(names, r.Name)
	}
	return fmt.Errorf("unknown rule %q: want one of %s", name, strings.Join(names, ", "))
}

// Settings writes the set as the "name=value" words that [Parse] takes, all of them, in the registry's order, so that a
// process can hand its rules to another. Defects come first, because they bring what they need, which may have been set otherwise.
func (s Set) Settings() []string {
	var out []string
	for _, d := range s.Defects() {
		out = append(out, d.Setting())
	}
	out = append(out, truncation+"="+s.Truncation.String(), "registration="+s.Registration.String())
	for _, r := range Rules() {
		if r.field == nil {
			continue
		}
		value := "off"
		if *r.field(&s) {
			value = "on"
		}
		out = append(out, r.Name+"="+value)
	}
	return out
}

func joined[T ~string](of []T) string {
	words := make([]string, len(of))
	for i, w := range of {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

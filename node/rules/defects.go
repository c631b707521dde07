package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Seeded says which defects are in force that are no rule of the protocol's history: in each, something that every protocol
// does right is done wrong, at the one place in the cores where it lives. The zero value is none.
type Seeded struct {
	LocalShrink         bool // Z11
	NoVersionCheck      bool // Z12
	StaleWord           bool // Z12b
	HWBeforeCut         bool // Z14
	ReadsUnbounded      bool // Z15
	LateEpochAnswer     bool // Z18
	RecoverySkipsZero   bool // Z19
	AckOnSend           bool // Z21
	UnknownIsCaughtUp   bool // Z22
	SameEpochAfterLoss  bool // Z24
	WriteErrorsIgnored  bool // Z26
	CheckpointBelieved  bool // Z28
	UncleanKeepsPlace   bool // Z31
	ProducersNotCopied  bool // Z33
	RemotesOutliveEpoch bool // Z36
}

// Defect is an entry of the bug zoo: a known fault of Kafka's replication or of a system like it, to be seeded on purpose, so
// that a harness shows that it would find it. Some are rules of history taken away (Changes), the others are in [Seeded].
type Defect struct {
	ID     string // as --defect takes it
	Source string // KIP or JIRA
	Says   string // what is wrong, in one sentence
	Seen   string // the anomalies that it is known for
	// Protocol and Where are what it lives in: a protocol, and settings without which it cannot show.
	Protocol Protocol
	Where    []string
	// Changes are the settings that are the defect, if it is a rule of history.
	Changes []string
	// Control is an entry that must not be taken for a violation: the configuration permits it. It changes no rule.
	Control bool
	// Unseeded is why the entry is not seeded; "" if it is.
	Unseeded string
	field    func(*Seeded) *bool
}

// Defects is the bug zoo, in the order of its numbers. Numbers that are not there were never given.
func Defects() []Defect {
	return []Defect{
		{ID: "Z1", Source: "KAFKA-1211, KIP-101", Seen: "lost-acked, diverged", Protocol: KIP966, Changes: []string{"truncation=hw"},
			Says: "a new follower cuts its log to its own high watermark"},
		{ID: "Z2", Source: "KAFKA-6361, KIP-279", Seen: "diverged, lost-acked", Protocol: KIP966, Changes: []string{"truncation=kip101"},
			Says: "a leader tells where an epoch ends and not which epoch that was"},
		{ID: "Z3", Source: "KAFKA-7415", Seen: "lost-acked, diverged", Protocol: KIP966, Changes: []string{"epoch-at-election=off"},
			Says: "a new leader has no entry in its epoch cache until it writes"},
		{ID: "Z4", Source: "KAFKA-7164", Seen: "diverged", Protocol: KIP966, Changes: []string{"truncate-every-epoch=off"},
			Says: "a follower of the same leader does not look for truncation in a new epoch"},
		{ID: "Z5", Source: "KAFKA-6880, KIP-320", Seen: "diverged, lost-acked", Protocol: KIP966, Changes: []string{"fetch-fencing=off"},
			Says: "fetches are not fenced by leader epoch"},
		{ID: "Z6", Source: "KAFKA-7128", Seen: "lost-acked", Protocol: KIP966, Changes: []string{"isr-from-epoch-start=off"},
			Says: "a follower joins the ISR at a high watermark that lags"},
		{ID: "Z7", Source: "KIP-966, KAFKA-3410", Seen: "lost-acked", Protocol: KIP966, Changes: []string{"elr=off"},
			Says: "the last member of an ISR leads again after it lost its data"},
		{ID: "Z8", Source: "KAFKA-15583", Seen: "lost-acked", Protocol: KIP966, Changes: []string{"hw-needs-min-isr=off"},
			Says: "the high watermark rises with fewer than min.insync.replicas, beside eligible leader replicas that lack the records"},
		{ID: "Z9", Source: "KIP-903, KAFKA-14139", Seen: "lost-acked", Protocol: KIP966, Changes: []string{"broker-epoch=off"},
			Says: "a fetch from before a reboot brings the rebooted replica into the ISR"},
		{ID: "Z10", Source: "KIP-841, KAFKA-13916", Seen: "unavailable",
			Says:     "a fenced replica is admitted to the ISR",
			Unseeded: "costs availability only: nothing is committed without a fenced member here, and none is elected before it is back"},
		{ID: "Z11", Source: "KIP-497", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.LocalShrink },
			Says: "a leader counts with the ISR that it proposed before the controller has accepted it"},
		{ID: "Z12", Source: "KIP-497", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.NoVersionCheck },
			Says: "the controller accepts an ISR change that was made for an older partition epoch"},
		{ID: "Z12b", Source: "KAFKA-1188, KAFKA-12686", Seen: "lost-acked, diverged", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.StaleWord },
			Says: "a broker obeys a LeaderAndIsr older than the one that it obeyed last"},
		{ID: "Z13", Source: "KAFKA-2334, KIP-207", Seen: "end-regression", Protocol: KIP966, Changes: []string{"offset-not-available=off"},
			Says: "a new leader tells the latest offset while its high watermark lags"},
		{ID: "Z14", Source: "KAFKA-14704", Seen: "phantom", Protocol: KIP966, Where: []string{"truncation=on-fetch"},
			field: func(s *Seeded) *bool { return &s.HWBeforeCut },
			Says:  "a follower takes over the high watermark of an answer that says where the logs part, and cuts only then"},
		{ID: "Z15", Source: "KAFKA-725, KAFKA-9196", Seen: "phantom", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.ReadsUnbounded },
			Says: "consumers are given records above the high watermark"},
		{ID: "Z17", Source: "KAFKA-9338", Seen: "diverged, lost-acked",
			Says:     "the leader epoch is looked at only in the first fetch of a session",
			Unseeded: "these brokers have no fetch sessions; what would be left of it is Z5"},
		{ID: "Z18", Source: "KAFKA-7786", Seen: "diverged, lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.LateEpochAnswer },
			Says: "a follower cuts by an answer that it asked for in an earlier leader epoch"},
		{ID: "Z19", Source: "KAFKA-10432", Seen: "lost-acked", Protocol: KIP320, Where: []string{"registration=zk"},
			field: func(s *Seeded) *bool { return &s.RecoverySkipsZero },
			Says:  "recovery leaves epoch 0 out of the epoch cache"},
		{ID: "Z21", Source: "a leader that counts too early", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.AckOnSend },
			Says: "records count as replicated when they are sent to a follower, not when its next fetch says that it has them"},
		{ID: "Z22", Source: "a leader that counts too early", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.UnknownIsCaughtUp },
			Says: "a follower that a new leader has not heard of yet does not hold the high watermark back"},
		{ID: "Z24", Source: "Liftbridge, recovered leaders", Seen: "offset-epoch-reused, diverged", Protocol: KIP320, Where: []string{"registration=zk"},
			field: func(s *Seeded) *bool { return &s.SameEpochAfterLoss },
			Says:  "a leader that restarts goes on in its leader epoch, also after it lost records"},
		{ID: "Z26", Source: "KAFKA-10778", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.WriteErrorsIgnored },
			Says: "a replica goes on after a write to its log failed"},
		{ID: "Z28", Source: "KAFKA-16541", Seen: "diverged", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.CheckpointBelieved },
			Says: "after a power failure the epoch checkpoint is believed where the log says otherwise"},
		{ID: "Z29", Source: "KAFKA-5634, KAFKA-13194", Seen: "lost-acked",
			Says:     "the log is cleaned or deleted above the high watermark",
			Unseeded: "these brokers neither clean nor delete: a log's start moves only when a follower starts over at its leader's"},
		{ID: "Z30", Source: "KAFKA-18723", Seen: "diverged",
			Says:     "a follower appends what the leader read while it was being replaced",
			Unseeded: "a leader reads and answers in one step here, so that no answer has records of two reigns"},
		{ID: "Z31", Source: "KAFKA-18106", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.UncleanKeepsPlace },
			Says: "a broker that lost its data and registers anew stays in the ISR, eligible, and leader"},
		{ID: "Z32", Source: "unclean.leader.election.enable", Seen: "lost-acked, allowed", Protocol: KIP966, Control: true,
			Says: "unclean elections are on: loss is what the configuration asks for, and no violation"},
		{ID: "Z33", Source: "KAFKA-6683, KAFKA-7298", Seen: "duplicate", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.ProducersNotCopied },
			Says: "a follower does not keep the state of idempotent producers, so that as leader it takes a retry for something new"},
		{ID: "Z34", Source: "KAFKA-13091", Seen: "unavailable",
			Says:     "the high watermark is not looked at again after the ISR shrank",
			Unseeded: "costs availability only"},
		{ID: "Z35", Source: "KAFKA-2729", Seen: "unavailable",
			Says:     "a leader whose version is stale can neither shrink nor expand the ISR for ever",
			Unseeded: "costs availability only: with acks=all nothing is acknowledged meanwhile"},
		{ID: "Z36", Source: "a leader that remembers too much", Seen: "lost-acked", Protocol: KIP966, field: func(s *Seeded) *bool { return &s.RemotesOutliveEpoch },
			Says: "a leader that missed an epoch still counts what followers had acknowledged before it"},
	}
}

// FindDefect is the entry of that ID.
func FindDefect(id string) (Defect, error) {
	all := Defects()
	i := slices.IndexFunc(all, func(d Defect) bool { return strings.EqualFold(d.ID, id) })
	if i >= 0 {
		return all[i], nil
	}
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.ID
	}
	return Defect{}, fmt.Errorf("unknown defect %q: there are %s", id, strings.Join(ids, ", "))
}

// Sound is what the defect lives in, without it.
func (d Defect) Sound() (Set, error) { return Parse(d.Protocol, nil, d.Where) }

// Set is what the defect lives in, with it.
func (d Defect) Set() (Set, error) {
	s, err := d.Sound()
	if err != nil {
		return s, err
	}
	return s.With(nil, []string{d.Setting()})
}

// Setting is the word that [Parse] takes for the defect.
func (d Defect) Setting() string { return defect + "=" + d.ID }

// Seedable says why the defect cannot be seeded, if it cannot.
func (d Defect) Seedable() error {
	switch {
	case d.Unseeded != "":
		return fmt.Errorf("defect %s is not seeded: %s", d.ID, d.Unseeded)
	case d.Control:
		return fmt.Errorf("defect %s is the control and changes no rule: set %s=true", d.ID, d.Source)
	}
	return nil
}

const (
	defect = "defect"
	none   = "none"
)

// seed puts a defect into the set, or takes all that are no rules out of it.
func (s *Set) seed(id string) error {
	if id == none {
		s.Defect = Seeded{}
		return nil
	}
	d, err := FindDefect(id)
	if err == nil {
		err = d.Seedable()
	}
	if err != nil {
		return err
	}
	for _, kv := range slices.Concat(d.Where, d.Changes) {
		name, value, _ := strings.Cut(kv, "=")
		if err := s.set(name, value); err != nil {
			return err
		}
	}
	if d.field != nil {
		*d.field(&s.Defect) = true
	}
	return nil
}

// Defects lists the defects in force that are no rule of history taken away.
func (s Set) Defects() []Defect {
	var all []Defect
	for _, d := range Defects() {
		if d.field != nil && *d.field(&s.Defect) {
			all = append(all, d)
		}
	}
	return all
}

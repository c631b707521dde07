package nemesis

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is a kind of fault that a random plan draws from.
type Fault string

// The kinds of fault.
const (
	Kill      Fault = "kill"      // SIGKILL, then start: the page cache survives
	Stop      Fault = "stop"      // a clean shutdown, then start
	Pause     Fault = "pause"     // SIGSTOP, then SIGCONT
	Partition Fault = "partition" // a shape of cut links, then heal
	Power     Fault = "power"     // what was not flushed is gone at the next start

	Restarts Fault = "restarts" // one broker is killed and started again and again
	Rolling  Fault = "rolling"  // every broker is restarted, one after the other
	KillAll  Fault = "killall"  // all brokers are killed and come back one by one

	LinkLoss  Fault = "loss"  // a part of what one broker sends and is sent is lost
	LinkDelay Fault = "delay" // it arrives later
	LinkRate  Fault = "rate"  // it arrives no faster than so
	LinkReset Fault = "reset" // its connections break

	AppendError Fault = "eio"      // an append fails: the replica goes offline until the disk is mended
	DiskFull    Fault = "full"     // no append or checkpoint has room, until the disk is mended
	SlowSync    Fault = "slowsync" // every fsync takes longer
	BitFlip     Fault = "flip"     // of a broker that was killed: one bit near the end of each log
	ChoppedTail Fault = "chop"     // of a broker that was killed: the end of each log is gone, flushed or not
	Forgotten   Fault = "forget"   // of a broker that was killed: its checkpoint files are gone

	Transfer Fault = "transfer" // the leadership moves to a follower
	Fenced   Fault = "fence"    // the controller ends a broker's session
)

// Faults lists the kinds of fault.
func Faults() []Fault {
	return []Fault{Kill, Stop, Pause, Partition, Power, Restarts, Rolling, KillAll, LinkLoss, LinkDelay, LinkRate, LinkReset,
		AppendError, DiskFull, SlowSync, BitFlip, ChoppedTail, Forgotten, Transfer, Fenced}
}

// Basic lists the kinds that every backend has and that break no more than what protocols are made for.
func Basic() []Fault { return []Fault{Kill, Pause, Partition, Power} }

// Group is some kinds of fault under one name.
type Group struct {
	Name   string
	Faults []Fault
}

// Groups lists the groups.
func Groups() []Group {
	return []Group{
		{"basic", Basic()},
		{"storm", []Fault{Restarts, Rolling, KillAll}},
		{"net", []Fault{LinkLoss, LinkDelay, LinkRate, LinkReset}},
		{"disk", []Fault{AppendError, DiskFull, SlowSync, BitFlip, ChoppedTail, Forgotten}},
		{"leaders", []Fault{Transfer, Fenced}},
		{"all", Faults()},
	}
}

// FaultHelp names all kinds of fault and all groups, for people.
func FaultHelp() string {
	var kinds, groups []string
	for _, f := range Faults() {
		kinds = append(kinds, string(f))
	}
	for _, g := range Groups() {
		groups = append(groups, g.Name)
	}
	return strings.Join(kinds, ", ") + "; groups of them: " + strings.Join(groups, ", ") + "; or none"
}

// ParseFaults reads "kill,pause" or "kill,disk"; "none" or nothing is none.
func ParseFaults(s string) ([]Fault, error) {
	if s == "" || s == "none" {
		return nil, nil
	}
	var faults []Fault
	for _, word := range strings.Split(s, ",") {
		kinds := []Fault{Fault(strings.TrimSpace(word))}
		if i := slices.IndexFunc(Groups(), func(g Group) bool { return g.Name == string(kinds[0]) }); i >= 0 {
			kinds = Groups()[i].Faults
		} else if !slices.Contains(Faults(), kinds[0]) {
			return nil, fmt.Errorf("fault %q: there are %s", word, FaultHelp())
		}
		for _, f := range kinds {
			if !slices.Contains(faults, f) {
				faults = append(faults, f)
			}
		}
	}
	return faults, nil
}

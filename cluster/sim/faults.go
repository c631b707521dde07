package sim

import (
	"fmt"
	"strings"
)

// Faults is a set of what may go wrong in random schedules. Whatever the set, there are produces, replication, brokers that start
// again and are connected again, and a controller that fences who is dead or cut off.
//
// Pausing a process is none of them: in a schedule nobody moves by himself, so that a broker is paused for as long as no step
// names it, and what was sent to it waits. Neither is a disk that fails: it takes its replica out of service, as a kill does,
// and what it had is there when the process starts anew.
type Faults uint8

// What may go wrong.
const (
	FaultKill     Faults = 1 << iota // processes end; the disk keeps everything
	FaultIsolate                     // brokers are cut off from everybody
	FaultLag                         // the clock of the ISR jumps for a follower
	FaultFailover                    // sessions end and leaders change at any time, as under long pauses and rebalancing
	FaultZombies                     // brokers do not learn that they were deposed, clients talk to them, fetches arrive late
	FaultPower                       // disks lose what was not flushed, up to any cut
)

var faultNames = [...]string{"kill", "isolate", "lag", "failover", "zombies", "power"}

// Has says whether all of those are in the set.
func (f Faults) Has(those Faults) bool { return f&those == those }

// String lists the set as [ParseFaults] reads it.
func (f Faults) String() string {
	var words []string
	for i, name := range faultNames {
		if f.Has(1 << i) {
			words = append(words, name)
		}
	}
	return strings.Join(words, ",")
}

// ParseFaults reads the names of faults.
func ParseFaults(words []string) (Faults, error) {
	var f Faults
next:
	for _, word := range words {
		for i, name := range faultNames {
			if word == name {
				f |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("fault %q: want some of %s", word, strings.Join(faultNames[:], ", "))
	}
	if f == 0 {
		return 0, fmt.Errorf("no faults: want some of %s", strings.Join(faultNames[:], ", "))
	}
	return f, nil
}

// allow says whether the move may be drawn.
func (f Faults) allow(o op) bool {
	switch o {
	case opKill:
		return f.Has(FaultKill)
	case opIsolate:
		return f.Has(FaultIsolate)
	case opLag:
		return f.Has(FaultLag)
	case opTransfer:
		return f.Has(FaultFailover)
	case opSend, opDeliver:
		return f.Has(FaultZombies)
	case opFlush, opPower:
		return f.Has(FaultPower)
	}
	return true
}

// Severity is how much may go wrong at once in a random schedule. Each step of the ladder has all of those before it.
type Severity uint8

// The ladder of severity.
const (
	// Sane: the controller fences only who is dead or cut off, and brokers learn soon.
	Sane Severity = iota
	// Failover: FaultFailover too.
	Failover
	// Zombies: FaultZombies too.
	Zombies
	// Power: everything.
	Power
)

var severities = [...]string{"sane", "failover", "zombies", "power"}

// Severities lists the ladder, mildest first.
func Severities() []Severity { return []Severity{Sane, Failover, Zombies, Power} }

// String is the word that [ParseSeverity] reads.
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("severity(%d)", uint8(s))
}

// Faults are what goes wrong on that step of the ladder.
func (s Severity) Faults() Faults {
	f := FaultKill | FaultIsolate | FaultLag
	for i, more := range [...]Faults{FaultFailover, FaultZombies, FaultPower} {
		if int(s) > i {
			f |= more
		}
	}
	return f
}

// ParseSeverity reads what [Severity.String] writes.
func ParseSeverity(word string) (Severity, error) {
	for i, s := range severities {
		if s == word {
			return Severity(i), nil
		}
	}
	return 0, fmt.Errorf("severity %q: want sane, failover, zombies or power", word)
}

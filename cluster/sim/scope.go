package sim

import (
	"errors"
	"fmt"
	"slices"

	"tidemark/nemesis/schedule"
)

// Scope bounds an exhaustive search: everything that can happen within it is looked at. A world moves by the same steps as in a
// random schedule; settle, isolate and heal are left out, because whoever takes no step is cut off already.
type Scope struct {
	Cluster schedule.Cluster
	Court   Court
	Records int // produces
	Epochs  int // leader epochs, the first included
	// Changes of the controller's record and brokers after the beginning: fences, unfences, elections, changes of the ISR.
	Changes int
	Crashes int // kills and power failures
	Power   int // power failures among them, with every cut
	// Late lets fetches wait in the leader's inbox until they are delivered by hand, over restarts of who sent them.
	Late bool
	// LeaveOut are verbs that are not taken.
	LeaveOut []schedule.Verb
	// MaxStates and MaxMemory (bytes of heap) stop the search where it is; 0 is no bound.
	MaxStates int
	MaxMemory uint64
	// Progress is called now and then, if it is not nil.
	Progress func(Covered)
}

// ErrScope says that a scope cannot be searched.
var ErrScope = errors.New("impossible scope")

// Validate says what is wrong with a scope.
func (s Scope) Validate() error {
	switch {
	case len(s.Cluster.Replicas) < 1 || len(s.Cluster.Replicas) > 5:
		return fmt.Errorf("%w: %d replicas: want 1 to 5, more is beyond any memory", ErrScope, len(s.Cluster.Replicas))
	case s.Records < 1 || s.Records > 100:
		return fmt.Errorf("%w: %d records: want 1 to 100", ErrScope, s.Records)
	case s.Epochs < 1:
		return fmt.Errorf("%w: %d epochs: want 1 or more", ErrScope, s.Epochs)
	case s.Changes < 0 || s.Crashes < 0 || s.Power < 0:
		return fmt.Errorf("%w: changes %d, crashes %d, power %d: want 0 or more", ErrScope, s.Changes, s.Crashes, s.Power)
	case s.Power > s.Crashes:
		return fmt.Errorf("%w: %d power failures among %d crashes: a power failure is a crash", ErrScope, s.Power, s.Crashes)
	}
	for _, verb := range s.LeaveOut {
		if !slices.ContainsFunc(opVerbs[:], func(v opVerb) bool { return v.verb == verb }) {
			return fmt.Errorf("%w: verb %q is left out, and is none of a search", ErrScope, verb)
		}
	}
	return nil
}

// Covered is what an exhaustive search has seen.
type Covered struct {
	States      int   // different ones
	Transitions int64 // possible moves, those into known states included
	Expanded    int   // states from which every move was taken
	Depth       int   // moves that the farthest state is away from the beginning
	// Complete: the whole scope was searched. Else Stopped says why it was not, and everything up to Depth-1 moves was.
	Complete bool
	Stopped  string
	// Find is the first violation, none shorter than it; nil if there is none in what was seen.
	Find *Find
	// Excused are states in which something is lost that the contract permits to lose; the search does not go on from them.
	Excused int
	// Unconfirmed are states that the truth finds wrong and the checker does not. There should be none.
	Unconfirmed int
	Memory      uint64 // bytes of heap at the end
	Kept        uint64 // bytes of them that are the states: the way to each and its hash, with the room to grow
	Widest      int    // states of the largest level
}

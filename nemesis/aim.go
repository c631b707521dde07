package nemesis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/cluster"
)

// Aim is a state of the protocol that a step waits for.
type Aim struct {
	State     State
	Partition string
	// Within is how long the step waits, from its time on. A state that has not come by then makes the fault unproven.
	Within time.Duration
}

// State is the name of a state, as the events of the nodes show it.
type State string

// The states.
const (
	// HWOnlyOnLeader: the leader's high watermark is above that of every other in-sync replica, so that nobody else knows what is
	// committed.
	HWOnlyOnLeader State = "hw-only-on-leader"
	// ISROne: one replica alone is the ISR.
	ISROne State = "isr-one"
	// Truncating: a follower was told of a new leader and has neither cut its log nor said that it need not.
	Truncating State = "truncating"
	// NewLeaderWithoutRecord: a leader was elected and has appended nothing in its epoch.
	NewLeaderWithoutRecord State = "new-leader-without-record"
)

// States lists the states.
func States() []State { return []State{HWOnlyOnLeader, ISROne, Truncating, NewLeaderWithoutRecord} }

// String is "when isr-one of orders-0 within 10s".
func (a Aim) String() string {
	return fmt.Sprintf("when %s of %s within %s", a.State, a.Partition, a.Within)
}

// defaultWithin is how long a step waits that does not say it.
const defaultWithin = 10 * time.Second

// aim reads what follows on "when".
func (p *parser) aim() (*Aim, error) {
	a := &Aim{State: State(p.next()), Within: defaultWithin}
	if !slices.Contains(States(), a.State) {
		return a, fmt.Errorf("when %s: there is no such state; there are %v", a.State, States())
	}
	if !p.has("of") {
		return a, fmt.Errorf("when %s: of which partition? for example when %s of orders-0", a.State, a.State)
	}
	if a.Partition = p.next(); !isPartition(a.Partition) {
		return a, fmt.Errorf("when %s of %q: want a partition such as orders-0", a.State, a.Partition)
	}
	if p.has("within") {
		w := p.next()
		d, err := time.ParseDuration(w)
		if err != nil || d <= 0 || d != d.Truncate(time.Millisecond) {
			return a, fmt.Errorf("within %q: want a duration such as 5s, in whole milliseconds", w)
		}
		a.Within = d
	}
	return a, nil
}

// isPartition says whether a word is a topic and a number: orders-0.
func isPartition(name string) bool {
	dash := strings.LastIndexByte(name, '-')
	_, err := strconv.ParseUint(name[dash+1:], 10, 31)
	return dash > 0 && err == nil
}

// sighted says whether the state holds, and what of it was seen.
func (s *sight) sighted(a State) (seen string, holds bool) {
	switch a {
	case HWOnlyOnLeader:
		hw, ok := s.hw[s.leader]
		var behind []string
		for _, n := range s.isr {
			if n == s.leader {
				continue
			}
			if s.hw[n] >= hw {
				return "", false
			}
			behind = append(behind, fmt.Sprintf("%d has %d", n, s.hw[n]))
		}
		return fmt.Sprintf("leader %d has high watermark %d, %s", s.leader, hw, strings.Join(behind, ", ")), ok && s.leader > 0 && len(behind) > 0
	case ISROne:
		return fmt.Sprintf("ISR %v in partition epoch %d", s.isr, s.partitionEpoch), len(s.isr) == 1
	case Truncating:
		return fmt.Sprintf("followers %v of leader %d in epoch %d", sortedNodes(s.truncating), s.leader, s.epoch), len(s.truncating) > 0
	case NewLeaderWithoutRecord:
		epoch, ok := s.fresh[s.leader]
		return fmt.Sprintf("leader %d in epoch %d", s.leader, epoch), ok && s.leader > 0
	}
	return "", false
}

func sortedNodes(set map[cluster.NodeID]bool) []cluster.NodeID {
	var nodes []cluster.NodeID
	for n := range set {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return nodes
}

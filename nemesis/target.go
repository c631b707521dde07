package nemesis

import (
	"fmt"
	"slices"

	"tidemark/cluster"
)

// Role names nodes by what they do for a partition at the moment at which a step is played.
type Role struct {
	Name      RoleName
	Partition string // orders-0
}

// RoleName is the name of a role.
type RoleName string

// The roles. The controller needs none: it is always the same node.
const (
	Leader      RoleName = "leader"          // who leads
	Follower    RoleName = "follower"        // the first in-sync replica that does not lead, by its id
	ISRMinority RoleName = "isr minority"    // as many in-sync replicas that do not lead as leave a majority of the ISR, the last by id
	LastISR     RoleName = "last isr member" // who is the ISR alone
)

// RoleNames lists the roles.
func RoleNames() []RoleName { return []RoleName{Leader, Follower, ISRMinority, LastISR} }

// String is "leader of orders-0".
func (r Role) String() string { return string(r.Name) + " of " + r.Partition }

// role reads a role if one comes next. In a step that waits for a state, "of" may be left out: it is that state's partition then.
func (p *parser) role() (r Role, ok bool, err error) {
	switch {
	case p.has("leader"):
		r.Name = Leader
	case p.has("follower"):
		r.Name = Follower
	case p.has("isr", "minority"):
		r.Name = ISRMinority
	case p.has("last", "isr", "member"):
		r.Name = LastISR
	default:
		return r, false, nil
	}
	switch {
	case p.has("of"):
		if r.Partition = p.next(); !isPartition(r.Partition) {
			return r, true, fmt.Errorf("%s of %q: want a partition, for example %s of orders-0", r.Name, r.Partition, r.Name)
		}
	case p.step.When != nil:
		r.Partition = p.step.When.Partition
	default:
		return r, true, fmt.Errorf("%s: of which partition? for example %s of orders-0", r.Name, r.Name)
	}
	return r, true, nil
}

// resolve is who has the role, as far as nodes have reported; nobody: it is vacant.
func (r Role) resolve(w *Watch) []cluster.NodeID {
	leader, isr := w.record(r.Partition)
	followers := slices.DeleteFunc(slices.Clone(isr), func(n cluster.NodeID) bool { return n == leader })
	slices.Sort(followers)
	switch {
	case r.Name == Leader && leader > 0:
		return []cluster.NodeID{leader}
	case r.Name == Follower && len(followers) > 0:
		return followers[:1]
	case r.Name == ISRMinority:
		return followers[len(followers)-min(len(followers), max(0, (len(isr)-1)/2)):]
	case r.Name == LastISR && len(isr) == 1:
		return isr
	}
	return nil
}

// isOfTheLiving says whether the step can only be done to nodes that are up.
func (s Step) isOfTheLiving() bool {
	return s.IsFault() && s.Verb != "flip" && s.Verb != "chop" && s.Verb != "forget"
}

// whoIs is who has a role for a step, nobody if it is vacant.
func (p *Player) whoIs(s Step, r Role) []cluster.NodeID {
	who := r.resolve(p.Watch)
	if s.isOfTheLiving() && slices.ContainsFunc(who, func(n cluster.NodeID) bool { return p.down[n] }) {
		return nil // it was stopped, and the controller has not said who comes after it
	}
	return who
}

// resolve is the step with the nodes that it is about now. It is not ok if a role is vacant, or the nodes of a name not known yet.
func (p *Player) resolve(s Step) (Step, bool) {
	if !s.isOpen() {
		return s, true
	}
	asked := s.Asked()
	var nodes []cluster.NodeID
	add := func(more []cluster.NodeID) bool {
		for _, n := range more {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
		return len(more) > 0
	}
	add(s.Nodes)
	for _, r := range s.Roles {
		if !add(p.whoIs(s, r)) {
			return s, false
		}
	}
	for _, name := range s.Names {
		if !add(p.names[name]) {
			return s, false
		}
	}
	if s.As != "" {
		p.names[s.As] = nodes
	}
	if s.Shape != "" {
		s.Links = s.Shape.links(nodes, p.brokers())
		nodes = nil
	}
	if s.Note != "" {
		s.Note += "\n"
	}
	s.Note += asked
	s.Nodes, s.Roles, s.Names, s.When, s.Shape, s.As, s.Optional = nodes, nil, nil, nil, "", "", false
	return s, true
}

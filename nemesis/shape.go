package nemesis

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/cluster"
	"tidemark/node/control"
)

// Shape is a partition of the network by its name. It becomes links when a step is played.
type Shape string

// The shapes.
const (
	// Isolate cuts each of the nodes off from everybody, clients and controller included.
	Isolate Shape = "isolate"
	// SendsNothing loses what the nodes send; what they are sent arrives. ReceivesNothing is the other way.
	SendsNothing    Shape = "sends-nothing"
	ReceivesNothing Shape = "receives-nothing"
	// Halves parts the brokers named from all others; the controller is with the others, clients reach both.
	Halves Shape = "halves"
	// MajorityRing lets every broker hear a majority of them, and no two the same one. The brokers are in the order given. Clients
	// and controller reach all.
	MajorityRing Shape = "majority-ring"
	// Bridge parts the brokers into two halves that only the one named reaches both of. Clients and controller reach all.
	Bridge Shape = "bridge"
	// OneLink is between the brokers named: replication, both ways. Their sessions and their clients go on.
	OneLink Shape = "link"
	// ClientsFrom is between all clients and the brokers named.
	ClientsFrom Shape = "clients-from"
	// ControllerFrom is between the controller and the brokers named.
	ControllerFrom Shape = "controller-from"
)

// Shapes lists the shapes.
func Shapes() []Shape {
	return []Shape{Isolate, SendsNothing, ReceivesNothing, Halves, MajorityRing, Bridge, OneLink, ClientsFrom, ControllerFrom}
}

func shapeNames() string {
	var names []string
	for _, s := range Shapes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// fits says whether a step names as many nodes as its shape needs. Roles and names count as one node each.
func (h Shape) fits(s *Step, brokers []cluster.NodeID) error {
	n := len(s.Nodes) + len(s.Roles) + len(s.Names)
	bad := func(want string) error {
		return fmt.Errorf("%s %s: names %d nodes, want %s", s.Verb, h, n, want)
	}
	ofBrokers := h != Isolate && h != SendsNothing && h != ReceivesNothing
	switch {
	case ofBrokers && slices.Contains(s.Nodes, control.Controller):
		return fmt.Errorf("%s %s: is about brokers, not about the controller", s.Verb, h)
	case h == Bridge && n != 1:
		return bad("the one broker that reaches both halves")
	case h == OneLink && n != 2:
		return bad("the two brokers at its ends")
	case h == MajorityRing && (n < 3 || len(s.Nodes) != n):
		return bad("three or more brokers by their ids, in the order of the ring")
	case h == Bridge && len(brokers) < 3:
		return fmt.Errorf("%s %s: needs three brokers or more", s.Verb, h)
	case n == 0:
		return bad("one or more")
	}
	return nil
}

// links are what the shape is made of.
func (h Shape) links(nodes, brokers []cluster.NodeID) []cluster.Link {
	without := func(all []cluster.NodeID, not ...cluster.NodeID) []cluster.NodeID {
		return slices.DeleteFunc(slices.Clone(all), func(n cluster.NodeID) bool { return slices.Contains(not, n) })
	}
	everybody := append([]cluster.NodeID{cluster.ClientsID, control.Controller}, brokers...)
	var links []cluster.Link
	add := func(more []cluster.Link) {
		for _, l := range more {
			// Clients and controller do not talk; each link once.
			if (l.From != cluster.ClientsID || l.To != control.Controller) && (l.To != cluster.ClientsID || l.From != control.Controller) && !slices.Contains(links, l) {
				links = append(links, l)
			}
		}
	}
	both := func(a, b []cluster.NodeID) {
		add(oneWay(a, b))
		add(oneWay(b, a))
	}
	switch h {
	case Isolate:
		for _, n := range nodes {
			both([]cluster.NodeID{n}, without(everybody, n))
		}
	case SendsNothing:
		for _, n := range nodes {
			add(oneWay([]cluster.NodeID{n}, without(everybody, n)))
		}
	case ReceivesNothing:
		for _, n := range nodes {
			add(oneWay(without(everybody, n), []cluster.NodeID{n}))
		}
	case Halves:
		both(nodes, append(without(brokers, nodes...), control.Controller))
	case MajorityRing:
		// Broker i hears itself and its next neighbours on both sides, the odd one from ahead.
		n := len(nodes)
		behind, ahead := (n/2)/2, n/2-(n/2)/2
		for i, to := range nodes {
			for step := ahead + 1; step < n-behind; step++ {
				add(oneWay([]cluster.NodeID{nodes[(i+step)%n]}, []cluster.NodeID{to}))
			}
		}
	case Bridge:
		rest := without(brokers, nodes...)
		both(rest[:len(rest)/2], rest[len(rest)/2:])
	case OneLink:
		if len(nodes) == 2 {
			both(nodes[:1], nodes[1:])
		}
	case ClientsFrom:
		both([]cluster.NodeID{cluster.ClientsID}, nodes)
	case ControllerFrom:
		both([]cluster.NodeID{control.Controller}, nodes)
	}
	return links
}

// Expand is the plan with links in place of every shape that names its nodes by their ids.
func (p Plan) Expand(brokers []cluster.NodeID) Plan {
	out := slices.Clone(p)
	for i, s := range out {
		if s.Shape != "" && len(s.Roles)+len(s.Names) == 0 {
			out[i].Links, out[i].Shape, out[i].Nodes = s.Shape.links(s.Nodes, brokers), "", nil
		}
	}
	return out
}

func oneWay(from, to []cluster.NodeID) []cluster.Link {
	var links []cluster.Link
	for _, f := range from {
		for _, t := range to {
			links = append(links, cluster.Link{From: f, To: t})
		}
	}
	return links
}

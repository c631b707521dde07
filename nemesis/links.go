package nemesis

import (
	"context"
	"slices"

	"tidemark/checker/history"
	"tidemark/cluster"
)

// linkVerbs are the verbs about links. What they do adds up; each replaces only what it did before.
func linkVerbs() []string {
	var names []string
	for _, v := range verbs() {
		if v.takes == takesLinks {
			names = append(names, v.name)
		}
	}
	return names
}

func linksOf(verb string) string { return "links " + verb }

// impair has links cut or impaired in place of what the same verb did before, all at once: what is cut before and after is not
// open between.
func (n *Player) impair(ctx context.Context, s Step) error {
	f, err := n.begin(s, endpoints(s.Links)...)
	if err != nil {
		return err
	}
	links := slices.Clone(s.Links)
	for i := range links {
		links[i].Impair = s.impair()
	}
	n.links[s.Verb] = links
	err = n.apply(ctx, []string{s.Verb})
	n.open[linksOf(s.Verb)] = f
	return err
}

// heal opens what some verbs did to links, or all of them did.
func (n *Player) heal(ctx context.Context, verbs []string) error {
	if len(verbs) == 0 {
		verbs = linkVerbs()
	}
	for _, v := range verbs {
		delete(n.links, v)
	}
	return n.apply(ctx, verbs)
}

// apply sets the links as they are to be, and ends the faults of the verbs that are over.
func (n *Player) apply(ctx context.Context, over []string) error {
	var wanted []cluster.Link
	for _, v := range linkVerbs() {
		wanted = append(wanted, n.links[v]...)
	}
	e, err := n.cluster.Links(ctx, wanted)
	if err != nil {
		return err
	}
	for _, v := range over {
		share := n.share(e, v)
		if err := n.over(linksOf(v), &share); err != nil {
			return err
		}
	}
	n.inForce = wanted
	return nil
}

// share is the part of the evidence that is about one verb.
func (n *Player) share(e cluster.Evidence, verb string) cluster.Evidence {
	kind := Step{Verb: verb}.impair().Kind
	isOf := func(l cluster.Link) bool { return l.Kind == kind }
	if len(e.Measured) != len(n.inForce) || !slices.ContainsFunc(n.inForce, func(l cluster.Link) bool { return !isOf(l) }) {
		return e // it is about nothing else
	}
	var share cluster.Evidence
	for i, l := range n.inForce {
		if isOf(l) {
			share.Measured = append(share.Measured, e.Measured[i])
		}
	}
	share.Proven = slices.ContainsFunc(share.Measured, func(m history.Measurement) bool { return cluster.Counted(m) > 0 })
	return share
}

// endpoints are the nodes that lie on one side of every link, or else all that a link touches.
func endpoints(links []cluster.Link) []cluster.NodeID {
	var nodes []cluster.NodeID
	for _, l := range links {
		for _, n := range []cluster.NodeID{l.From, l.To} {
			if n != cluster.ClientsID && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		if !slices.ContainsFunc(links, func(l cluster.Link) bool { return l.From != n && l.To != n }) {
			return []cluster.NodeID{n}
		}
	}
	return nodes
}

package nemesis

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node/control"
)

func words(links []cluster.Link) string {
	var all []string
	for _, l := range links {
		all = append(all, linkEnd(l.From)+"->"+linkEnd(l.To))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestShapesCutWhatTheirNamesSay(t *testing.T) {
	five := []cluster.NodeID{1, 2, 3, 4, 5}
	for _, tc := range []struct {
		shape   Shape
		nodes   []cluster.NodeID
		brokers []cluster.NodeID
		want    string
	}{
		{Isolate, []cluster.NodeID{2}, three, "1->2 2->1 2->3 2->clients 2->controller 3->2 clients->2 controller->2"},
		{Isolate, []cluster.NodeID{control.Controller}, three, "1->controller 2->controller 3->controller controller->1 controller->2 controller->3"},
		{Isolate, []cluster.NodeID{1, 2}, []cluster.NodeID{1, 2}, "1->2 1->clients 1->controller 2->1 2->clients 2->controller clients->1 clients->2 controller->1 controller->2"},
		{SendsNothing, []cluster.NodeID{2}, three, "2->1 2->3 2->clients 2->controller"},
		{ReceivesNothing, []cluster.NodeID{2}, three, "1->2 3->2 clients->2 controller->2"},
		{Halves, []cluster.NodeID{1, 3}, three, "1->2 1->controller 2->1 2->3 3->2 3->controller controller->1 controller->3"},
		{MajorityRing, []cluster.NodeID{1, 2, 3}, three, "1->2 2->3 3->1"},
		{MajorityRing, []cluster.NodeID{3, 1, 2}, three, "1->2 2->3 3->1"},
		{MajorityRing, []cluster.NodeID{1, 3, 2}, three, "1->3 2->1 3->2"},
		{Bridge, []cluster.NodeID{2}, three, "1->3 3->1"},
		{Bridge, []cluster.NodeID{3}, five, "1->4 1->5 2->4 2->5 4->1 4->2 5->1 5->2"},
		{OneLink, []cluster.NodeID{3, 1}, three, "1->3 3->1"},
		{ClientsFrom, []cluster.NodeID{2}, three, "2->clients clients->2"},
		{ControllerFrom, []cluster.NodeID{1, 2}, three, "1->controller 2->controller controller->1 controller->2"},
	} {
		assert.Equal(t, tc.want, words(tc.shape.links(tc.nodes, tc.brokers)), "%s %v of %v", tc.shape, tc.nodes, tc.brokers)
	}
}

func TestInAMajorityRingEverybodyHearsAnotherMajority(t *testing.T) {
	for n := 3; n <= 9; n++ {
		var ring []cluster.NodeID
		for i := range n {
			ring = append(ring, cluster.NodeID(i+1))
		}
		links := MajorityRing.links(ring, ring)
		heard := map[string]bool{}
		for _, to := range ring {
			var from []string
			for _, f := range ring {
				if !slices.Contains(links, cluster.Link{From: f, To: to}) {
					from = append(from, f.String())
				}
			}
			require.Len(t, from, n/2+1, "of %d", n)
			heard[strings.Join(from, " ")] = true
		}
		require.Len(t, heard, n, "of %d", n)
	}
}

package nemesis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
)

var three = []cluster.NodeID{1, 2, 3}

func TestAPlanIsWhatThePackageShows(t *testing.T) {
	text := `at 2.310s pause 2
at 3.871s resume 2
at 5.102s cut 1->2 clients->2 1->controller
at 7.440s heal
at 8.020s powerfail 3 cut=1+20
at 9.633s start 3
at 10.000s kill 1 2
`
	p, err := ParsePlan("plan", "# a comment\n\n"+text+"\n", three)
	require.NoError(t, err)
	require.Equal(t, Plan{
		{At: 2310 * time.Millisecond, Verb: "pause", Nodes: []cluster.NodeID{2}},
		{At: 3871 * time.Millisecond, Verb: "resume", Nodes: []cluster.NodeID{2}},
		{At: 5102 * time.Millisecond, Verb: "cut", Links: []cluster.Link{{From: 1, To: 2}, {From: cluster.ClientsID, To: 2}, {From: 1, To: control.Controller}}},
		{At: 7440 * time.Millisecond, Verb: "heal"},
		{At: 8020 * time.Millisecond, Verb: "powerfail", Nodes: []cluster.NodeID{3}, Cut: schedule.Cut{Keep: 1, Torn: 20}},
		{At: 9633 * time.Millisecond, Verb: "start", Nodes: []cluster.NodeID{3}},
		{At: 10 * time.Second, Verb: "kill", Nodes: []cluster.NodeID{1, 2}},
	}, p)
	require.Equal(t, text, p.String())

	p, err = ParsePlan("plan", "# nothing at all\n", three)
	require.NoError(t, err)
	require.Empty(t, p)
}

// drawPlan draws any plan that can be written down.
func drawPlan(t *rapid.T) Plan {
	node := rapid.SampledFrom([]cluster.NodeID{control.Controller, 1, 2, 3})
	end := rapid.SampledFrom([]cluster.NodeID{cluster.ClientsID, control.Controller, 1, 2, 3})
	link := rapid.Custom(func(t *rapid.T) cluster.Link { return cluster.Link{From: end.Draw(t, "from"), To: end.Draw(t, "to")} }).
		Filter(func(l cluster.Link) bool { return l.From != l.To })
	var p Plan
	var at time.Duration
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		at += time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms")) * time.Millisecond
		s := Step{At: at, Verb: rapid.SampledFrom([]string{"kill", "powerfail", "start", "pause", "resume", "cut", "heal"}).Draw(t, "verb")}
		switch s.Verb {
		case "heal":
		case "cut":
			s.Links = rapid.SliceOfNDistinct(link, 1, 12, rapid.ID).Draw(t, "links")
		default:
			s.Nodes = rapid.SliceOfNDistinct(node, 1, 4, rapid.ID).Draw(t, "nodes")
		}
		if s.Verb == "powerfail" {
			s.Cut = schedule.Cut{Keep: rapid.IntRange(0, 100).Draw(t, "keep"), Torn: rapid.IntRange(0, 100).Draw(t, "torn")}
		}
		p = append(p, s)
	}
	return p
}

func TestAPlanIsReadBackFromItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		got, err := ParsePlan("plan", p.String(), three)
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func TestWhatIsNoPlanIsRefusedByLineAndWord(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"no time", "kill 2", `"kill 2": want at TIME VERB`},
		{"no verb", "at 1s", `"at 1s": want at TIME VERB`},
		{"a time that is none", "at soon kill 2", `time "soon"`},
		{"a time before the beginning", "at -1s kill 2", `time "-1s"`},
		{"a time that the text could not give back", "at 1.2345s kill 2", `time "1.2345s"`},
		{"an unknown verb", "at 1s destroy 2", `unknown verb "destroy": there are kill, powerfail`},
		{"a broker that is none", "at 1s kill 7", `"7": no such node; there are [1 2 3] and controller`},
		{"a word that is none", "at 1s kill leader", `"leader": no such node`},
		{"a kill of clients", "at 1s kill clients", "clients: is no node"},
		{"a kill of nobody", "at 1s kill", "kill: want the nodes"},
		{"a kill of links", "at 1s kill 1->2", "kill: want the nodes"},
		{"a broker named twice", "at 1s kill 2 2", "2: stands there twice"},
		{"a cut of nodes", "at 1s cut 2", "cut: want the links"},
		{"a cut of nothing", "at 1s cut", "cut: want the links"},
		{"a link to itself", "at 1s cut 2->2", "2->2: both ends are the same"},
		{"a link to nowhere", "at 1s cut 2->", `"": no such node`},
		{"a link named twice", "at 1s cut 1->2 1->2", "1->2: stands there twice"},
		{"a heal of one", "at 1s heal 2", "heal: takes nothing"},
		{"a cut of a log that is no number", "at 1s powerfail 2 cut=all", "cut=all: want cut=KEEP"},
		{"a cut of a log that is negative", "at 1s powerfail 2 cut=-1", "cut=-1: want cut=KEEP"},
		{"torn bytes that are no number", "at 1s powerfail 2 cut=1+x", "cut=1+x: want cut=KEEP"},
		{"a cut of a log without a power failure", "at 1s kill 2 cut=1", "kill: only powerfail has a cut="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParsePlan("my.plan", "at 0.5s heal\n"+tc.line+"\n", three)
			require.ErrorIs(t, err, ErrPlan)
			require.ErrorContains(t, err, "my.plan:2: ")
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := ParsePlan("my.plan", "at 2s heal\nat 1s heal\n", three)
	require.ErrorIs(t, err, ErrPlan)
	require.ErrorContains(t, err, "times do not rise")
}

func TestFaultsAreReadByTheirNames(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []Fault
	}{
		{"", nil}, {"none", nil}, {"kill", []Fault{Kill}}, {"power, kill,power", []Fault{Power, Kill}}, {"kill,pause,partition,power", Faults()},
	} {
		got, err := ParseFaults(tc.text)
		require.NoError(t, err)
		assert.Equal(t, tc.want, got, tc.text)
	}
	for _, text := range []string{"kil", "kill,", "kill,none"} {
		_, err := ParseFaults(text)
		assert.ErrorContains(t, err, "there are kill, pause, partition, power, and none", text)
	}
}

// everyPlan visits random plans of many seeds and kinds.
func everyPlan(visit func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration)) {
	for seed := range uint64(120) {
		for n := 1; n <= 5; n++ {
			var brokers []cluster.NodeID
			for i := range n {
				brokers = append(brokers, cluster.NodeID(10*i+1))
			}
			faults := Faults()[:1+seed%4]
			within := time.Duration(3+seed%60) * time.Second
			visit(Random(seed, faults, brokers, within), seed, faults, brokers, within)
		}
	}
}

func TestARandomPlanIsDecidedByItsSeed(t *testing.T) {
	seen := map[string]bool{}
	everyPlan(func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration) {
		require.Equal(t, p, Random(seed, faults, brokers, within))
		if len(brokers) == 3 && within >= 30*time.Second {
			require.False(t, seen[p.String()], "seed %d gives another seed's plan", seed)
			seen[p.String()] = true
		}
	})
	assert.Empty(t, Random(1, nil, three, time.Hour), "no faults")
	assert.Empty(t, Random(1, Faults(), three, time.Second), "no time")
}

// pinned is a plan that is not to change: a seed in somebody's notes has to mean the same next year.
const pinned = `at 1.892s cut 1->2 1->controller 3->2 3->controller 2->1 2->3 controller->1 controller->3
at 5.187s heal
at 6.107s kill 1 2
at 8.168s start 1 2
at 10.537s pause 2
at 11.362s resume 2
at 12.623s powerfail 3 cut=19+15
at 13.532s start 3
`

func TestASeedMeansTheSameNextYear(t *testing.T) {
	assert.Equal(t, pinned, Random(7, Faults(), three, 15*time.Second).String())
}

func TestWhatARandomPlanBeginsItEndsInTime(t *testing.T) {
	ends := map[string]string{"kill": "start", "powerfail": "start", "pause": "resume", "cut": "heal"}
	kinds := map[string]Fault{"kill": Kill, "powerfail": Power, "pause": Pause, "cut": Partition}
	everyPlan(func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration) {
		if within >= 8*time.Second {
			require.NotEmpty(t, p)
		}
		require.Zero(t, len(p)%2)
		last := firstCalm
		for i := 0; i < len(p); i += 2 {
			begin, end := p[i], p[i+1]
			require.Contains(t, faults, kinds[begin.Verb], "seed %d: %s", seed, begin)
			require.Equal(t, ends[begin.Verb], end.Verb)
			require.Equal(t, begin.Nodes, end.Nodes)
			require.LessOrEqual(t, last, begin.At)
			require.Less(t, begin.At, end.At)
			require.LessOrEqual(t, end.At, within)
			require.True(t, slices.IsSorted(begin.Nodes))
			require.Less(t, len(begin.Nodes), max(len(brokers), 2), "somebody is left")
			last = end.At
		}
		got, err := ParsePlan("plan", p.String(), brokers)
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

// shapeOf names what a cut does to a cluster of three.
func shapeOf(links []cluster.Link) string {
	both, from, to := true, map[cluster.NodeID]int{}, map[cluster.NodeID]int{}
	for _, l := range links {
		from[l.From]++
		to[l.To]++
		both = both && slices.Contains(links, cluster.Link{From: l.To, To: l.From})
	}
	switch {
	case both && from[cluster.ClientsID] == 0:
		return "halves"
	case both && len(links) == 2*4:
		return "isolated"
	case !both && len(from) == 1 && len(to) == 4:
		return "what it sends is lost"
	case !both && len(to) == 1 && len(from) == 4:
		return "what it is sent is lost"
	}
	return "unknown"
}

func TestPartitionsHaveEveryShape(t *testing.T) {
	shapes := map[string]int{}
	for seed := range uint64(200) {
		for _, s := range Random(seed, []Fault{Partition}, three, 20*time.Second) {
			if s.Verb != "cut" {
				continue
			}
			shape := shapeOf(s.Links)
			shapes[shape]++
			require.NotEqual(t, "unknown", shape, "%s", s)
			if shape != "halves" {
				continue
			}
			// Two brokers are on one side; the third has the controller. No link within a side is cut.
			alone := slices.IndexFunc(three, func(n cluster.NodeID) bool {
				return !slices.ContainsFunc(s.Links, func(l cluster.Link) bool { return l.From == n && l.To == control.Controller })
			})
			require.GreaterOrEqual(t, alone, 0, "%s", s)
			require.Len(t, s.Links, 2*2*2, "%s", s)
			for _, l := range s.Links {
				side := func(n cluster.NodeID) bool { return n == three[alone] || n == control.Controller }
				require.NotEqual(t, side(l.From), side(l.To), "%s", s)
			}
		}
	}
	require.Len(t, shapes, 4)
	for shape, n := range shapes {
		assert.Greater(t, n, 20, shape)
	}
}

func TestStepsNameWhomTheyTouch(t *testing.T) {
	for _, tc := range []struct {
		links string
		want  []cluster.NodeID
	}{
		{"1->2", []cluster.NodeID{1}}, // either is on one side of it
		{"1->2 1->3 1->controller clients->1", []cluster.NodeID{1}},
		{"2->1 3->1 controller->1", []cluster.NodeID{1}},
		{"1->3 2->3 1->controller 2->controller", []cluster.NodeID{control.Controller, 1, 2, 3}},
	} {
		p, err := ParsePlan("plan", "at 1s cut "+tc.links, three)
		require.NoError(t, err)
		assert.Equal(t, tc.want, endpoints(p[0].Links), strings.TrimSpace(tc.links))
	}
}

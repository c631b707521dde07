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

// everyVerb is a plan with all that a plan can say.
const everyVerb = `at 0.500s kill 1 controller
at 0.600s start 1 controller
# why it is done
# and how
at 1.000s stop leader of orders-0 as victim
at 1.500s restart 2 follower of orders-0 isr minority of orders-1 last isr member of orders-0
at 2.000s start victim
at 2.500s ? powerfail leader of orders-0 cut=3+4
at 3.000s loss 20% 1->2 clients->1
at 3.100s delay 250ms isolate 2
at 3.200s rate 20000B/s link 1 leader of orders-0
at 3.300s reset 1->controller
at 3.400s cut majority-ring 2 3 1
at 3.500s heal loss delay
at 3.600s heal
at 4.000s eio 1
at 4.100s full 2 3
at 4.200s slowsync 1.5s 1
at 4.300s mend 1 2
at 5.000s flip 40B 2
at 5.100s chop 1B 2
at 5.200s forget 2
at 6.000s transfer 3
at 6.100s fence leader of orders-0
at 7.000s when isr-one of orders-0 within 5s kill last isr member of orders-0 as alone
at 7.500s ? when new-leader-without-record of orders-0 within 10s pause leader of orders-0
`

func TestEveryVerbIsReadBackFromItsText(t *testing.T) {
	p, err := ParsePlan("plan", everyVerb, three)
	require.NoError(t, err)
	require.Equal(t, everyVerb, p.String())
	for _, v := range verbs() {
		if v.name != "resume" {
			require.True(t, slices.ContainsFunc(p, func(s Step) bool { return s.Verb == v.name }) || v.name == "pause", v.name)
		}
	}
	assert.Equal(t, "why it is done\nand how", p[2].Note)
	assert.Equal(t, []string{"orders-0", "orders-1"}, p.Partitions())
	assert.True(t, p.Watches())
	assert.EqualValues(t, 250*time.Millisecond, p[7].Amount)
	assert.Equal(t, cluster.Impair{Kind: cluster.Delay, Delay: 250 * time.Millisecond}, p[7].impair())
	assert.Equal(t, &Aim{ISROne, "orders-0", 5 * time.Second}, p[22].When)

	// What can be left out.
	p, err = ParsePlan("plan", "at 1s when hw-only-on-leader of orders-0 kill leader", three)
	require.NoError(t, err)
	require.Equal(t, "at 1.000s when hw-only-on-leader of orders-0 within 10s kill leader of orders-0\n", p.String())
}

// drawPlan draws any plan that can be written down.
func drawPlan(t *rapid.T) Plan {
	node := rapid.SampledFrom([]cluster.NodeID{1, 2, 3})
	end := rapid.SampledFrom([]cluster.NodeID{cluster.ClientsID, control.Controller, 1, 2, 3})
	link := rapid.Custom(func(t *rapid.T) cluster.Link { return cluster.Link{From: end.Draw(t, "from"), To: end.Draw(t, "to")} }).
		Filter(func(l cluster.Link) bool { return l.From != l.To })
	role := rapid.Custom(func(t *rapid.T) Role {
		return Role{rapid.SampledFrom(RoleNames()).Draw(t, "role"), rapid.SampledFrom([]string{"orders-0", "a.b-c-12"}).Draw(t, "partition")}
	})
	var p Plan
	var at time.Duration
	var given []string
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		at += time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms")) * time.Millisecond
		v := rapid.SampledFrom(verbs()).Draw(t, "verb")
		s := Step{At: at, Verb: v.name, Note: rapid.SampledFrom([]string{"", "a note", "two\nlines"}).Draw(t, "note")}
		if v.amount != nothing {
			s.Amount = rapid.Int64Range(1, 99).Draw(t, "amount")
			if v.amount == duration {
				s.Amount *= int64(time.Millisecond)
			}
		}
		if rapid.Bool().Draw(t, "waits") {
			s.When = &Aim{rapid.SampledFrom(States()).Draw(t, "state"), "orders-0", time.Duration(rapid.IntRange(1, 90_000).Draw(t, "within")) * time.Millisecond}
		}
		whom := func() {
			s.Nodes = rapid.SliceOfNDistinct(node, 1, 3, rapid.ID).Draw(t, "nodes")
			if roles := rapid.SliceOfNDistinct(role, 0, 2, rapid.ID).Draw(t, "roles"); len(roles) > 0 {
				s.Roles = roles
			}
			if len(given) > 0 && rapid.Bool().Draw(t, "named") {
				s.Names = []string{rapid.SampledFrom(given).Draw(t, "name")}
			}
		}
		switch v.takes {
		case takesVerbs:
			if heals := rapid.SliceOfNDistinct(rapid.SampledFrom(linkVerbs()), 0, 3, rapid.ID).Draw(t, "heals"); len(heals) > 0 {
				s.Heals = heals
			}
		case takesLinks:
			if rapid.Bool().Draw(t, "shaped") {
				s.Shape = rapid.SampledFrom([]Shape{Isolate, SendsNothing, ReceivesNothing, Halves, ClientsFrom, ControllerFrom}).Draw(t, "shape")
				whom()
			} else {
				s.Links = rapid.SliceOfNDistinct(link, 1, 12, rapid.ID).Draw(t, "links")
			}
		default:
			if whom(); rapid.Bool().Draw(t, "as") {
				s.As = "n" + strings.Repeat("x", len(given))
				given = append(given, s.As)
			}
		}
		s.Optional = v.fault && (s.When != nil || len(s.Roles)+len(s.Names) > 0) && rapid.Bool().Draw(t, "optional")
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
		{"an unknown verb", "at 1s destroy 2", `unknown verb "destroy": there are kill, stop, restart, powerfail`},
		{"a broker that is none", "at 1s kill 7", `"7": no such node; there are [1 2 3] and controller`},
		{"a word that is none", "at 1s kill boss", `"boss": no such node`},
		{"a role of nothing", "at 1s kill leader", "leader: of which partition? for example leader of orders-0"},
		{"a role of what is no partition", "at 1s kill leader of orders", `leader of "orders": want a partition`},
		{"a role that stands twice", "at 1s kill leader of a-0 leader of a-0", "leader of a-0: stands there twice"},
		{"half a role", "at 1s kill last isr", `"last": no such node`},
		{"a name that nobody gave", "at 1s start victim", `"victim": no such node`},
		{"a name that is a word of plans", "at 1s kill 2 as leader", "as: want one name of letters"},
		{"a name that is a verb", "at 1s kill 2 as heal", "as: want one name of letters"},
		{"a name that is a shape", "at 1s kill 2 as bridge", "as: want one name of letters"},
		{"a name in the middle", "at 1s kill as victim 2", "as: want one name of letters at the end"},
		{"a name given twice", "at 1s kill 2 as old", "as old: an earlier step gave that name"},
		{"a name of links", "at 1s cut 1->2 as victim", "cut: links have no name"},
		{"a name used twice", "at 1s start old old", "old: stands there twice"},
		{"a state that is none", "at 1s when tired of orders-0 kill 1", "when tired: there is no such state; there are [hw-only-on-leader"},
		{"a state of nothing", "at 1s when isr-one kill 1", "when isr-one: of which partition?"},
		{"a state of what is no partition", "at 1s when isr-one of x kill 1", `when isr-one of "x": want a partition`},
		{"a wait that is no time", "at 1s when isr-one of a-0 within kill 1", `within "kill": want a duration`},
		{"a wait for nothing to do", "at 1s when isr-one of a-0 within 1s", `unknown verb ""`},
		{"a loss without a number", "at 1s loss 1->2", `loss: "1->2": want a part of what is sent`},
		{"a loss of everything", "at 1s loss 100% 1->2", `loss: "100%": want`},
		{"a delay without a unit", "at 1s delay 20 1->2", `delay: "20": want a duration`},
		{"a rate without a unit", "at 1s rate 20 1->2", `rate: "20": want bytes a second`},
		{"a chop of nothing", "at 1s chop 0B 2", `chop: "0B": want a number of bytes`},
		{"a disk of the controller", "at 1s eio controller", "eio: is for brokers"},
		{"a shape of nobody", "at 1s cut isolate", "cut isolate: names 0 nodes, want one or more"},
		{"a shape of links", "at 1s cut isolate 1->2", "cut isolate: want the nodes, not links"},
		{"a link of three", "at 1s cut link 1 2 3", "cut link: names 3 nodes, want the two brokers"},
		{"a bridge of two", "at 1s cut bridge 1 2", "cut bridge: names 2 nodes, want the one"},
		{"a ring of two", "at 1s cut majority-ring 1 2", "cut majority-ring: names 2 nodes, want three"},
		{"a ring by role", "at 1s cut majority-ring 1 2 leader of a-0", "want three or more brokers by their ids"},
		{"halves with the controller", "at 1s cut halves 1 controller", "cut halves: is about brokers"},
		{"a heal of a kill", "at 1s heal kill", "heal: takes nothing"},
		{"a heal that stands twice", "at 1s heal cut cut", "cut: stands there twice"},
		{"what cannot be impossible", "at 1s ? kill 2", "kill: only a fault that names a role"},
		{"an end that may be impossible", "at 1s ? start leader of a-0", "start: only a fault"},
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
			_, err := ParsePlan("my.plan", "at 0.5s kill 1 as old\n"+tc.line+"\n", three)
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
		{"", nil}, {"none", nil}, {"kill", []Fault{Kill}}, {"power, kill,power", []Fault{Power, Kill}}, {"all", Faults()}, {"full,all", append([]Fault{DiskFull}, slices.DeleteFunc(Faults(), func(f Fault) bool { return f == DiskFull })...)},
		{"storm,pause", []Fault{Restarts, Rolling, KillAll, Pause}}, {"leaders", []Fault{Transfer, Fenced}}, {"reset,net", []Fault{LinkReset, LinkLoss, LinkDelay, LinkRate}},
	} {
		faults, err := ParseFaults(tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, faults, tc.text)
	}
	for _, text := range []string{"kil", "kill,", "kill,none"} {
		_, err := ParseFaults(text)
		assert.ErrorContains(t, err, "there are kill, stop, pause, partition, power, restarts", text)
		assert.ErrorContains(t, err, "groups of them: basic, storm, net, disk, leaders, all; or none", text)
	}
	grouped := map[Fault]bool{}
	for _, g := range Groups()[1 : len(Groups())-1] {
		for _, f := range g.Faults {
			require.False(t, grouped[f], "%s is in two groups", f)
			grouped[f] = true
		}
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

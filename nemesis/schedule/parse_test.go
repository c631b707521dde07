package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

func TestAScheduleIsRead(t *testing.T) {
	f, err := schedule.Parse("S.sched", `
# The header's comment belongs to the first step.
schedule S  What  happens
cluster replicas=2,1 min.insync.replicas=2 registration=zk unclean.leader.election.enable=true level=monotonic-end
produce m0 to 2

# Two lines,
#   the second indented.
[kip101..kip320] ? fetch 1 request max=3
powerfail 1 2 cut=4+5
require acked m0, hw 1 = 2, log 2 = m0 m1, leader = none, isr = 2 1
[!hw] deliver 2->1 Fetch answer#7
drop 1->controller AlterPartition
expect hw      violation   lost-acked m1,  diverged 1  because crash-budget
expect kip101+ consistent  because unclean-recovery
expect kip320 without elr  allowed  lost-acked m1  because min-isr
`)
	require.NoError(t, err)
	assert.Equal(t, &schedule.File{
		Name: "S", Title: "What  happens",
		Cluster: schedule.Cluster{Replicas: []control.NodeID{2, 1}, MinISR: 2, Registration: rules.ZK, Unclean: true, Level: "monotonic-end"},
		Steps: []schedule.Step{
			{Line: 5, Comment: []string{"The header's comment belongs to the first step."}, Verb: schedule.Produce, Value: "m0", To: 2},
			{Line: 9, Comment: []string{"Two lines,", "  the second indented."}, Only: schedule.Range{First: rules.KIP101, Last: rules.KIP320}, Optional: true,
				Verb: schedule.Fetch, Nodes: []control.NodeID{1}, Mode: "request", Max: 3},
			{Line: 10, Verb: schedule.PowerFail, Nodes: []control.NodeID{1, 2}, Cut: schedule.Cut{Keep: 4, Torn: 5}},
			{Line: 11, Verb: schedule.Require, Premises: []schedule.Premise{{What: "acked", Value: "m0"}, {What: "hw", Node: 1, Offset: 2},
				{What: "log", Node: 2, Values: []string{"m0", "m1"}}, {What: "leader"}, {What: "isr", Nodes: []control.NodeID{2, 1}}}},
			{Line: 12, Only: schedule.Range{First: rules.HW, Last: rules.HW, Not: true}, Verb: schedule.Deliver,
				Message: control.Message{From: "2", To: "1", Kind: "Fetch answer", Number: 7}},
			{Line: 13, Verb: schedule.Drop, Message: control.Message{From: "1", To: "controller", Kind: "AlterPartition"}},
		},
		Expects: []schedule.Expect{
			{Line: 14, Only: schedule.Range{First: rules.HW, Last: rules.HW}, Verdict: "violation", Findings: []string{"diverged 1", "lost-acked m1"}, Because: "crash-budget"},
			{Line: 15, Only: schedule.Range{First: rules.KIP101, Last: rules.KIP966}, Verdict: "consistent", Because: "unclean-recovery"},
			{Line: 16, Only: schedule.Range{First: rules.KIP320, Last: rules.KIP320}, Change: "elr=off", Verdict: "allowed", Findings: []string{"lost-acked m1"}, Because: "min-isr"},
		},
	}, f)

	for p, want := range map[rules.Protocol]string{rules.HW: "violation", rules.KIP101: "consistent", rules.KIP966: "consistent"} {
		assert.Equal(t, want, f.Expected(p, "").Verdict, p)
	}
	assert.Equal(t, "allowed", f.Expected(rules.KIP320, "elr=off").Verdict)
	assert.Equal(t, "consistent", f.Expected(rules.KIP320, "fetch-fencing=off").Verdict, "a change that it does not speak of makes no difference")
	assert.Equal(t, rules.ZK, f.Rules(rules.KIP320).Registration)
	assert.Equal(t, rules.KRaft, f.Rules(rules.KIP966).Registration, "zk registration is refused with elr")
}

// Whatever is wrong, the error names the file and the line, and says what was meant.
func TestASyntaxErrorNamesFileAndLineAndSaysWhatWasMeant(t *testing.T) {
	const cluster = "schedule S  t\ncluster replicas=1,2 min.insync.replicas=1\n"
	const expect = "\nexpect hw+ consistent\n"
	const fetch = "; want fetch N [send|request|answer|drop] [max=K]"
	const premise = "; want require acked V | hw N = K | log N = V.. | leader = N | isr = N.., separated by commas"
	const message = "want from->to kind#number, for example 2->1 Fetch#7"
	type wrong struct{ text, want string }
	cases := []wrong{
		{"", "1: empty: the file begins with schedule NAME TITLE"},
		{"\n# a comment\n", "3: empty: the file begins with schedule NAME TITLE"},
		{"schedule", "1: schedule: want a name and a title"},
		{"schedule S", "1: schedule: want a name and a title"},
		{"produce m", `1: "produce m" before the schedule line: the file begins with schedule NAME TITLE`},
		{"schedule S t\nschedule S t", "2: a second schedule line: one schedule a file"},
		{"schedule S t", "1: no cluster line, for example cluster replicas=1,2,3 min.insync.replicas=2"},
		{"schedule S t\nproduce m", `2: "produce m" before the cluster line: it comes second, for example cluster replicas=1,2,3 min.insync.replicas=2`},
		{"schedule S t\ncluster min.insync.replicas=1", "2: cluster: replicas= is missing"},
		{"schedule S t\ncluster replicas", `2: cluster "replicas": want key=value`},
		{"schedule S t\ncluster replicas=", "2: replicas=: want the brokers' numbers in assignment order, for example 1,3,2"},
		{"schedule S t\ncluster replicas=1,0", "2: replicas=1,0: want the brokers' numbers in assignment order, for example 1,3,2"},
		{"schedule S t\ncluster replicas=1,1", "2: replicas=1,1: 1 stands there twice"},
		{"schedule S t\ncluster replicas=1 replicas=2", "2: cluster: replicas stands there twice"},
		{"schedule S t\ncluster replicas=1 min.insync.replicas=0", "2: min.insync.replicas=0: want a number of 1 or more"},
		{"schedule S t\ncluster replicas=1 registration=raft", "2: registration=raft: want zk or kraft"},
		{"schedule S t\ncluster replicas=1 unclean.leader.election.enable=perhaps", "2: unclean.leader.election.enable=perhaps: want true or false"},
		{"schedule S t\ncluster replicas=1 level=best", "2: level=best: there are agreement, committed-log, monotonic-end, linearizable"},
		{"schedule S t\ncluster replicas=1 retention=1", "2: cluster retention: no such setting; there are replicas, min.insync.replicas, registration, unclean.leader.election.enable, level"},
		{cluster + "cluster replicas=1", "3: a second cluster line: one cluster a schedule"},
		{cluster + expect, "5: no steps"},

		{cluster + "settle\nexpect hw consistent", "4: no expect line covers protocol kip101"},
		{cluster + "settle\nexpect hw+ consistent\nexpect kip320 consistent", "5: protocol kip320 is covered by the expect lines 4 and 5: one is wanted"},
		{cluster + "settle\nexpect hw consistent\nexpect !kip320 consistent", "5: protocol hw is covered by the expect lines 4 and 5: one is wanted"},
		{cluster + "settle" + expect + "settle", `5: "settle" after an expect line: steps come first`},
		{cluster + "settle\nexpect hw", "4: expect: want protocols, a verdict, and findings, for example expect hw violation lost-acked m1"},
		{cluster + "settle\nexpect kip1 consistent", `4: expect: unknown protocol "kip1": want one of hw, kip101, kip279, kip320, kip966`},
		{cluster + "settle\nexpect kip320..hw consistent", "4: expect: protocols kip320..hw: hw is older than kip320; turn them round"},
		{cluster + "settle\nexpect hw+ fine", "4: expect fine: no such verdict; there are consistent, allowed, ..."},
		{cluster + "settle\nexpect hw+ consistent lost-acked m", "4: expect consistent: has findings lost-acked m"},
		{cluster + "settle\nexpect hw+ violation", "4: expect violation: has no findings"},
		{cluster + "settle\nexpect hw+ allowed lost-acked m", "4: expect allowed: because what?"},
		{cluster + "settle\nexpect hw+ consistent because", "4: expect: because what?"},
		{cluster + "settle" + expect + "expect kip320 without elr", "5: expect kip320 without: want a rule and then a verdict"},
		{cluster + "settle" + expect + "expect kip320+ without elr violation x", "5: expect kip320+ without elr: a rule is changed in one protocol, not in kip320+"},
		{cluster + "settle" + expect + "expect kip320 with elr=maybe violation x", "5: expect: rule elr=maybe: want on or off"},
		{cluster + "settle" + expect + "expect kip320 without elr violation x\nexpect kip320 without elr violation x",
			"6: expect kip320 without elr: line 5 expects something of it already"},
	}
	for _, step := range []wrong{
		{"prodcue m", `unknown verb "prodcue"; did you mean produce?`},
		{"xyzzy", `unknown verb "xyzzy"; there are checkpoint, consume, deliver, drop, fail, fence, fetch, flush, heal, isolate, kill, lag, latest, learn, pause, ` +
			"powerfail, produce, require, resume, settle, start, transfer, truncate, unfence"},
		{"[hw settle", `"[hw settle": the ] after the protocols is missing`},
		{"[kip] settle", `unknown protocol "kip": want one of hw, kip101, kip279, kip320, kip966`},
		{"settle 9", "settle: no broker 9; the cluster has 1,2"},
		{"learn", "learn: a broker is missing; want learn N.."},
		{"learn 1 1", "learn: broker 1 stands there twice; want learn N.."},
		{"learn one", `learn: "one" is no broker; want learn N..`},
		{"fence 1 2", "fence: more brokers than it takes; want fence N"},
		{"produce", `produce: ""; want produce V [to N]`},
		{"produce a b", `produce: "a b"; want produce V [to N]`},
		{"produce a to x", `produce: "x" is no broker; want produce V [to N]`},
		{"produce a to 9", "produce: no broker 9; the cluster has 1,2"},
		{"fetch", "fetch: a broker is missing" + fetch},
		{"fetch 1 now", `fetch: "now"` + fetch},
		{"fetch 1 request answer", `fetch: "answer"` + fetch},
		{"fetch 1 max=0", "fetch: max=0 is no number of records" + fetch},
		{"powerfail 1 cut=x", "powerfail: cut=x: the number of operations that survive is missing; want powerfail N.. [cut=K[+T]]"},
		{"powerfail 1 cut=1+", `powerfail: cut=1+: "" is no number of torn bytes; want powerfail N.. [cut=K[+T]]`},
		{"powerfail 1 cut=1+0", `powerfail: cut=1+0: "0" is no number of torn bytes; want powerfail N.. [cut=K[+T]]`},
		{"fail 1 read", `fail: "1 read"; want fail N append`},
		{"deliver Fetch#1", `deliver: message "Fetch#1": ` + message + "; want deliver FROM->TO KIND[#NUMBER], for example deliver 2->1 Fetch#7, or without the number the oldest that waits"},
		{"drop 2->1 Fetch#0", `drop: message "2->1 Fetch#0": ` + message + "; want drop FROM->TO KIND[#NUMBER], for example drop 2->1 Fetch#7, or without the number the oldest that waits"},
		{"deliver 9->1 Fetch#1", "deliver: no broker 9; the cluster has 1,2"},
		{"drop controller->7 LeaderAndIsr", "drop: no broker 7; the cluster has 1,2"},
		{"require", `require: "": a premise is missing` + premise},
		{"require acked", `require: "acked": no such premise` + premise},
		{"require hw 1 = x", `require: "hw 1 = x": x is no offset` + premise},
		{"require hw x = 1", `require: "hw x = 1": "x" is no broker` + premise},
		{"require log 9 = m", "require: no broker 9; the cluster has 1,2"},
		{"require isr = 1 9", "require: no broker 9; the cluster has 1,2"},
		{"require acked m, bogus", `require: "bogus": no such premise` + premise},
	} {
		cases = append(cases, wrong{cluster + step.text + expect, "3: " + step.want})
	}
	for _, c := range cases {
		_, err := schedule.Parse("dir/S.sched", c.text)
		if assert.Error(t, err, "%q", c.text) {
			assert.ErrorIs(t, err, schedule.ErrSyntax)
			line, what, _ := strings.Cut(c.want, ": ")
			got := err.Error()
			if what, open := strings.CutSuffix(fmt.Sprintf("dir/S.sched:%s: not a schedule: %s", line, what), "..."); open {
				assert.True(t, strings.HasPrefix(got, what), "%q: %s", c.text, got)
			} else {
				assert.Equal(t, what, got, "%q", c.text)
			}
		}
	}
}

func TestRangesOfProtocols(t *testing.T) {
	for text, want := range map[string][]rules.Protocol{
		"hw": {rules.HW}, "kip966": {rules.KIP966}, "kip279+": {rules.KIP279, rules.KIP320, rules.KIP966},
		"kip101..kip320": {rules.KIP101, rules.KIP279, rules.KIP320}, "!kip320": {rules.HW, rules.KIP101, rules.KIP279, rules.KIP966},
		"hw+": rules.Protocols(), "kip966+": {rules.KIP966}, "hw..kip966": rules.Protocols(),
	} {
		r, err := schedule.ParseRange(text)
		require.NoError(t, err, text)
		var got []rules.Protocol
		for _, p := range rules.Protocols() {
			if r.Contains(p) {
				got = append(got, p)
			}
		}
		assert.Equal(t, want, got, text)
		again, err := schedule.ParseRange(r.String())
		require.NoError(t, err, text)
		assert.Equal(t, r, again, text)
	}
	for _, p := range rules.Protocols() {
		assert.True(t, schedule.Range{}.Contains(p), "no range is every protocol")
	}
	assert.Empty(t, schedule.Range{}.String())
}

func TestTheEmbeddedSchedulesAreReadBack(t *testing.T) {
	all, err := schedule.All()
	require.NoError(t, err)
	zoo, err := schedule.Zoo()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.NotEmpty(t, zoo)
	for _, f := range zoo {
		_, err := rules.FindDefect(f.Name)
		assert.NoError(t, err, "a schedule of the zoo has the name of what it shows")
		assert.NotContains(t, all, f, "the history is without the zoo")
	}
	all = slices.Concat(all, zoo)
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
		again, err := schedule.Parse(f.Name, f.String())
		require.NoError(t, err, f.Name)
		assert.Equal(t, withoutLines(f), withoutLines(again), f.Name)

		found, err := schedule.Find(strings.ToLower(f.Name))
		require.NoError(t, err)
		assert.Same(t, f, found)
	}
	assert.Subset(t, names, schedule.KIP101())
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names), "every name once")
	_, err = schedule.Find("S0")
	assert.EqualError(t, err, `no schedule "S0": there are `+strings.Join(names, ", "))
}

// Whatever schedule there is, its text is read back as the same.
func TestSchedulesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := file(t)
		again, err := schedule.Parse("S", f.String())
		require.NoError(t, err, "%s", f)
		require.Equal(t, withoutLines(f), withoutLines(again), "%s", f)
		require.Equal(t, f.String(), again.String())
	})
}

// withoutLines is the schedule as it is apart from where its lines stand.
func withoutLines(f *schedule.File) *schedule.File {
	c := *f
	c.Steps, c.Expects = slices.Clone(f.Steps), slices.Clone(f.Expects)
	for i := range c.Steps {
		c.Steps[i].Line = 0
	}
	for i := range c.Expects {
		c.Expects[i].Line = 0
	}
	return &c
}

// file draws a schedule.
func file(t *rapid.T) *schedule.File {
	word := rapid.StringMatching(`[a-z][a-z0-9.'-]{0,5}`)
	sentence := rapid.StringMatching(`[A-Z][a-z0-9,;=#()]{0,6}( +[a-z0-9,;=#()]{1,6}){0,4}`)
	f := &schedule.File{Name: rapid.StringMatching(`S[0-9]{1,2}[a-z]?`).Draw(t, "name"), Title: sentence.Draw(t, "title"), Cluster: schedule.Cluster{
		Replicas: rapid.Permutation([]control.NodeID{1, 2, 3}).Draw(t, "replicas"), MinISR: rapid.IntRange(1, 3).Draw(t, "min.insync.replicas"),
		Registration: rapid.SampledFrom([]rules.Registration{rules.KRaft, rules.ZK}).Draw(t, "registration"), Unclean: rapid.Bool().Draw(t, "unclean"),
		Level: rapid.SampledFrom([]string{"", "", "linearizable"}).Draw(t, "level")}}
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		s := step(t, word)
		for range rapid.IntRange(0, 2).Draw(t, "comments") {
			s.Comment = append(s.Comment, rapid.OneOf(rapid.Just(""), sentence).Draw(t, "comment"))
		}
		f.Steps = append(f.Steps, s)
	}
	ranges := []string{"hw..kip279", "kip320+"}
	if rapid.Bool().Draw(t, "all but one") {
		ranges = []string{"!kip279", "kip279"}
	}
	for _, text := range ranges {
		r, err := schedule.ParseRange(text)
		require.NoError(t, err)
		f.Expects = append(f.Expects, expect(t, r, ""))
	}
	if rapid.Bool().Draw(t, "changed") {
		change := rapid.SampledFrom([]string{"fetch-fencing=off", "truncation=hw"}).Draw(t, "change")
		f.Expects = append(f.Expects, expect(t, schedule.Range{First: rules.KIP320, Last: rules.KIP320}, change))
	}
	return f
}

func expect(t *rapid.T, r schedule.Range, change string) schedule.Expect {
	e := schedule.Expect{Only: r, Change: change, Verdict: rapid.SampledFrom([]string{"consistent", "allowed", "violation"}).Draw(t, "verdict")}
	if e.Verdict != "consistent" {
		e.Findings = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"diverged 1", "lost-acked m1", "reread-differs 0"}), 1, 3, rapid.ID).Draw(t, "findings")
		slices.Sort(e.Findings)
	}
	if e.Verdict == "allowed" || rapid.Bool().Draw(t, "because") {
		e.Because = rapid.SampledFrom([]string{"crash-budget", "min-isr"}).Draw(t, "clause")
	}
	return e
}

// step draws a step of any verb.
func step(t *rapid.T, word *rapid.Generator[string]) schedule.Step {
	node := rapid.SampledFrom([]control.NodeID{1, 2, 3})
	number := rapid.Int32Range(1, 99)
	s := schedule.Step{Optional: rapid.Bool().Draw(t, "optional")}
	if text := rapid.SampledFrom([]string{"", "hw", "kip101+", "kip101..kip320", "!kip279"}).Draw(t, "only"); text != "" {
		r, err := schedule.ParseRange(text)
		require.NoError(t, err)
		s.Only = r
	}
	some := func(least int) {
		s.Nodes = rapid.SliceOfNDistinct(node, least, 3, rapid.ID).Draw(t, "brokers")
		if len(s.Nodes) == 0 {
			s.Nodes = nil
		}
	}
	s.Verb = rapid.SampledFrom([]schedule.Verb{schedule.Produce, schedule.Consume, schedule.Latest, schedule.Fetch, schedule.Learn, schedule.Truncate,
		schedule.Settle, schedule.Lag, schedule.Flush, schedule.Checkpoint, schedule.Kill, schedule.PowerFail, schedule.Start, schedule.Pause, schedule.Resume,
		schedule.Isolate, schedule.Heal, schedule.Fence, schedule.Unfence, schedule.Transfer, schedule.Fail, schedule.Deliver, schedule.Drop, schedule.Require}).Draw(t, "verb")
	switch s.Verb {
	case schedule.Produce:
		s.Value = word.Draw(t, "value")
		if rapid.Bool().Draw(t, "to") {
			s.To = node.Draw(t, "broker")
		}
	case schedule.Consume, schedule.Latest:
		if rapid.Bool().Draw(t, "named") {
			s.Nodes = []control.NodeID{node.Draw(t, "broker")}
		}
	case schedule.Fetch:
		s.Nodes = []control.NodeID{node.Draw(t, "broker")}
		s.Mode = rapid.SampledFrom([]string{"", "send", "request", "answer", "drop"}).Draw(t, "mode")
		s.Max = rapid.Int32Range(0, 3).Draw(t, "max")
	case schedule.Truncate, schedule.Lag, schedule.Fence, schedule.Unfence, schedule.Transfer, schedule.Fail:
		s.Nodes = []control.NodeID{node.Draw(t, "broker")}
	case schedule.Settle, schedule.Heal:
		some(0)
	case schedule.PowerFail:
		some(1)
		s.Cut = schedule.Cut{Keep: rapid.IntRange(0, 3).Draw(t, "keep"), Torn: rapid.IntRange(0, 3).Draw(t, "torn")}
	case schedule.Deliver, schedule.Drop:
		ends := rapid.SampledFrom([]string{"1", "2", "controller", "p4"})
		s.Message = control.Message{From: ends.Draw(t, "from"), To: ends.Draw(t, "to"), Number: number.Draw(t, "number") - 1,
			Kind: rapid.SampledFrom([]string{"Fetch", "Fetch answer", "LeaderAndIsr"}).Draw(t, "kind")}
	case schedule.Require:
		for range rapid.IntRange(1, 3).Draw(t, "premises") {
			p := schedule.Premise{What: rapid.SampledFrom([]string{"acked", "hw", "log", "leader", "isr"}).Draw(t, "premise")}
			switch p.What {
			case "acked":
				p.Value = word.Draw(t, "value")
			case "hw":
				p.Node, p.Offset = node.Draw(t, "broker"), int64(number.Draw(t, "offset"))
			case "log":
				p.Node, p.Values = node.Draw(t, "broker"), rapid.SliceOfN(word, 1, 3).Draw(t, "values")
			case "leader":
				p.Node = rapid.SampledFrom([]control.NodeID{0, 1, 2}).Draw(t, "leader")
			case "isr":
				p.Nodes = rapid.SliceOfNDistinct(node, 1, 3, rapid.ID).Draw(t, "isr")
			}
			s.Premises = append(s.Premises, p)
		}
	default:
		some(1)
	}
	return s
}

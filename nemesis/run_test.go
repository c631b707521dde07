package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/node/control"
)

func plan(t *testing.T, text string) Plan {
	p, err := ParsePlan("plan", text, three)
	require.NoError(t, err)
	return p
}

// faultLines are the faults of a history, a line each: phase, id, what was asked, nodes, and at its end whether it is proved.
func faultLines(m *history.Memory) []string {
	var lines []string
	for _, e := range m.Events() {
		f := e.Fault
		line := fmt.Sprintf("%s %d %s %v", f.Phase, f.ID, f.Asked, f.Nodes)
		if f.Phase == history.Over {
			line += fmt.Sprintf(" %t %v", f.Proven, f.Evidence)
		} else if f.Proven || f.Evidence != nil {
			line += " PROVED BEFORE IT BEGAN"
		}
		lines = append(lines, line)
	}
	return lines
}

// wantWhole wants that each fault of a history has begun once and ended once, later.
func wantWhole(t *testing.T, m *history.Memory) {
	t.Helper()
	phase := map[int64]history.Phase{}
	for _, e := range m.Events() {
		require.Equal(t, history.KindFault, e.Kind)
		switch e.Fault.Phase {
		case history.Begin:
			require.NotContains(t, phase, e.Fault.ID)
		case history.Over:
			require.Equal(t, history.Begin, phase[e.Fault.ID], "fault %d", e.Fault.ID)
		}
		phase[e.Fault.ID] = e.Fault.Phase
	}
	for id, p := range phase {
		require.Equal(t, history.Over, p, "fault %d is open", id)
	}
}

func TestEachFaultIsRecordedFromBeforeItIsAskedForUntilItIsOver(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	var order []string
	f.on = func(call string) { order = append(order, fmt.Sprintf("%d %s", len(m.Events()), call)) }
	var told []string
	err := Run(t.Context(), plan(t, `
at 0s pause 2
at 0.001s resume 2
at 0.002s cut 1->2
at 0.003s heal
at 0.004s kill 3
at 0.005s start 3
at 0.006s powerfail 1 cut=2+9
at 0.007s start 1
`), f, m, func(s Step) { told = append(told, s.Asked()) })
	require.NoError(t, err)
	assert.Equal(t, []string{
		"begin 1 pause 2 [2]",
		"end 1 pause 2 [2] true [{call pause 2}]",
		"begin 2 cut 1->2 [1]",
		"end 2 cut 1->2 [1] true [{call links []}]",
		"begin 3 kill 3 [3]",
		"end 3 kill 3 [3] true [{call kill 3}]",
		"begin 4 powerfail 1 cut=2+9 [1]",
		"end 4 powerfail 1 cut=2+9 [1] true [{call powerfail 1 map[*:{2 9}]}]",
	}, faultLines(m))
	assert.Equal(t, []string{
		"1 pause 2", "1 resume 2",
		"3 links [1->2]", "3 links []",
		"5 kill 3", "6 start 3",
		"7 powerfail 1 map[*:{2 9}]", "8 start 1",
		"8 links []", // whatever the plan has left
	}, order, "how many events stood in the history when it was called")
	assert.Equal(t, []string{"pause 2", "resume 2", "cut 1->2", "heal", "kill 3", "start 3", "powerfail 1 cut=2+9", "start 1"}, told)
}

func TestSeveralNodesAtOnceAreAFaultEach(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	f.unproven["pause 3"] = true
	require.NoError(t, Run(t.Context(), plan(t, "at 0s pause 2 3\nat 0s resume 2 3"), f, m, nil))
	assert.Equal(t, []string{
		"begin 1 pause 2 [2]",
		"begin 2 pause 3 [3]",
		"end 1 pause 2 [2] true [{call pause 2}]",
		"end 2 pause 3 [3] false [{call pause 3}]",
	}, faultLines(m))
	wantWhole(t, m)
}

func TestACutInPlaceOfAnotherLeavesNoMomentBetween(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	require.NoError(t, Run(t.Context(), plan(t, "at 0s cut 1->2\nat 0s cut 1->2 2->1\nat 0s pause 1\nat 0s pause 1\nat 0s heal"), f, m, nil))
	assert.Equal(t, []string{"links [1->2]", "links [1->2 2->1]", "pause 1", "pause 1", "links []", "links []", "resume 1"}, f.calls)
	assert.Equal(t, []string{
		"begin 1 cut 1->2 [1]",
		"begin 2 cut 1->2 2->1 [1]",
		"end 1 cut 1->2 [1] true [{call links [1->2 2->1]}]",
		"begin 3 pause 1 [1]",
		"begin 4 pause 1 [1]",
		"end 3 pause 1 [1] true [{call pause 1}]",
		"end 2 cut 1->2 2->1 [1] true [{call links []}]",
		"end 4 pause 1 [1] true [{call pause 1}]",
	}, faultLines(m))
	wantWhole(t, m)
}

func TestAPlanThatLeavesFaultsOpenEndsThem(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	require.NoError(t, Run(t.Context(), plan(t, "at 0s pause 3\nat 0s cut 1->2\nat 0s pause 1"), f, m, nil))
	wantWhole(t, m)
	assert.Empty(t, f.paused)
	assert.Empty(t, f.cut)
	assert.Equal(t, []string{"links []", "resume 3", "resume 1"}, f.calls[3:])
}

func TestARunThatIsBrokenOffLeavesNothingOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, m := newFake(1, 2, 3), &history.Memory{}
	f.on = func(call string) {
		if call == "links [1->2]" {
			cancel() // in the middle of a fault
		}
	}
	err := Run(ctx, plan(t, "at 0s pause 3\nat 0s cut 1->2\nat 1000s heal\nat 1001s resume 3"), f, m, nil)
	require.ErrorIs(t, err, context.Canceled)
	wantWhole(t, m)
	assert.Len(t, m.Events(), 4)
	assert.Empty(t, f.paused)
	assert.Empty(t, f.cut)
}

func TestAStepThatFailsEndsTheRunAndNamesTheStep(t *testing.T) {
	broken := errors.New("no such process")
	for _, tc := range []struct{ name, plan, call string }{
		{"a kill", "at 0s pause 1\nat 0.001s kill 2\nat 0.002s start 2", "kill 2"},
		{"one of two kills", "at 0s pause 1\nat 0.001s kill 2 3\nat 0.002s start 2 3", "kill 2"},
		{"a pause", "at 0.001s pause 2\nat 0.002s resume 2", "pause 2"},
		{"a cut", "at 0s pause 1\nat 0.001s cut 1->2\nat 0.002s heal", "links [1->2]"},
		{"a resume", "at 0s pause 2\nat 0.001s resume 2\nat 0.002s heal", "resume 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := newFake(1, 2, 3), &history.Memory{}
			f.fail[tc.call] = broken
			var told []time.Duration
			err := Run(t.Context(), plan(t, tc.plan), f, m, func(s Step) { told = append(told, s.At) })
			require.ErrorIs(t, err, broken)
			require.ErrorContains(t, err, "at 0.001s ", "the step")
			assert.NotContains(t, told, 2*time.Millisecond, "nothing is done after it")
			wantWhole(t, m)
			for _, e := range m.Events() {
				if e.Fault.Phase == history.Over && tc.call == e.Fault.Asked {
					assert.False(t, e.Fault.Proven, "what failed is not proved")
				}
			}
		})
	}
}

func TestAFullHistoryEndsTheRun(t *testing.T) {
	full := errors.New("no space left on device")
	f := newFake(1, 2, 3)
	err := Run(t.Context(), plan(t, "at 0s kill 1"), f, brokenSink{full}, nil)
	require.ErrorIs(t, err, full)
	assert.NotContains(t, f.calls, "kill 1", "what cannot be recorded is not done")
}

type brokenSink struct{ err error }

func (s brokenSink) Append(*history.Event) error { return s.err }

func TestHealSetsTheHealthyStateWhateverFails(t *testing.T) {
	f := newFake(1, 2, 3)
	f.down[2], f.down[3], f.down[control.Controller] = true, true, true
	f.paused[1], f.paused[3] = true, true
	f.cut = []cluster.Link{{From: 1, To: 2}}
	errLinks, errStart := errors.New("links are stuck"), errors.New("no room")
	f.fail["links []"], f.fail["start 2"], f.fail["resume 1"] = errLinks, errStart, errors.New("frozen stiff")

	err := Heal(t.Context(), f)
	require.ErrorIs(t, err, errLinks)
	require.ErrorIs(t, err, errStart)
	require.ErrorContains(t, err, "frozen stiff")
	assert.Equal(t, map[cluster.NodeID]bool{2: true}, f.down, "all the others are up")
	assert.Equal(t, map[cluster.NodeID]bool{1: true}, f.paused)

	clear(f.fail)
	for range 2 {
		require.NoError(t, Heal(t.Context(), f))
		assert.Empty(t, f.down)
		assert.Empty(t, f.paused)
		assert.Empty(t, f.cut)
	}
	assert.Contains(t, f.calls, "start controller")
}

func TestStepsAreTakenWhenTheyAreDueAndNotBefore(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	began := time.Now()
	var at []time.Duration
	require.NoError(t, Run(t.Context(), plan(t, "at 0.020s heal\nat 0.060s heal"), f, m, func(Step) { at = append(at, time.Since(began)) }))
	require.Len(t, at, 2)
	assert.GreaterOrEqual(t, at[0], 20*time.Millisecond)
	assert.GreaterOrEqual(t, at[1], 60*time.Millisecond)
	assert.True(t, slices.IsSorted(at))
}

func TestAPlayerInOrderDoesOneNodeAfterTheOther(t *testing.T) {
	fake, sink := newFake(1, 2, 3), &history.Memory{}
	p := NewPlayer(fake, sink)
	p.InOrder = true
	for _, s := range plan(t, "at 1s kill 3 1 2\nat 2s start 2 3 1\nat 3s pause 2 1") {
		require.NoError(t, p.Play(t.Context(), s))
	}
	assert.Equal(t, []string{"kill 3", "kill 1", "kill 2", "start 2", "start 3", "start 1", "pause 2", "pause 1"}, fake.calls)
	require.NoError(t, p.Close(t.Context()))
	wantWhole(t, sink)

	fake.calls, fake.fail = nil, map[string]error{"kill 9": assert.AnError}
	assert.ErrorIs(t, p.Play(t.Context(), Step{Verb: "kill", Nodes: []cluster.NodeID{9}}), assert.AnError)
	fake.calls = nil
	require.NoError(t, HealInOrder(t.Context(), bare{fake}))
	assert.Equal(t, []string{"links []", "resume controller", "start controller", "resume 1", "start 1", "resume 2", "start 2", "resume 3", "start 3"}, fake.calls)
}

package nemesis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/node/control"
)

// watched plays a plan on a cluster of which something is known.
func watched(t *testing.T, f *fakeCluster, text string, known ...control.Event) (*Player, *history.Memory) {
	m := &history.Memory{}
	p := NewPlayer(f, m)
	p.Watch = NewWatch()
	see(p.Watch, known...)
	require.NoError(t, p.Run(t.Context(), plan(t, text)))
	wantWhole(t, m)
	return p, m
}

func TestRolesNamesAndShapesAreResolvedWhenAStepIsPlayed(t *testing.T) {
	f := newFake(1, 2, 3)
	p, m := watched(t, f, `
# the story begins
at 0s kill leader of orders-0 as old
at 0.001s start old
at 0.002s cut bridge follower of orders-0
at 0.003s heal
at 0.004s stop 3
at 0.005s start 3
`, elected(2, 0, 1, 2, 3))
	assert.Equal(t, []string{
		"begin 1 kill leader of orders-0 as old [2]",
		"end 1 kill leader of orders-0 as old [2] true [{call kill 2}]",
		"begin 2 cut bridge follower of orders-0 [2]",
		"end 2 cut bridge follower of orders-0 [2] true [{call links []}]",
		"begin 3 stop 3 [3]",
		"end 3 stop 3 [3] true [{call stop 3}]",
	}, faultLines(m))

	// What was played is a plan without anything open, which tells where it comes from.
	want := `# the story begins
# kill leader of orders-0 as old
at 0.000s kill 2
# start old
at 0.001s start 2
# cut bridge follower of orders-0
at 0.002s cut 2->3 3->2
at 0.003s heal
at 0.004s stop 3
at 0.005s start 3
`
	assert.Equal(t, want, p.Played().String())
	again := newFake(1, 2, 3)
	played := p.Played()
	require.False(t, played.Watches())
	require.NoError(t, Run(t.Context(), played, again, &history.Memory{}, nil))
	assert.Equal(t, f.calls, again.calls)
}

func TestAStepWaitsForItsStateAndSaysWhatWasSeen(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	p := NewPlayer(f, m)
	p.Watch = NewWatch()
	see(p.Watch, elected(1, 0, 1, 2, 3))
	f.on = func(call string) {
		if call == "pause 3" { // the next step, while the first waits
			see(p.Watch, control.Event{Node: 1, What: "isr", PartitionEpoch: 1, ISR: []cluster.NodeID{1}})
		}
	}
	require.NoError(t, p.Run(t.Context(), plan(t, `
at 0s when isr-one of orders-0 within 30s kill last isr member of orders-0
at 0.010s pause 3
at 0.020s resume 3
`)))
	assert.Equal(t, []string{
		"begin 1 pause 3 [3]",
		"begin 2 when isr-one of orders-0 within 30s kill last isr member of orders-0 [1]",
		"end 2 when isr-one of orders-0 within 30s kill last isr member of orders-0 [1] true [{state seen ISR [1] in partition epoch 1} {call kill 1}]",
		"end 1 pause 3 [3] true [{call pause 3}]",
	}, faultLines(m))
	played := p.Played()
	require.Len(t, played, 3)
	assert.Equal(t, "kill 1", played[1].Asked())
	assert.GreaterOrEqual(t, played[1].At, 10*time.Millisecond, "when it was done")
}

func TestWhatNeverCameIsAFaultThatNothingProves(t *testing.T) {
	for _, tc := range []struct{ name, plan, want, why string }{
		{"a state", "at 0s when isr-one of orders-0 within 5ms kill 1", "when isr-one of orders-0 within 5ms kill 1", "the state was not seen within 5ms"},
		{"a state whose end came first", "at 0s when isr-one of orders-0 within 30s kill 1 as old\nat 0.001s start old", "when isr-one of orders-0 within 30s kill 1 as old", "the state was not seen within 30s"},
		{"a role that is vacant for long", "at 0s kill leader of orders-1 as old\nat 0.001s start old", "kill leader of orders-1 as old", "nobody has the role, or the name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(1, 2, 3)
			p, m := watched(t, f, tc.plan, elected(1, 0, 1, 2, 3))
			assert.Equal(t, []string{"begin 1 " + tc.want + " []", fmt.Sprintf("end 1 %s [] false [{not done %s}]", tc.want, tc.why)}, faultLines(m))
			assert.Equal(t, []string{"links []"}, f.calls)
			assert.Empty(t, p.Played())
		})
	}
	f := newFake(1, 2, 3)
	_, m := watched(t, f, "at 0s ? when isr-one of orders-0 within 5ms kill 1\nat 0s ? kill leader of orders-1 as old\nat 0.001s start old", elected(1, 0, 1, 2, 3))
	assert.Empty(t, m.Events(), "what may be impossible")
}

func TestAVacantRoleIsWaitedFor(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	p := NewPlayer(f, m)
	p.Watch = NewWatch()
	see(p.Watch, elected(1, 0, 1, 2, 3))
	f.on = func(call string) {
		if call == "pause 3" {
			see(p.Watch, elected(2, 1, 2, 3))
		}
	}
	// 1 leads by the controller's word, but was killed: there is no leader until another is elected.
	require.NoError(t, p.Run(t.Context(), plan(t, "at 0s kill leader of orders-0\nat 0.001s kill leader of orders-0\nat 0.002s pause 3\nat 0.003s start 1")))
	assert.Equal(t, []string{"kill 1", "pause 3", "kill 2", "start 1", "links []", "resume 3"}, f.calls)
	wantWhole(t, m)
}

func TestWithoutNewsOfTheNodesNothingOpenIsPlayed(t *testing.T) {
	for _, text := range []string{"at 0s kill leader of orders-0", "at 0s when isr-one of orders-0 kill 1"} {
		f := newFake(1, 2, 3)
		require.ErrorIs(t, Run(t.Context(), plan(t, text), f, &history.Memory{}, nil), ErrPlan)
		require.NotContains(t, f.calls, "kill 1")
	}
}

func TestFaultsOfLinksAddUpAndEachHasItsOwnEvidence(t *testing.T) {
	f := newFake(1, 2, 3)
	slow := cluster.Link{From: 1, To: 2, Impair: cluster.Impair{Kind: cluster.Delay, Delay: 50 * time.Millisecond}}
	f.met = map[cluster.Link]int{{From: 1, To: 2}: 7, slow: 4}
	_, m := watched(t, f, `
at 0s cut 1->2
at 0.001s delay 50ms 1->2
at 0.002s loss 30% 2->1
at 0.003s heal loss
at 0.004s cut 1->3
at 0.005s heal
`)
	assert.Equal(t, []string{
		"links [1->2]", "links [1->2 1->2 delay 50ms]", "links [1->2 2->1 loss 30% 1->2 delay 50ms]", "links [1->2 1->2 delay 50ms]",
		"links [1->3 1->2 delay 50ms]", "links []", "links []",
	}, f.calls)
	assert.Equal(t, []string{
		"begin 1 cut 1->2 [1]",
		"begin 2 delay 50ms 1->2 [1]",
		"begin 3 loss 30% 2->1 [1]",
		"end 3 loss 30% 2->1 [1] false [{met on 2->1 loss 30% 0}]", // nothing was lost: it did not bite
		"begin 4 cut 1->3 [1]",
		"end 1 cut 1->2 [1] true [{met on 1->2 7}]",
		"end 4 cut 1->3 [1] false [{met on 1->3 0}]",
		"end 2 delay 50ms 1->2 [1] true [{met on 1->2 delay 50ms 4}]",
	}, faultLines(m))
}

func TestFaultsOfDisksEndWithTheirProcessOrWhenTheyAreMended(t *testing.T) {
	f := newFake(1, 2, 3)
	f.broken[2] = true
	_, m := watched(t, f, `
at 0s full 1
at 0.001s mend 1
at 0.002s eio 2
at 0.003s mend 2
at 0.004s slowsync 30ms 3
at 0.005s kill 3
at 0.006s flip 40B 3
at 0.007s chop 9B 3
at 0.008s forget 3
at 0.009s start 3
`)
	assert.Equal(t, []string{
		"disk 1 {FailAppends:0 Full:true SlowSync:0s}", "disk 1 {FailAppends:0 Full:false SlowSync:0s}", "look 1",
		"disk 2 {FailAppends:1 Full:false SlowSync:0s}", "disk 2 {FailAppends:0 Full:false SlowSync:0s}", "look 2", "kill 2", "start 2",
		"disk 3 {FailAppends:0 Full:false SlowSync:30ms}", "disk 3 {FailAppends:0 Full:false SlowSync:0s}", "kill 3",
		"damage 3 flip 40", "damage 3 chop 9", "damage 3 forget 0", "start 3", "links []",
	}, f.calls)
	lines := faultLines(m)
	assert.Equal(t, "end 1 full 1 [1] true [{writes refused 3}]", lines[1])
	assert.Equal(t, "end 3 slowsync 30ms 3 [3] true [{writes refused 3}]", lines[5], "before its process ended")
	assert.Equal(t, "end 5 flip 40B 3 [3] true [{call damage 3 flip 40}]", lines[9])

	// A disk that did nothing of the kind has nothing to show.
	f = newFake(1, 2, 3)
	f.counts = control.DiskCounts{}
	_, m = watched(t, f, "at 0s eio 1")
	assert.Equal(t, "end 1 eio 1 [1] false [{calls of the disk that failed or were slowed 0}]", faultLines(m)[1])
}

func TestAMoveOfALeaderIsShownByTheController(t *testing.T) {
	f := newFake(1, 2, 3)
	f.moved = []control.Event{{What: "elected", Partition: "orders-0", Leader: 2, Epoch: 4}, {What: "fenced", Broker: 3, BrokerEpoch: 12}}
	_, m := watched(t, f, "at 0s transfer 2\nat 0s transfer 1\nat 0s fence 3\nat 0s fence 1")
	assert.Equal(t, []string{"transfer controller 2", "transfer controller 1", "fence controller 3", "fence controller 1", "links []"}, f.calls)
	lines := faultLines(m)
	assert.Equal(t, []string{
		"end 1 transfer 2 [2] true [{elected orders-0 in epoch 4}]",
		"end 2 transfer 1 [1] false [{elected the controller changed nothing}]",
		"end 3 fence 3 [3] true [{fenced broker 3 with epoch 12}]",
		"end 4 fence 1 [1] false [{fenced the controller changed nothing}]",
	}, []string{lines[1], lines[3], lines[5], lines[7]})
}

// bare is a cluster that only starts, stops, pauses and cuts.
type bare struct{ Target }

func TestWhatAClusterCannotDoIsAnErrorThatSaysSo(t *testing.T) {
	for _, text := range []string{"at 0s eio 1", "at 0s kill 1\nat 0s chop 4B 1", "at 0s transfer 2", "at 0s mend 1"} {
		err := Run(t.Context(), plan(t, text), bare{newFake(1, 2, 3)}, &history.Memory{}, nil)
		require.ErrorIs(t, err, cluster.ErrUnsupported, text)
	}
	require.NoError(t, Heal(t.Context(), bare{newFake(1, 2, 3)}))
}

func TestAPanicHealsTheClusterBeforeItGoesOn(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	p := NewPlayer(f, m)
	p.Told = func(s Step) {
		if s.Verb == "resume" {
			panic("somebody else's mistake")
		}
	}
	require.PanicsWithValue(t, "somebody else's mistake", func() {
		_ = p.Run(context.Background(), plan(t, "at 0s kill 1\nat 0s pause 2\nat 0s full 3\nat 0s loss 20% 1->2\nat 0.001s resume 2"))
	})
	wantWhole(t, m)
	assert.Empty(t, f.down)
	assert.Empty(t, f.paused)
	assert.Empty(t, f.cut)
	assert.Equal(t, control.DiskFault{}, f.disk[3])
	calls := len(f.calls)
	require.NoError(t, Heal(t.Context(), f))
	assert.NotContains(t, f.calls[calls:], "kill 1", "healing what is healthy restarts nobody")
}

func TestHealRestartsWhoseReplicaIsOffline(t *testing.T) {
	f := newFake(1, 2, 3)
	f.broken[2] = true
	require.NoError(t, Heal(t.Context(), f))
	assert.Contains(t, f.calls, "kill 2")
	assert.NotContains(t, f.calls, "kill 1")
	assert.Empty(t, f.down)
	calls := len(f.calls)
	require.NoError(t, Heal(t.Context(), f))
	assert.NotContains(t, f.calls[calls:], "kill 2", "once")
}

func TestOneStepAtATimeCanBePlayedByAnotherClock(t *testing.T) {
	f, m := newFake(1, 2, 3), &history.Memory{}
	p := NewPlayer(f, m)
	p.Watch, p.InOrder = NewWatch(), true
	for _, s := range plan(t, "at 5s kill 1 2 3\nat 6s start 1 2 3\nat 7s kill leader of orders-0\nat 8s when isr-one of orders-0 within 1s pause 1\nat 9s ? when isr-one of orders-0 pause 1") {
		require.NoError(t, p.Play(t.Context(), s))
	}
	require.NoError(t, p.Close(t.Context()))
	assert.Equal(t, []string{"kill 1", "kill 2", "kill 3", "start 1", "start 2", "start 3", "links []"}, f.calls)
	wantWhole(t, m)
	lines := faultLines(m)
	assert.Equal(t, "end 4 kill leader of orders-0 [] false [{not done nobody has the role, or the name}]", lines[len(lines)-3])
	assert.Equal(t, "end 5 when isr-one of orders-0 within 1s pause 1 [] false [{not done the state does not hold now}]", lines[len(lines)-1])
	see(p.Watch, elected(1, 0, 1))
	require.NoError(t, p.Play(t.Context(), plan(t, "at 10s when isr-one of orders-0 pause 1")[0]))
	assert.True(t, f.paused[1])
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, HealInOrder(t.Context(), f))
}

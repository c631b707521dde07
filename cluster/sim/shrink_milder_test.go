package sim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// shrinking is a shrinker that has accepted the schedule as it is, so that a pass can be looked at alone.
func shrinking(t *testing.T, c Court, text string, kinds ...checker.Anomaly) *shrinker {
	t.Helper()
	s := &shrinker{ctx: context.Background(), court: c, kinds: kinds, begins: map[string]*World{}}
	require.True(t, s.accept(plain(parse(t, text), c)), "it has the anomaly to begin with: %v", s.err)
	return s
}

func steps(f *schedule.File) string {
	var lines []string
	for _, s := range f.Steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n")
}

var (
	underHW     = Court{Protocol: rules.HW, Rules: rules.Of(rules.HW)}
	underKIP320 = Court{Protocol: rules.KIP320, Rules: rules.Of(rules.KIP320), Budget: history.BudgetMinISR}
)

// forgotten is KIP-101's first scenario as the search finds it.
const forgotten = `
schedule forgotten  Two of three have it, and neither knows any more that it is committed
cluster replicas=1,2,3 min.insync.replicas=2
produce m0
fetch 2
fetch 2
fetch 3
fetch 3
fence 1
learn 3
kill 2
`

func TestABrokerThatDoesNotMatterIsLeftOut(t *testing.T) {
	s := shrinking(t, underKIP320, `
schedule power  A leader without its disk
cluster replicas=1,2,3 min.insync.replicas=2
produce a
settle
fence 2
fence 3
flush 2
powerfail 1
`, checker.LostAcked)
	s.dropBrokers()
	assert.Len(t, s.file.Cluster.Replicas, 2)
	assert.Contains(t, s.file.Cluster.Replicas, control.NodeID(1))
}

func TestALeaderEpochThatDoesNotMatterIsLeftOutWhole(t *testing.T) {
	s := shrinking(t, underHW, strings.Replace(lateHighWatermark, "produce a\n", `produce a
settle
transfer 3
learn 3 1 2
settle
produce x
settle
transfer 1
learn 1 3 2
settle
`, 1), checker.LostAcked)
	before := len(s.elections(s.file))
	require.GreaterOrEqual(t, before, 4)
	s.dropEpochs()
	assert.Less(t, len(s.elections(s.file)), before)
	assert.NotContains(t, steps(s.file), "transfer 3", "the epoch is gone, not only its election")
	assert.NotContains(t, steps(s.file), "produce x")
}

func TestAKillThatNeedNotBeOneIsAnIsolation(t *testing.T) {
	text := strings.Replace(lateHighWatermark, "isolate 1\nfence 1\n", "kill 1\nfence 1\n", 1)
	text = strings.Replace(text, "heal\nsettle\n", "start 1\nheal\nsettle\n", 1)
	s := shrinking(t, underHW, text, checker.LostAcked)
	s.soften()
	assert.Contains(t, steps(s.file), "isolate 1\nfence 1")
	assert.Contains(t, steps(s.file), "heal 1", "who is cut off is connected again where it was started")
	assert.NotContains(t, steps(s.file), "kill 1")

	needed := shrinking(t, underHW, forgotten, checker.LostAcked)
	needed.soften()
	assert.Contains(t, steps(needed.file), "kill 2", "only a new process has forgotten its high watermark")
}

func TestBrokersThatStartTogetherAreNotPartedByAnIsolation(t *testing.T) {
	of := func(lines string) []schedule.Step {
		return parse(t, "schedule s  S\ncluster replicas=1,2,3 min.insync.replicas=2\n"+lines).Steps
	}
	assert.False(t, reconnect(of("produce a\nstart 1 2"), []control.NodeID{1}))

	again := of("start 1\nkill 1\nstart 1")
	assert.True(t, reconnect(again, []control.NodeID{1}))
	assert.Equal(t, "heal 1\nkill 1\nstart 1", steps(&schedule.File{Steps: again}), "the second kill is another one")
}

func TestALossOfPowerIsAKillIfThatIsEnoughAndElseLosesAsItIsSimplest(t *testing.T) {
	loses := shrinking(t, underKIP320, `
schedule power  A leader without its disk
cluster replicas=1,3 min.insync.replicas=2
produce a
produce b
produce c
settle
fence 3
powerfail 1 cut=2+3
`, checker.LostAcked)
	loses.simplify()
	assert.Contains(t, steps(loses.file), "powerfail 1")
	assert.NotContains(t, steps(loses.file), "cut", "the lowest cut is the easiest to think about")

	needs := shrinking(t, underHW, strings.Replace(forgotten, "kill 2", "powerfail 2 cut=3+1", 1), checker.LostAcked)
	needs.simplify()
	assert.Contains(t, steps(needs.file), "kill 2")
	assert.NotContains(t, steps(needs.file), "powerfail")

	var cuts []schedule.Cut
	for _, s := range milder(schedule.Step{Verb: schedule.PowerFail, Nodes: []control.NodeID{1}, Cut: schedule.Cut{Keep: 2, Torn: 4}})[1:] {
		cuts = append(cuts, s.Cut)
	}
	assert.Equal(t, []schedule.Cut{{}, {Keep: 1}, {Keep: 2}}, cuts, "from the lowest on")
	assert.True(t, slices.ContainsFunc(milder(schedule.Step{Verb: schedule.PowerFail}), func(s schedule.Step) bool { return s.Verb == schedule.Kill }))
}

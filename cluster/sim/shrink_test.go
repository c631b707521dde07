package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// parse reads a schedule without expectations.
func parse(t *testing.T, text string) *schedule.File {
	t.Helper()
	f, err := schedule.Parse("test.sched", text+"\nexpect hw+ consistent\n")
	require.NoError(t, err)
	return f
}

const lateHighWatermark = `
schedule late  A record that everybody had, and a follower that follows another before it knows
cluster replicas=1,3,2 min.insync.replicas=2
produce a
settle
checkpoint 1 2 3
flush 1 2 3
kill 2
start 2
learn 2
settle
produce b
fetch 2
fetch 3
fetch 2 request
fetch 3 request
isolate 1
fence 1
learn 3 2
truncate 2
isolate 3
fence 3
learn 2
heal
settle
produce c
settle
`

func TestShrinkingKeepsTheAnomalyAndNothingThatItDoesNotNeed(t *testing.T) {
	ctx := context.Background()
	court := Court{Protocol: rules.HW, Rules: rules.Of(rules.HW)}
	f := parse(t, lateHighWatermark)
	r, err := court.Try(ctx, f)
	require.NoError(t, err)
	require.True(t, r.Violation())

	s, err := Shrink(ctx, court, f, []checker.Anomaly{checker.LostAcked})
	require.NoError(t, err)
	assert.LessOrEqual(t, len(s.File.Steps), 9, s.File.String())

	t.Run("no step can be left out", func(t *testing.T) {
		for i := range s.File.Steps {
			c := clone(s.File)
			c.Steps = append(c.Steps[:i:i], c.Steps[i+1:]...)
			r, err := court.Try(ctx, c)
			require.NoError(t, err)
			assert.False(t, r.Violation() && len(r.Kinds()) > 0 && r.Kinds()[0] == checker.LostAcked, "without step %d of\n%s", i, s.File)
		}
	})
	t.Run("it is a schedule that says what to expect", func(t *testing.T) {
		annotated, err := Annotate(ctx, court, s.File)
		require.NoError(t, err)
		again, err := schedule.Parse("shrunk.sched", annotated.String())
		require.NoError(t, err)
		for _, p := range rules.Protocols() {
			c := Court{Protocol: p, Rules: again.Rules(p)}
			r, err := c.Try(ctx, again)
			require.NoError(t, err)
			assert.Empty(t, c.Expects(again, r), "%s\n%s", p, again)
		}
		assert.Equal(t, "violation", again.Expected(rules.HW, "").Verdict)
		assert.Equal(t, "consistent", again.Expected(rules.KIP101, "").Verdict)
		assert.Contains(t, annotated.String(), "# Broker 3 leads in epoch 1", "the comments tell the story")
	})
}

func TestWhatDoesNotFailCannotBeShrunk(t *testing.T) {
	court := Court{Protocol: rules.KIP101, Rules: rules.Of(rules.KIP101)}
	_, err := Shrink(context.Background(), court, parse(t, lateHighWatermark), []checker.Anomaly{checker.LostAcked})
	assert.EqualError(t, err, "schedule late: it does not have the anomalies lost-acked under kip101")
}

func TestSchedulesWithPremisesAndOptionalStepsAreShrunkToo(t *testing.T) {
	for name, kinds := range map[string][]checker.Anomaly{
		"S1c": {checker.Diverged, checker.LostAcked},
		"S4":  {checker.Diverged},
	} {
		f, err := schedule.Find(name)
		require.NoError(t, err)
		court := Court{Protocol: rules.HW, Rules: f.Rules(rules.HW)}
		s, err := Shrink(context.Background(), court, f, kinds)
		require.NoError(t, err)
		assert.Less(t, len(s.File.Steps), 15, "%s\n%s", name, s.File)
	}
}

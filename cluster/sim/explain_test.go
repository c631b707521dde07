package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func TestAnExplanationNamesTheRuleThatWasMissing(t *testing.T) {
	for _, c := range []struct {
		schedule   string
		protocol   rules.Protocol
		needs      string
		prevents   []string
		unaffected string
		inevitable string // the step
	}{
		{"S1b", rules.HW, "needs truncation=hw", []string{"truncation=kip101", "truncation=kip279"}, "fetch-fencing", "learn 2"},
		{"S3", rules.KIP101, "needs truncation=kip101", []string{"truncation=kip279"}, "isr-from-epoch-start", ""},
		{"S4", rules.KIP279, "needs fetch-fencing=off", []string{"fetch-fencing=on"}, "epoch-at-election", ""},
		{"S5", rules.KIP279, "needs isr-from-epoch-start=off", []string{"isr-from-epoch-start=on"}, "offset-not-available", ""},
	} {
		t.Run(c.schedule+" under "+string(c.protocol), func(t *testing.T) {
			f, err := schedule.Find(c.schedule)
			require.NoError(t, err)
			x, err := Explain(context.Background(), Court{Protocol: c.protocol, Rules: f.Rules(c.protocol)}, f, 40, 1)
			require.NoError(t, err)
			text := x.Text(f)
			t.Log(text)
			for _, change := range c.prevents {
				assert.Contains(t, x.With(Prevents), change)
			}
			assert.Contains(t, text[1], c.needs)
			assert.NotContains(t, x.With(Prevents), c.unaffected+"=on")
			require.Len(t, x.Chances, len(f.Steps)+1)
			assert.Zero(t, x.Chances[0].Lost, "nothing is lost before anything happened")
			assert.Equal(t, 40, x.Chances[len(f.Steps)].Lost, "what happened has happened")
			require.NotZero(t, x.Inevitable)
			if c.inevitable != "" {
				assert.Equal(t, c.inevitable, f.Steps[x.Inevitable-1].String())
			}
		})
	}
}

func TestWhatDoesNotFailCannotBeExplained(t *testing.T) {
	f, err := schedule.Find("S1b")
	require.NoError(t, err)
	_, err = Explain(context.Background(), Court{Protocol: rules.KIP320, Rules: f.Rules(rules.KIP320)}, f, 10, 1)
	assert.EqualError(t, err, "schedule S1b under kip320 is consistent: there is no violation to explain")
}

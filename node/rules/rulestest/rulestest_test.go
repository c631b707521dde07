package rulestest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
	"tidemark/node/rules/rulestest"
)

func TestEveryRuleOfTheNewestProtocolCanBeMadeWrong(t *testing.T) {
	newest := rules.Of(rules.KIP966)
	wrong := map[string]bool{}
	for _, c := range rulestest.Changes() {
		set, changed := c.Of(newest)
		if !changed {
			assert.Equal(t, newest, set, c)
			continue
		}
		assert.NotEqual(t, newest, set, c)
		wrong[c.Rule] = true
	}
	for _, r := range rules.Rules() {
		assert.True(t, wrong[r.Name], "nothing makes %s wrong", r.Name)
	}
}

func TestOnlyOlderWaysOfTruncationAreWrong(t *testing.T) {
	for _, c := range []struct {
		is   rules.Truncation
		want []string
	}{
		{rules.ToHighWatermark, nil},
		{rules.ToEpochEnd, []string{"truncation=hw"}},
		{rules.ToCommonEpoch, []string{"truncation=hw", "truncation=kip101"}},
		{rules.OnFetch, []string{"truncation=hw", "truncation=kip101", "truncation=kip279"}},
	} {
		var got []string
		for _, change := range rulestest.Changes() {
			if _, changed := change.Of(rules.Set{Truncation: c.is}); changed {
				got = append(got, change.String())
			}
		}
		assert.Equal(t, c.want, got, c.is)
	}
}

func TestRulesAskedForAreFoundInTheSource(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"core.go":      "package core\nfunc f(c config) bool { return c.Rules.ELR || c.Rules.Truncation == 0 }\n",
		"set.go":       "package core\nfunc g(s set) bool { return s.BrokerEpoch }\n", // of something that is not called Rules
		"core_test.go": "package core\nfunc h(c config) bool { return c.Rules.HWNeedsMinISR }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	asked, err := rulestest.AskedFor(folder)
	require.NoError(t, err)
	assert.Equal(t, []string{"truncation", "elr"}, asked)

	_, err = rulestest.AskedFor(filepath.Join(folder, "nowhere"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

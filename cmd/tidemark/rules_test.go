package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func TestEveryRuleIsShownByASchedule(t *testing.T) {
	files, err := schedule.All()
	require.NoError(t, err)
	for _, r := range rules.Rules() {
		assert.NotEmpty(t, shownBy(r, files), r.Name)
	}
}

func TestTheListOfDefectsHasALineADefect(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printDefects(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 1+len(rules.Defects()))
	for i, d := range rules.Defects() {
		for _, what := range []string{d.ID, d.Source, d.Says, d.Seen} {
			assert.Contains(t, lines[i+1], what)
		}
		if d.Unseeded != "" {
			assert.Contains(t, lines[i+1], "not seeded: "+d.Unseeded)
		}
	}
}

func TestTheListHasALineARule(t *testing.T) {
	files, err := schedule.All()
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, printRules(&out, files))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 1+len(rules.Rules()))
	for i, r := range rules.Rules() {
		assert.Contains(t, lines[i+1], r.Name)
		assert.Contains(t, lines[i+1], r.Source)
		assert.Contains(t, lines[i+1], r.Says)
	}
}

package nemesis

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheReadmeNamesEverythingThatAPlanCanSay(t *testing.T) {
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	text, _, ok := strings.Cut(string(data), "## The bug zoo")
	require.True(t, ok)
	rows := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, " |")
			for _, code := range strings.Split(cell, "`") {
				word, _, _ := strings.Cut(code, " ")
				rows[word] = true
				rows[code] = true
			}
		}
	}
	for _, v := range verbs() {
		assert.True(t, rows[v.name], "verb %s", v.name)
	}
	for _, s := range Shapes() {
		assert.True(t, rows[string(s)], "shape %s", s)
	}
	for _, s := range States() {
		assert.True(t, rows[string(s)], "state %s", s)
	}
	for _, r := range RoleNames() {
		assert.True(t, rows[string(r)+" of orders-0"], "role %s", r)
	}
	for _, f := range Faults() {
		assert.Contains(t, text, "`"+string(f)+"`", "kind of fault %s", f)
	}
	for _, g := range Groups() {
		assert.Contains(t, text, "`"+g.Name+"`", "group %s", g.Name)
	}

	// The plan in it is one, as it stands.
	_, plan, _ := strings.Cut(text, "```\n")
	plan, _, _ = strings.Cut(plan, "```")
	p, err := ParsePlan("README.md", plan, three)
	require.NoError(t, err)
	assert.Equal(t, plan, p.String())
}

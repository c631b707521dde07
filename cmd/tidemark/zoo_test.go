package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
)

func TestTheZooTellsWhatFindsADefectAndThatTheControlIsNone(t *testing.T) {
	code, out := execute(t.Context(), []string{"zoo", "--defect", "Z11,Z32", "--means", "schedule"})
	assert.Zero(t, code, out)
	assert.Contains(t, out, "schedule   Z11: lost-acked, after 1 schedule")
	assert.Regexp(t, `schedule +finds 1 of 1`, out)
	assert.Regexp(t, `control Z32 +not flagged`, out)
	assert.Contains(t, out, "not seeded: Z10, ")

	code, out = execute(t.Context(), []string{"zoo", "--defect", "Z11", "--means", "schedule", "--json"})
	assert.Zero(t, code, out)
	var d tidemark.Detection
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	assert.Equal(t, "Z11", d.ID)
	assert.True(t, d.Found())

	code, out = execute(t.Context(), []string{"zoo", "--defect", "Z11", "--means", "schedule", "--markdown"})
	assert.Zero(t, code, out)
	assert.Contains(t, out, "| Z11 | KIP-497 | Z11: lost-acked, after 1 schedule")

	code, out = execute(t.Context(), []string{"zoo", "--defect", "Z33", "--means", "schedule"})
	assert.Equal(t, 1, code, "no schedule finds it")
	assert.Regexp(t, `schedule +finds 0 of 1 +not Z33`, out)

	code, out = execute(t.Context(), []string{"zoo", "--defect", "Z11", "--means", "schedule", "--sound"})
	assert.Zero(t, code, "nothing is seeded, and nothing is found: %s", out)
}

// A schedule of the zoo says what it expects of its defect; of any other schedule nothing is expected, so that a find is a difference.
func TestADefectIsSeededWhereverAScheduleIsPlayed(t *testing.T) {
	code, out := execute(t.Context(), []string{"reproduce", "Z11", "--on", "sim", "--defect", "Z11", "--results", t.TempDir()})
	assert.Zero(t, code, out)
	assert.Contains(t, out, "kip966 with defect=Z11 violation: lost-acked m1")
	code, out = execute(t.Context(), []string{"reproduce", "S5", "--on", "sim", "--defect", "Z21", "--results", t.TempDir()})
	assert.Equal(t, 1, code, out)
	code, out = execute(t.Context(), []string{"replay", "Z21", "--defect", "Z21", "--results", t.TempDir()})
	assert.Zero(t, code, out)
	code, out = execute(t.Context(), []string{"explain", "Z11", "--defect", "Z11", "--futures", "1"})
	assert.Zero(t, code, out)
	assert.Contains(t, out, "prevented by defect=none")
	code, out = execute(t.Context(), []string{"explore", "--defect", "Z21", "--severity", "sane", "--schedules", "100"})
	assert.Equal(t, 1, code, out)
	assert.Equal(t, 1, strings.Count(out, "with defect=Z21 violation"), out)
}

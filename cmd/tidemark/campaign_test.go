package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/results"
)

func TestAShardIsNamedOrComesFromTheIndexOfAJob(t *testing.T) {
	for _, c := range []struct {
		word   string
		shards int
		index  string
		shard  int
		of     int
		err    string
	}{
		{"", 0, "", 0, 0, ""},
		{"", 0, "3", 0, 0, ""},
		{"2/8", 0, "", 2, 8, ""},
		{"", 8, "0", 1, 8, ""},
		{"", 8, "7", 8, 8, ""},
		{"", 8, "8", 0, 0, "want 0 to 7"},
		{"", 8, "", 0, 0, `JOB_COMPLETION_INDEX is ""`},
		{"0/8", 0, "", 0, 0, "want I/N"},
		{"9/8", 0, "", 0, 0, "want I/N"},
		{"2", 0, "", 0, 0, "want I/N"},
		{"1/2", 2, "0", 0, 0, "give one of them"},
	} {
		shard, of, err := parseShard(c.word, c.shards, c.index)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, []int{c.shard, c.of}, []int{shard, of}, "%+v", c)
	}
}

const simulated = `
name: simulated
parts:
  - schedules: [S1]
    on: [sim]
  - explore: 200
`

func TestACampaignByItsExitCodeItsReportAndGitHubs(t *testing.T) {
	dir := t.TempDir()
	file, summary := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "summary.md")
	require.NoError(t, os.WriteFile(file, []byte(simulated), 0o644))
	t.Setenv("GITHUB_STEP_SUMMARY", summary)

	code, out, errs := campaignSays(t, file, "--results", dir)
	assert.Zero(t, code, "%s%s", out, errs)
	assert.Contains(t, out, "campaign simulated: consistent\n")
	assert.Contains(t, out, "defects planted: 1, caught: 1")
	text, err := os.ReadFile(summary)
	require.NoError(t, err)
	assert.Contains(t, string(text), "## Tidemark campaign simulated: consistent")

	code, out, errs = campaignSays(t, file, "--results", dir, "--rule", "truncation=hw")
	assert.Equal(t, 1, code, "%s%s", out, errs)
	assert.Contains(t, out, "::error title=")
	folder := regexp.MustCompile(`kept in (\S+)`).FindStringSubmatch(out)
	require.NotNil(t, folder)
	again, out2, _ := campaignSays(t, "show", folder[1])
	assert.Equal(t, 1, again)
	assert.Contains(t, out2, "campaign simulated: violation because")
	again, _, _ = campaignSays(t, "merge", folder[1], "--results", dir)
	assert.Equal(t, 1, again)

	code, out, _ = campaignSays(t, file, "--results", dir, "--runs", "1")
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "2 runs not done")
}

func TestACampaignOnTheCommandLineIsRefusedWithTheReason(t *testing.T) {
	dir := t.TempDir()
	begun, err := results.NewCampaign(t.TempDir(), results.Campaign{Name: "simulated", Config: simulated, Shard: "1/3"})
	require.NoError(t, err)
	shard := begun.Path()
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{}, "give a file, --preset or --resume"},
		{[]string{"--preset", "weekly"}, "there are gate, nightly, zoo"},
		{[]string{"--preset", "gate", "--shard", "3/2"}, "want I/N"},
		{[]string{"--preset", "gate", "--on", "moon"}, "moon"},
		{[]string{"--preset", "gate", "--without", "gravity"}, "gravity"},
		{[]string{"--resume", dir}, "not the folder of a campaign"},
		{[]string{"--resume", shard, "--shard", "2/3"}, "--resume goes on with what was begun"},
		{[]string{filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{[]string{"merge", dir}, "not the folder of a campaign"},
		{[]string{"show", dir}, "not the folder of a campaign"},
	} {
		code, _, errs := campaignSays(t, c.words...)
		assert.Equal(t, exitUsage, code, "%v", c.words)
		assert.Contains(t, errs, c.want)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing was begun")
}

// campaignSays runs a campaign.
func campaignSays(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	s := command(t, t.Context(), nil, append([]string{"campaign"}, args...)...)
	return s.code, s.out, s.err
}

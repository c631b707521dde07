package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANodeOfAStoredRunRunsAgain(t *testing.T) {
	root := t.TempDir()
	s := command(t, t.Context(), nil, "reproduce", "S1", "--protocol", "hw", "--on", "process", "--results", root)
	require.Zero(t, s.code, s.err)
	folders, err := filepath.Glob(filepath.Join(root, "*", "S1-hw"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	replay := func(args ...string) said {
		return command(t, t.Context(), nil, append([]string{"replay", folders[0]}, args...)...)
	}

	s = replay("--node", "all", "-v")
	require.Zero(t, s.code, s.err)
	assert.Regexp(t, `(?m)^controller: 1 incarnation, \d+ inputs, \d+ hashes compared: all the same$`, s.out)
	assert.Regexp(t, `(?m)^broker 2, incarnation 1: \d+ inputs, \d+ hashes compared; killed$`, s.out)
	assert.Regexp(t, `(?m)^broker 2: 2 incarnations, \d+ inputs, \d+ hashes compared: all the same$`, s.out)

	s = replay("--node", "2", "--rule", "truncation=kip279")
	assert.Equal(t, 1, s.code, s.err)
	assert.Regexp(t, `(?m)^broker 2: first difference: incarnation 1, input \d+, at 0.000000 s: controller->2 LeaderAndIsr#`, s.out)
	assert.Contains(t, s.out, "  there: hash ")

	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--node", "7"}, "no such node in the run"},
		{[]string{"--node", ""}, `node "": want a broker's number, controller, or all`},
		{[]string{"--node", "2", "--on", "process"}, "--on is for schedules"},
		{[]string{"--node", "2", "--shrink"}, "--shrink is for schedules"},
		{[]string{"--node", "2", "--rule", "truncation=never"}, "never"},
	} {
		s = replay(tc.args...)
		assert.Equal(t, exitUsage, s.code, tc.args)
		assert.Contains(t, s.err, tc.want)
		assert.Empty(t, s.out)
	}

	path := filepath.Join(folders[0], "nodes", "broker-2", "node.journal")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-5], 0o644))
	s = replay("--node", "2")
	assert.Zero(t, s.code, "what is cut off is told, and nothing else is wrong")
	assert.Regexp(t, `broker 2: the journal is cut off: its last \d+ bytes are no whole record`, s.out)

	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
	s = replay("--node", "2")
	assert.Equal(t, exitInternal, s.code)
	assert.Regexp(t, `node\.journal: record \d+, at byte \d+: damaged journal: its bytes are not what was written`, s.err)

	require.NoError(t, os.WriteFile(path, []byte("tidemark journal 99\n"), 0o644))
	s = replay("--node", "2")
	assert.Equal(t, exitInternal, s.code)
	assert.Contains(t, s.err, `node.journal has version "99", this is 1: read it with the release that wrote it`)
	require.NoError(t, os.Remove(path))
	s = replay("--node", "2")
	assert.Equal(t, exitInternal, s.code)
	assert.Contains(t, s.err, "nodes write one unless they are told not to (--journal off)")
}

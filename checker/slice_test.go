package checker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
)

func TestWhatIsRejectedIsCutToAFewOperationsAndDrawn(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	require.NoError(t, err)
	rejected := 0
	for _, path := range paths {
		res := check(t, path, checker.Options{})
		if level := res.Level(); level == checker.Linearizable {
			assert.Empty(t, res.Slices, path)
			assert.True(t, res.Partitions[0].Replayed, path)
			continue
		}
		rejected++
		require.NotEmpty(t, res.Slices, path)
		dir := t.TempDir()
		files, err := res.DrawSlices(dir)
		require.NoError(t, err)
		require.Len(t, files, len(res.Slices))
		for i, s := range res.Slices {
			assert.LessOrEqual(t, len(s.Operations), 30, path)
			assert.LessOrEqual(t, len(s.Core), 3, "%s: two operations contradict each other, or three", path)
			assert.Equal(t, checker.Illegal, s.Porcupine)
			page, err := os.ReadFile(files[i])
			require.NoError(t, err)
			assert.True(t, bytes.Contains(page, []byte(s.Operations[0].Operation[:7])), "the page shows the operations")
			assert.True(t, bytes.HasPrefix(page, []byte("<!doctype html>")), files[i])
		}
	}
	assert.Greater(t, rejected, 9)
}

func TestASliceOfALossIsTheAckAndTheEnd(t *testing.T) {
	res := check(t, filepath.Join("testdata", "B-acked-tail-never-read-and-on-no-replica.jsonl"), checker.Options{})
	require.Len(t, res.Slices, 1)
	s := res.Slices[0]
	assert.Equal(t, "lost-acked a1", s.Finding)
	assert.Equal(t, checker.CommittedLog, s.Level)
	require.Len(t, s.Core, 2)
	var core []string
	for _, o := range s.Operations {
		if o.Call == s.Core[0] || o.Call == s.Core[1] {
			core = append(core, o.Operation)
		}
	}
	assert.Equal(t, []string{"produce a1 -> 1", "final fetch from 0 -> [a0], hw 1"}, core)
	require.Error(t, (&checker.Slice{}).Draw(&bytes.Buffer{}), "a slice that was read from JSON cannot be drawn")
}

func TestWithoutCertificatesNothingIsConfirmed(t *testing.T) {
	res := check(t, filepath.Join("testdata", "G-stale-fetch-and-end-that-goes-back.jsonl"), checker.Options{Uncertified: true})
	assert.Empty(t, res.Slices)
	assert.False(t, res.Partitions[0].Replayed)
}

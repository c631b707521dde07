package tidemark_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/results"
)

// smallDisk mounts a file system of that many KiB.
func smallDisk(t *testing.T, kib int) string {
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("file systems can be mounted here by root only")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

func TestADiskWithoutSpaceEndsTheRunWithAClearError(t *testing.T) {
	for _, tc := range []struct {
		name string
		kib  int
	}{{"before the cluster is up", 12}, {"while clients work", 1500}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := smallDisk(t, tc.kib)
			began := time.Now()
			r, err := tidemark.Run(t.Context(), tidemark.RunConfig{Root: root, Time: 5 * time.Minute, Clients: 5})
			require.ErrorContains(t, err, "no space left on device")
			assert.Less(t, time.Since(began), 2*time.Minute, "it does not work on without a history")
			assert.Empty(t, processesIn(t, root))
			if r == nil {
				return
			}
			// The history as far as it goes can be judged, and is no pass.
			got, err := tidemark.Check(t.Context(), r.Folder, checker.Options{})
			if errors.Is(err, results.ErrNoHistory) {
				return
			}
			require.NoError(t, err)
			assert.Equal(t, checker.Inconclusive, got.Verdict)
		})
	}
}

func TestAReadOnlyDiskIsAnError(t *testing.T) {
	root := smallDisk(t, 64)
	require.NoError(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := tidemark.Run(t.Context(), tidemark.RunConfig{Root: filepath.Join(root, "runs")})
	require.ErrorIs(t, err, results.ErrRoot)
	require.ErrorContains(t, err, "read-only file system")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

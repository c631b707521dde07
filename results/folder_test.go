package results

import (
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachRunHasAFolderOfItsOwn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "results", "runs")
	const runs = 1000 // within a second or two: some draw the same number
	folders := make([]Folder, runs)
	var wg sync.WaitGroup
	for i := range folders {
		wg.Go(func() {
			var err error
			folders[i], err = Create(root, "run")
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	ids := map[string]bool{}
	for _, f := range folders {
		assert.False(t, ids[f.ID], f.ID)
		ids[f.ID] = true
		assert.Equal(t, filepath.Join(root, f.ID), f.Path)
		assert.DirExists(t, f.Path)
		assert.Regexp(t, regexp.MustCompile(`^\d{8}-\d{6}-run-[0-9a-f]{4}$`), f.ID)
	}
}

func TestAFolderKeepsTextAndValues(t *testing.T) {
	f, err := Create(t.TempDir(), "run")
	require.NoError(t, err)
	require.NoError(t, f.WriteText(Schedule, "at 1.000s kill 2\n"))
	require.NoError(t, f.WriteJSON(Meta, map[string]int{"seed": 7}))
	text, err := os.ReadFile(f.File(Schedule))
	require.NoError(t, err)
	assert.Equal(t, "at 1.000s kill 2\n", string(text))
	text, err = os.ReadFile(f.File(Meta))
	require.NoError(t, err)
	assert.Equal(t, "{\n  \"seed\": 7\n}\n", string(text))
	require.Error(t, f.WriteJSON(Meta, func() {}), "what is no value is refused")

	sub, err := f.Sub("S1-hw")
	require.NoError(t, err)
	assert.Equal(t, f.ID, sub.ID, "it is a part of the run")
	require.NoError(t, sub.WriteText(Transcript, ""))
	assert.FileExists(t, filepath.Join(f.Path, "S1-hw", Transcript))
}

func TestARootThatCannotHoldRunsIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, root := range []string{file, filepath.Join(file, "below")} {
		_, err := Create(root, "run")
		require.ErrorIs(t, err, ErrRoot)
		require.ErrorContains(t, err, file)
	}
}

func TestAHistoryIsFoundByItsFileOrItsRun(t *testing.T) {
	root := t.TempDir()
	plain, packed, empty := filepath.Join(root, "plain"), filepath.Join(root, "packed"), filepath.Join(root, "empty")
	for _, dir := range []string{plain, packed, empty} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(plain, History), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(packed, History+".zst"), nil, 0o644))
	for path, want := range map[string]string{
		plain:                               filepath.Join(plain, History),
		packed:                              filepath.Join(packed, History+".zst"),
		filepath.Join(plain, History):       filepath.Join(plain, History),
		filepath.Join(root, "plain", "../"): "",
		empty:                               "",
		filepath.Join(root, "nowhere"):      "",
	} {
		got, err := FindHistory(path)
		if want == "" {
			require.ErrorIs(t, err, ErrNoHistory, path)
			require.ErrorContains(t, err, path)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

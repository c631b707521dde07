package sim

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

var update = flag.Bool("update", false, "write the golden transcripts anew")

// played is what playing a schedule on a new stage gives.
type played struct {
	*schedule.Result
	events []history.Event
}

func play(t testing.TB, f *schedule.File, p rules.Protocol) played {
	stage, err := NewStage(t.Context(), f.Cluster, f.Rules(p))
	require.NoError(t, err)
	sink := &history.Memory{}
	result, err := schedule.Play(t.Context(), f, p, f.Rules(p), stage, sink)
	require.NoError(t, err)
	return played{result, sink.Events()}
}

// TestTranscripts compares what happens in each embedded schedule with its golden files in testdata: one for each way in
// which it goes, named after the protocols under which it goes that way. The transcript stands first, then the story.
func TestTranscripts(t *testing.T) {
	folder := filepath.Join("testdata", "transcripts")
	all, err := schedule.All()
	require.NoError(t, err)
	want := map[string]string{}
	for _, f := range all {
		protocols := map[string][]string{}
		for _, p := range rules.Protocols() {
			r := play(t, f, p)
			require.Empty(t, r.Inconclusive, "%s under %s", f.Name, p)
			text := r.Transcript + "\n" + strings.Join(r.Story, "\n") + "\n"
			protocols[text] = append(protocols[text], string(p))
		}
		for text, group := range protocols {
			want[f.Name+"."+strings.Join(group, "-")+".txt"] = text
		}
	}
	if *update {
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for name, text := range want {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		}
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	assert.Equal(t, slices.Sorted(maps.Keys(want)), names, "the golden files are those of the schedules; -update writes them anew")
	for _, name := range names {
		golden, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		assert.Equal(t, string(golden), want[name], "%s; -update writes it anew", name)
	}
}

func TestPlayingTwiceGivesTheSameTranscriptAndTheSameHistory(t *testing.T) {
	all, err := schedule.All()
	require.NoError(t, err)
	for _, f := range all {
		for _, p := range rules.Protocols() {
			first, second := play(t, f, p), play(t, f, p)
			require.Equal(t, first.Result, second.Result, "%s under %s", f.Name, p)
			require.Equal(t, first.events, second.events, "%s under %s", f.Name, p)
		}
	}
}

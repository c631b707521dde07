package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"tidemark"
	"tidemark/results"
)

// The command of the README's section about one's own cluster, against brokers in this process: what it says about a run is printed,
// and the line that repeats it can be copied.
func TestARunAgainstOnesOwnCluster(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	defer c.Close()
	root := t.TempDir()
	bootstrap := strings.Join(c.ListenAddrs(), ",")
	run := func(args ...string) (code int, out string) {
		return execute(t.Context(), append([]string{"run", "--bootstrap-server", bootstrap, "--create", "tidemark-{now}:4:3",
			"--config", "min.insync.replicas=2", "--time", "1s", "--rate", "400", "--seed", "3", "--results", root}, args...))
	}
	code, out := run()
	require.Zero(t, code, out)
	assert.True(t, strings.Contains(out, "\nconsistent\n"), out)
	assert.Contains(t, out, "not known, since the cluster is not the harness's:\n- ")
	assert.Contains(t, out, "- what faults would do: none was played\n")
	assert.Contains(t, out, "again: tidemark run --bootstrap-server "+bootstrap+" --config ")
	assert.Contains(t, out, " --create 'tidemark-{now}:4:3' ")
	kept := regexp.MustCompile(`(?m)^kept in (.*)$`).FindStringSubmatch(out)
	require.Len(t, kept, 2)
	text, err := os.ReadFile(filepath.Join(kept[1], results.Meta))
	require.NoError(t, err)
	var meta struct {
		Backend   string
		Bootstrap []string
		Contract  struct{ MinISR int }
	}
	require.NoError(t, json.Unmarshal(text, &meta))
	assert.Equal(t, "foreign", meta.Backend)
	assert.Equal(t, c.ListenAddrs(), meta.Bootstrap)
	assert.Equal(t, 2, meta.Contract.MinISR)

	// Hooks without a fault that they could play, and a fault without hooks that was asked for.
	code, out = run("--faults", "pause")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "fault pause: nothing says how to freeze a broker: give --on-pause and --on-resume, or --container")
	// A hook that does nothing proves nothing: the broker answers still.
	plan := filepath.Join(root, "pause.plan")
	require.NoError(t, os.WriteFile(plan, []byte("at 0.2s pause 1\nat 0.4s resume 1\n"), 0o644))
	code, out = run("--plan", plan, "--on-pause", "true", "--on-resume", "true", "--create", "second:1:3")
	assert.Equal(t, 2, code, out)
	assert.Contains(t, out, "inconclusive because fault-unproven")
	assert.Contains(t, out, `nothing that was measured shows that "pause 1"`)
}

// The commands of the README's section are whole: every flag is there, and every hook has what it needs.
func TestTheReadmesCommandsForOnesOwnClusterAreWhole(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Your own cluster\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		line := strings.ReplaceAll(block[1], "\\\n", " ")
		var args []string
		for _, word := range regexp.MustCompile(`'[^']*'|[^' \n]+`).FindAllString(line, -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		require.Equal(t, []string{"tidemark", "run"}, args[:2])
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		var c tidemark.RunConfig
		var cf clusterFlags
		var ff foreignFlags
		cf.add(fs, &c, "")
		ff.add(fs)
		fs.DurationVar(&c.Time, "time", 0, "")
		require.NoError(t, fs.Parse(args[2:]), "%v", args)
		require.Empty(t, fs.Args(), "no word is left")
		own, err := ff.read(fs, &c, "")
		require.NoError(t, err)
		require.True(t, own)
		require.NoError(t, c.Foreign.Check())
	}
}

func TestWordsForAShell(t *testing.T) {
	for word, want := range map[string]string{
		"orders:4:3": "orders:4:3", "": "''", "ssh {host}": "'ssh {host}'", "echo 'x'": `'echo '\''x'\'''`, "a;b": "'a;b'",
	} {
		assert.Equal(t, want, shellWord(word))
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/results"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "this is a test of tidemark, not tidemark") // taken for it, it would start itself as a node for ever
		os.Exit(exitInternal)
	}
	goleak.VerifyTestMain(m)
}

// said is what a command came to.
type said struct {
	code     int
	out, err string
}

// command runs a command as main does. What is written to standard output is handed to watch too, as it comes, if that is not nil.
func command(t *testing.T, ctx context.Context, watch func(line string), args ...string) said {
	t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	outReader, out, err := os.Pipe()
	require.NoError(t, err)
	errReader, errs, err := os.Pipe()
	require.NoError(t, err)
	os.Stdout, os.Stderr = out, errs
	read := func(from io.Reader, watch func(string)) <-chan string {
		all := make(chan string, 1)
		go func() {
			var text bytes.Buffer
			buffer := make([]byte, 4096)
			for {
				n, err := from.Read(buffer)
				text.Write(buffer[:n])
				if watch != nil && n > 0 {
					watch(string(buffer[:n]))
				}
				if err != nil {
					all <- text.String()
					return
				}
			}
		}()
		return all
	}
	outText, errText := read(outReader, watch), read(errReader, nil)
	code := run(ctx, args)
	os.Stdout, os.Stderr = stdout, stderr
	require.NoError(t, out.Close())
	require.NoError(t, errs.Close())
	s := said{code, <-outText, <-errText}
	_, _ = outReader.Close(), errReader.Close()
	return s
}

func TestReproducePrintsWhatHappenedAndATable(t *testing.T) {
	s := command(t, t.Context(), nil, "reproduce", "--on", "sim", "--results", t.TempDir())
	require.Zero(t, s.code, s.err)
	assert.Empty(t, s.err)
	assert.Contains(t, s.out, "S1c  hw     violation: diverged 1, lost-acked m1, reread-differs 1; porcupine Illegal")
	assert.Contains(t, s.out, "15 of 15 as expected")
	assert.NotContains(t, s.out, "NOT AS EXPECTED")
	assert.Regexp(t, regexp.MustCompile(`(?m)^S2b +kip320 +allowed because crash-budget +allowed because crash-budget +lost-acked m1, reread-differs 1 +Illegal`), s.out)

	s = command(t, t.Context(), nil, "reproduce", "s1c", "-v", "--on", "sim", "--leader-epoch", "off", "--results", t.TempDir())
	require.Zero(t, s.code, s.err)
	assert.Contains(t, s.out, "fetch 3 request   1L m0.0 m1.0 |   2f m0.0 |m1.0", "the transcript")
	assert.Contains(t, s.out, "! lost-acked m1: offset 1 of orders-0 (m1) was acked to process 1 at", "the sentence")
	assert.Contains(t, s.out, "1 of 1 as expected")
}

func TestReproduceAsJSONIsAnObjectACellALine(t *testing.T) {
	s := command(t, t.Context(), nil, "reproduce", "--json", "--on", "sim", "--repeat", "2", "--schedule", "S1b", "--protocol", "hw,kip966", "--results", t.TempDir())
	require.Zero(t, s.code, s.err)
	lines := strings.Split(strings.TrimSuffix(s.out, "\n"), "\n")
	require.Len(t, lines, 4)
	for i, line := range lines {
		var cell map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &cell))
		require.ElementsMatch(t, []string{"schedule", "protocol", "backend", "expected", "observed", "findings", "porcupine", "ok", "seconds"}, keys(cell))
		assert.Equal(t, "S1b", cell["schedule"])
		assert.Equal(t, "sim", cell["backend"])
		assert.Equal(t, true, cell["ok"])
		assert.Positive(t, cell["seconds"])
		if i%2 == 0 {
			assert.Equal(t, []any{"hw", "violation", "violation", "Illegal"}, []any{cell["protocol"], cell["expected"], cell["observed"], cell["porcupine"]})
			assert.Equal(t, []any{"lost-acked m1", "read-then-lost m1"}, cell["findings"])
		} else {
			assert.Equal(t, []any{"kip966", "consistent", "consistent", "Ok"}, []any{cell["protocol"], cell["expected"], cell["observed"], cell["porcupine"]})
			assert.Equal(t, []any{}, cell["findings"], "none is a list too")
		}
	}
}

func keys(m map[string]any) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// swapped is S1b with what is expected of two protocols exchanged.
func swapped(t *testing.T) string {
	text, err := os.ReadFile("../../nemesis/schedule/kip101/S1b.sched")
	require.NoError(t, err)
	steps, _, ok := strings.Cut(string(text), "\nexpect ")
	require.True(t, ok)
	path := filepath.Join(t.TempDir(), "swapped.sched")
	require.NoError(t, os.WriteFile(path, []byte(steps+`
expect hw consistent
expect kip101..kip279 consistent
expect kip320 violation lost-acked m1, read-then-lost m1
expect kip966 consistent
`), 0o644))
	return path
}

func TestSwappedColumnsMakeReproduceFail(t *testing.T) {
	path := swapped(t)
	s := command(t, t.Context(), nil, "reproduce", path, "--on", "sim", "--results", t.TempDir())
	assert.Equal(t, 1, s.code)
	assert.Equal(t, 2, strings.Count(s.out, "NOT AS EXPECTED"), s.out)
	assert.Contains(t, s.out, "expected consistent, observed violation")
	assert.Contains(t, s.out, "expected violation, observed consistent")
	assert.Equal(t, 2, strings.Count(s.out, "<- differs"))
	assert.Contains(t, s.out, "1 of 3 as expected, 2 not")

	s = command(t, t.Context(), nil, "reproduce", path, "--on", "sim", "--json", "--protocol", "kip320", "--results", t.TempDir())
	assert.Equal(t, 1, s.code)
	assert.Contains(t, s.out, `"ok":false`)

	// So do rules of another protocol, though the schedule is right; and what both agree on does not.
	s = command(t, t.Context(), nil, "reproduce", "S1", "--on", "sim", "--protocol", "kip320", "--rule", "truncation=hw", "--results", t.TempDir())
	assert.Equal(t, 1, s.code)
	s = command(t, t.Context(), nil, "reproduce", path, "--on", "sim", "--protocol", "kip101,kip966", "--results", t.TempDir())
	assert.Zero(t, s.code)
}

func TestReproduceCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	root := t.TempDir()
	s := command(t, ctx, func(string) { cancel() }, "reproduce", "--on", "process", "--results", root)
	assert.Equal(t, 2, s.code)
	assert.Contains(t, s.err, "tidemark: interrupted; the cluster was taken down")
	assert.Less(t, strings.Count(s.out, "as expected"), 15)
	assert.Empty(t, nodesIn(t, root))
}

// nodesIn lists processes of nodes that have a folder in their command line.
func nodesIn(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, path := range paths {
		command, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(command), folder) {
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

func TestWrongCommandLinesSayWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("hello\n"), 0o644))
	wrongVerb := filepath.Join(t.TempDir(), "wrong.sched")
	require.NoError(t, os.WriteFile(wrongVerb, []byte("schedule X  X\ncluster replicas=1,2\nproduse m0\nexpect hw+ consistent\n"), 0o644))
	wrongNode := filepath.Join(t.TempDir(), "wrong.sched")
	require.NoError(t, os.WriteFile(wrongNode, []byte("schedule X  X\ncluster replicas=1,2\nkill 3\nexpect hw+ consistent\n"), 0o644))
	wrongPlan := filepath.Join(t.TempDir(), "wrong.plan")
	require.NoError(t, os.WriteFile(wrongPlan, []byte("at 1s kill 1\nat 2s kill 9\n"), 0o644))
	for _, tc := range []struct{ args, want string }{
		{"reproduse", `unknown command "reproduse"`},
		{"--nonsense", "unknown flag: --nonsense"},
		{"reproduce --nonsense", "unknown flag: --nonsense; tidemark reproduce --help lists the flags"},
		{"reproduce S99", `no schedule "S99": there are S1, S1b`},
		{"reproduce --defect Z99", `unknown defect "Z99": there are Z1, Z2`},
		{"reproduce --defect Z11 --diagonal", "--defect Z11 and --diagonal: give one of them"},
		{"explore --defect Z34", "defect Z34 is not seeded: costs availability only"},
		{"run --defect Z32", "defect Z32 is the control and changes no rule: set unclean.leader.election.enable=true"},
		{"up --defect Z24 --protocol kip966", "elr with zk registration"},
		{"zoo --defect Z99", `unknown defect "Z99"`},
		{"zoo --means luck", `means "luck": want schedule, exhaustive or random`},
		{"reproduce no/such.sched", "no such file or directory"},
		{"reproduce " + file, file + ":1: not a schedule"},
		{"reproduce " + wrongVerb, `wrong.sched:3: not a schedule: unknown verb "produse"; did you mean produce?`},
		{"reproduce " + wrongNode, "wrong.sched:3: not a schedule: kill: no broker 3; the cluster has 1,2"},
		{"reproduce S1 S1", "schedule S1 is given twice"},
		{"reproduce --protocol kip102", `"kip102"`},
		{"reproduce --protocol hw,hw", "--protocol hw,hw: hw is given twice"},
		{"reproduce --protocol hw --leader-epoch on", "--leader-epoch on and --protocol hw: give one of them"},
		{"reproduce --leader-epoch maybe", "--leader-epoch maybe: want off or on"},
		{"reproduce --on moon", `unknown backend "moon": want process, docker or sim`},
		{"reproduce --repeat 0", "--repeat 0: want 1 or more"},
		{"reproduce --repeat often", "often"},
		{"reproduce --without fencing", "fencing"},
		{"run --on sim --direct", "direct: a simulation has no connections"},
		{"run --on sim --binary tidemark", "binary tidemark: a simulation runs in this process"},
		{"run --on sim --network lose=2", "--network: lose=2: want a share from 0 to 1"},
		{"run --on sim --network lag=2ms", `--network: unknown setting "lag"`},
		{"run --network delay=2ms", "network: backend process has a real one"},
		{"up --on sim", "a simulation has no addresses for clients"},
		{"run extra", `tidemark run takes no argument: "extra"`},
		{"run --brokers 0", "--brokers 0: want 1 or more"},
		{"run --time -1s", "--time -1s: want more than nothing"},
		{"run --time soon", `invalid argument "soon" for "--time"`},
		{"run --time 1s", "time 1s is too short for faults"},
		{"run --clients 0", "--clients 0: want 1 or more"},
		{"run --rate -1", "--rate -1: want operations a second"},
		{"run --journal maybe", `--journal "maybe": want on or off`},
		{"run --acks 2", "--acks 2: want all, 1 or 0"},
		{"run --faults fire", `fault "fire": there are kill, stop, pause, partition, power, `},
		{"run --topic orders", `topic "orders": want NAME:PARTITIONS:REPLICAS`},
		{"run --brokers 2 --topic orders:1:3", "3 replicas need as many brokers, there are 2"},
		{"run --config min.insync.replicas=9", "min.insync.replicas=9: a partition has only 3 replicas"},
		{"run --protocol kip966 --rule registration=zk", "elr"},
		{"run --plan " + wrongPlan, `wrong.plan:2: not a plan of faults: "9": no such node`},
		{"run --plan no/such.plan", "--plan: open no/such.plan: no such file"},
		{"run --direct --faults partition --time 30s", "direct: without links there are no partitions"},
		{"run --on-kill true", "--on-kill is about a cluster that is there: give --bootstrap-server too"},
		{"run --bootstrap-server localhost:9092", "--bootstrap-server: name an empty topic with --topic, or have one created with --create NAME:PARTITIONS:REPLICAS"},
		{"run --bootstrap-server localhost:9092 --topic a:1:1", "--topic a:1:1: with --bootstrap-server it is the NAME of a topic that is there; --create a:1:1 creates one"},
		{"run --bootstrap-server localhost:9092 --topic a --protocol hw", "--protocol is about clusters that tidemark starts; the one at localhost:9092 is there"},
		{"run --bootstrap-server localhost:9092 --topic a --contract acks=3", `acks: "3" is none of all, 1, 0`},
		{"run --bootstrap-server localhost:9092 --topic a --container kafka", `container "kafka": want ID=NAME`},
		{"run --bootstrap-server localhost:9092 --topic a --stretch 0", "--stretch 0: want 1 or more"},
		{"run --bootstrap-server localhost:9092 --topic a --on-pause true", `--on-pause "true" needs --on-resume`},
		{"run --bootstrap-server localhost --topic a", `bootstrap "localhost": want host:port`},
		{"run --bootstrap-server localhost:9092 --topic a --plan no/such.plan", "--plan: open no/such.plan: no such file"},
		{"up --brokers 101", "brokers: 101: want 1 to 100"},
		{"check", "check takes one run or history, not 0"},
		{"check a b", "check takes one run or history, not 2"},
		{"check no/such/run", "no/such/run: no history here: there is no such folder or file"},
		{"check " + t.TempDir(), "not the folder of a run, which has a file history.jsonl"},
		{"check " + file, "not a tidemark history"},
		{"node", "--dir is missing"},
		{"node --dir x --peer 2", `--peer "2": want ID=host:port`},
		{"controller --dir x --config nonsense=1", `unknown setting "nonsense"`},
		{"down everything", `tidemark down takes no argument: "everything"`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			s := command(t, t.Context(), nil, strings.Fields(tc.args)...)
			assert.Equal(t, exitUsage, s.code, s.err)
			assert.Contains(t, s.err, "tidemark: ")
			assert.Contains(t, s.err, tc.want)
			assert.Empty(t, s.out)
		})
	}
	assert.NoDirExists(t, "results", "nothing was begun")
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range []string{"", "--help", "run --help", "reproduce --help", "check --help"} {
		s := command(t, t.Context(), nil, strings.Fields(args)...)
		assert.Zero(t, s.code)
		assert.Contains(t, s.out, "Usage:")
	}
}

// historyOf gives the text of a history that a schedule makes, and its run's folder.
func historyOf(t *testing.T, schedule, protocol string) (text []byte, folder string) {
	t.Helper()
	root := t.TempDir()
	s := command(t, t.Context(), nil, "reproduce", schedule, "--protocol", protocol, "--on", "sim", "--results", root)
	require.Zero(t, s.code, s.err)
	folders, err := filepath.Glob(filepath.Join(root, "*", schedule+"-"+protocol))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	text, err = os.ReadFile(filepath.Join(folders[0], results.History))
	require.NoError(t, err)
	return text, folders[0]
}

func TestCheckExitsByTheVerdict(t *testing.T) {
	for _, tc := range []struct {
		schedule, protocol, flags string
		code                      int
		out                       string
	}{
		{"S1c", "hw", "", 1, "violation"},
		{"S1c", "kip101", "", 0, "consistent"},
		{"S2", "kip101", "", 0, "allowed"},
		{"S2", "kip101", "--strict", 1, "allowed"},
		{"S1c", "kip101", "--min-acked 1000", 2, "inconclusive"},
	} {
		t.Run(fmt.Sprint(tc.schedule, " ", tc.protocol, " ", tc.flags), func(t *testing.T) {
			_, folder := historyOf(t, tc.schedule, tc.protocol)
			s := command(t, t.Context(), nil, append([]string{"check", folder}, strings.Fields(tc.flags)...)...)
			assert.Equal(t, tc.code, s.code, s.err)
			assert.Contains(t, s.out, tc.out)

			s = command(t, t.Context(), nil, append([]string{"check", "--json", filepath.Join(folder, results.History)}, strings.Fields(tc.flags)...)...)
			assert.Equal(t, tc.code, s.code, s.err)
			var result struct{ Verdict string }
			require.NoError(t, json.Unmarshal([]byte(s.out), &result))
			assert.Equal(t, tc.out, result.Verdict)
		})
	}
}

func TestCheckTakesAHistoryThatBreaksOffButNoneThatIsBroken(t *testing.T) {
	text, _ := historyOf(t, "S1c", "hw")
	lines := strings.SplitAfter(string(text), "\n")
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		return path
	}
	s := command(t, t.Context(), nil, "check", write(string(text[:len(text)-20])))
	assert.Equal(t, 1, s.code, "what was found before stays found: %s", s.err)
	s = command(t, t.Context(), nil, "check", write(strings.Join(lines[:10], "")+lines[10][:20]))
	assert.Equal(t, 2, s.code, s.err)
	assert.Contains(t, s.out, "inconclusive")

	for _, tc := range []struct {
		name string
		line int
		to   string
		want string
	}{
		{"a line that is none", 5, "hello\n", "line 5: "},
		{"a kind that is none", 6, strings.Replace(lines[5], `"kind":"`, `"kind":"un`, 1), "line 6: "},
		{"a field that is none", 6, strings.Replace(lines[5], "{", `{"colour":"red",`, 1), "line 6: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := slices.Clone(lines)
			changed[tc.line-1] = tc.to
			s := command(t, t.Context(), nil, "check", write(strings.Join(changed, "")))
			assert.Equal(t, exitUsage, s.code, s.out)
			assert.Contains(t, s.err, "history.jsonl")
			assert.Contains(t, s.err, tc.want)
		})
	}
}

func TestARunInWhichTooLittleHappensExitsWith2(t *testing.T) {
	root := t.TempDir()
	s := command(t, t.Context(), nil, "run", "--time", "500ms", "--rate", "20", "--clients", "1", "--faults", "none", "--seed", "3", "--results", root)
	assert.Equal(t, 2, s.code, s.err)
	assert.Contains(t, s.out, "inconclusive because too-little")
	assert.Contains(t, s.out, "again: tidemark run --clients 1 --faults none --rate 20 --results "+root+" --time 500ms --seed 3")
	kept := regexp.MustCompile(`(?m)^kept in (.*)$`).FindStringSubmatch(s.out)
	require.Len(t, kept, 2)
	s = command(t, t.Context(), nil, "check", kept[1])
	assert.Equal(t, 2, s.code, "judged again: %s", s.out)
	s = command(t, t.Context(), nil, "check", "--min-acked", "1", kept[1])
	assert.Zero(t, s.code, s.out)
}

func TestAnInterruptedRunSaysWhatIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := t.TempDir()
	began := time.Now()
	s := command(t, ctx, func(printed string) {
		if strings.Contains(printed, "acked") {
			cancel()
		}
	}, "run", "--time", "10m", "--clients", "2", "--results", root)
	assert.Less(t, time.Since(began), time.Minute)
	assert.Equal(t, 2, s.code)
	assert.Contains(t, s.err, "tidemark: interrupted; the cluster was taken down")
	kept := regexp.MustCompile(`as far as it goes is in (.*); tidemark check judges it`).FindStringSubmatch(s.err)
	require.Len(t, kept, 2)
	assert.Empty(t, nodesIn(t, root))

	s = command(t, t.Context(), nil, "check", kept[1])
	assert.Equal(t, 2, s.code, s.err)
	assert.Contains(t, s.out, "inconclusive")
}

func TestUpPrintsWhereItsBrokersAre(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := t.TempDir()
	s := command(t, ctx, func(printed string) {
		if strings.Contains(printed, "Ctrl-C") {
			cancel()
		}
	}, "up", "--brokers", "2", "--results", root)
	assert.Zero(t, s.code, s.err)
	assert.Regexp(t, regexp.MustCompile(`(?m)^bootstrap: 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+$`), s.out)
	assert.Regexp(t, regexp.MustCompile(`(?m)^try: +kcat -b 127\.0\.0\.1:\d+ -L$`), s.out)
	assert.Empty(t, nodesIn(t, root))
}

func TestAFolderForRunsThatIsNoneIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, args := range [][]string{{"reproduce", "--on", "sim"}, {"run", "--faults", "none"}, {"up"}} {
		s := command(t, t.Context(), nil, append(args, "--results", file)...)
		assert.Equal(t, exitInternal, s.code)
		assert.Contains(t, s.err, file)
		assert.Contains(t, s.err, "name another folder with --results")
	}
}

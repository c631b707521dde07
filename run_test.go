package tidemark_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faults reads a plan for three brokers.
func faults(t *testing.T, text string) nemesis.Plan {
	t.Helper()
	p, err := nemesis.ParsePlan("plan", text, []control.NodeID{1, 2, 3})
	require.NoError(t, err)
	return p
}

// play makes a run on processes and wants nothing of it to be left. Its nodes run again from their journals.
func play(t *testing.T, c tidemark.RunConfig) *tidemark.RunResult {
	t.Helper()
	c.Root = t.TempDir()
	r, err := tidemark.Run(t.Context(), c)
	require.NoError(t, err)
	assert.Empty(t, processesIn(t, c.Root))
	sameWhenRunAgain(t, r.Folder)
	return r
}

// processesIn lists the processes that have a folder in their command line.
func processesIn(t *testing.T, folder string) []string {
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

// events reads a run's history to its end and wants it to be whole.
func events(t *testing.T, folder string) []history.Event {
	t.Helper()
	r, err := history.Open(filepath.Join(folder, results.History))
	require.NoError(t, err)
	defer r.Close()
	var all []history.Event
	for e, err := range r.All() {
		require.NoError(t, err)
		all = append(all, e)
	}
	require.False(t, r.Torn())
	return all
}

func TestARunUnderFaultsIsConsistent(t *testing.T) {
	t.Parallel()
	var told []tidemark.Progress
	r := play(t, tidemark.RunConfig{Time: 7 * time.Second, Clients: 5, Rate: 400, Seed: 5, Progress: func(p tidemark.Progress) { told = append(told, p) },
		Plan: faults(t, `
at 0.500s kill 1
at 1.600s start 1
at 2.000s pause 2
at 3.600s resume 2
at 4.000s cut 1->2 2->1 2->3 3->2 2->controller controller->2 2->clients clients->2
at 5.800s heal
`)})
	c := r.Checked
	assert.Equal(t, checker.Consistent, c.Verdict, "%v: %v", c.Reasons, c.Details)
	assert.Empty(t, c.Findings)
	assert.Positive(t, c.Evidence.LeaderChanges, "1 led, and was killed")
	assert.Equal(t, []checker.FaultCount{{Verb: "cut", Count: 1, Proven: 1}, {Verb: "kill", Count: 1, Proven: 1}, {Verb: "pause", Count: 1, Proven: 1}}, c.Evidence.Faults)
	assert.EqualValues(t, r.Workload.Acked, c.Evidence.Acked, "what was counted and what was recorded")
	require.NotEmpty(t, c.Partitions)
	for _, p := range c.Partitions {
		assert.GreaterOrEqual(t, p.Level, checker.CommittedLog)
		assert.GreaterOrEqual(t, p.End, int64(c.Evidence.Acked/len(c.Partitions)))
	}

	// Everything is kept: the result, the plan as it was played, what was asked for, and all replicas at the end.
	assert.Equal(t, r.ID, filepath.Base(r.Folder))
	text, err := os.ReadFile(filepath.Join(r.Folder, results.Schedule))
	require.NoError(t, err)
	assert.Equal(t, r.Plan.String(), string(text))
	assert.FileExists(t, filepath.Join(r.Folder, results.Result))
	var meta struct {
		Seed     uint64
		Protocol string
		Enough   checker.Enough
	}
	text, err = os.ReadFile(filepath.Join(r.Folder, results.Meta))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &meta))
	assert.EqualValues(t, 5, meta.Seed)
	assert.Equal(t, "kip320", meta.Protocol)
	assert.Equal(t, checker.Enough{Acked: 20, Reads: 20, Faults: 3}, meta.Enough)
	kinds := map[history.Kind]int{}
	for _, e := range events(t, r.Folder) {
		kinds[e.Kind]++
	}
	assert.Equal(t, 6, kinds[history.KindFault])
	assert.Equal(t, 3, kinds[history.KindReplica])
	assert.Equal(t, 1, kinds[history.KindSettled])
	again, err := tidemark.Check(t.Context(), r.Folder, checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, asJSON(t, c), asJSON(t, again), "judged again")

	// Who watched saw each phase, and the faults.
	var doing, asked []string
	for _, p := range told {
		if len(doing) == 0 || doing[len(doing)-1] != p.Doing {
			doing = append(doing, p.Doing)
		}
		asked = append(asked, p.Fault)
	}
	assert.Equal(t, []string{"starting the cluster", "running", "waiting for the replicas to agree", "reading what there is", "checking"}, doing)
	assert.Contains(t, asked, "pause 2")
}

func TestARunUnderPowerFailuresIsConsistentOrAllowed(t *testing.T) {
	t.Parallel()
	r := play(t, tidemark.RunConfig{Time: 6 * time.Second, Clients: 5, Rate: 400, Seed: 6, Settings: []string{"log.flush.interval.ms=100"},
		Plan: faults(t, "at 1s powerfail 2\nat 2.200s start 2\nat 3.500s powerfail 1 cut=3+20\nat 4.700s start 1")})
	c := r.Checked
	require.Contains(t, []checker.Verdict{checker.Consistent, checker.Allowed}, c.Verdict, "%v: %v", c.Reasons, c.Details)
	if c.Verdict == checker.Allowed {
		assert.Equal(t, []checker.Reason{checker.BecauseCrashBudget}, c.Reasons)
	}
	assert.Equal(t, []checker.FaultCount{{Verb: "powerfail", Count: 2, Proven: 2}}, c.Evidence.Faults)
	assert.Equal(t, 2, c.Evidence.PowerLosses)
	assert.Positive(t, c.Evidence.BytesLost, "something is always written within the last 100 ms")
}

func TestOneSeedDrawsOnePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("a run with random faults takes long enough for some")
	}
	t.Parallel()
	config := tidemark.RunConfig{Time: 8 * time.Second, Clients: 3, Rate: 200, Seed: 11, Faults: []nemesis.Fault{nemesis.Kill, nemesis.Pause, nemesis.Partition}}
	r := play(t, config)
	assert.Equal(t, checker.Consistent, r.Checked.Verdict, "%v: %v", r.Checked.Reasons, r.Checked.Details)
	assert.Equal(t, nemesis.Random(11, config.Faults, []control.NodeID{1, 2, 3}, config.Time, "orders-0"), r.Plan)
	assert.NotEmpty(t, r.Plan)
}

func TestARunInWhichTooLittleHappensIsInconclusiveWhenJudgedAgainToo(t *testing.T) {
	t.Parallel()
	r := play(t, tidemark.RunConfig{Time: 500 * time.Millisecond, Clients: 1, Rate: 10})
	for range 2 {
		require.Equal(t, checker.Inconclusive, r.Checked.Verdict)
		assert.Equal(t, []checker.Reason{checker.BecauseTooLittle}, r.Checked.Reasons)
		var err error
		r.Checked, err = tidemark.Check(t.Context(), r.Folder, checker.Options{})
		require.NoError(t, err)
	}
	// Who asks for less gets it.
	c, err := tidemark.Check(t.Context(), r.Folder, checker.Options{Enough: checker.Enough{Acked: 1}})
	require.NoError(t, err)
	assert.Equal(t, checker.Consistent, c.Verdict, "%v", c.Details)
}

func TestAHistoryThatIsCutOffIsJudgedAsFarAsItGoes(t *testing.T) {
	for _, tc := range []struct {
		protocol rules.Protocol
		whole    checker.Verdict
	}{{rules.HW, checker.Violation}, {rules.KIP320, checker.Consistent}} {
		cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: scenarios(t)[2:3], Columns: tidemark.Columns(tc.protocol),
			On: tidemark.OnSim, Root: t.TempDir()})
		require.NoError(t, err)
		require.Equal(t, tc.whole, cells[0].Checked.Verdict)
		text, err := os.ReadFile(filepath.Join(cells[0].Folder, results.History))
		require.NoError(t, err)
		head := strings.IndexByte(string(text), '\n') + 1
		path := filepath.Join(t.TempDir(), "cut.jsonl")
		r := rand.New(rand.NewPCG(1, 2))
		for range 100 {
			n := head + r.IntN(len(text)-head-1) // at least the last byte is missing, which ends the last line
			require.NoError(t, os.WriteFile(path, text[:n], 0o644))
			got, err := tidemark.Check(t.Context(), path, checker.Options{})
			require.NoError(t, err, "cut off after %d of %d bytes", n, len(text))
			assert.Equal(t, text[n-1] != '\n' && text[n] != '\n', got.Torn, "cut off after %d bytes", n)
			assert.Contains(t, []checker.Verdict{checker.Inconclusive, tc.whole}, got.Verdict, "cut off after %d of %d bytes", n, len(text))
			if tc.whole == checker.Consistent {
				assert.Empty(t, got.Findings)
			}
		}
	}
}

func TestAnInterruptedRunLeavesItsHistoryAndNothingElse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := t.TempDir()
	// In the middle of a fault, so that the frozen broker has to be seen to.
	r, err := tidemark.Run(ctx, tidemark.RunConfig{Root: root, Time: time.Minute, Clients: 3, Plan: faults(t, "at 0.500s pause 2\nat 50s resume 2"),
		Progress: func(p tidemark.Progress) {
			if p.Fault == "pause 2" {
				cancel()
			}
		}})
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, r)
	assert.Nil(t, r.Checked)
	assert.Empty(t, processesIn(t, root))
	var open int
	for _, e := range events(t, r.Folder) {
		if e.Kind == history.KindFault {
			open += map[history.Phase]int{history.Begin: 1, history.Over: -1}[e.Fault.Phase]
		}
	}
	assert.Zero(t, open, "every fault is over")
	got, err := tidemark.Check(t.Context(), r.Folder, checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, checker.Inconclusive, got.Verdict)
	assert.Contains(t, got.Reasons, checker.BecauseUnavailable)
	assert.Positive(t, got.Evidence.Acked)
}

func TestARunCanBeInterruptedBeforeItsClusterIsUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	root := t.TempDir()
	_, err := tidemark.Run(ctx, tidemark.RunConfig{Root: root, Progress: func(tidemark.Progress) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, processesIn(t, root))
}

func TestAFaultThatCannotBePlayedEndsTheRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	// The folder of broker 2 is gone when it is to start again: somebody's mistake, not the cluster's.
	var folder string
	r, err := tidemark.Run(t.Context(), tidemark.RunConfig{Root: root, Time: time.Minute, Clients: 2, Plan: faults(t, "at 0.200s kill 2\nat 3s start 2"),
		Progress: func(p tidemark.Progress) {
			if folder == "" && p.Fault == "kill 2" {
				runs, err := filepath.Glob(filepath.Join(root, "*", results.Nodes, "broker-2"))
				require.NoError(t, err)
				folder = runs[0]
				require.NoError(t, os.RemoveAll(folder))
				require.NoError(t, os.WriteFile(folder, []byte("in the way"), 0o644))
			}
		}})
	require.ErrorContains(t, err, "at 3.000s start 2: starting broker-2: ")
	require.ErrorContains(t, err, "not a directory")
	require.NotNil(t, r)
	assert.Less(t, r.Lasted, 30*time.Second, "not after the minute")
	assert.Empty(t, processesIn(t, root))
	events(t, r.Folder)
}

func TestWhatCannotBeRunIsRefusedBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config tidemark.RunConfig
		want   string
	}{
		{"too many brokers", tidemark.RunConfig{Brokers: 1000}, "brokers: 1000: want 1 to 100"},
		{"a topic that is none", tidemark.RunConfig{Topics: []string{"orders"}}, `topic "orders": want NAME`},
		{"a topic twice", tidemark.RunConfig{Topics: []string{"a:1:1", "a:2:2"}}, `topic "a:2:2": a is given twice`},
		{"a topic on a broker that is none", tidemark.RunConfig{Topics: []string{"a=1,9"}}, `topic "a=1,9": there is no broker 9`},
		{"more replicas than brokers", tidemark.RunConfig{Brokers: 2, Topics: []string{"a:1:3"}}, "3 replicas need as many brokers, there are 2"},
		{"a setting that is none", tidemark.RunConfig{Settings: []string{"acks=all"}}, `unknown setting "acks"`},
		{"an ISR that nothing can have", tidemark.RunConfig{Settings: []string{"min.insync.replicas=4"}}, "min.insync.replicas=4: a partition has only 3 replicas"},
		{"rules that contradict each other", tidemark.RunConfig{Protocol: rules.KIP966, Rules: []string{"registration=zk"}}, "elr"},
		{"no time for faults", tidemark.RunConfig{Time: time.Second, Faults: nemesis.Faults()}, "time 1s is too short for faults"},
		{"a plan beyond the time", tidemark.RunConfig{Time: time.Second, Plan: faults(t, "at 0.5s kill 1\nat 2s start 1")}, "plan: at 2.000s start 1 is after the run's time 1s"},
		{"partitions without links", tidemark.RunConfig{Direct: true, Plan: faults(t, "at 1s cut 1->2")}, "direct: without links there are no partitions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.config.Root = filepath.Join(t.TempDir(), "runs")
			for _, run := range []func() error{
				func() error { _, err := tidemark.Run(t.Context(), tc.config); return err },
				func() error { return tidemark.Up(t.Context(), tc.config, nil) },
			} {
				err := run()
				var config *tidemark.ConfigError
				require.ErrorAs(t, err, &config)
				require.ErrorContains(t, err, tc.want)
				assert.NoDirExists(t, tc.config.Root)
			}
		})
	}
}

func TestAFolderForRunsThatIsNoneIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := tidemark.Run(t.Context(), tidemark.RunConfig{Root: file})
	require.ErrorIs(t, err, results.ErrRoot)
	_, err = tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Root: file, On: tidemark.OnSim})
	require.ErrorIs(t, err, results.ErrRoot)
	require.ErrorIs(t, tidemark.Up(t.Context(), tidemark.RunConfig{Root: file}, nil), results.ErrRoot)
}

func TestAPlanByRolesStatesAndShapesIsPlayedAndCanBePlayedAgain(t *testing.T) {
	t.Parallel()
	c := tidemark.RunConfig{Time: 9 * time.Second, Clients: 5, Rate: 300, Seed: 8, Plan: faults(t, `
at 0.300s when hw-only-on-leader of orders-0 within 5s kill leader of orders-0 as old
at 1.800s start old
at 2.500s delay 40ms isolate follower of orders-0
at 3.200s reset isolate leader of orders-0
at 3.700s heal
at 4.200s full follower of orders-0 as broken
at 4.900s mend broken
at 5.800s transfer follower of orders-0
at 6.300s restart 2
at 7.000s kill 3
at 7.100s chop 200B 3
at 7.300s start 3
`)}
	r := play(t, c)
	assert.Contains(t, []checker.Verdict{checker.Consistent, checker.Allowed}, r.Checked.Verdict, "%v: %v", r.Checked.Reasons, r.Checked.Details)
	for _, f := range r.Checked.Evidence.Faults {
		assert.Equal(t, f.Count, f.Proven, f.Verb)
	}
	assert.Len(t, r.Checked.Evidence.Faults, 7)
	assert.Positive(t, r.Checked.Evidence.PowerLosses, "what was chopped off is reported as lost")

	// The history has what was asked for beside the node that it came to, and what was seen.
	all := events(t, r.Folder)
	at := slices.IndexFunc(all, func(e history.Event) bool { return e.Kind == history.KindFault && e.Fault.Phase == history.Over })
	first := all[at].Fault
	assert.Equal(t, "when hw-only-on-leader of orders-0 within 5s kill leader of orders-0 as old", first.Asked)
	assert.Equal(t, []int32{1}, first.Nodes, "1 led first")
	assert.Equal(t, "state seen", first.Evidence[0].Name)
	assert.Contains(t, first.Evidence[0].Value, "leader 1 has high watermark")

	// What was played is a plan of its own.
	text, err := os.ReadFile(filepath.Join(r.Folder, results.Schedule))
	require.NoError(t, err)
	again := faults(t, string(text))
	assert.Equal(t, r.Played, again)
	assert.False(t, again.Watches())
	assert.Equal(t, "kill 1", again[0].Asked())
	assert.Equal(t, first.Asked, again[0].Note)
}

func TestAFaultThatDoesNotBiteMakesARunInconclusive(t *testing.T) {
	t.Parallel()
	r := play(t, tidemark.RunConfig{Time: 4 * time.Second, Clients: 3, Rate: 200, Seed: 9, Brokers: 4, Topics: []string{"orders=1,2,3"}, Plan: faults(t, `
at 0.500s when isr-one of orders-0 within 300ms kill leader of orders-0
at 1.000s transfer leader of orders-0
at 1.100s ? kill last isr member of orders-0
at 1.200s eio 1
at 1.201s mend 1
`)})
	assert.Equal(t, checker.Inconclusive, r.Checked.Verdict, "%v", r.Checked.Findings)
	assert.Contains(t, r.Checked.Reasons, checker.BecauseFaultUnproven)
	unproven := strings.Join(r.Checked.Details, "\n")
	assert.Contains(t, unproven, `"when isr-one of orders-0 within 300ms kill leader of orders-0"`, "its state never came")
	assert.Contains(t, unproven, `"transfer leader of orders-0"`, "it leads already")
	assert.NotContains(t, unproven, "last isr member", "that may be impossible")
}

func TestWhatARunCannotDoIsRefusedBeforeItBegins(t *testing.T) {
	for _, tc := range []struct {
		plan, want string
		change     func(*tidemark.RunConfig)
	}{
		{"at 1s kill leader of payments-0", "there is no partition payments-0; there are [orders-0]", nil},
		{"at 4s when isr-one of orders-0 within 5s kill 1", "is after the run's time 5s", nil},
		{"at 1s loss 20% 1->2", "direct: without links", func(c *tidemark.RunConfig) { c.Direct = true }},
		{"at 1s chop 20B 2", "a simulated disk does not break", func(c *tidemark.RunConfig) { c.On = tidemark.OnSim }},
		{"at 1s delay 20ms 1->2", "packet rules cannot delay", func(c *tidemark.RunConfig) { c.On = tidemark.OnDocker }},
	} {
		c := tidemark.RunConfig{Time: 5 * time.Second, Plan: faults(t, tc.plan), Root: t.TempDir()}
		if tc.change != nil {
			tc.change(&c)
		}
		_, err := tidemark.Run(t.Context(), c)
		var config *tidemark.ConfigError
		require.ErrorAs(t, err, &config, tc.plan)
		require.ErrorContains(t, err, tc.want)
	}
}

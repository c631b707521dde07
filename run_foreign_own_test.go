package tidemark_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/foreign"
	"tidemark/cluster/process"
	"tidemark/nemesis"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
)

// theirs is a cluster of processes that a run is told nothing of but its addresses, and a folder for hooks: a command makes a folder
// named VERB-ID in it and waits until it is gone, which it is when the test has done that.
type theirs struct {
	*process.Cluster
	folder string
}

func openTheirs(t *testing.T) *theirs {
	t.Helper()
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(t, err)
	brokers := []control.NodeID{1, 2, 3}
	topic, err := node.ParseTopic("orders:2:3", brokers)
	require.NoError(t, err)
	c := cluster.Config{Run: "theirs", Dir: t.TempDir(), Brokers: brokers, Topics: []node.Topic{topic}, Rules: set, Settings: node.Defaults()}
	k, err := process.Open(t.Context(), c)
	require.NoError(t, err)
	var reading, serving sync.WaitGroup
	reading.Go(func() {
		for range k.Events() { // nobody wants them; nodes must not wait
		}
	})
	require.NoError(t, cluster.WaitFor(t.Context(), 20*time.Second, func(ctx context.Context) error {
		r, err := k.Control(ctx, control.Controller, control.Command{Do: control.Look})
		led := 0
		for _, p := range r.View.Records {
			if p.Leader != 0 && len(p.ISR) == 3 {
				led++
			}
		}
		if err == nil && led < 2 {
			err = errors.New("not all of them are in the ISR yet")
		}
		return err
	}))
	th := &theirs{k, t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	serving.Go(func() { th.serve(ctx, t) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		assert.NoError(t, k.Close(context.Background()))
		reading.Wait()
	})
	return th
}

// hook is a command that has something done to a broker.
func (th *theirs) hook(verb string) string {
	return fmt.Sprintf(`d=%s/%s-{id}; mkdir $d && while [ -d $d ]; do sleep 0.02; done; echo %[2]s {host}:{port}`, th.folder, verb)
}

// hooks are those for every fault. A broker that is down has no pid file; what is cut off is noted in a file.
func (th *theirs) hooks() foreign.Hooks {
	return foreign.Hooks{Kill: th.hook("kill"), Start: th.hook("start"), Pause: th.hook("pause"), Resume: th.hook("resume"),
		Partition: th.hook("partition"), Heal: th.hook("heal"),
		CheckPartition: fmt.Sprintf("cat %s/cut-{id}", th.folder), CheckPause: fmt.Sprintf("cat %s/paused-{id}", th.folder)}
}

func (th *theirs) serve(ctx context.Context, t *testing.T) {
	for {
		asked, err := filepath.Glob(filepath.Join(th.folder, "*-[0-9]"))
		assert.NoError(t, err)
		for _, path := range asked {
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				continue
			}
			verb, id, _ := strings.Cut(filepath.Base(path), "-")
			assert.NoError(t, th.do(ctx, verb, id), "%s %s", verb, id)
			assert.NoError(t, os.Remove(path))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (th *theirs) do(ctx context.Context, verb, id string) error {
	n := control.NodeID(id[0] - '0')
	note := func(name string, e cluster.Evidence, err error) error {
		text, failed := json.Marshal(e.Measured)
		return errors.Join(err, failed, os.WriteFile(filepath.Join(th.folder, name+"-"+id), text, 0o644))
	}
	switch verb {
	case "kill":
		_, err := th.Stop(ctx, n, cluster.Kill, nil)
		return err
	case "start":
		_, err := th.Start(ctx, n)
		return err
	case "pause":
		e, err := th.Pause(ctx, n, true)
		return note("paused", e, err)
	case "resume":
		_, err := th.Pause(ctx, n, false)
		return err
	case "partition":
		var cut []cluster.Link
		for _, o := range []control.NodeID{1, 2, 3, control.Controller} {
			if o != n {
				cut = append(cut, cluster.Link{From: n, To: o}, cluster.Link{From: o, To: n})
			}
		}
		e, err := th.Links(ctx, cut)
		return note("cut", e, err)
	}
	_, err := th.Links(ctx, nil)
	return err
}

func theirContract() *history.Contract { return &history.Contract{MinISR: 2} }

func TestOurOwnClusterSeenAsForeignIsConsistentUnderFaults(t *testing.T) {
	t.Parallel()
	th := openTheirs(t)
	r := against(t, th.Bootstrap(), func(c *tidemark.RunConfig) {
		c.Time = 8 * time.Second
		c.Foreign.Hooks, c.Foreign.Contract = th.hooks(), theirContract()
		c.Foreign.PlanName, c.Foreign.Plan = "plan", `
at 0.500s kill 1
at 1.900s start 1
at 2.500s pause 2
at 4.500s resume 2
at 5.000s cut 3->1 1->3 3->2 2->3
at 7.000s heal
`
	})
	c := r.Checked
	assert.Equal(t, checker.Consistent, c.Verdict, "%s: %v", c.Summary(), c.Details)
	assert.Equal(t, []checker.FaultCount{{Verb: "cut", Count: 1, Proven: 1}, {Verb: "kill", Count: 1, Proven: 1}, {Verb: "pause", Count: 1, Proven: 1}}, c.Evidence.Faults)
	assert.Positive(t, c.Evidence.LeaderChanges, "1 led a partition and was killed")
	assert.Equal(t, 2, c.Contract.MinISR)

	// Each fault has its measurement, and what hooks printed is kept.
	measured := map[string]string{}
	for _, e := range events(t, r.Folder) {
		if e.Kind == history.KindFault && e.Fault.Phase == history.Over {
			require.Len(t, e.Fault.Evidence, 1)
			measured[e.Fault.Verb] = e.Fault.Evidence[0].Value
		}
	}
	assert.Regexp(t, "connection (refused|closed)", measured["kill"])
	assert.Contains(t, measured["pause"], "state")
	assert.Equal(t, "null", measured["cut"], "what the check printed")
	text, err := os.ReadFile(filepath.Join(r.Folder, "hooks.log"))
	require.NoError(t, err)
	for _, verb := range []string{"kill", "start", "pause", "resume", "partition", "heal"} {
		assert.Contains(t, string(text), "\n"+verb+" 127.0.0.1:")
	}

	// The same topic again: it has records now.
	_, err = tidemark.Run(t.Context(), tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders"},
		Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: th.Bootstrap()}, Contract: theirContract()}})
	var config *tidemark.ConfigError
	require.ErrorAs(t, err, &config)
	assert.ErrorContains(t, err, "topic orders has records")
}

func TestAHookThatFailsEndsTheRunAndWhatWasDoneIsHealed(t *testing.T) {
	t.Parallel()
	th := openTheirs(t)
	root := t.TempDir()
	hooks := th.hooks()
	hooks.Pause += "; echo no such host; exit 3"
	r, err := tidemark.Run(t.Context(), tidemark.RunConfig{Root: root, Topics: []string{"orders"}, Time: time.Minute, Clients: 2, Rate: 100,
		Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: th.Bootstrap(), Hooks: hooks}, Contract: theirContract(),
			PlanName: "plan", Plan: "at 0.2s kill 1\nat 0.3s pause 2\nat 50s resume 2\nat 51s start 1"}})
	require.ErrorContains(t, err, "at 0.300s pause 2: on-pause 2: ")
	assert.ErrorContains(t, err, "exit code 3: pause 127.0.0.1")
	require.NotNil(t, r)
	assert.Less(t, r.Lasted, 30*time.Second, "not after the minute")
	text, err := os.ReadFile(filepath.Join(r.Folder, "hooks.log"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "resume 127.0.0.1", "what only may have been done is undone too")
	assert.Contains(t, string(text), "start 127.0.0.1")
	assert.Contains(t, string(text), "no such host\n")
	assert.FileExists(t, filepath.Join(r.Folder, results.History))
}

func TestWhatCannotBeRunAgainstAForeignClusterIsRefused(t *testing.T) {
	t.Parallel()
	addresses := fake(t).ListenAddrs()
	kill := foreign.Hooks{Kill: "true", Start: "true"}
	cut := foreign.Hooks{Partition: "true", Heal: "true", CheckPartition: "true"}
	for _, tc := range []struct {
		name   string
		change func(*tidemark.RunConfig)
		want   string
	}{
		{"a topic that is none", func(c *tidemark.RunConfig) { c.Topics = []string{"payments"} }, "there is no topic payments; --create payments:1:3"},
		{"no topic", func(c *tidemark.RunConfig) { c.Topics = nil }, "no topic is named"},
		{"a topic to create that is there", func(c *tidemark.RunConfig) { c.Foreign.Create = []string{"orders:1:1"} }, "topic orders is there already"},
		{"a protocol", func(c *tidemark.RunConfig) { c.Protocol = rules.HW }, "one that is there has its own"},
		{"settings of nothing", func(c *tidemark.RunConfig) { c.Settings = []string{"min.insync.replicas=2"} }, "settings [min.insync.replicas=2]"},
		{"two kinds of acks", func(c *tidemark.RunConfig) { c.Acks = "1"; c.Foreign.Contract = &history.Contract{Acks: "all"} }, "contract: acks=all, and the clients ask for acks=1"},
		{"a fault without a hook", func(c *tidemark.RunConfig) {
			c.Foreign.Able, c.Foreign.Hooks, c.Faults = false, kill, nemesis.Basic()[:2]
		}, "fault pause: nothing says how to freeze a broker: give --on-pause and --on-resume, or --container"},
		{"a power failure", func(c *tidemark.RunConfig) { c.Foreign.Able, c.Faults = false, []nemesis.Fault{nemesis.Power} }, "fault power: it can be played only on clusters that the harness starts"},
		{"half a hook", func(c *tidemark.RunConfig) { c.Foreign.Hooks.Kill = "true" }, `--on-kill "true" needs --on-start`},
		{"a partition that nothing shows", func(c *tidemark.RunConfig) { c.Foreign.Hooks = foreign.Hooks{Partition: "true", Heal: "true"} }, "needs --check-partition"},
		{"a plan with a fault without a hook", func(c *tidemark.RunConfig) { c.Foreign.Hooks, c.Foreign.Plan = kill, "at 1s pause 0" }, "at 1.000s pause 0: nothing says how to freeze"},
		{"a plan with a broker that is none", func(c *tidemark.RunConfig) { c.Foreign.Hooks, c.Foreign.Plan = kill, "at 1s kill 3" }, `"3": no such node`},
		{"a plan with the controller", func(c *tidemark.RunConfig) { c.Foreign.Hooks, c.Foreign.Plan = kill, "at 1s kill controller" }, "where the controller runs is not known"},
		{"a cut that no hook makes", func(c *tidemark.RunConfig) { c.Foreign.Hooks, c.Foreign.Plan = cut, "at 1s cut 0->1" }, "a hook cuts a broker off from all others"},
		{"a plan beyond the time", func(c *tidemark.RunConfig) { c.Foreign.Hooks, c.Foreign.Plan = kill, "at 9s kill 0" }, "is after the run's time"},
		{"no time for faults", func(c *tidemark.RunConfig) {
			c.Foreign.Hooks, c.Faults, c.Foreign.Stretch = kill, nemesis.Basic()[:1], 4
		}, "time 1.2s is too short for faults: give 40s or more"},
		{"no address", func(c *tidemark.RunConfig) { c.Foreign.Bootstrap = []string{"localhost"} }, `bootstrap "localhost": want host:port`},
		{"a container of no broker", func(c *tidemark.RunConfig) { c.Foreign.Contract = nil; c.Foreign.Plan = "at 1s fire 1" }, "unknown verb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tidemark.RunConfig{Root: filepath.Join(t.TempDir(), "runs"), Topics: []string{"orders"}, Time: 1200 * time.Millisecond,
				Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: addresses}, Able: true}}
			tc.change(&c)
			_, err := tidemark.Run(t.Context(), c)
			var config *tidemark.ConfigError
			require.ErrorAs(t, err, &config)
			require.ErrorContains(t, err, tc.want)
			assert.NoDirExists(t, c.Root)
		})
	}
}

// Random faults are those that hooks can play, in the shapes that they can, and last as long as they are to.
func TestRandomFaultsAreThoseThatThereAreHooksFor(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := tidemark.Run(ctx, tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders"}, Time: time.Hour, Clients: 1, Rate: 50, Seed: 3,
		Faults: nemesis.Basic(), Progress: func(p tidemark.Progress) {
			if p.Totals.Acked > 0 {
				cancel()
			}
		}, Foreign: &tidemark.Foreign{Able: true, Stretch: 3, Config: foreign.Config{Bootstrap: fake(t).ListenAddrs(),
			Hooks: foreign.Hooks{Pause: "true", Resume: "true", Partition: "true", Heal: "true", CheckPartition: "true"}}}})
	require.ErrorIs(t, err, context.Canceled)
	verbs := map[string]int{}
	paused := map[cluster.NodeID]time.Duration{}
	var longest time.Duration
	for _, s := range r.Plan {
		verbs[s.Verb]++
		switch s.Verb {
		case "cut":
			assert.Len(t, s.Links, 4, "one of three brokers, both ways: %s", s)
		case "pause":
			for _, n := range s.Nodes {
				paused[n] = s.At
			}
		case "resume":
			for _, n := range s.Nodes {
				longest = max(longest, s.At-paused[n])
			}
		}
	}
	const unstretched = 3500 * time.Millisecond
	assert.Greater(t, longest, unstretched)
	assert.LessOrEqual(t, longest, 3*unstretched)
	assert.Len(t, verbs, 4)
	assert.Positive(t, verbs["pause"])
	assert.Positive(t, verbs["cut"])
}

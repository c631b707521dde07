package tidemark_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster/sim/virtual"
	"tidemark/nemesis"
	"tidemark/node/rules"
	"tidemark/results"
)

// simulate makes a run in virtual time and gives its history as it stands in the file.
func simulate(t *testing.T, c tidemark.RunConfig) (*tidemark.RunResult, []byte) {
	t.Helper()
	c.On, c.Root = tidemark.OnSim, t.TempDir()
	r, err := tidemark.Run(t.Context(), c)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(r.Folder, results.History))
	require.NoError(t, err)
	return r, text
}

func TestASimulatedRunIsMadeOfTheSamePhasesAsAnyOther(t *testing.T) {
	t.Parallel()
	var told []tidemark.Progress
	r, _ := simulate(t, tidemark.RunConfig{Time: 8 * time.Second, Clients: 5, Rate: 400, Seed: 5, Topics: []string{"orders:2:3"},
		Progress: func(p tidemark.Progress) { told = append(told, p) },
		Plan: faults(t, `
at 0.500s kill 1
at 1.800s start 1
at 2.000s pause 2
at 3.600s resume 2
at 4.000s cut 1->2 2->1 2->3 3->2 2->controller controller->2 2->clients clients->2
at 5.400s heal
at 5.900s kill controller
at 6.100s start controller
at 6.500s powerfail 3 cut=1+10
at 7.500s start 3
`)})
	c := r.Checked
	assert.Contains(t, []checker.Verdict{checker.Consistent, checker.Allowed}, c.Verdict, "%v: %v", c.Reasons, c.Details)
	assert.Equal(t, []checker.FaultCount{{Verb: "cut", Count: 1, Proven: 1}, {Verb: "kill", Count: 2, Proven: 2}, {Verb: "pause", Count: 1, Proven: 1},
		{Verb: "powerfail", Count: 1, Proven: 1}}, c.Evidence.Faults)
	assert.Positive(t, c.Evidence.LeaderChanges)
	assert.EqualValues(t, r.Workload.Acked, c.Evidence.Acked, "what was counted and what was recorded")
	assert.GreaterOrEqual(t, r.Lasted, 8*time.Second, "in virtual time")
	assert.Positive(t, r.Latency.P99)
	assert.NotZero(t, r.Trace)

	kinds, whats := map[history.Kind]int{}, map[history.What]int{}
	for _, e := range events(t, r.Folder) {
		kinds[e.Kind]++
		if e.Node != nil {
			whats[e.Node.What]++
		}
	}
	assert.Equal(t, 10, kinds[history.KindFault])
	assert.Equal(t, 6, kinds[history.KindReplica], "three of each partition")
	assert.Equal(t, 2, kinds[history.KindSettled])
	for _, what := range []history.What{history.Append, history.HW, history.Ack, history.RoleChanged, history.Elected, history.Recovered,
		history.PowerLoss, history.Registered, history.Fenced, history.Unfenced} {
		assert.Positive(t, whats[what], what)
	}
	again, err := tidemark.Check(t.Context(), r.Folder, checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, asJSON(t, c), asJSON(t, again), "judged again from its folder")

	var doing []string
	for _, p := range told {
		if len(doing) == 0 || doing[len(doing)-1] != p.Doing {
			doing = append(doing, p.Doing)
		}
	}
	assert.Equal(t, []string{"starting the cluster", "running", "waiting for the replicas to agree", "reading what there is", "checking"}, doing)
	assert.Greater(t, len(told), 15, "each virtual second and each fault")
}

func TestASimulatedRunIsItsSeed(t *testing.T) {
	t.Parallel()
	c := tidemark.RunConfig{Time: 6 * time.Second, Clients: 4, Rate: 300, Seed: 11, Faults: nemesis.Basic()}
	first, one := simulate(t, c)
	second, two := simulate(t, c)
	assert.True(t, bytes.Equal(one, two), "the same to the last byte")
	assert.Equal(t, first.Trace, second.Trace)
	assert.Equal(t, first.Plan, second.Plan)
	c.Seed = 12
	other, three := simulate(t, c)
	assert.NotEqual(t, first.Trace, other.Trace)
	assert.False(t, bytes.Equal(one, three))
}

// What random faults find on processes only by luck, a simulation finds again by its seed. A follower leaves the ISR at a restart, so that
// its truncation to the high watermark does no harm, unless it comes back within its session (registration=zk), or leadership moves
// between replicas that live: by pauses and cuts, with a short replica.lag.time.max.ms.
func TestSimulatedFaultsFindWhatTruncationToTheHighWatermarkLoses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		c    tidemark.RunConfig
	}{
		{"restarts within the session", tidemark.RunConfig{Seed: 257, Rules: []string{"registration=zk"}, Faults: []nemesis.Fault{nemesis.Kill}}},
		{"short lag", tidemark.RunConfig{Seed: 3, Faults: []nemesis.Fault{nemesis.Kill, nemesis.Pause, nemesis.Partition},
			Settings: []string{"replica.lag.time.max.ms=300", "broker.session.timeout.ms=700"}, Network: slow()}},
	} {
		for _, p := range []rules.Protocol{rules.HW, rules.KIP320, rules.KIP966} {
			c := tc.c
			c.Protocol, c.Time, c.Rate = p, 8*time.Second, 600
			if p == rules.KIP966 {
				c.Rules = nil // ELR needs kraft's registration
			}
			r, _ := simulate(t, c)
			if p != rules.HW {
				assert.Equal(t, checker.Consistent, r.Checked.Verdict, "%s, %s: %v", tc.name, p, r.Checked.Details)
				continue
			}
			require.Equal(t, checker.Violation, r.Checked.Verdict, tc.name)
			lost := 0
			for _, f := range r.Checked.Findings {
				if f.Anomaly == checker.LostAcked && f.Because == "" {
					lost++
					assert.Contains(t, f.Sentence, "high watermark", "the sentence says who cut it")
				}
			}
			assert.Positive(t, lost, tc.name)
		}
	}
}

func slow() virtual.Network {
	n := virtual.DefaultNetwork()
	n.Jitter = 5 * time.Millisecond
	return n
}

func TestWhatMakesNoSenseInASimulationIsRefused(t *testing.T) {
	for _, tc := range []struct {
		c    tidemark.RunConfig
		want string
	}{
		{tidemark.RunConfig{On: tidemark.OnSim, Direct: true}, "direct: a simulation has no connections"},
		{tidemark.RunConfig{On: tidemark.OnSim, Binary: "/bin/tidemark"}, "binary /bin/tidemark: a simulation runs in this process"},
		{tidemark.RunConfig{On: tidemark.OnProcess, Network: slow()}, "network: backend process has a real one"},
		{tidemark.RunConfig{On: tidemark.OnSim, Network: virtual.Network{Delay: 1, Lose: 2}}, "network: lose=2: want a share from 0 to 1"},
	} {
		_, err := tidemark.Run(t.Context(), tc.c)
		var config *tidemark.ConfigError
		require.ErrorAs(t, err, &config)
		assert.ErrorContains(t, err, tc.want)
	}
	err := tidemark.Up(t.Context(), tidemark.RunConfig{On: tidemark.OnSim, Root: t.TempDir()}, func([]string, string) {})
	assert.ErrorContains(t, err, "a simulation has no addresses for clients")
}

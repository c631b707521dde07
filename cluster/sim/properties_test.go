package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/control"
	"tidemark/node/rules"
)

// always is what holds at every moment under every protocol, with and without power failures.
func always(c *cluster) error {
	for _, n := range c.stage.ids {
		v, ok := c.seen[n]
		if !ok {
			continue
		}
		if v.HW < v.Start || v.HW > v.LEO {
			return fmt.Errorf("broker %d has high watermark %d outside of its log, [%d, %d]", n, v.HW, v.Start, v.LEO)
		}
		for i := range v.Epochs[min(1, len(v.Epochs)):] {
			a, b := v.Epochs[i], v.Epochs[i+1]
			if a.Epoch >= b.Epoch || a.Start >= b.Start {
				return fmt.Errorf("the epoch cache of broker %d does not rise: %v", n, v.Epochs)
			}
		}
	}
	return nil
}

// kept is what KIP-320 brought, as long as no disk loses anything.
func kept(c *cluster) error {
	if err := always(c); err != nil {
		return err
	}
	record := c.record
	for _, n := range c.stage.ids {
		v, ok := c.seen[n]
		if !ok {
			continue
		}
		for _, m := range record.ISR {
			if member, ok := c.seen[m]; ok && v.HW > member.LEO {
				return fmt.Errorf("broker %d has high watermark %d, but %d of the ISR %v ends at %d", n, v.HW, m, record.ISR, member.LEO)
			}
		}
		if err := implied(v); err != nil {
			return fmt.Errorf("broker %d: %w", n, err)
		}
	}
	if len(c.cuts) > 0 {
		e := c.cuts[0]
		return fmt.Errorf("broker %d cut below its own high watermark %d, from %d to %d: %s", e.Node, e.HW, e.From, e.To, e.Why)
	}
	if c.forked != "" {
		return fmt.Errorf("%s", c.forked)
	}
	return nil
}

// implied says whether the epoch cache is what the log implies, plus the entry of an election after which nothing was
// written yet.
func implied(v control.PartitionView) error {
	var want []control.Epoch
	for _, r := range v.Log {
		if n := len(want); n == 0 || want[n-1].Epoch != r.Epoch {
			want = append(want, control.Epoch{Epoch: r.Epoch, Start: r.Offset})
		}
	}
	if n := len(v.Epochs); n == len(want)+1 && v.Epochs[n-1].Start == v.LEO {
		want = append(want, v.Epochs[n-1])
	}
	if !slices.Equal(want, v.Epochs) {
		return fmt.Errorf("the log implies the epoch cache %v, it is %v", want, v.Epochs)
	}
	return nil
}

// equal says whether all replicas have the same log, and all of it committed.
func equal(c *cluster) error {
	first := c.seen[c.stage.ids[0]]
	for _, n := range c.stage.ids {
		if v := c.seen[n]; !slices.Equal(v.Log, first.Log) || v.HW != v.LEO {
			return fmt.Errorf("the settled replicas differ, or are not all committed")
		}
	}
	return nil
}

// complete says whether every record that was acknowledged is where its answer said.
func complete(c *cluster) error {
	r := c.record
	if r.Leader == 0 {
		return nil
	}
	log := c.seen[r.Leader].Log
	for value, at := range c.acked {
		if at >= int64(len(log)) || log[at].Value != value {
			return fmt.Errorf("%s was acknowledged at offset %d and is not there", value, at)
		}
	}
	return nil
}

// setup is a protocol with some of its rules set otherwise.
type setup struct {
	protocol rules.Protocol
	settings []string
}

func (s setup) set(t require.TestingT) rules.Set {
	set, err := rules.Parse(s.protocol, nil, s.settings)
	require.NoError(t, err)
	return set
}

// walked is a cluster after a random walk under one of the setups, during which the check held at every moment.
func walked(t *rapid.T, check func(*cluster) error, among []setup, actions ...[]string) *cluster {
	set := rapid.SampledFrom(among).Draw(t, "setup").set(t)
	walk := walks(actions...).Draw(t, "walk")
	c, err := newCluster(set, check)
	require.NoError(t, err)
	require.NoError(t, c.run(walk), "%s", c)
	return c
}

// each is every protocol as it was.
func each() []setup {
	var all []setup
	for _, p := range rules.Protocols() {
		all = append(all, setup{p, nil})
	}
	return all
}

func TestWithoutPowerFailuresNothingThatWasAcknowledgedIsLostSinceKIP320(t *testing.T) {
	among := []setup{{rules.KIP320, nil}, {rules.KIP320, []string{"registration=zk"}}, {rules.KIP320, []string{"truncation=on-fetch"}}, {rules.KIP966, nil}}
	rapid.Check(t, func(t *rapid.T) {
		c := walked(t, kept, among, replication, faults)
		require.NoError(t, equal(c), "%s", c)
		require.NoError(t, complete(c), "%s", c)
	})
}

// KIP-966 promises to get over as many lossy crashes as are one fewer than min.insync.replicas, here one, unless it says that
// it could not.
func TestWithEligibleLeaderReplicasOnePowerFailureLosesNothingUnlessTheControllerSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := false
		walk := walks(replication, faults, power).Draw(t, "walk")
		walk = slices.DeleteFunc(walk, func(a action) bool {
			again := a.do == "powerfail" && once
			once = once || a.do == "powerfail"
			return again
		})
		c, err := newCluster(rules.Of(rules.KIP966), always)
		require.NoError(t, err)
		require.NoError(t, c.run(walk), "%s", c)
		if !c.unclean {
			require.NoError(t, complete(c), "%s", c)
		}
	})
}

func TestReplicasAreEqualAfterPowerFailuresToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := walked(t, always, []setup{{rules.KIP320, nil}, {rules.KIP320, []string{"truncation=on-fetch"}}, {rules.KIP966, nil}}, replication, faults, power)
		require.NoError(t, equal(c), "%s", c)
	})
}

func TestWhateverHappensEpochsRiseAndHighWatermarksStayInTheirLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		walked(t, always, each(), replication, faults, power)
	})
}

func TestTruncatingToTheHighWatermarkNeverCutsBelowIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := walked(t, always, each()[:1], replication, faults, power)
		for _, e := range c.cuts {
			// The epoch-blind second way: the leader's log is shorter than the follower's high watermark.
			require.True(t, strings.HasPrefix(e.Why, "offset out of range"), "cut below the high watermark: %v", e)
		}
	})
}

func TestTheSameCommandsGiveTheSameStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := walked(t, nil, each(), replication, faults, power)
		again, err := newCluster(first.stage.rules, nil)
		require.NoError(t, err)
		for i, cmd := range first.commands {
			reply, err := cmd.give(context.Background(), again.stage)
			require.NoError(t, err)
			require.NoError(t, again.note(cmd, reply))
			require.Equal(t, first.trace[i], again.trace[i], "command %d: %+v", i, cmd)
		}
		require.Len(t, again.trace, len(first.trace))
	})
}

// Judges the walks and the checks themselves: they find what the older protocols are known for.
func TestWalksFindWhatTheOlderProtocolsAreKnownFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup setup
		sees  func(*cluster) error
	}{
		{"hw loses what was acknowledged", setup{rules.HW, nil}, complete},
		{"kip101 lets logs differ", setup{rules.KIP101, nil}, equal},
	} {
		t.Run(c.name, func(t *testing.T) {
			generator := walks(replication, faults)
			for seed := range 1000 {
				cluster, err := newCluster(c.setup.set(t), always)
				require.NoError(t, err)
				require.NoError(t, cluster.run(generator.Example(seed)), "%s", cluster)
				if c.sees(cluster) != nil {
					return
				}
			}
			assert.Fail(t, "a thousand walks have not seen it")
		})
	}
}

package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// twoBrokers is the cluster of small scopes.
func twoBrokers() schedule.Cluster {
	return schedule.Cluster{Replicas: []control.NodeID{1, 2}, MinISR: 2}
}

// rulesWithout is a protocol without one rule.
func rulesWithout(t testing.TB, p rules.Protocol, name string) rules.Set {
	set, err := rules.Parse(p, []string{name}, nil)
	require.NoError(t, err)
	return set
}

func TestTheShortestLossUnderHighWatermarkTruncationTakesNineMoves(t *testing.T) {
	s := Scope{Cluster: twoBrokers(), Court: Court{Protocol: rules.HW, Rules: rules.Of(rules.HW)}, Records: 1, Epochs: 4, Changes: 3,
		LeaveOut: []schedule.Verb{schedule.Lag, schedule.Unfence}}
	c, err := s.Run(context.Background())
	require.NoError(t, err)
	require.NotNil(t, c.Find)
	assert.False(t, c.Complete)
	assert.Zero(t, c.Unconfirmed)
	assert.Equal(t, 8, c.Depth, "the levels before were complete")
	assert.Equal(t, "lost-acked+read-then-lost", c.Find.Name())

	s.Court = Court{Protocol: rules.KIP101, Rules: rules.Of(rules.KIP101)}
	c, err = s.Run(context.Background())
	require.NoError(t, err)
	assert.Nil(t, c.Find)
	assert.True(t, c.Complete, "with KIP-101 the same scope is clean")
}

func TestAnExhaustiveSearchStopsAtItsBoundsAndSaysWhatItSaw(t *testing.T) {
	s := Scope{Cluster: twoBrokers(), Court: Court{Protocol: rules.KIP966, Rules: rules.Of(rules.KIP966)}, Records: 2, Epochs: 4, Changes: 5,
		MaxStates: 2000}
	c, err := s.Run(context.Background())
	require.NoError(t, err)
	assert.False(t, c.Complete)
	assert.GreaterOrEqual(t, c.States, 2000)
	assert.Less(t, c.States, 2000+256*20)
	assert.Contains(t, c.Stopped, "states")

	s.MaxStates, s.MaxMemory = 0, 1
	c, err = s.Run(context.Background())
	require.NoError(t, err)
	assert.Contains(t, c.Stopped, "MiB of memory")

	done, cancel := context.WithCancel(context.Background())
	cancel()
	s.MaxMemory = 0
	c, err = s.Run(done)
	require.NoError(t, err)
	assert.Equal(t, Interrupted, c.Stopped)
}

func TestScopesThatCannotBeAreRefused(t *testing.T) {
	good := Scope{Cluster: twoBrokers(), Records: 1, Epochs: 1}
	for name, spoil := range map[string]func(*Scope){
		"0 replicas":                       func(s *Scope) { s.Cluster.Replicas = nil },
		"0 records":                        func(s *Scope) { s.Records = 0 },
		"0 epochs":                         func(s *Scope) { s.Epochs = 0 },
		`verb "dance" is left out`:         func(s *Scope) { s.LeaveOut = []schedule.Verb{"dance"} },
		"1 power failures among 0 crashes": func(s *Scope) { s.Power = 1 },
	} {
		s := good
		spoil(&s)
		_, err := s.Run(context.Background())
		assert.ErrorIs(t, err, ErrScope, name)
		assert.ErrorContains(t, err, name)
	}
}

func TestTheSameScopeIsSearchedTheSameWay(t *testing.T) {
	s := Scope{Cluster: twoBrokers(), Court: Court{Protocol: rules.KIP320, Rules: rules.Of(rules.KIP320)}, Records: 1, Epochs: 2, Changes: 2}
	first, err := s.Run(context.Background())
	require.NoError(t, err)
	again, err := s.Run(context.Background())
	require.NoError(t, err)
	first.Memory, again.Memory = 0, 0
	assert.Equal(t, first, again)
	assert.True(t, first.Complete)
}

func TestKeysAreKeptOnce(t *testing.T) {
	s, r := newKeySet(), streamOf(1, 1)
	var keys []Key
	for range 10_000 {
		keys = append(keys, Key{r.next(), r.next()})
	}
	keys = append(keys, Key{})
	for _, k := range keys {
		require.True(t, s.add(k))
	}
	for _, k := range keys {
		require.False(t, s.add(k))
	}
	assert.Equal(t, len(keys), s.size)
}

// BenchmarkExhaustive looks at the first states of scopes that have more. A state costs more where more moves lead to it.
func BenchmarkExhaustive(b *testing.B) {
	for _, c := range []struct {
		protocol rules.Protocol
		cluster  schedule.Cluster
		records  int
	}{
		{rules.HW, twoBrokers(), 3}, {rules.HW, threeBrokers(), 3}, {rules.KIP966, twoBrokers(), 1}, {rules.KIP966, twoBrokers(), 3},
		{rules.KIP966, twoBrokers(), 9}, {rules.KIP966, threeBrokers(), 3},
	} {
		b.Run(fmt.Sprintf("%s, %d replicas, %d records", c.protocol, len(c.cluster.Replicas), c.records), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
			var states, transitions, kept float64
			before := processorTime()
			for range b.N {
				x, err := Scope{Cluster: c.cluster, Court: Court{Protocol: c.protocol, Rules: rules.Of(c.protocol)}, Records: c.records, Epochs: 3,
					Changes: 3, MaxStates: 30_000}.Run(context.Background())
				require.NoError(b, err)
				states, transitions, kept = states+float64(x.States), transitions+float64(x.Transitions), float64(x.Kept)/float64(x.States)
			}
			took := (processorTime() - before).Seconds()
			b.ReportMetric(states/took, "states/cpu-s")
			b.ReportMetric(transitions/took, "moves/cpu-s")
			b.ReportMetric(kept, "B/state")
		})
	}
}

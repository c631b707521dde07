package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/cluster/sim"
)

func TestAnInterruptedExplorationIsPartialAndExitsWithTwo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range map[string]string{
		"explore --severity zombies":            "PARTIAL (interrupted): 0 schedules were played",
		"explore --exhaustive --replicas 2":     "PARTIAL (interrupted): everything within 0 moves was looked at, and is clean",
		"explore --schedules 100 --twice":       "PARTIAL (interrupted): 0 schedules were played",
		"explore --time 10m --faults kill,lag":  "PARTIAL (interrupted): 0 schedules were played",
		"explore --exhaustive --max-states 300": "PARTIAL (interrupted): everything",
	} {
		s := command(t, ctx, nil, strings.Fields(args)...)
		assert.Equal(t, 2, s.code, "%s\n%s%s", args, s.out, s.err)
		assert.Contains(t, s.out, want, args)
	}
}

func TestAnExplorationThatStopsAtABoundIsPartialToo(t *testing.T) {
	s := command(t, t.Context(), nil, strings.Fields("explore --exhaustive --replicas 2 --max-states 300")...)
	assert.Equal(t, 2, s.code, s.err)
	assert.Regexp(t, `PARTIAL \(\d+ states\): everything within \d+ moves was looked at, and is clean`, s.out)
}

func TestExploreSaysWhatFaultsItDraws(t *testing.T) {
	s := command(t, t.Context(), nil, strings.Fields("explore --faults power,kill --schedules 50 --twice")...)
	require.Zero(t, s.code, s.err)
	assert.Contains(t, s.out, "faults kill,power, seed 1: 50 schedules")
	assert.Contains(t, s.out, "the second run was the same, step by step")

	for args, want := range map[string]string{
		"--faults gravity":               `fault "gravity": want some of kill, isolate, lag, failover, zombies, power`,
		"--faults kill --severity sane":  "--faults and --severity both say what goes wrong; leave one out",
		"--exhaustive --faults kill":     "--faults is about random schedules; leave out --faults or --exhaustive",
		"--exhaustive --twice":           "--twice is about random schedules; leave out --twice or --exhaustive",
		"--exhaustive --power 1":         "impossible scope: 1 power failures among 0 crashes: a power failure is a crash",
		"--exhaustive --max-memory 0":    "--max-memory 0: want 0 or more states and 1 MiB or more",
		"--exhaustive --leave-out dance": `impossible scope: verb "dance" is left out, and is none of a search`,
	} {
		s := command(t, t.Context(), nil, append([]string{"explore"}, strings.Fields(args)...)...)
		assert.Equal(t, exitUsage, s.code, args)
		assert.Contains(t, s.err, want, args)
	}
}

func TestProgressIsALineEachTime(t *testing.T) {
	var out bytes.Buffer
	tell := exploring(&out, 0)
	tell(&tidemark.Exploration{Took: 1500e6, Random: &sim.Explored{Counts: sim.Counts{Schedules: 3000}, Violations: 2}})
	tell(&tidemark.Exploration{Took: 2500e6, Exhaustive: &sim.Covered{States: 7000, Expanded: 4000, Depth: 9}})
	assert.Regexp(t, `^  1\.5 s: 3000 schedules, 2 violations, \d+ schedules/s
  2\.5 s: 7000 states, 3000 still to be looked at, depth 9, \d+ states/s
$`, out.String())
}

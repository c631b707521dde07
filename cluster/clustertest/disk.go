package clustertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node"
	"tidemark/node/control"
)

// disk sets what is wrong with a broker's disk and returns what was counted before.
func (f *fixture) disk(n cluster.NodeID, d *control.DiskFault) control.DiskCounts {
	f.t.Helper()
	reply, err := f.Control(f.ctx, n, control.Command{Do: control.Disk, Disk: d})
	require.NoError(f.t, err)
	require.Empty(f.t, reply.Error)
	require.NotNil(f.t, reply.Disk)
	return *reply.Disk
}

// offline waits until a broker's replica is offline.
func (f *fixture) offline(n cluster.NodeID) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("the replica on %d is offline", n), func() error {
		v, err := f.replica(n)
		if err == nil && v.Role != "offline" {
			err = errors.New(v.Role)
		}
		return err
	})
}

func brokenDisk(t *testing.T, open Open) {
	f := start(t, open, func(c *cluster.Config) { c.Settings.FlushInterval = 20 * time.Millisecond })
	f.produce("m0")
	follower := f.others(f.leader())[0]
	for _, fault := range []control.DiskFault{{FailAppends: 1}, {Full: true}} {
		require.Zero(t, f.disk(follower, &fault))
		f.produce(fmt.Sprintf("m%+v", fault)) // by those whose disks work
		f.offline(follower)
		counts := f.disk(follower, nil)
		require.Positive(t, counts.Failed+counts.Refused, "%+v", counts)
		require.Equal(t, counts, f.disk(follower, &control.DiskFault{}), "asking changes nothing")

		// It opens its log again at its next start, and has all of it that it had.
		f.stop(follower, cluster.Kill)
		f.startNode(follower)
		f.inSync()
		f.keeps(follower)
	}

	// A slow disk only takes longer.
	f.disk(follower, &control.DiskFault{SlowSync: 10 * time.Millisecond})
	f.produce("m1")
	f.eventually("the disk is slow", func() error {
		if c := f.disk(follower, nil); c.Slowed == 0 || c.SlowedFor < 10*time.Millisecond {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	f.inSync()
	f.keeps(follower)

	// The controller has no such disk.
	reply, err := f.Control(f.ctx, control.Controller, control.Command{Do: control.Disk})
	require.NoError(t, err)
	require.Equal(t, "disk: only brokers have one", reply.Error)
}

func damagedDisk(t *testing.T, open Open) {
	f := start(t, open)
	k, ok := f.Cluster.(cluster.Damager)
	require.True(t, ok)
	for i := range 4 {
		f.produce(fmt.Sprintf("m%d", i)) // each a batch of its own
	}
	f.inSync()
	victim := f.others(f.leader())[0]
	_, err := k.Damage(f.ctx, victim, node.Damage{Kind: node.DamageChop, Bytes: 1})
	require.ErrorContains(t, err, "is up")
	_, err = k.Damage(f.ctx, 99, node.Damage{Kind: node.DamageChop, Bytes: 1})
	require.ErrorContains(t, err, "99")

	// Even what was flushed and left by a clean shutdown.
	for _, d := range []node.Damage{{Kind: node.DamageChop, Bytes: 30}, {Kind: node.DamageFlip, Bytes: 30}} {
		f.stop(victim, cluster.Clean)
		before := f.events.len()
		e, err := k.Damage(f.ctx, victim, d)
		if errors.Is(err, cluster.ErrUnsupported) {
			t.Skip(err)
		}
		require.NoError(t, err)
		f.proved(e)
		lost := f.reported(before, "what was lost", func(e control.Event) bool { return e.Node == victim && e.What == "powerloss" })
		require.EqualValues(t, 4, lost.From)
		require.EqualValues(t, 3, lost.To)
		require.Positive(t, lost.Bytes)
		require.NotEmpty(t, lost.Why)
		require.EqualValues(t, 3, only(t, f.startNode(victim), "recovered").To, "what the harness says is what recovery finds")
		f.inSync()
		f.keeps(victim)
		events := f.events.from(before)
		isOf := func(what string) func(control.Event) bool {
			return func(e control.Event) bool { return e.Node == victim && e.What == what }
		}
		require.Less(t, slices.IndexFunc(events, isOf("powerloss")), slices.IndexFunc(events, isOf("recovered")), "in the broker's own order")
	}

	// Without its checkpoints a broker starts as if it knew nothing of high watermarks and epochs; the log tells the epochs.
	f.stop(victim, cluster.Clean)
	e, err := k.Damage(f.ctx, victim, node.Damage{Kind: node.DamageForget})
	require.NoError(t, err)
	f.proved(e)
	found := only(t, f.startNode(victim), "recovered")
	require.EqualValues(t, 4, found.To)
	require.Zero(t, found.HW)
	f.inSync()
	f.keeps(victim)
}

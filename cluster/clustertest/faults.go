package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
)

func pause(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	leader := f.leader()
	for range 2 {
		e, err := f.Pause(f.ctx, leader, true)
		require.NoError(t, err)
		f.proved(e)
	}
	waiting := f.dial(leader).send(metadataRequest())
	next := f.newLeader(leader)
	f.produce("m1")
	f.keeps(next)
	f.silent(waiting, "the broker is frozen")

	// Who gives up a command that it does not answer can give it the next one later.
	short, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := f.Control(short, leader, control.Command{Do: control.Look})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// It goes on where it was, answers, learns that it was deposed, and follows.
	for range 2 {
		e, err := f.Pause(f.ctx, leader, false)
		require.NoError(t, err)
		require.True(t, e.Proven, "%+v", e)
	}
	f.arrives(waiting)
	f.inSync()
	v, err := f.replica(leader)
	require.NoError(t, err)
	require.NotZero(t, v.LeaderEpoch)
	for _, n := range f.brokers {
		f.keeps(n)
	}
}

func pauseEnds(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	for _, how := range []cluster.How{cluster.Kill, cluster.Clean} {
		_, err := f.Pause(f.ctx, 2, true)
		require.NoError(t, err)
		f.stop(2, how)
		f.startNode(2)

		// A new process is not frozen.
		v, err := f.look(2)
		require.NoError(t, err, how)
		require.Len(t, v.Partitions, 1)
	}
	f.inSync()
	f.keeps(2)
}

// alone are the links that cut a broker off from everybody.
func (f *fixture) alone(n cluster.NodeID) []cluster.Link {
	var links []cluster.Link
	for _, o := range append(f.others(n), control.Controller, cluster.ClientsID) {
		links = append(links, cluster.Link{From: n, To: o}, cluster.Link{From: o, To: n})
	}
	return links
}

func isolate(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	leader := f.leader()
	connection := f.dial(leader)
	f.arrives(connection.send(metadataRequest()))
	cut := f.alone(leader)
	for range 2 {
		_, err := f.Links(f.ctx, cut)
		require.NoError(t, err)
	}
	waiting := connection.send(metadataRequest())
	f.fenced(leader)
	next := f.newLeader(leader)
	f.produce("m1")
	f.keeps(next)
	f.silent(waiting, "its requests and answers are lost, and its connection stays")

	// Nobody has told it. The harness, whose own connection is never cut, sees what it thinks.
	v, err := f.replica(leader)
	require.NoError(t, err)
	require.Equal(t, "leader", v.Role)
	require.EqualValues(t, 0, v.LeaderEpoch)

	// The connection goes on as if nothing had been.
	e, err := f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	f.arrives(waiting)
	f.inSync()
	for _, n := range f.brokers {
		f.keeps(n)
	}
	e, err = f.Links(f.ctx, nil)
	require.NoError(t, err)
	require.True(t, e.Proven, "there is nothing to prove: %+v", e)
	require.Empty(t, e.Measured)
}

func oneWay(t *testing.T, open Open) {
	f := start(t, open)
	leader := f.leader()
	connection := f.dial(leader)
	f.arrives(connection.send(metadataRequest()))
	end := func() (int64, error) {
		v, err := f.replica(leader)
		return v.LEO, err
	}

	// What the broker sends to clients is lost: the request arrives, the answer does not.
	back := []cluster.Link{{From: leader, To: cluster.ClientsID}}
	_, err := f.Links(f.ctx, back)
	require.NoError(t, err)
	waiting := connection.send(produceRequest(1, "m0"))
	f.eventually("the request arrives", func() error {
		leo, err := end()
		if err == nil && leo != 1 {
			err = fmt.Errorf("the log ends at %d", leo)
		}
		return err
	})
	f.lost(back)
	f.silent(waiting, "answers are lost")
	e, err := f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	require.NoError(t, refusal(f.arrives(waiting)))

	// What clients send to it is lost. The cut is in place of another, which ends with it.
	_, err = f.Links(f.ctx, back)
	require.NoError(t, err)
	there := []cluster.Link{{From: cluster.ClientsID, To: leader}}
	_, err = f.Links(f.ctx, there)
	require.NoError(t, err)
	waiting = connection.send(produceRequest(1, "m1"))
	f.lost(there)
	leo, err := end()
	require.NoError(t, err)
	require.EqualValues(t, 1, leo, "a request came through a link that is cut")
	f.silent(waiting, "requests are lost")
	e, err = f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	resp := f.arrives(waiting)
	require.NoError(t, refusal(resp))
	require.EqualValues(t, 1, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
}

// lost waits until links that are cut have lost something. Cutting them once more says so and changes nothing.
func (f *fixture) lost(cut []cluster.Link) {
	f.t.Helper()
	f.eventually("something is lost on its way", func() error {
		e, err := f.Links(f.ctx, cut)
		if err == nil && !e.Proven {
			err = fmt.Errorf("%+v", e)
		}
		return err
	})
}

func oneLink(t *testing.T, open Open) {
	f := start(t, open, func(c *cluster.Config) { c.Settings.LagMax = time.Second })
	f.produce("m0")
	leader := f.leader()
	lagging := f.others(leader)[0]
	cut := []cluster.Link{{From: lagging, To: leader}}
	_, err := f.Links(f.ctx, cut)
	require.NoError(t, err)

	// Its fetches do not arrive, so the leader has the controller take it out of the ISR; its heartbeats do.
	f.eventually("the follower that cannot fetch leaves the ISR", func() error {
		// The log has to move for a follower to lag behind it.
		if _, err := f.try(leader, produceRequest(1, "tick")); err != nil {
			return err
		}
		r, brokers, err := f.record()
		if err != nil {
			return err
		}
		require.Equal(t, leader, r.Leader)
		for _, b := range brokers {
			require.False(t, b.Fenced, "broker %d", b.Node)
		}
		if slices.Contains(r.ISR, lagging) {
			return fmt.Errorf("ISR %v", r.ISR)
		}
		return nil
	})
	f.produce("m1")
	v, err := f.replica(lagging)
	require.NoError(t, err)
	ahead, err := f.replica(leader)
	require.NoError(t, err)
	require.Less(t, v.LEO, ahead.HW)

	e, err := f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	f.inSync()
	for _, n := range f.brokers {
		f.keeps(n)
	}
}

// powerFailure turns flushing by time off, so that what is durable is known.
func powerFailure(t *testing.T, open Open) {
	f := start(t, open, func(c *cluster.Config) { c.Settings.FlushInterval = 0 })
	victim := f.others(f.leader())[0]
	for i := range 3 {
		f.produce(fmt.Sprintf("m%d", i)) // each an append of its own on every broker
	}
	f.inSync()

	// Nothing but the first two appends survive, by the log's name.
	before := f.events.len()
	f.power(victim, map[string]schedule.Cut{partition: {Keep: 2}})
	f.afterPower(victim, 2)
	f.reported(before, "the broker reports what it lost", func(e control.Event) bool {
		return e.Node == victim && e.What == "powerloss" && e.Partition == partition && e.To == 2 && e.Bytes > 0
	})
	f.inSync()

	// Then the fetched record again is what was not flushed. Part of it is torn off; recovery cuts the rest.
	f.power(victim, map[string]schedule.Cut{node.EveryLog: {Torn: 10}})
	f.afterPower(victim, 2)
	f.inSync()

	// Without a cut nothing that was not flushed survives. The power fails once, even if it is asked for twice, and also for a
	// broker that was killed before.
	f.stop(victim, cluster.Kill)
	f.power(victim, nil)
	f.power(victim, nil)
	f.afterPower(victim, 2)
	f.inSync()
	for _, n := range f.brokers {
		f.keeps(n)
	}

	// A start without a power failure before it loses nothing.
	f.stop(victim, cluster.Kill)
	found := f.startNode(victim)
	require.EqualValues(t, 3, only(t, found, "recovered").To)
	require.False(t, slices.ContainsFunc(found, func(e control.Event) bool { return e.What == "powerloss" }), "%+v", found)
}

func (f *fixture) power(n cluster.NodeID, cut map[string]schedule.Cut) {
	f.t.Helper()
	e, err := f.Stop(f.ctx, n, cluster.Power, cut)
	require.NoError(f.t, err)
	f.proved(e)
}

// afterPower starts a broker whose power failed and wants its log to end there.
func (f *fixture) afterPower(n cluster.NodeID, end int64) {
	f.t.Helper()
	found := f.startNode(n)
	lost, recovered := only(f.t, found, "powerloss"), only(f.t, found, "recovered")
	require.Positive(f.t, lost.Bytes)
	require.Equal(f.t, end, lost.To)
	require.Equal(f.t, end, recovered.To)
	f.eventually("it comes back to its leader", func() error {
		v, err := f.replica(n)
		if err == nil && v.Role != "follower" && v.Role != "leader" {
			err = errors.New(v.Role)
		}
		return err
	})
}

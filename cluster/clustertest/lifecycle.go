package clustertest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/cluster"
	"tidemark/node/control"
	"tidemark/node/rules"
)

func comesUp(t *testing.T, open Open) {
	f := start(t, open)
	require.Equal(t, []int32{1, 2, 3}, f.Brokers())
	require.Len(t, f.Bootstrap(), 3)

	// Over links of the harness: one value after the other, and every replica gives them back.
	for i := range 3 {
		f.produce(fmt.Sprintf("m%d", i))
	}
	f.inSync()
	for _, n := range f.brokers {
		require.Equal(t, f.acked, f.consume(n), "broker %d", n)
	}
	resp, err := f.try(2, metadataRequest())
	require.NoError(t, err)
	require.Len(t, resp.(*kmsg.MetadataResponse).Brokers, 3)

	// By an ordinary client that knows nothing but the addresses, in order.
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.Bootstrap()...), kgo.DefaultProduceTopic(topic),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord("kgo")).FirstErr())
	var read []string
	for len(read) < 4 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { read = append(read, string(r.Value)) })
	}
	require.Equal(t, []string{"m0", "m1", "m2", "kgo"}, read)

	// All of it was reported, each node's part in its own order.
	leader := f.leader()
	f.reported(0, "the controller creates the partition", func(e control.Event) bool {
		return e.Node == control.Controller && e.What == "elected" && e.Partition == partition && e.Leader == 1 && len(e.ISR) == 3
	})
	f.reported(0, "the leader acknowledges the last record with the whole ISR", func(e control.Event) bool {
		return e.Node == leader && e.What == "ack" && e.To == 4 && len(e.ISR) == 3
	})
	for _, n := range f.brokers {
		f.reported(0, fmt.Sprintf("broker %d registers", n), func(e control.Event) bool {
			return e.Node == control.Controller && e.What == "registered" && e.Broker == n
		})
		f.reported(0, fmt.Sprintf("broker %d commits the last record", n), func(e control.Event) bool {
			return e.Node == n && e.What == "hw" && e.Partition == partition && e.To == 4
		})
		var own []string
		for _, e := range f.events.from(0) {
			if e.Node == n {
				own = append(own, e.What)
			}
		}
		require.Equal(t, "recovered", own[0], "events of broker %d: %v", n, own)
		require.Equal(t, "role", own[1], "events of broker %d: %v", n, own)
	}

	// Starting what runs changes nothing.
	for _, n := range append(f.others(), control.Controller) {
		require.Empty(t, f.startNode(n))
	}
	r, _, err := f.record()
	require.NoError(t, err)
	require.Equal(t, int32(0), r.LeaderEpoch)
}

func unknown(t *testing.T, open Open) {
	f := start(t, open)
	const nobody = 99
	_, err := f.Dial(f.ctx, nobody)
	assert.ErrorContains(t, err, "99")
	_, err = f.Start(f.ctx, nobody)
	assert.ErrorContains(t, err, "99")
	for _, how := range []cluster.How{cluster.Clean, cluster.Kill, cluster.Power} {
		_, err = f.Stop(f.ctx, nobody, how, nil)
		assert.ErrorContains(t, err, "99", how)
	}
	for _, on := range []bool{true, false} {
		_, err = f.Pause(f.ctx, nobody, on)
		assert.ErrorContains(t, err, "99")
	}
	_, err = f.Control(f.ctx, nobody, control.Command{Do: control.Look})
	assert.ErrorContains(t, err, "99")
	for _, l := range []cluster.Link{{From: 1, To: nobody}, {From: nobody, To: 1}} {
		_, err = f.Links(f.ctx, []cluster.Link{{From: 1, To: 2}, l})
		assert.ErrorContains(t, err, "99")
	}
	_, err = f.Links(f.ctx, []cluster.Link{{From: 2, To: 2}})
	assert.ErrorContains(t, err, "2")

	// A refused list cuts nothing, not even what is good in it.
	e, err := f.Links(f.ctx, nil)
	require.NoError(t, err)
	assert.True(t, e.Proven, "%+v", e)
	assert.Empty(t, e.Measured)
	f.produce("m0")
	f.inSync()

	// A node that moves by itself is not moved by commands.
	for _, do := range []control.Verb{control.Poll, control.Deliver, control.Cut, control.FailAppend} {
		reply, err := f.Control(f.ctx, 1, control.Command{Do: do})
		require.NoError(t, err)
		assert.NotEmpty(t, reply.Error, do)
	}
}

func kill(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	f.produce("m1")
	leader := f.leader()
	connection := f.dial(leader)
	f.arrives(connection.send(metadataRequest()))
	before := f.events.len()
	f.stop(leader, cluster.Kill)

	// It is dead: connections end, commands are refused, and killing it once more does nothing.
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
	_, err := connection.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "a connection to a dead broker does not end")
	_, err = f.try(leader, metadataRequest())
	require.Error(t, err)
	_, err = f.Control(f.ctx, leader, control.Command{Do: control.Look})
	require.ErrorContains(t, err, leader.String())
	f.stop(leader, cluster.Kill)
	_, err = f.Pause(f.ctx, leader, true)
	require.Error(t, err, "a dead node cannot be frozen")
	_, err = f.Pause(f.ctx, leader, false)
	require.NoError(t, err, "it is not frozen")

	next := f.newLeader(leader)
	f.reported(before, "the controller fences the dead broker", func(e control.Event) bool {
		return e.Node == control.Controller && e.What == "fenced" && e.Broker == leader
	})
	f.produce("m2")
	f.keeps(next)

	// It comes back with what it had, and gets what it missed. Its address is still the same.
	recovered := only(t, f.startNode(leader), "recovered")
	require.Equal(t, leader, recovered.Node)
	require.EqualValues(t, 2, recovered.To)
	require.Empty(t, f.startNode(leader))
	f.reported(before, "it says the same in its events", func(e control.Event) bool {
		return e.Node == leader && e.What == "recovered" && e.To == 2
	})
	f.inSync()
	for _, n := range f.brokers {
		f.keeps(n)
	}
}

// cleanStop uses that a broker that comes back after a clean shutdown stays eligible to lead, and one that was killed does not
// (KIP-966): the only thing that the marker of a clean shutdown is for.
func cleanStop(t *testing.T, open Open) {
	f := start(t, open, func(c *cluster.Config) { c.Rules = rules.Of(rules.KIP966) })
	f.produce("m0")
	f.inSync()
	last := f.leader()
	away, clean := f.others(last)[0], f.others(last)[1]
	f.stop(away, cluster.Kill)
	f.fenced(away)
	f.stop(clean, cluster.Clean)
	f.stop(clean, cluster.Clean) // twice is once
	f.fenced(clean)
	f.stop(last, cluster.Kill)
	f.fenced(last)
	r, _, err := f.record()
	require.NoError(t, err)
	require.Zero(t, r.Leader)
	require.Empty(t, r.ISR)
	require.ElementsMatch(t, []cluster.NodeID{clean, last}, r.ELR)

	// Who was killed may have lost something, for all that the controller knows: nobody leads.
	f.startNode(last)
	f.eventually("the killed broker lives", func() error {
		var brokers []control.BrokerView
		if r, brokers, err = f.record(); err != nil {
			return err
		}
		for _, b := range brokers {
			if b.Node == last && !b.Fenced {
				return nil
			}
		}
		return fmt.Errorf("the controller knows %+v", brokers)
	})
	require.Zero(t, r.Leader)
	require.Equal(t, []cluster.NodeID{clean}, r.ELR)

	// Who shut down in order is trusted.
	before := f.events.len()
	f.startNode(clean)
	f.reported(before, "the broker that was stopped leads", func(e control.Event) bool {
		return e.Node == control.Controller && e.What == "elected" && e.Leader == clean && !e.Unclean
	})
	f.startNode(away)
	f.inSync()
	f.keeps(f.leader())
}

func controllerKilled(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	leader := f.leader()
	f.stop(control.Controller, cluster.Kill)
	_, err := f.Control(f.ctx, control.Controller, control.Command{Do: control.Look})
	require.ErrorContains(t, err, "controller")

	// The leader leads on by itself.
	_, err = f.try(leader, produceRequest(-1, "m1"))
	require.NoError(t, err)
	f.acked = append(f.acked, "m1")
	f.stop(leader, cluster.Kill)

	// The controller remembers everything, finds the leader gone and has it replaced.
	before := f.events.len()
	f.startNode(control.Controller)
	next := f.newLeader(leader)
	e := f.reported(before, "a new leader is elected in the next epoch", func(e control.Event) bool {
		return e.Node == control.Controller && e.What == "elected"
	})
	require.Equal(t, next, e.Leader)
	require.EqualValues(t, 1, e.Epoch)
	f.produce("m2")
	f.startNode(leader)
	f.inSync()
	for _, n := range f.brokers {
		f.keeps(n)
	}
}

func closed(t *testing.T, open Open) {
	f := start(t, open)
	f.produce("m0")
	connection := f.dial(1)
	f.stop(2, cluster.Kill)
	_, err := f.Pause(f.ctx, 3, true)
	require.NoError(t, err)
	_, err = f.Links(f.ctx, []cluster.Link{{From: cluster.ClientsID, To: 1}, {From: 1, To: cluster.ClientsID}})
	require.NoError(t, err)
	waiting := connection.send(metadataRequest())

	// With a node dead, one frozen and one cut off there is as little left as otherwise.
	for range 2 {
		ctx, cancel := context.WithTimeout(f.ctx, patience)
		require.NoError(t, f.Close(ctx))
		cancel()
	}
	select {
	case <-f.events.ended:
	case <-time.After(patience):
		require.FailNow(t, "the events do not end")
	}
	_, err = f.Start(f.ctx, 2)
	require.Error(t, err)
	_, err = f.Control(f.ctx, 1, control.Command{Do: control.Look})
	require.Error(t, err)
	_, err = f.try(1, metadataRequest())
	require.Error(t, err)
	_ = connection.Close() // over a network the silence of a container that is gone can last
	a := <-waiting
	require.Error(t, a.err)
}

package controller_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
)

// message draws what a controller could be told, right or wrong.
func message(t *rapid.T, k *controller.Controller) replica.Message {
	v := k.Views()[0]
	pick := func(what string, of ...int) int { return rapid.SampledFrom(of).Draw(t, what) }
	id := replica.ID(pick("broker", 1, 2, 3))
	epoch := int64(pick("broker epoch", 0, 1, 2, 3))
	for _, b := range k.Brokers() {
		if b.ID == id && pick("stale", 0, 0, 0, 0, 1) == 0 {
			epoch = b.Epoch
		}
	}
	m := replica.Message{From: id, To: replica.Controller, Number: 7}
	near := func(n int32) int32 { return n + int32(pick("near", 0, 0, 0, 0, -1, 1)) }
	switch pick("message", 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 5, 6, 7) {
	case 0:
		previous := replica.NoBrokerEpoch
		if pick("clean", 0, 1) == 1 {
			previous = epoch
		}
		m.Body = &session.Registration{Incarnation: uint64(pick("incarnation", 1, 2, 3)), Previous: previous}
	case 1:
		m.Body = &session.Heartbeat{BrokerEpoch: epoch}
	case 2:
		m.From, m.Body = replica.Controller, &controller.Fence{Broker: id}
	case 3:
		m.From, m.Partition, m.Body = replica.Controller, orders, &controller.Transfer{To: id}
	case 4:
		b := &replica.AlterPartition{BrokerEpoch: epoch, LeaderEpoch: near(v.LeaderEpoch), PartitionEpoch: near(v.PartitionEpoch)}
		if v.Leader != replica.None && pick("leader", 0, 0, 0, 1) == 0 {
			m.From = v.Leader
			b.BrokerEpoch = k.Brokers()[slices.IndexFunc(k.Brokers(), func(b controller.BrokerView) bool { return b.ID == v.Leader })].Epoch
		}
		for _, n := range rapid.SampledFrom([][]replica.ID{{1, 2, 3}, {1, 2}, {2, 3}, {1, 3}, {1}, {2}, {3}, {}}).Draw(t, "isr") {
			b.ISR = append(b.ISR, replica.Member{ID: n, BrokerEpoch: replica.NoBrokerEpoch})
		}
		m.Partition, m.Body = orders, b
	case 5:
		m.Partition, m.Body = orders, &replica.LeaderAndIsrAnswer{Version: k.Version() - int64(pick("behind", 0, 0, 1))}
	case 6:
		m.From, m.Partition, m.Body = replica.Controller, orders, &controller.Push{To: id}
	case 7:
		m.From, m.Body = replica.Controller, &replica.Tick{}
	}
	return m
}

func newController(t *rapid.T) (*controller.Controller, controller.Config) {
	set := rules.Of(rapid.SampledFrom(rules.Protocols()).Draw(t, "protocol"))
	if !set.ELR && rapid.Bool().Draw(t, "zk") {
		set.Registration = rules.ZK
	}
	c := controller.Config{Rules: set, Brokers: []replica.ID{1, 2, 3}, Unclean: rapid.Bool().Draw(t, "unclean"),
		Topics: []controller.Topic{{Partition: orders, Replicas: []replica.ID{1, 3, 2}, MinISR: 2}}}
	if rapid.Bool().Draw(t, "driven by time") {
		c.SessionTimeout, c.PushInterval = 5, 2
	}
	k, err := controller.Open(c)
	require.NoError(t, err)
	for i, id := range c.Brokers { // most of a life is after the creation
		k.Step(0, replica.Message{From: id, Body: &session.Registration{Incarnation: 1, Previous: replica.NoBrokerEpoch}}, nil)
		if rapid.IntRange(0, 9).Draw(t, "begins") > 0 {
			k.Step(0, replica.Message{From: id, Body: &session.Heartbeat{BrokerEpoch: k.Brokers()[i].Epoch}}, nil)
		}
	}
	return k, c
}

// said is what a step sends, as text.
func said(t require.TestingT, out []replica.Message) []string {
	var lines []string
	for _, m := range out {
		body, err := json.Marshal(m.Body)
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("%s %s %s", m, m.Partition, body))
	}
	return lines
}

// What holds of a partition's record whatever the controller is told (C1 to C5).
func TestTheRecordIsSoundWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, c := newController(t)
		now := replica.Time(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += replica.Time(rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "after"))
			was := k.Views()[0]
			m := message(t, k)
			k.Step(now, m, nil)
			is := k.Views()[0]
			what := fmt.Sprintf("%+v: from %+v to %+v", m.Body, was, is)

			require.GreaterOrEqual(t, is.LeaderEpoch, was.LeaderEpoch, what)
			if was.Created {
				changed := is.Leader != was.Leader || is.LeaderEpoch != was.LeaderEpoch || !slices.Equal(is.ISR, was.ISR) || !slices.Equal(is.ELR, was.ELR)
				require.Equal(t, changed, is.PartitionEpoch > was.PartitionEpoch, "the partition epoch rises with every change and only then: %s", what)
			}
			require.False(t, was.Created && is.Leader != was.Leader && is.LeaderEpoch == was.LeaderEpoch, "another leader, the same epoch: %s", what)
			if !is.Created {
				continue
			}
			if is.Leader != replica.None {
				require.Contains(t, is.ISR, is.Leader, what)
				i := slices.IndexFunc(k.Brokers(), func(b controller.BrokerView) bool { return b.ID == is.Leader })
				require.False(t, k.Brokers()[i].Fenced, "a fenced broker leads: %s", what)
			}
			if !c.Rules.ELR {
				require.NotEmpty(t, is.ISR, what)
				require.Empty(t, is.ELR, what)
			}
			require.False(t, len(is.ISR) >= 2 && len(is.ELR) > 0, "eligible replicas beside an ISR that can commit: %s", what)
			for _, id := range is.ELR {
				require.NotContains(t, is.ISR, id, what)
			}
			order := func(a, b replica.ID) int {
				return slices.Index(is.Replicas, a) - slices.Index(is.Replicas, b)
			}
			require.True(t, slices.IsSortedFunc(is.ISR, order) && slices.IsSortedFunc(is.ELR, order), "in assignment order: %s", what)
		}
	})
}

// A clone, a controller restored from a snapshot, and the original go on alike; each has a life of its own.
func TestClonesAndRestoredControllersGoOnAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, c := newController(t)
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			k.Step(0, message(t, k), nil)
		}
		snapshot, err := k.AppendSnapshot(nil)
		require.NoError(t, err)
		restored, err := controller.Restore(c, 0, snapshot)
		require.NoError(t, err)
		again, err := restored.AppendSnapshot(nil)
		require.NoError(t, err)
		require.Equal(t, string(snapshot), string(again), "a snapshot of what was restored from one is the same")
		require.Equal(t, k.Views(), restored.Views())
		require.Equal(t, k.Brokers(), restored.Brokers())

		clone, witness := k.Clone(), k.Clone()
		before := string(witness.AppendState(nil))
		for range rapid.IntRange(1, 10).Draw(t, "future") {
			m := message(t, k)
			require.Equal(t, said(t, k.Step(0, m, nil)), said(t, clone.Step(0, m, nil)), "%+v", m.Body)
			require.Equal(t, string(k.AppendState(nil)), string(clone.AppendState(nil)), "after %+v", m.Body)
			require.Equal(t, k.Deadline(), clone.Deadline())

			restored.Step(0, m, nil) // it repeats pushes that were acknowledged, so only what it decides is the same
			require.Equal(t, k.Views(), restored.Views(), "after %+v", m.Body)
		}
		require.Equal(t, before, string(witness.AppendState(nil)), "a clone changed with what another was told")
	})
}

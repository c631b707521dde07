package nemesis

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/node/control"
)

// see shows a watch events of orders-0.
func see(w *Watch, events ...control.Event) {
	for _, e := range events {
		if e.Partition == "" {
			e.Partition = "orders-0"
		}
		w.See(e)
	}
}

func elected(leader cluster.NodeID, epoch int32, isr ...cluster.NodeID) control.Event {
	return control.Event{Node: control.Controller, What: "elected", Leader: leader, Epoch: epoch, PartitionEpoch: epoch, ISR: isr}
}

func TestRolesAreThoseOfTheNewestRecord(t *testing.T) {
	w := NewWatch()
	resolve := func(name RoleName) []cluster.NodeID { return Role{name, "orders-0"}.resolve(w) }
	for _, name := range RoleNames() {
		assert.Empty(t, resolve(name), "nothing is known yet")
	}
	see(w, elected(2, 5, 3, 1, 2))
	assert.Equal(t, []cluster.NodeID{2}, resolve(Leader))
	assert.Equal(t, []cluster.NodeID{1}, resolve(Follower))
	assert.Equal(t, []cluster.NodeID{3}, resolve(ISRMinority))
	assert.Empty(t, resolve(LastISR), "three are in sync")

	// What is older, of another partition, or not about the record changes nothing.
	see(w, control.Event{Node: 1, What: "role", Role: "leader", Leader: 1, Epoch: 4, PartitionEpoch: 4, ISR: []cluster.NodeID{1}},
		control.Event{Node: 1, What: "elected", Partition: "orders-1", Leader: 1, PartitionEpoch: 9, ISR: []cluster.NodeID{1}},
		control.Event{Node: 3, What: "append", Epoch: 5, To: 7})
	assert.Equal(t, []cluster.NodeID{2}, resolve(Leader))

	see(w, control.Event{Node: 2, What: "isr", Epoch: 5, PartitionEpoch: 6, ISR: []cluster.NodeID{2, 3}})
	assert.Equal(t, []cluster.NodeID{3}, resolve(Follower))
	assert.Empty(t, resolve(ISRMinority), "of two, one is half")
	see(w, control.Event{Node: 2, What: "isr", Epoch: 5, PartitionEpoch: 7, ISR: []cluster.NodeID{2}})
	assert.Equal(t, []cluster.NodeID{2}, resolve(LastISR))
	assert.Empty(t, resolve(Follower))
	see(w, elected(0, 8, 2))
	assert.Empty(t, resolve(Leader), "nobody leads")
	assert.Equal(t, []cluster.NodeID{2}, resolve(LastISR))
	see(w, elected(1, 9, 1, 2, 3, 4, 5))
	assert.Equal(t, []cluster.NodeID{4, 5}, resolve(ISRMinority))
}

func TestStatesAreSeenInTheEventsOfTheNodes(t *testing.T) {
	role := func(n cluster.NodeID, role string, leader cluster.NodeID, epoch int32) control.Event {
		return control.Event{Node: n, What: "role", Role: role, Leader: leader, Epoch: epoch, PartitionEpoch: epoch, ISR: []cluster.NodeID{1, 2, 3}}
	}
	hw := func(n cluster.NodeID, to int64) control.Event { return control.Event{Node: n, What: "hw", To: to} }
	for _, tc := range []struct {
		name   string
		state  State
		before []control.Event // after which it does not hold
		then   control.Event
		want   string
	}{
		{"the leader's high watermark is above all others", HWOnlyOnLeader,
			[]control.Event{elected(1, 0, 1, 2, 3), hw(2, 4), hw(3, 5), hw(1, 5)}, hw(1, 6), "leader 1 has high watermark 6, 2 has 4, 3 has 5"},
		{"those who are not in sync do not count", HWOnlyOnLeader,
			[]control.Event{elected(1, 0, 1, 2, 3), hw(2, 4), hw(3, 5), hw(1, 5)},
			control.Event{Node: 1, What: "isr", PartitionEpoch: 1, ISR: []cluster.NodeID{1, 2}}, "leader 1 has high watermark 5, 2 has 4"},
		{"a restart takes a high watermark back to its checkpoint", HWOnlyOnLeader,
			[]control.Event{elected(1, 0, 1, 2), hw(2, 5), hw(1, 5)}, control.Event{Node: 2, What: "recovered", HW: 3}, "leader 1 has high watermark 5, 2 has 3"},
		{"a truncation takes it down", HWOnlyOnLeader,
			[]control.Event{elected(1, 0, 1, 2), hw(2, 5), hw(1, 5)}, control.Event{Node: 2, What: "truncated", From: 9, To: 2}, "leader 1 has high watermark 5, 2 has 2"},
		{"a leader alone in sync is nobody's leader", HWOnlyOnLeader,
			[]control.Event{elected(1, 0, 1), hw(1, 5), elected(1, 1, 1, 2), hw(2, 7)}, hw(1, 8), "leader 1 has high watermark 8, 2 has 7"},
		{"the ISR shrank to one", ISROne, []control.Event{elected(1, 0, 1, 2, 3)},
			control.Event{Node: 1, What: "isr", PartitionEpoch: 3, ISR: []cluster.NodeID{1}}, "ISR [1] in partition epoch 3"},
		{"a follower was told of a leader", Truncating,
			[]control.Event{elected(1, 0, 1, 2, 3), role(2, "follower", 1, 0), {Node: 2, What: "truncated"}, role(3, "follower", 0, 1)}, role(3, "follower", 2, 2),
			"followers [3] of leader 2 in epoch 2"},
		{"a follower that fetches has truncated", Truncating,
			[]control.Event{elected(1, 0, 1, 2, 3), role(2, "follower", 1, 0), {Node: 2, What: "append"}}, role(2, "follower", 3, 1), "followers [2] of leader 3 in epoch 1"},
		{"a leader that has appended nothing", NewLeaderWithoutRecord,
			[]control.Event{elected(1, 4, 1, 2, 3), role(1, "leader", 1, 4), {Node: 1, What: "append", Epoch: 4}}, role(2, "leader", 2, 5), "leader 2 in epoch 5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := NewWatch()
			see(w, tc.before...)
			x := w.arm(Aim{State: tc.state, Partition: "orders-0"})
			if len(x.seen) > 0 { // some came to it on the way there, and it is over
				require.Equal(t, "fresh", <-x.seen)
			}
			see(w, control.Event{Partition: "orders-1", Node: 1, What: "hw", To: 100})
			require.Empty(t, x.seen)
			see(w, tc.then)
			require.Equal(t, tc.want, <-x.seen)
			see(w, tc.then)
			require.Empty(t, x.seen, "it is told once")

			// It holds already for who comes later.
			require.Equal(t, tc.want, <-w.arm(Aim{State: tc.state, Partition: "orders-0"}).seen)
		})
	}
}

func TestAnAimThatWasGivenUpSeesNothing(t *testing.T) {
	w := NewWatch()
	x := w.arm(Aim{State: ISROne, Partition: "orders-0"})
	w.disarm(x)
	see(w, elected(1, 0, 1))
	assert.Empty(t, x.seen)
	assert.Empty(t, w.armed)
}

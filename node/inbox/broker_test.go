package inbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/inbox"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/session"
	"tidemark/node/storage/memory"
)

var (
	orders    = replica.Partition{Topic: "orders"}
	payments  = replica.Partition{Topic: "payments"}
	elsewhere = replica.Partition{Topic: "elsewhere"}
)

// start starts broker 1, which has replicas of orders and payments, and registers it with the broker epoch, unless that is 0.
func start(t *testing.T, d replica.Disk, epoch int64) *inbox.Broker {
	b, err := inbox.Start(inbox.Config{Session: session.Config{Self: 1, Incarnation: 5},
		Replica: replica.Config{Self: 1, Rules: rules.Of(rules.KIP320), FirstNumber: 1},
		Hosted:  []inbox.Hosted{{Partition: orders, MinISR: 1}, {Partition: payments, MinISR: 2}}}, d)
	require.NoError(t, err)
	if epoch > 0 {
		out := b.Step(0, replica.Message{From: 1, To: 1, Body: &replica.Poll{}}, nil)
		require.Len(t, out, 1)
		require.Empty(t, b.Step(0, replica.Message{From: replica.Controller, To: 1, Number: out[0].Number, Body: &session.RegistrationAnswer{BrokerEpoch: epoch}}, nil))
	}
	return b
}

// word is the controller's: broker 1 leads, alone in the ISR.
func word(version int64, p replica.Partition, forEpoch int64) replica.Message {
	return replica.Message{From: replica.Controller, To: 1, Partition: p, Number: int32(version), Body: &replica.LeaderAndIsr{Version: version, Leader: 1,
		LeaderEpoch: int32(version), PartitionEpoch: int32(version), Replicas: []replica.ID{1}, ISR: []replica.ID{1}, BrokerEpoch: forEpoch}}
}

func produce(p replica.Partition, value string) replica.Message {
	return replica.Message{From: replica.Client(0), To: 1, Partition: p, Number: 1, Body: &replica.Produce{Acks: replica.AcksOne,
		Batch: replica.Batch{Count: 1, Producer: replica.NoProducer, Data: []byte(value)}}}
}

// code is the error in the one answer among the messages.
func code(t *testing.T, out []replica.Message) replica.Code {
	for _, m := range out {
		switch b := m.Body.(type) {
		case *replica.LeaderAndIsrAnswer:
			return b.Error
		case *replica.ProduceAnswer:
			return b.Error
		case *replica.FetchAnswer:
			return b.Error
		}
	}
	t.Fatalf("no answer among %v", out)
	return 0
}

func TestABrokersReplicasLearnTheBrokerEpochThatItsSessionGot(t *testing.T) {
	b := start(t, memory.New(), 0)
	assert.Equal(t, replica.StaleBrokerEpoch, code(t, b.Step(0, word(1, orders, 8), nil)), "before registration it is nobody's word")
	assert.Zero(t, b.Learned())

	b = start(t, memory.New(), 8)
	assert.EqualValues(t, 8, b.Session().BrokerEpoch())
	for _, p := range b.Partitions() {
		assert.Equal(t, replica.StaleBrokerEpoch, code(t, b.Step(0, word(1, p, 7), nil)), p)
		assert.Equal(t, replica.OK, code(t, b.Step(0, word(1, p, 8), nil)), p)
		v, ok := b.View(p)
		require.True(t, ok)
		assert.Equal(t, replica.RoleLeader, v.Role, p)
	}
	assert.Equal(t, 2, b.Learned())
}

func TestMessagesGoToTheReplicaTheyAreFor(t *testing.T) {
	b := start(t, memory.New(), 8)
	b.Step(0, word(1, orders, 8), nil)
	b.Step(0, word(1, payments, 8), nil)
	assert.Equal(t, replica.OK, code(t, b.Step(0, produce(orders, "m0"), nil)))
	batches, err := b.Read(orders, 0, 1<<20)
	require.NoError(t, err)
	require.Len(t, batches, 1)
	assert.Equal(t, "m0", string(batches[0].Data))
	v, _ := b.View(payments)
	assert.Zero(t, v.LEO)
	assert.Equal(t, map[replica.Partition]int64{orders: 1, payments: 0}, b.HighWatermarks())

	assert.Equal(t, replica.UnknownTopicOrPartition, code(t, b.Step(0, produce(elsewhere, "m1"), nil)))
	_, ok := b.View(elsewhere)
	assert.False(t, ok)
	_, err = b.Read(elsewhere, 0, 1)
	assert.EqualError(t, err, "partition elsewhere-0: no replica on broker 1")
	assert.Empty(t, b.Step(0, replica.Message{From: 2, To: 1, Partition: elsewhere, Body: &replica.FetchAnswer{}}, nil), "nobody waits for an answer there")
}

// The controller's words are for answering clients' questions, too, so they are kept for partitions elsewhere as well.
func TestTheNewestWordOnEveryPartitionIsKept(t *testing.T) {
	b := start(t, memory.New(), 8)
	for _, m := range []replica.Message{word(2, elsewhere, 8), word(1, elsewhere, 8), word(3, orders, 8), word(4, elsewhere, 7)} {
		b.Step(0, m, nil)
	}
	versions := map[replica.Partition]int64{}
	b.Words(func(p replica.Partition, w *replica.LeaderAndIsr) { versions[p] = w.Version })
	assert.Equal(t, map[replica.Partition]int64{elsewhere: 2, orders: 3}, versions)
	assert.Equal(t, 2, b.Learned(), "an older word and one for an earlier incarnation taught nothing")
	assert.Equal(t, replica.OK, code(t, b.Step(0, word(5, elsewhere, 8), nil)))
	assert.Equal(t, replica.StaleBrokerEpoch, code(t, b.Step(0, word(6, elsewhere, 7), nil)))
}

func TestTimeReachesWhoeverIsDue(t *testing.T) {
	b := start(t, memory.New(), 8)
	assert.Zero(t, b.Deadline(), "the session's first heartbeat")
	out := b.Step(0, replica.Message{From: 1, To: 1, Body: &replica.Tick{}}, nil)
	require.Len(t, out, 1)
	assert.Equal(t, session.KindHeartbeat, out[0].Body.Kind())
	require.Empty(t, b.Step(0, replica.Message{From: replica.Controller, To: 1, Number: out[0].Number, Body: &session.HeartbeatAnswer{}}, nil))
	assert.False(t, b.Session().Fenced())

	follow := word(1, payments, 8)
	follow.Body.(*replica.LeaderAndIsr).Leader = 2
	b.Step(0, follow, nil)
	out = b.Step(0, replica.Message{From: 1, To: 1, Body: &replica.Tick{}}, nil)
	require.Len(t, out, 2)
	assert.Equal(t, session.KindHeartbeat, out[0].Body.Kind())
	assert.Equal(t, "1->2 Fetch#1", out[1].String(), "the follower's, and nothing of the replica without a role")
}

func TestACleanStopIsKnownAtTheNextStartAndOnlyThere(t *testing.T) {
	d := memory.New()
	previous := func(b *inbox.Broker) int64 {
		out := b.Step(0, replica.Message{From: 1, To: 1, Body: &replica.Poll{}}, nil)
		return out[0].Body.(*session.Registration).Previous
	}
	b := start(t, d, 8)
	b.Step(0, word(1, orders, 8), nil)
	require.Equal(t, replica.OK, code(t, b.Step(0, produce(orders, "m0"), nil)))
	require.Equal(t, 1, d.Unsynced(orders))
	require.NoError(t, b.Stop())
	assert.Zero(t, d.Unsynced(orders), "a clean stop flushes")

	next := start(t, d, 0)
	assert.EqualValues(t, 8, previous(next))
	assert.EqualValues(t, 1, next.HighWatermarks()[orders], "and writes the high watermarks down")
	assert.Equal(t, replica.NoBrokerEpoch, previous(start(t, d, 0)), "the marker is taken once")

	require.NoError(t, start(t, d, 0).Stop(), "who never was a member leaves no marker")
	assert.Equal(t, replica.NoBrokerEpoch, previous(start(t, d, 0)))
}

func TestAnInjectedFailureIsOfTheNextAppendOnly(t *testing.T) {
	b := start(t, memory.New(), 8)
	b.Step(0, word(1, orders, 8), nil)
	b.Step(0, word(1, payments, 8), nil)
	b.FailNextAppend()
	assert.Equal(t, replica.StorageError, code(t, b.Step(0, produce(orders, "m0"), nil)))
	v, _ := b.View(orders)
	assert.Equal(t, replica.RoleOffline, v.Role)
	assert.Equal(t, replica.StorageError, code(t, b.Step(0, produce(payments, "m1"), nil)), "of every log")
	assert.Contains(t, inbox.ErrInjected.Error(), "injected")
}

func TestTheStateNamesEveryReplica(t *testing.T) {
	b := start(t, memory.New(), 8)
	before := string(b.AppendState(0, nil))
	assert.Contains(t, before, "orders")
	assert.Contains(t, before, "payments")
	b.Step(0, word(1, payments, 8), nil)
	assert.NotEqual(t, before, string(b.AppendState(0, nil)))
}

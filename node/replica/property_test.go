package replica_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/storage/memory"
)

// machine is a replica on its disk, with what its driver knows.
type machine struct {
	disk    *memory.Disk
	replica *replica.Replica
	now     replica.Time
	newest  map[replica.Kind]int32 // number of its newest request of each kind
}

func (m *machine) clone(t require.TestingT) *machine {
	d := m.disk.Clone()
	l, err := d.Log(orders)
	require.NoError(t, err)
	c := &machine{disk: d, replica: m.replica.Clone(l), now: m.now, newest: map[replica.Kind]int32{}}
	for k, n := range m.newest {
		c.newest[k] = n
	}
	return c
}

// state is everything that decides the machine's future.
func (m *machine) state() string {
	return string(m.disk.AppendState(m.replica.AppendState(m.now, nil)))
}

// step hands the machine an input and says what comes of it, without the numbers of its own requests.
func (m *machine) step(in input) []string {
	m.now += in.after
	number := in.number
	if in.answers != "" && number == 0 {
		if number = m.newest[in.answers]; number == 0 {
			number = noRequest
		}
	}
	var said []string
	for _, out := range m.replica.Step(m.now, replica.Message{From: in.from, To: 1, Partition: orders, Number: number, Body: in.body}, nil) {
		switch out.Body.(type) {
		case *replica.Fetch, *replica.OffsetForLeaderEpoch, *replica.ListOffsets, *replica.AlterPartition:
			m.newest[out.Body.Kind()] = out.Number
			out.Number = 0
		}
		body, err := json.Marshal(out.Body)
		said = append(said, fmt.Sprintf("%s %s %v", out, body, err))
	}
	due := m.replica.Deadline()
	if due != replica.Never {
		due = max(0, due-m.now)
	}
	return append(said, fmt.Sprintf("due in %d", due))
}

// noRequest is a number that no request has.
const noRequest = 1 << 30

// input is a message that can be handed to any machine in the same state.
type input struct {
	after   replica.Time // time since the one before
	from    replica.ID
	body    replica.Body
	answers replica.Kind // it answers, or breaks, the newest request of that kind
	number  int32        // unless this is not 0
}

// inputs draws what a replica in that state could be told, right or wrong. Ranges are small, so that different ways often
// lead to the same state.
func inputs(t *rapid.T, v replica.View) input {
	in := input{after: replica.Time(rapid.SampledFrom([]int{0, 0, 0, 1, 4}).Draw(t, "after"))}
	pick := func(what string, of ...int) int { return rapid.SampledFrom(of).Draw(t, what) }
	near := func(what string, n int64) int64 { return max(0, n+int64(pick(what, -1, 0, 0, 0, 1))) }
	epoch := func(what string) int32 { return v.LeaderEpoch + int32(pick(what, -1, 0, 0, 0, 1)) }
	peer := replica.ID(pick("peer", 2, 3))
	batches := func() []replica.Batch {
		var all []replica.Batch
		at := near("base", v.LEO)
		for range pick("batches", 0, 1, 2) {
			all = append(all, replica.Batch{Base: at, Count: 1, Epoch: max(0, epoch("batch epoch")), Producer: replica.NoProducer, Data: []byte("x")})
			at++
		}
		return all
	}
	code := rapid.SampledFrom([]replica.Code{replica.OK, replica.OK, replica.OK, replica.OK, replica.FencedLeaderEpoch,
		replica.UnknownLeaderEpoch, replica.OffsetOutOfRange, replica.IneligibleReplica, replica.InvalidUpdateVersion}).Draw(t, "code")
	answer := func(kind replica.Kind, b replica.Body) {
		in.from, in.body, in.answers = replica.ID(pick("leader", int(v.Leader), int(v.Leader), int(peer))), b, kind
		if kind == replica.KindAlterPartition {
			in.from = replica.Controller
		}
		if pick("late", 0, 0, 0, 1) == 1 {
			in.number = noRequest // not its newest
		}
	}
	switch pick("input", 0, 0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13) {
	case 0:
		in.from, in.body = replica.Controller, word(t, v)
	case 1:
		b := &replica.Produce{Acks: int16(pick("acks", -1, -1, 0, 1)), Timeout: replica.Time(pick("timeout", 0, 5)),
			Batch: replica.Batch{Count: 1, Producer: replica.NoProducer, Data: []byte("x")}}
		if pick("idempotent", 0, 0, 1) == 1 {
			b.Batch.Producer, b.Batch.Sequence = 7, int32(pick("sequence", 0, 1))
		}
		in.from, in.body = replica.Client(1), b
	case 2:
		in.from, in.body = peer, &replica.Fetch{Offset: near("offset", v.LEO), LeaderEpoch: epoch("epoch"), LastEpoch: epoch("last epoch"),
			BrokerEpoch: int64(pick("incarnation", 1, 1, 2)), MaxBytes: 1 << 20, MaxWait: replica.Time(pick("wait", 0, 5))}
	case 3:
		in.from, in.body = replica.Client(2), &replica.Fetch{Offset: near("offset", v.HW), LeaderEpoch: replica.NoEpoch, MaxBytes: 1 << 20}
	case 4:
		in.from, in.body = peer, &replica.OffsetForLeaderEpoch{LeaderEpoch: v.LeaderEpoch, Epoch: epoch("of")}
	case 5:
		in.body = &replica.Poll{MaxRecords: int32(pick("max", 0, 0, 1))}
	case 6:
		b := &replica.FetchAnswer{Error: code, HighWatermark: near("high watermark", v.LEO), Start: int64(pick("start", 0, 0, 0, 2)), Batches: batches()}
		if pick("diverging", 0, 0, 0, 1) == 1 {
			b.Diverging = &replica.EpochEnd{Epoch: epoch("of"), End: near("end", v.LEO)}
		}
		answer(replica.KindFetch, b)
	case 7:
		answer(replica.KindOffsetForLeaderEpoch, &replica.OffsetForLeaderEpochAnswer{Error: code, Epoch: epoch("of"), End: int64(pick("end", -1, 0, 1, 2, 3))})
	case 8:
		answer(replica.KindListOffsets, &replica.ListOffsetsAnswer{Error: code, Offset: near("end", v.LEO)})
	case 9:
		answer(replica.KindAlterPartition, &replica.AlterPartitionAnswer{Error: code, Leader: 1, LeaderEpoch: epoch("epoch"), PartitionEpoch: v.PartitionEpoch + 1, ISR: isr(t)})
	case 10:
		kind := rapid.SampledFrom([]replica.Kind{replica.KindFetch, replica.KindAlterPartition}).Draw(t, "kind")
		in.from, in.body, in.answers = peer, &replica.ConnectionLost{Request: kind}, kind
	case 11:
		in.body = &replica.Lag{Replica: peer}
	case 12:
		in.body = &replica.Registered{BrokerEpoch: int64(pick("own", 1, 1, 2))}
	default:
		in.body = &replica.Tick{}
	}
	return in
}

func isr(t *rapid.T) []replica.ID {
	return rapid.SampledFrom([][]replica.ID{{1, 2, 3}, {1, 2, 3}, {1, 2}, {1, 3}, {1}}).Draw(t, "isr")
}

func word(t *rapid.T, v replica.View) *replica.LeaderAndIsr {
	w := &replica.LeaderAndIsr{Version: rapid.Int64Range(1, 4).Draw(t, "version"), BrokerEpoch: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "for"),
		Leader:      replica.ID(rapid.SampledFrom([]int{0, 1, 1, 1, 2, 2, 3}).Draw(t, "leader")),
		LeaderEpoch: v.LeaderEpoch + rapid.SampledFrom([]int32{0, 1, 1, 2}).Draw(t, "newer"), PartitionEpoch: v.PartitionEpoch + rapid.Int32Range(0, 1).Draw(t, "change"),
		Replicas: []replica.ID{1, 2, 3}, ISR: isr(t)}
	if w.Leader != v.Leader && w.LeaderEpoch == v.LeaderEpoch || v.LeaderEpoch == replica.NoEpoch {
		w.LeaderEpoch = v.LeaderEpoch + 1 // another leader is another epoch
	}
	if w.LeaderEpoch > v.LeaderEpoch {
		w.PartitionEpoch = v.PartitionEpoch + 1
	}
	for _, id := range w.Replicas {
		w.Brokers = append(w.Brokers, replica.BrokerState{ID: id, Epoch: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "broker epoch"),
			Fenced: rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "fenced")})
	}
	return w
}

func newMachine(t *rapid.T) *machine {
	set := rules.Of(rapid.SampledFrom(rules.Protocols()).Draw(t, "protocol"))
	set.Truncation = rapid.SampledFrom([]rules.Truncation{set.Truncation, set.Truncation, rules.OnFetch}).Draw(t, "truncation")
	c := replica.Config{Self: 1, Partition: orders, Rules: set, MinISR: 2, FirstNumber: 1}
	if rapid.Bool().Draw(t, "driven by time") {
		c.LagMax, c.FetchWait, c.Timeout, c.Backoff = 5, 3, 4, 2
	}
	d := memory.New()
	l, err := d.Log(orders)
	require.NoError(t, err)
	for i, e := range rapid.SampledFrom([][]int32{nil, {0}, {0, 0}, {0, 1}}).Draw(t, "log") {
		require.NoError(t, l.Append(replica.Batch{Base: int64(i), Count: 1, Epoch: e, Producer: replica.NoProducer, Data: []byte("x")}))
	}
	require.NoError(t, d.Flush(orders))
	r, err := replica.Open(c, l)
	require.NoError(t, err)
	m := &machine{disk: d, replica: r, newest: map[replica.Kind]int32{}}
	m.step(input{body: &replica.Registered{BrokerEpoch: 1}})
	return m
}

// A replica, its clone, and the same replica asked again give the same, and the clone's life is its own.
func TestACloneIsTheSameReplicaWithALifeOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			in := inputs(t, m.replica.View())
			twin, witness := m.clone(t), m.clone(t)
			require.Equal(t, m.state(), twin.state())
			before := m.state()
			require.Equal(t, m.step(in), twin.step(in), "%+v", in.body)
			require.Equal(t, m.state(), twin.state(), "after %+v", in.body)
			require.Equal(t, before, witness.state(), "a clone changed with %+v, which it was not told", in.body)
		}
	})
}

// What AppendState leaves out decides nothing: replicas that came to the same state by different ways answer alike from
// then on, whatever they are told, now or later.
func TestReplicasInTheSameStateHaveTheSameFuture(t *testing.T) {
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		start := newMachine(t)
		seen := map[string]*machine{}
		for range 6 { // ways from the same beginning
			m := start.clone(t)
			for range rapid.IntRange(1, 12).Draw(t, "steps") {
				m.step(inputs(t, m.replica.View()))
				other, ok := seen[m.state()]
				if !ok {
					seen[m.state()] = m.clone(t)
					continue
				}
				met++
				a, b := m.clone(t), other.clone(t)
				for range rapid.IntRange(1, 6).Draw(t, "future") {
					in := inputs(t, a.replica.View())
					from := a.state()
					require.Equal(t, a.step(in), b.step(in), "told %+v in the state\n%s", in.body, from)
					require.Equal(t, a.state(), b.state(), "after %+v in the state\n%s", in.body, from)
				}
			}
		}
	})
	require.NotZero(t, met, "no two ways have met: nothing was compared")
}

package replica_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

func TestAddressesAreReadBack(t *testing.T) {
	for id, want := range map[replica.ID]string{2: "2", replica.None: "none", replica.Controller: "controller", replica.Observer: "observer",
		replica.AnyClient: "client", replica.Client(0): "p0", replica.Client(71): "p71"} {
		assert.Equal(t, want, id.String())
		again, err := replica.ParseID(want)
		require.NoError(t, err, want)
		assert.Equal(t, id, again, want)
	}
	for _, wrong := range []string{"", "0", "-1", "p", "p-1", "px", "2x", "broker", "99999999999"} {
		_, err := replica.ParseID(wrong)
		assert.EqualError(t, err, `address "`+wrong+`": want a broker's number, p and a process number, or controller`)
	}
}

func TestAddressesAreOfBrokersOrClientsOrNeither(t *testing.T) {
	for _, c := range []struct {
		id             replica.ID
		broker, client bool
		process        int64
	}{{1, true, false, -1}, {replica.None, false, false, -1}, {replica.Controller, false, false, -1}, {replica.Observer, false, false, -1},
		{replica.AnyClient, false, true, -1}, {replica.Client(0), false, true, 0}, {replica.Client(9), false, true, 9}} {
		assert.Equal(t, c.broker, c.id.IsBroker(), c.id)
		assert.Equal(t, c.client, c.id.IsClient(), c.id)
		assert.Equal(t, c.process, c.id.Process(), c.id)
	}
}

func TestPartitionsAreReadBack(t *testing.T) {
	for p, want := range map[replica.Partition]string{{Topic: "orders"}: "orders-0", {Topic: "a-b-7", Index: 12}: "a-b-7-12"} {
		assert.Equal(t, want, p.String())
		again, err := replica.ParsePartition(want)
		require.NoError(t, err)
		assert.Equal(t, p, again)
	}
	for _, wrong := range []string{"", "orders", "orders-", "orders-x", "-1", "orders--1"} {
		p, err := replica.ParsePartition(wrong)
		if wrong == "orders--1" {
			require.NoError(t, err, "a topic may end with a dash")
			assert.Equal(t, replica.Partition{Topic: "orders-", Index: 1}, p)
			continue
		}
		assert.EqualError(t, err, `partition "`+wrong+`": want topic-index, for example orders-0`)
	}
}

func TestOnlyRequestsAreRefused(t *testing.T) {
	m := replica.Message{From: 2, To: 1, Partition: orders, Number: 7}
	for _, body := range []replica.Body{&replica.Produce{}, &replica.Fetch{}, &replica.OffsetForLeaderEpoch{}, &replica.ListOffsets{}, &replica.LeaderAndIsr{}} {
		m.Body = body
		answer, ok := replica.Refuse(m, replica.StorageError)
		require.True(t, ok, body.Kind())
		assert.Equal(t, body.Kind()+" answer", answer.Body.Kind())
		assert.Equal(t, replica.Message{From: 1, To: 2, Partition: orders, Number: 7, Body: answer.Body}, answer)
		assert.Contains(t, says(answer.Body), "KAFKA_STORAGE_ERROR")
	}
	for _, body := range []replica.Body{&replica.FetchAnswer{}, &replica.Tick{}, &replica.AlterPartitionAnswer{}, &replica.ConnectionLost{}} {
		m.Body = body
		_, ok := replica.Refuse(m, replica.StorageError)
		assert.False(t, ok, body.Kind())
	}
	assert.Equal(t, "error code 999", replica.Code(999).String())
}

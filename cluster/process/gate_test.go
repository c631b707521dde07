package process

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
)

// impaired has the way there impaired.
func impaired(t *testing.T, i cluster.Impair) *wire {
	require.NoError(t, i.Check())
	w := newWire(t)
	w.there.impair([]cluster.Impair{i})
	return w
}

func TestWhatIsDelayedArrivesLaterInOrderAndNotOneAfterTheOther(t *testing.T) {
	const late, pieces = 100 * time.Millisecond, 20
	w := impaired(t, cluster.Impair{Kind: cluster.Delay, Delay: late})
	client, node := w.connect()
	began := time.Now()
	var want strings.Builder
	for i := range pieces {
		piece := strings.Repeat(string(rune('a'+i)), 100)
		want.WriteString(piece)
		send(t, client, piece)
		send(t, node, ".") // the other way nothing is late
		receive(t, client, ".")
	}
	sent := time.Since(began)
	receive(t, node, want.String())
	assert.GreaterOrEqual(t, time.Since(began), late)
	assert.Less(t, time.Since(began), sent+pieces*late, "each waits for itself alone")
	name, value := w.there.measured(cluster.Delay)
	assert.Equal(t, "bytes delayed", name)
	assert.Equal(t, "2000 by 100ms", value)

	// Healed it goes on, and the end of the connection passes.
	w.there.impair(nil)
	send(t, client, "after")
	require.NoError(t, client.Close())
	assert.Equal(t, "after", <-later(node))
}

func TestAPartThatIsLostIsSentAgainAndNothingIsMissing(t *testing.T) {
	w := impaired(t, cluster.Impair{Kind: cluster.Loss, Percent: 30})
	client, node := w.connect()
	lost := func() string {
		_, value := w.there.measured(cluster.Loss)
		return value
	}
	for sent := 0; lost() == "0"; sent++ {
		require.Less(t, sent, 200)
		send(t, client, "piece")
		receive(t, node, "piece")
	}
}

func TestNoMoreThanTheRateArrives(t *testing.T) {
	w := impaired(t, cluster.Impair{Kind: cluster.Rate, Rate: 50_000})
	client, node := w.connect()
	began := time.Now()
	all := strings.Repeat("x", 10_000)
	send(t, client, all)
	receive(t, node, all)
	assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	_, value := w.there.measured(cluster.Rate)
	assert.Equal(t, "10000", value)
}

func TestAResetEndsTheConnectionOverWhichSomethingIsSent(t *testing.T) {
	w := newWire(t)
	client, node := w.connect()
	idle, other := w.connect()
	w.there.impair([]cluster.Impair{{Kind: cluster.Reset}})
	send(t, node, "the other way")
	receive(t, client, "the other way")
	send(t, client, "broken")
	assert.Empty(t, <-later(node))
	assert.Empty(t, <-later(client))
	_, value := w.there.measured(cluster.Reset)
	assert.Equal(t, "1", value)
	w.there.impair(nil)
	send(t, idle, "still there")
	receive(t, other, "still there")
}

func TestFaultsOfOneWayKeepTheirCountsWhileTheyGoOn(t *testing.T) {
	w := newWire(t)
	client, node := w.connect()
	delay := cluster.Impair{Kind: cluster.Delay, Delay: time.Millisecond}
	w.there.impair([]cluster.Impair{{}, delay})
	send(t, client, "held")
	require.Eventually(t, func() bool { _, v := w.there.measured(cluster.Drop); return v == "4" }, 10*time.Second, time.Millisecond)
	w.there.impair([]cluster.Impair{delay})
	receive(t, node, "held")
	_, value := w.there.measured(cluster.Delay)
	assert.Equal(t, "4 by 1ms", value)
	w.there.impair([]cluster.Impair{delay, {Kind: cluster.Loss, Percent: 1}})
	_, value = w.there.measured(cluster.Delay)
	assert.Equal(t, "4 by 1ms", value, "another fault beside it")
	w.there.impair([]cluster.Impair{{Kind: cluster.Delay, Delay: 2 * time.Millisecond}})
	_, value = w.there.measured(cluster.Delay)
	assert.Equal(t, "0 by 2ms", value, "another delay")
}

func TestALinkIsClosedWhileBytesWait(t *testing.T) {
	w := impaired(t, cluster.Impair{Kind: cluster.Delay, Delay: time.Hour})
	client, node := w.connect()
	for range 2 * queued {
		send(t, client, strings.Repeat("x", 1000))
	}
	require.Eventually(t, func() bool { _, v := w.there.measured(cluster.Delay); return v != "0 by 1h0m0s" }, 10*time.Second, time.Millisecond)
	w.close()
	assert.Empty(t, <-later(node))
}

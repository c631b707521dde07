package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

// hand is a crew of two clients, and its time, moved by hand.
func hand(t *testing.T, change func(*Config)) (*Crew, *history.Memory, *time.Time) {
	now := time.Unix(100, 0)
	sink := &history.Memory{}
	c := Config{Topics: []history.Topic{orders(2)}, Clients: 2, Seed: 3, Time: time.Minute}
	if change != nil {
		change(&c)
	}
	k, err := NewCrew(c, []int32{1, 2, 3}, sink, func() time.Time { return now })
	require.NoError(t, err)
	return k, sink, &now
}

func TestACrewAsksWhatTheGeneratorsAsk(t *testing.T) {
	k, _, _ := hand(t, nil)
	k.Learn([]Told{{Partition: 0, Leader: 2, Replicas: []int32{1, 2, 3}}, {Partition: 1, Leader: 3, Replicas: []int32{1, 2, 3}}})
	require.True(t, k.Ready())
	k.Start()
	for i := range 2 {
		g, err := NewGenerator(k.Config(), int64(i))
		require.NoError(t, err)
		for range 50 {
			want := g.Next()
			op, node, ok, err := k.Begin(i)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, *op)
			if !op.Follower {
				assert.EqualValues(t, 2+op.Partition, node)
			}
			a := Answer{Kind: history.OK, Offset: 7, HighWatermark: 7}
			g.Learn(want, a)
			then, err := k.End(i, a, false, time.Millisecond)
			require.NoError(t, err)
			assert.Equal(t, Then{}, then)
		}
	}
	assert.EqualValues(t, 100, k.Config().Stats.Totals().Operations())
}

func TestWhatACrewsClientDoesAfterAnOperation(t *testing.T) {
	for _, tc := range []struct {
		name     string
		follower bool
		answer   Answer
		stale    bool
		then     Then
		process  int64 // of its next operation
	}{
		{"it is answered", false, Answer{Kind: history.OK}, false, Then{}, 0},
		{"the leader is another", false, RefusedRead(6), StaleRoute(6), Then{Refresh: true, Pause: true}, 0},
		{"the ISR is too small", false, Produced(19, false, -1, acksAll), StaleRoute(19), Then{Pause: true}, 0},
		{"nobody knows", false, Unanswered(true, WhyTimeout), true, Then{Refresh: true, Pause: true}, 2},
		{"nothing was sent", false, Unanswered(false, WhyCannotConnect), true, Then{Refresh: true, Pause: true}, 0},
		{"there is no such offset", false, RefusedRead(1), StaleRoute(1), Then{}, 0},
		{"a follower refuses", true, RefusedRead(6), StaleRoute(6), Then{}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, sink, _ := hand(t, func(c *Config) {
				c.FollowerReads, c.Mix = -1, Mix{Fetch: 1}
				if tc.follower {
					c.FollowerReads = 1
				}
			})
			k.Learn([]Told{{Partition: 0, Leader: 2, Replicas: []int32{1, 2, 3}}, {Partition: 1, Leader: 3, Replicas: []int32{1, 2, 3}}})
			k.Start()
			_, _, _, err := k.Begin(0)
			require.NoError(t, err)
			then, err := k.End(0, tc.answer, tc.stale, 0)
			require.NoError(t, err)
			assert.Equal(t, tc.then, then)
			if then.Pause {
				assert.Equal(t, firstPause, k.Pause(0))
				assert.Equal(t, 2*firstPause, k.Pause(0))
			}
			_, _, _, err = k.Begin(0)
			require.NoError(t, err)
			events := sink.Events()
			assert.Equal(t, tc.answer.Kind, events[1].Kind)
			assert.Equal(t, tc.process, events[2].Process, "a process whose last outcome is unknown is retired")
		})
	}
}

func TestACrewKeepsItsPaceAndItsEnd(t *testing.T) {
	k, _, now := hand(t, func(c *Config) { c.Rate, c.Time = 20, time.Second })
	k.Start()
	start := *now
	var at []time.Duration
	for {
		*now = k.Due(1)
		_, node, ok, err := k.Begin(1)
		require.NoError(t, err)
		if !ok {
			break
		}
		assert.Equal(t, nobody, node, "nobody has told who leads")
		at = append(at, now.Sub(start))
		_, err = k.End(1, Unanswered(false, WhyNoLeader), true, 0)
		require.NoError(t, err)
	}
	require.Len(t, at, 10)
	assert.Equal(t, 50*time.Millisecond, at[0], "clients take turns")
	assert.Equal(t, 150*time.Millisecond, at[1])
	assert.Equal(t, start.Add(time.Second), *now)
}

func TestACrewAsksOneBrokerAfterTheOtherWhoLeads(t *testing.T) {
	k, _, now := hand(t, nil)
	assert.Equal(t, []int32{1, 2, 3}, k.ToAsk())
	k.Asked(1)
	assert.Equal(t, []int32{2, 3, 1}, k.ToAsk())
	k.Silent(2)
	assert.Equal(t, []int32{3, 1, 2}, k.ToAsk(), "who does not answer comes last")
	k.Heard(2)
	assert.Equal(t, []int32{2, 3, 1}, k.ToAsk())
	k.Silent(2)
	*now = now.Add(quiet)
	assert.Equal(t, []int32{2, 3, 1}, k.ToAsk(), "for a while")
	seen := k.Seen()
	k.Learn(nil)
	assert.NotSame(t, seen, k.Seen())
	_, err := NewCrew(Config{}, nil, nil, time.Now)
	assert.ErrorIs(t, err, ErrConfig)
}

package inbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/inbox"
	"tidemark/node/replica"
)

// core notes what it is handed, and answers with the same number.
type core struct{ had []string }

func (c *core) Step(_ replica.Time, m replica.Message, out []replica.Message) []replica.Message {
	c.had = append(c.had, m.String())
	return append(out, m.Answer(&replica.FetchAnswer{}))
}

func (c *core) Deadline() replica.Time { return replica.Never }

func fetch(from replica.ID, number int32) replica.Message {
	return replica.Message{From: from, To: 1, Number: number, Body: &replica.Fetch{}}
}

func TestAMessagePassesAtOnceUnlessTheInboxHolds(t *testing.T) {
	c := &core{}
	x := inbox.New(c, false)
	out, fate := x.Arrive(0, fetch(2, 7), nil)
	assert.Equal(t, inbox.Handled, fate)
	assert.Equal(t, []string{"2->1 Fetch#7"}, c.had)
	require.Len(t, out, 1)
	assert.Equal(t, "1->2 Fetch answer#7", out[0].String())
	assert.Empty(t, x.Held())
}

func TestHeldMessagesWaitInTheOrderOfArrivalUntilTheyAreDeliveredOrDropped(t *testing.T) {
	c := &core{}
	x := inbox.New(c, true)
	for _, m := range []replica.Message{fetch(2, 1), fetch(3, 1), fetch(2, 2)} {
		out, fate := x.Arrive(0, m, nil)
		assert.Equal(t, inbox.Held, fate)
		assert.Empty(t, out)
	}
	waiting := func() []string {
		var names []string
		for _, m := range x.Held() {
			names = append(names, m.String())
		}
		return names
	}
	assert.Equal(t, []string{"2->1 Fetch#1", "3->1 Fetch#1", "2->1 Fetch#2"}, waiting())
	assert.Empty(t, c.had)

	out, ok := x.Deliver(0, 2, replica.KindFetch, 2, nil)
	assert.True(t, ok, "any of them, not only the oldest")
	assert.Len(t, out, 1)
	m, ok := x.Drop(2, replica.KindFetch, 1)
	assert.True(t, ok)
	assert.Equal(t, "2->1 Fetch#1", m.String())
	assert.Equal(t, []string{"2->1 Fetch#2"}, c.had)
	assert.Equal(t, []string{"3->1 Fetch#1"}, waiting())

	for _, wrong := range []struct {
		from   replica.ID
		kind   replica.Kind
		number int32
	}{{2, replica.KindFetch, 1}, {3, replica.KindProduce, 1}, {3, replica.KindFetch, 2}} {
		_, ok = x.Deliver(0, wrong.from, wrong.kind, wrong.number, nil)
		assert.False(t, ok, "%+v does not wait", wrong)
		_, ok = x.Drop(wrong.from, wrong.kind, wrong.number)
		assert.False(t, ok, "%+v does not wait", wrong)
	}
}

func TestMessagesOfWhoIsCutOffAreLostOnArrival(t *testing.T) {
	c := &core{}
	x := inbox.New(c, true)
	_, fate := x.Arrive(0, fetch(2, 1), nil)
	require.Equal(t, inbox.Held, fate)

	senders := []replica.ID{2}
	x.Cut(false, senders)
	senders[0] = 3 // the inbox keeps no reference
	_, fate = x.Arrive(0, fetch(2, 2), nil)
	assert.Equal(t, inbox.Lost, fate)
	_, fate = x.Arrive(0, fetch(3, 1), nil)
	assert.Equal(t, inbox.Held, fate)
	assert.False(t, x.Alone())
	assert.Len(t, x.Held(), 2, "what waits, stays")

	x.Cut(true, nil)
	assert.True(t, x.Alone())
	for _, from := range []replica.ID{2, 3, replica.Controller, replica.Client(0)} {
		_, fate = x.Arrive(0, fetch(from, 9), nil)
		assert.Equal(t, inbox.Lost, fate, "from %s", from)
	}
	_, ok := x.Deliver(0, 2, replica.KindFetch, 1, nil)
	assert.True(t, ok, "what waits can be delivered")

	x.Cut(false, nil)
	_, fate = x.Arrive(0, fetch(2, 3), nil)
	assert.Equal(t, inbox.Held, fate)
}

func TestQuestionsAndLooksAreNotHeld(t *testing.T) {
	client := replica.Client(4)
	latest := replica.Message{From: client, To: 1, Body: &replica.ListOffsets{Timestamp: replica.LatestOffset}}
	look := replica.Message{From: client, To: 1, Body: &replica.Fetch{Debug: true}}
	for _, c := range []struct {
		name string
		m    replica.Message
		cut  bool
		want inbox.Fate
	}{
		{"a client asks for the log's end", latest, false, inbox.Handled},
		{"a client asks for the end of a log on a broker that is cut off", latest, true, inbox.Lost},
		{"a harness looks at the replica", look, false, inbox.Handled},
		{"a harness looks at the replica of a broker that is cut off", look, true, inbox.Handled},
		{"a follower asks for its leader's log end", replica.Message{From: 2, To: 1, Body: &replica.ListOffsets{}}, false, inbox.Held},
		{"a consumer reads", replica.Message{From: client, To: 1, Body: &replica.Fetch{}}, false, inbox.Held},
		{"no broker looks", replica.Message{From: 2, To: 1, Body: &replica.Fetch{Debug: true}}, false, inbox.Held},
	} {
		x := inbox.New(&core{}, true)
		x.Cut(c.cut, nil)
		_, fate := x.Arrive(0, c.m, nil)
		assert.Equal(t, c.want, fate, c.name)
	}
}

package virtual

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/workload"
)

var orders = []history.Topic{{Name: "orders", Partitions: 1, Replicas: 3}}

// open opens three brokers with one partition and waits until it is created.
func open(t *testing.T, set rules.Set, o Options) *Cluster {
	t.Helper()
	ids := []control.NodeID{1, 2, 3}
	k, err := Open(cluster.Config{Brokers: ids, Topics: []node.Topic{{Name: "orders", Partitions: [][]control.NodeID{ids}}}, Rules: set,
		Settings: node.Defaults()}, o)
	require.NoError(t, err)
	rest(t, k)
	return k
}

func rest(t *testing.T, k *Cluster) {
	t.Helper()
	require.NoError(t, k.WaitFor(t.Context(), 20*time.Second, 5*time.Millisecond, func(context.Context) error {
		if why := k.AtRest(); why != "" {
			return errors.New(why)
		}
		return nil
	}))
}

// calm makes a short run without faults, the truth of which is kept.
func calm(t *testing.T, set rules.Set, change func(*Options)) *Cluster {
	t.Helper()
	o := Options{Seed: 1, Truth: true, Network: Network{Delay: time.Millisecond, Jitter: time.Millisecond}}
	if change != nil {
		change(&o)
	}
	k := open(t, set, o)
	work(t, k, &history.Memory{}, workload.Config{Time: time.Second, Rate: 100})
	rest(t, k)
	require.NoError(t, k.FinalReads(t.Context(), &history.Memory{}))
	return k
}

// work lets four clients work, with the stats of what they did.
func work(t *testing.T, k *Cluster, sink history.Sink, c workload.Config) workload.Totals {
	t.Helper()
	c.Topics, c.Clients, c.Seed, c.Stats = orders, 4, 1, &workload.Stats{}
	require.NoError(t, k.Work(t.Context(), Workload{Config: c}, sink))
	return c.Stats.Totals()
}

func kip320(t *testing.T) rules.Set {
	set, err := rules.Parse(rules.KIP320, nil, nil)
	require.NoError(t, err)
	return set
}

func TestAConnectionKeepsItsOrderUnlessAMessageGoesAWayOfItsOwn(t *testing.T) {
	arrivals := func(n Network) (one, other []int64, strays int) {
		w := newWires(n, 1, 3, 1)
		for i := range 200 {
			now := int64(i) * 10_000
			at, stray := w.arrival(now, 0, 1, 0)
			if stray {
				strays++
			}
			assert.GreaterOrEqual(t, at, now+int64(n.Delay))
			one = append(one, at)
			at, _ = w.arrival(now, 0, 1, 1)
			other = append(other, at)
		}
		return
	}
	one, other, strays := arrivals(Network{Delay: time.Millisecond, Jitter: time.Millisecond})
	assert.True(t, slices.IsSorted(one))
	assert.True(t, slices.IsSorted(other))
	assert.Zero(t, strays)
	passed := 0
	for i := range one[1:] {
		if other[i] > one[i+1] {
			passed++
		}
	}
	assert.Positive(t, passed, "messages of two cores pass each other")
	assert.Greater(t, one[0], int64(time.Millisecond), "and they take more than the least time")

	one, _, strays = arrivals(Network{Delay: time.Millisecond, Reorder: 0.1, Late: time.Second})
	assert.InDelta(t, 20, strays, 15)
	assert.False(t, slices.IsSorted(one))
}

func TestHiccupsOfTheNetworkHappenAndHarmNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		network Network
		count   func(Counts) int64
		unknown bool
	}{
		{"duplicate", Network{Delay: time.Millisecond, Duplicate: 0.5}, func(c Counts) int64 { return c.Duplicates }, false},
		{"reorder", Network{Delay: time.Millisecond, Reorder: 0.3, Late: 50 * time.Millisecond}, func(c Counts) int64 { return c.Reordered }, false},
		{"lose", Network{Delay: time.Millisecond, Lose: 0.05}, func(c Counts) int64 { return c.Lost }, true},
		{"none", Network{Delay: time.Millisecond}, func(c Counts) int64 { return 101 - c.Duplicates - c.Reordered - c.Lost - c.Held }, false},
	} {
		k := calm(t, kip320(t), func(o *Options) { o.Network = tc.network })
		assert.Greater(t, tc.count(k.Counts()), int64(10), tc.name)
		assert.Equal(t, Fact{Read: true}, k.Judge(0), tc.name)
		sink := &history.Memory{}
		totals := work(t, k, sink, workload.Config{Time: time.Second, FirstProcess: 1000, Rate: 400})
		assert.Equal(t, tc.unknown, totals.Unknown > 0, tc.name)
		lost := 0
		for _, e := range sink.Events() {
			if e.Op.Error == workload.WhyLost {
				lost++
				assert.Equal(t, history.Info, e.Kind)
			}
		}
		assert.Equal(t, tc.unknown, lost > 0, tc.name)
	}
}

func TestACutLinkHoldsWhatComesToItAndOneWayIsOneWay(t *testing.T) {
	k := open(t, kip320(t), Options{Seed: 1, Network: Network{Delay: time.Millisecond}})
	ctx := t.Context()
	e, err := k.Links(ctx, []cluster.Link{{From: 2, To: 1}, {From: 2, To: control.Controller}})
	require.NoError(t, err)
	assert.True(t, e.Proven, "nothing was cut before")
	require.NoError(t, k.Pass(ctx, 4*time.Second))
	reply, err := k.Control(ctx, control.Controller, control.Command{Do: control.Look})
	require.NoError(t, err)
	assert.Equal(t, []control.NodeID{1, 3}, reply.View.Records[0].ISR, "2 sends nothing any more")
	v, err := k.Control(ctx, 2, control.Command{Do: control.Look})
	require.NoError(t, err)
	assert.Equal(t, []control.NodeID{1, 3}, v.View.Partitions[0].ISR, "but it hears of it")
	assert.Positive(t, k.Counts().Held)

	e, err = k.Links(ctx, nil)
	require.NoError(t, err)
	assert.True(t, e.Proven)
	require.Len(t, e.Measured, 2)
	assert.Equal(t, "messages held from 2 to 1", e.Measured[0].Name)
	rest(t, k)
	_, err = k.Links(ctx, []cluster.Link{{From: 1, To: 9}})
	assert.EqualError(t, err, "there is no node 9")
}

func TestAFaultThatNothingCameToIsNotProven(t *testing.T) {
	k := open(t, kip320(t), Options{Seed: 1})
	_, err := k.Links(t.Context(), []cluster.Link{{From: cluster.ClientsID, To: 1}})
	require.NoError(t, err)
	e, err := k.Links(t.Context(), nil)
	require.NoError(t, err)
	assert.False(t, e.Proven)
	assert.Equal(t, []history.Measurement{{Name: "messages held from clients to 1", Value: "0"}}, e.Measured)
}

func TestClientsHaveTimeoutsAndRefusedAndBrokenConnections(t *testing.T) {
	ctx := t.Context()
	errorsOf := func(disturb func(k *Cluster)) map[string]int {
		k := open(t, kip320(t), Options{Seed: 1, Network: Network{Delay: time.Millisecond, Jitter: 3 * time.Millisecond}})
		work(t, k, &history.Memory{}, workload.Config{Time: 100 * time.Millisecond}) // connections and routes are there
		k.queue.push(k.clock.now+int64(200*time.Millisecond), event{what: acts, act: func() { disturb(k) }})
		sink := &history.Memory{}
		work(t, k, sink, workload.Config{Time: 700 * time.Millisecond, FirstProcess: 1000})
		counts := map[string]int{}
		for _, e := range sink.Events() {
			if e.Op.Error != "" {
				counts[e.Kind.String()+" "+e.Op.Error]++
			}
		}
		return counts
	}
	killed := errorsOf(func(k *Cluster) { _, _ = k.Stop(ctx, 1, cluster.Kill, nil) })
	assert.Positive(t, killed["info connection lost"], "%v", killed)
	assert.Positive(t, killed["fail cannot connect"], "%v", killed)
	paused := errorsOf(func(k *Cluster) { _, _ = k.Pause(ctx, 1, true) })
	assert.Positive(t, paused["info timeout"], "%v", paused)
	cut := errorsOf(func(k *Cluster) { _, _ = k.Links(ctx, []cluster.Link{{From: 1, To: cluster.ClientsID}}) })
	assert.Positive(t, cut["info timeout"], "%v", cut)
}

func TestAPowerFailureTakesWhatWasNotFlushedDownToTheCut(t *testing.T) {
	for _, how := range []cluster.How{cluster.Kill, cluster.Clean, cluster.Power} {
		sink := &history.Memory{}
		k := open(t, kip320(t), Options{Seed: 1, Network: Network{Delay: time.Millisecond}, Sink: sink})
		k.config.Settings.FlushInterval = time.Hour // no flush from the next one on
		require.NoError(t, k.Pass(t.Context(), 2*time.Second))
		work(t, k, &history.Memory{}, workload.Config{Time: time.Second, Rate: 200})
		rest(t, k)
		view := func() control.PartitionView {
			r, err := k.Control(t.Context(), 3, control.Command{Do: control.Look})
			require.NoError(t, err)
			return r.View.Partitions[0]
		}
		end := view().LEO
		require.Greater(t, end, int64(50))
		_, err := k.Stop(t.Context(), 3, how, map[string]schedule.Cut{node.EveryLog: {Keep: 7}})
		require.NoError(t, err)
		_, err = k.Control(t.Context(), 3, control.Command{Do: control.Look})
		assert.EqualError(t, err, "3 is down")
		events, err := k.Start(t.Context(), 3)
		require.NoError(t, err)
		if how == cluster.Power {
			require.Len(t, events, 2)
			assert.Equal(t, "powerloss", events[0].What)
			assert.Positive(t, events[0].Bytes)
			assert.EqualValues(t, 7, view().LEO)
		} else {
			assert.Equal(t, end, view().LEO, how)
		}
		rest(t, k)
		assert.Equal(t, end, view().LEO, "it has fetched what it lost")
	}
}

func TestTheControllerKeepsItsRecordOverARestart(t *testing.T) {
	k := open(t, kip320(t), Options{Seed: 1})
	ctx := t.Context()
	look := func() control.RecordView {
		r, err := k.Control(ctx, control.Controller, control.Command{Do: control.Look})
		require.NoError(t, err)
		return r.View.Records[0]
	}
	_, err := k.Control(ctx, control.Controller, control.Command{Do: control.Transfer, Node: 2})
	require.NoError(t, err)
	before := look()
	require.EqualValues(t, 2, before.Leader)
	_, err = k.Stop(ctx, control.Controller, cluster.Kill, nil)
	require.NoError(t, err)
	require.NoError(t, k.Pass(ctx, 100*time.Millisecond))
	_, err = k.Start(ctx, control.Controller)
	require.NoError(t, err)
	assert.Equal(t, before, look())
	require.NoError(t, k.Pass(ctx, 5*time.Second))
	assert.Equal(t, before, look(), "nobody's session ended over it")
}

func TestAPausedBrokerGoesOnWhereItWas(t *testing.T) {
	k := open(t, kip320(t), Options{Seed: 1})
	ctx := t.Context()
	e, err := k.Pause(ctx, 1, true)
	require.NoError(t, err)
	assert.True(t, e.Proven)
	_, err = k.Control(ctx, 1, control.Command{Do: control.Look})
	assert.EqualError(t, err, "1 is paused")
	require.NoError(t, k.Pass(ctx, 3*time.Second))
	assert.Contains(t, k.AtRest(), "ISR [2 3]", "its session is over")
	_, err = k.Pause(ctx, 1, false)
	require.NoError(t, err)
	rest(t, k)
}

func TestSettingsOfTheNetworkAreReadFromWords(t *testing.T) {
	n, err := ParseNetwork("")
	require.NoError(t, err)
	assert.Equal(t, DefaultNetwork(), n)
	n, err = ParseNetwork("delay=1ms, jitter=2ms,reorder=0.5,late=1s,duplicate=0.25,lose=0.125")
	require.NoError(t, err)
	assert.Equal(t, Network{Delay: time.Millisecond, Jitter: 2 * time.Millisecond, Reorder: 0.5, Late: time.Second, Duplicate: 0.25, Lose: 0.125}, n)
	for s, want := range map[string]string{
		"delay":       `network: "delay": want name=value`,
		"lag=1ms":     `network: unknown setting "lag"`,
		"delay=1":     "network: delay=1: want a duration",
		"delay=0s":    "network: delay=0s: a message takes time",
		"jitter=-1ms": "network: jitter=-1ms: want a duration up to an hour",
		"lose=2":      "network: lose=2: want a share from 0 to 1",
		"lose=much":   "network: lose=much: want a duration",
	} {
		_, err := ParseNetwork(s)
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatAClusterInVirtualTimeDoesNotDo(t *testing.T) {
	_, err := Open(cluster.Config{Hold: true}, Options{})
	assert.ErrorContains(t, err, "moves by itself")
	_, err = Open(cluster.Config{}, Options{})
	assert.ErrorContains(t, err, "brokers: none")
	k := open(t, kip320(t), Options{Seed: 1})
	reply, err := k.Control(t.Context(), 1, control.Command{Do: control.Poll})
	require.NoError(t, err)
	assert.Equal(t, "poll: the node moves by itself", reply.Error)
	assert.Error(t, k.FinalReads(t.Context(), &history.Memory{}), "there was no workload")
	_, err = k.Dump(t.Context(), 1, "orders", 0)
	assert.Error(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = k.Work(ended, Workload{Config: workload.Config{Topics: orders, Clients: 4, Time: time.Hour}}, &history.Memory{})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Less(t, k.Now(), time.Minute)
	assert.ErrorIs(t, k.Work(t.Context(), Workload{}, &history.Memory{}), workload.ErrConfig)
}

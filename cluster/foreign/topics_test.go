package foreign

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
)

func TestATopicToCreateIsRead(t *testing.T) {
	got, err := ParseNewTopic("orders.v2:4:3")
	require.NoError(t, err)
	assert.Equal(t, NewTopic{Name: "orders.v2", Partitions: 4, Replicas: 3}, got)
	for _, s := range []string{"", "orders", "orders:4", "orders:0:3", "orders:4:-1", "orders:a:3", "or ders:1:1", "orders:4:3:2", ":1:1"} {
		_, err := ParseNewTopic(s)
		require.ErrorIs(t, err, ErrConfig, s)
		assert.ErrorContains(t, err, "want NAME:PARTITIONS:REPLICAS")
	}
}

func TestContainersAreRead(t *testing.T) {
	got, err := ParseContainers([]string{"0=kafka-0,1=kafka-1", "2=kafka-2"})
	require.NoError(t, err)
	assert.Equal(t, map[int32]string{0: "kafka-0", 1: "kafka-1", 2: "kafka-2"}, got)
	for _, s := range []string{"kafka", "a=b", "1=", "-1=x", "1=a,1=b"} {
		_, err := ParseContainers([]string{s})
		require.ErrorIs(t, err, ErrConfig, s)
	}
}

func TestACreatedTopicIsEmptyAndPromisesWhatItWasTold(t *testing.T) {
	k, _ := fake(t, Config{})
	require.NoError(t, k.Create(t.Context(), NewTopic{Name: "made", Partitions: 3, Replicas: 3, Configs: []string{"min.insync.replicas=2"}}))
	topics, err := k.Topics(t.Context(), []string{"made"})
	require.NoError(t, err)
	require.Len(t, topics, 1)
	assert.Equal(t, "made", topics[0].Name)
	require.Len(t, topics[0].Partitions, 3)
	assert.NotEmpty(t, topics[0].Partitions[0])
	p, err := k.Promise(t.Context(), []string{"made", "orders"})
	require.NoError(t, err)
	assert.Equal(t, Promise{MinISR: 1, UncleanUntold: true}, p, "the weakest of all")

	for _, tc := range []struct {
		topic NewTopic
		want  string
	}{
		{NewTopic{Name: "made", Partitions: 1, Replicas: 1}, "topic made is there already"},
		{NewTopic{Name: "new", Partitions: 1, Replicas: 1, Configs: []string{"min.insync.replicas"}}, "want name=value"},
		{NewTopic{Name: "new", Partitions: 1, Replicas: 9}, "create topic new: INVALID_REPLICATION_FACTOR"},
	} {
		err := k.Create(t.Context(), tc.topic)
		require.ErrorIs(t, err, ErrConfig)
		assert.ErrorContains(t, err, tc.want)
	}
}

func TestTopicsThatAreUsedOrLoseRecordsAreRefused(t *testing.T) {
	k, theirs := fake(t, Config{})
	client, err := kgo.NewClient(kgo.SeedBrokers(theirs.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 1, Value: []byte("x")}).FirstErr())
	refused := func(err error, want string) {
		t.Helper()
		require.ErrorIs(t, err, ErrConfig)
		assert.ErrorContains(t, err, want)
	}
	_, err = k.Topics(t.Context(), []string{"orders"})
	refused(err, "topic orders has records: orders-1 ends at offset 1")
	assert.ErrorContains(t, err, "take a topic without records, for example --create orders-2")
	_, err = k.Topics(t.Context(), []string{"payments"})
	refused(err, "there is no topic payments; --create payments:1:3 creates it")
	_, err = k.Topics(t.Context(), nil)
	refused(err, "no topic is named")
	require.NoError(t, theirs.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
	_, err = k.Topics(t.Context(), []string{"compacted", "compacted"})
	refused(err, "topic compacted is named twice")
	_, err = k.Promise(t.Context(), []string{"compacted"})
	refused(err, "cleanup.policy=compact: a run needs a log from which nothing goes away")
	require.NoError(t, theirs.CreateTopic("short", 1, map[string]string{"retention.ms": "60000"}))
	_, err = k.Promise(t.Context(), []string{"short"})
	refused(err, "retention.ms=60000: records that were deleted look like lost ones")
}

func TestAConfigurationThatIsNotToldIsAnErrorOfItsOwn(t *testing.T) {
	k, theirs := fake(t, Config{})
	theirs.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	_, err := k.Promise(t.Context(), []string{"orders"})
	require.ErrorIs(t, err, ErrUntold)
	assert.ErrorContains(t, err, "CLUSTER_AUTHORIZATION_FAILED")
}

func TestAClusterIsAtRestWhenAllBrokersSayTheSame(t *testing.T) {
	k, _ := fake(t, Config{})
	topics, err := k.Topics(t.Context(), []string{"orders"})
	require.NoError(t, err)
	why, err := k.Unsettled(t.Context(), topics)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"orders-0": "", "orders-1": ""}, why)

	// One broker is away.
	k.mu.Lock()
	k.ids = append(k.ids, 8)
	k.mu.Unlock()
	why, err = k.Unsettled(t.Context(), topics)
	require.NoError(t, err)
	assert.Contains(t, why["orders-0"], "broker 8 does not answer")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Unsettled(ctx, topics)
	require.ErrorIs(t, err, context.Canceled)
}

// told is what a broker tells of one partition.
func told(leader, epoch int32, isr ...int32) view {
	return view{"orders-0": {Leader: leader, LeaderEpoch: epoch, Replicas: []int32{0, 1, 2}, ISR: isr}}
}

func TestWhatBrokersTellDifferentlyIsNoRest(t *testing.T) {
	k := &Cluster{ids: []int32{0, 1}}
	for _, tc := range []struct {
		name  string
		views map[int32]view
		want  string
	}{
		{"all is well", map[int32]view{0: told(1, 4, 2, 1, 0), 1: told(1, 4, 0, 1, 2)}, ""},
		{"one does not know it", map[int32]view{0: told(1, 4, 0, 1, 2), 1: {}}, "broker 1 does not know it"},
		{"nobody leads", map[int32]view{0: told(-1, 4, 0, 1, 2), 1: told(1, 4, 0, 1, 2)}, "broker 0 says that nobody leads"},
		{"the ISR is not whole", map[int32]view{0: told(1, 4, 0, 1, 2), 1: told(1, 4, 1)}, "broker 1 says that the ISR [1] does not have all of [0 1 2]"},
		{"two leaders", map[int32]view{0: told(1, 4, 0, 1, 2), 1: told(2, 5, 0, 1, 2)}, "broker 0 says that 1 leads, broker 1 that 2 does"},
	} {
		assert.Equal(t, tc.want, k.disagreement("orders-0", tc.views), tc.name)
	}
}

func TestElectionsAreToldOnceAndByTheNewestEpoch(t *testing.T) {
	seen := map[string]history.NodeEvent{}
	elected := func(leader, epoch int32, isr []int32, unclean bool) []history.NodeEvent {
		return []history.NodeEvent{{Node: history.Controller, What: history.Elected, Partition: "orders-0", Epoch: epoch, Leader: leader, ISR: isr,
			Why: "as metadata tells", Unclean: unclean}}
	}
	assert.Equal(t, elected(0, 3, []int32{0, 1}, false), news(seen, told(0, 3, 0, 1), true), "the first that is told of is not unclean")
	assert.Empty(t, news(seen, told(0, 3, 0, 1), true), "nothing new")
	assert.Empty(t, news(seen, told(2, 2, 2), true), "by one who has not heard of it")
	assert.Equal(t, elected(1, 4, []int32{1}, false), news(seen, told(1, 4, 1), true))
	assert.Empty(t, news(seen, told(1, 4, 1, 0), true), "the ISR grew, and is kept in mind")
	assert.Equal(t, elected(0, 5, []int32{0}, false), news(maps.Clone(seen), told(0, 5, 0), true))
	assert.Equal(t, elected(2, 5, []int32{2}, true), news(maps.Clone(seen), told(2, 5, 2), true), "from outside the ISR last told of")
	assert.Equal(t, elected(2, 5, []int32{2}, false), news(maps.Clone(seen), told(2, 5, 2), false), "where that cannot be")
	assert.Equal(t, elected(-1, 5, nil, false), news(maps.Clone(seen), told(-1, 5), true), "nobody is no unclean leader")
	assert.Empty(t, news(map[string]history.NodeEvent{}, told(1, -1, 1), true), "epochs are not told")
}

func TestWatchEndsWithItsContextOrWithTheError(t *testing.T) {
	k, theirs := fake(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var leaders []int32
	require.NoError(t, k.Watch(ctx, []string{"orders"}, time.Millisecond, false, func(e *history.NodeEvent) error {
		if leaders = append(leaders, e.Leader); len(leaders) == 2 { // both partitions
			assert.NoError(t, theirs.MoveTopicPartition("orders", 0, (theirs.LeaderFor("orders", 0)+1)%3))
		}
		if len(leaders) == 3 {
			cancel()
		}
		return nil
	}))
	assert.Equal(t, theirs.LeaderFor("orders", 0), leaders[2])
	full := errors.New("no space left")
	assert.ErrorIs(t, k.Watch(t.Context(), []string{"orders"}, time.Hour, false, func(*history.NodeEvent) error { return full }), full)
}

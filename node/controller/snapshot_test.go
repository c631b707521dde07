package controller_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/controller"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

func TestASnapshotBelongsToItsTopics(t *testing.T) {
	topic := controller.Topic{Partition: replica.Partition{Topic: "orders"}, Replicas: []replica.ID{1, 2, 3}, MinISR: 2}
	config := controller.Config{Rules: rules.Of(rules.KIP320), Brokers: []replica.ID{1, 2, 3, 4}, Topics: []controller.Topic{topic}}
	k, err := controller.Open(config)
	require.NoError(t, err)
	data, err := k.AppendSnapshot(nil)
	require.NoError(t, err)

	other := func(change func(*controller.Topic)) []controller.Topic {
		c := topic
		change(&c)
		return []controller.Topic{c}
	}
	for _, c := range []struct {
		name   string
		topics []controller.Topic
		want   string
	}{
		{"more of them", []controller.Topic{topic, {Partition: replica.Partition{Topic: "orders", Index: 1}, Replicas: []replica.ID{1}, MinISR: 1}},
			"controller snapshot has 1 partitions, the configuration 2: start with an empty folder or the old topics"},
		{"another one", other(func(t *controller.Topic) { t.Partition.Topic = "payments" }),
			"controller snapshot has partition orders-0 on [1 2 3] with min.insync.replicas=2, the configuration in its place payments-0 on [1 2 3] with 2: start with an empty folder or the old topics"},
		{"other replicas", other(func(t *controller.Topic) { t.Replicas = []replica.ID{1, 2, 4} }),
			"controller snapshot has partition orders-0 on [1 2 3] with min.insync.replicas=2, the configuration in its place orders-0 on [1 2 4] with 2: start with an empty folder or the old topics"},
		{"another min.insync.replicas", other(func(t *controller.Topic) { t.MinISR = 1 }),
			"controller snapshot has partition orders-0 on [1 2 3] with min.insync.replicas=2, the configuration in its place orders-0 on [1 2 3] with 1: start with an empty folder or the old topics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := config
			changed.Topics = c.topics
			_, err := controller.Restore(changed, 0, data)
			assert.EqualError(t, err, c.want)
		})
	}
	_, err = controller.Restore(config, 0, data)
	assert.NoError(t, err)
	_, err = controller.Restore(config, 0, []byte("{"))
	assert.ErrorContains(t, err, "controller snapshot: ")
}

func TestAControllerIsNotOpenedWithTopicsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		topic controller.Topic
		zk    bool
		want  string
	}{
		{"no replicas", controller.Topic{MinISR: 1}, false, "partition orders-0: no replicas"},
		{"a replica on no broker", controller.Topic{Replicas: []replica.ID{1, 9}, MinISR: 1}, false, "partition orders-0: replica 9 is not one of the brokers [1 2 3]"},
		{"a replica twice", controller.Topic{Replicas: []replica.ID{1, 1}, MinISR: 1}, false, "partition orders-0: replica 1 is named twice"},
		{"min.insync.replicas of nothing", controller.Topic{Replicas: []replica.ID{1}}, false, "partition orders-0: min.insync.replicas=0: want 1 or more"},
		{"rules that contradict each other", controller.Topic{Replicas: []replica.ID{1}, MinISR: 1}, true,
			"elr with zk registration: eligibility ends at an unclean restart, which zk registration does not notice; use registration=kraft or take elr away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.topic.Partition = replica.Partition{Topic: "orders"}
			set := rules.Of(rules.KIP966)
			if c.zk {
				set.Registration = rules.ZK
			}
			_, err := controller.Open(controller.Config{Rules: set, Brokers: []replica.ID{1, 2, 3}, Topics: []controller.Topic{c.topic}})
			assert.EqualError(t, err, c.want)
		})
	}
}

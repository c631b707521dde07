package foreign

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/cluster"
	"tidemark/node"
)

// NewTopic is a topic to be created.
type NewTopic struct {
	Name                 string
	Partitions, Replicas int
	// Configs are the topic's settings by Kafka's names, "min.insync.replicas=2".
	Configs []string
}

// topicName is what Kafka takes for one.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// ParseNewTopic reads NAME:PARTITIONS:REPLICAS.
func ParseNewTopic(s string) (NewTopic, error) {
	var t NewTopic
	words := strings.Split(s, ":")
	err := errors.New("want NAME:PARTITIONS:REPLICAS, for example orders:4:3")
	if len(words) == 3 && topicName.MatchString(words[0]) {
		t.Name = words[0]
		var bad1, bad2 error
		t.Partitions, bad1 = strconv.Atoi(words[1])
		t.Replicas, bad2 = strconv.Atoi(words[2])
		if bad1 == nil && bad2 == nil && t.Partitions > 0 && t.Replicas > 0 && t.Partitions <= 10_000 && t.Replicas <= 1000 {
			return t, nil
		}
	}
	return t, fmt.Errorf("%w: topic %q: %w", ErrConfig, s, err)
}

// Create creates a topic and waits until its partitions are led.
func (k *Cluster) Create(ctx context.Context, t NewTopic) error {
	configs := map[string]*string{}
	for _, c := range t.Configs {
		key, value, ok := strings.Cut(c, "=")
		if !ok || key == "" {
			return fmt.Errorf("%w: setting %q of topic %s: want name=value", ErrConfig, c, t.Name)
		}
		configs[key] = &value
	}
	asking, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	r, err := k.admin.CreateTopic(asking, int32(t.Partitions), int16(t.Replicas), configs, t.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, kerr.TopicAlreadyExists):
		return fmt.Errorf("%w: topic %s is there already; choose another name, or name it as one that is there", ErrConfig, t.Name)
	case err != nil && r.ErrMessage != "":
		return fmt.Errorf("%w: create topic %s: %w: %s", ErrConfig, t.Name, err, r.ErrMessage)
	case err != nil:
		return fmt.Errorf("%w: create topic %s: %w", ErrConfig, t.Name, err)
	}
	return cluster.WaitFor(ctx, reachedWithin, func(ctx context.Context) error {
		m, err := k.admin.Metadata(ctx, t.Name)
		if err != nil {
			return err
		}
		d := m.Topics[t.Name]
		if d.Err != nil || len(d.Partitions) < t.Partitions {
			return fmt.Errorf("topic %s was created and has %d partitions of %d: %w", t.Name, len(d.Partitions), t.Partitions, d.Err)
		}
		for _, p := range d.Partitions.Sorted() {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("topic %s was created, and nobody leads partition %d", t.Name, p.Partition)
			}
		}
		return nil
	})
}

// Topics says where the partitions of topics are. A topic that has or had records is refused: a history begins with an empty log.
func (k *Cluster) Topics(ctx context.Context, names []string) ([]node.Topic, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no topic is named; name an empty one, or create one", ErrConfig)
	}
	ctx, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	m, err := k.admin.Metadata(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("%w: metadata: %w", ErrUnreachable, err)
	}
	var topics []node.Topic
	for i, name := range names {
		d, ok := m.Topics[name]
		switch {
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("%w: topic %s is named twice", ErrConfig, name)
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return nil, fmt.Errorf("%w: there is no topic %s; --create %s:1:%d creates it", ErrConfig, name, name, min(3, len(k.ids)))
		case d.Err != nil:
			return nil, fmt.Errorf("%w: topic %s: %w", ErrConfig, name, d.Err)
		}
		t := node.Topic{Name: name, Partitions: make([][]cluster.NodeID, len(d.Partitions))}
		for i := range t.Partitions {
			p, ok := d.Partitions[int32(i)]
			if !ok || p.Err != nil && len(p.Replicas) == 0 {
				return nil, fmt.Errorf("%w: the cluster does not tell of partition %d of topic %s: %v", ErrConfig, i, name, p.Err)
			}
			for _, r := range p.Replicas {
				t.Partitions[i] = append(t.Partitions[i], cluster.NodeID(r))
			}
		}
		topics = append(topics, t)
	}
	return topics, k.empty(ctx, names)
}

// empty refuses topics whose logs have begun.
func (k *Cluster) empty(ctx context.Context, names []string) error {
	var ends kadm.ListedOffsets
	err := cluster.WaitFor(ctx, reachedWithin, func(ctx context.Context) (err error) { // a cluster that just came up elects
		if ends, err = k.admin.ListEndOffsets(ctx, names...); err == nil {
			err = ends.Error()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: where the logs of %s end: %w", ErrConfig, strings.Join(names, ", "), err)
	}
	var used error
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 && used == nil {
			used = fmt.Errorf("%w: topic %s has records: %s-%d ends at offset %d, and a run needs logs that it has seen from their beginning; take a topic without records, for example --create %s",
				ErrConfig, o.Topic, o.Topic, o.Partition, o.Offset, fresh(o.Topic, len(ends[o.Topic]), len(k.ids)))
		}
	})
	return used
}

// fresh proposes a topic like one that was used.
func fresh(name string, partitions, brokers int) string {
	return fmt.Sprintf("%.220s-%s:%d:%d", name, time.Now().Format("20060102-150405"), partitions, min(3, brokers))
}

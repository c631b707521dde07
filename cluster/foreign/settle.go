package foreign

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node"
)

// standsFor is how long the end of a log must not move before the log is called at rest.
const standsFor = 500 * time.Millisecond

// view is what one broker tells of the partitions.
type view map[string]kmsg.MetadataResponseTopicPartition

// Unsettled says for each partition what keeps it from rest, "" if nothing does: every broker answers, all name the same leader
// and an ISR that has all replicas, and two looks at the end of the log, half a second apart, see the same. That every replica is
// as long as the leader's is more than clients are told.
func (k *Cluster) Unsettled(ctx context.Context, topics []node.Topic) (map[string]string, error) {
	var names []string
	for _, t := range topics {
		names = append(names, t.Name)
	}
	views, silent := k.views(ctx, names)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	why := map[string]string{}
	resting := true
	for _, t := range topics {
		for i := range t.Partitions {
			name := fmt.Sprintf("%s-%d", t.Name, i)
			if why[name] = silent; silent == "" {
				why[name] = k.disagreement(name, views)
			}
			resting = resting && why[name] == ""
		}
	}
	if !resting {
		return why, nil
	}
	before, err := k.ends(ctx, names)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(standsFor):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := k.ends(ctx, names)
	if err != nil {
		return nil, err
	}
	for name := range why {
		if before[name] != after[name] {
			why[name] = fmt.Sprintf("its end moved from %d to %d", before[name], after[name])
		}
	}
	return why, nil
}

// views asks every broker. silent names one that did not answer.
func (k *Cluster) views(ctx context.Context, names []string) (views map[int32]view, silent string) {
	found := make([]view, len(k.ids))
	errs := make([]error, len(k.ids))
	var wg sync.WaitGroup
	for i, id := range k.ids {
		wg.Go(func() { found[i], errs[i] = k.view(ctx, id, names) })
	}
	wg.Wait()
	views = map[int32]view{}
	for i, id := range k.ids {
		if errs[i] != nil {
			silent = cmp.Or(silent, fmt.Sprintf("broker %d does not answer: %v", id, errs[i]))
			continue
		}
		views[id] = found[i]
	}
	return views, silent
}

// view asks one broker who leads what.
func (k *Cluster) view(ctx context.Context, id int32, names []string) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := k.client.Broker(int(id)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	v := view{}
	m := resp.(*kmsg.MetadataResponse)
	for _, b := range m.Brokers {
		k.learn([]kgo.BrokerMetadata{{NodeID: b.NodeID, Host: b.Host, Port: b.Port}})
	}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil {
				v[fmt.Sprintf("%s-%d", *t.Topic, p.Partition)] = p
			}
		}
	}
	return v, nil
}

// disagreement says what brokers tell of a partition that is not that it is led by one, with all replicas in sync.
func (k *Cluster) disagreement(name string, views map[int32]view) string {
	leader, teller := int32(-1), int32(-1)
	for _, id := range k.ids {
		p, ok := views[id][name]
		switch {
		case !ok:
			return fmt.Sprintf("broker %d does not know it", id)
		case p.Leader < 0:
			return fmt.Sprintf("broker %d says that nobody leads", id)
		case slices.ContainsFunc(p.Replicas, func(r int32) bool { return !slices.Contains(p.ISR, r) }):
			return fmt.Sprintf("broker %d says that the ISR %v does not have all of %v", id, p.ISR, p.Replicas)
		case teller >= 0 && p.Leader != leader:
			return fmt.Sprintf("broker %d says that %d leads, broker %d that %d does", teller, leader, id, p.Leader)
		}
		leader, teller = p.Leader, id
	}
	return ""
}

func (k *Cluster) ends(ctx context.Context, names []string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	listed, err := k.admin.ListEndOffsets(ctx, names...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("where the logs end: %w", err)
	}
	ends := map[string]int64{}
	for topic, partitions := range listed {
		for i, o := range partitions {
			ends[fmt.Sprintf("%s-%d", topic, i)] = o.Offset
		}
	}
	return ends, nil
}

package foreign

import (
	"context"
	"slices"
	"time"

	"tidemark/checker/history"
)

// Watch asks brokers for metadata, one after the other, until ctx ends, and tells who was elected when: for each leader epoch of a
// partition the first answer that has it. The history has these as the controller's, because a leader and its epoch are the
// controller's decision; how it came to it nobody tells.
//
// With unclean the cluster may elect from outside the ISR. Metadata does not say whether it did. An election is told as such if the
// ISR last told of did not have the new leader. An ISR may grow and elect between two questions, so this errs toward excusing: it is
// for clusters whose configuration does not promise to keep what such an election loses.
func (k *Cluster) Watch(ctx context.Context, names []string, every time.Duration, unclean bool, tell func(*history.NodeEvent) error) error {
	seen := map[string]history.NodeEvent{}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for i := 0; ; i++ {
		v, err := k.view(ctx, k.ids[i%len(k.ids)], names)
		if err == nil { // who does not answer tells nothing
			for _, e := range news(seen, v, unclean) {
				if err := tell(&e); err != nil {
					return err
				}
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// news are the elections in a view that are newer than what was seen, which it brings up to date.
func news(seen map[string]history.NodeEvent, v view, unclean bool) []history.NodeEvent {
	var told []history.NodeEvent
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := v[name]
		old, known := seen[name]
		if p.LeaderEpoch < 0 || known && p.LeaderEpoch < old.Epoch {
			continue // epochs are not told (before Metadata v7), or by one who has not heard of the newest
		}
		e := history.NodeEvent{Node: history.Controller, What: history.Elected, Partition: name, Epoch: p.LeaderEpoch, Leader: max(p.Leader, history.Unknown),
			ISR: slices.Clone(p.ISR), Why: "as metadata tells"}
		seen[name] = e
		if known && p.LeaderEpoch == old.Epoch {
			continue
		}
		e.Unclean = unclean && known && p.Leader >= 0 && !slices.Contains(old.ISR, p.Leader)
		told = append(told, e)
	}
	return told
}

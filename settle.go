package tidemark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/node/control"
	"tidemark/workload"
)

// created says what is missing until every partition has its leader and its whole ISR for the first time.
func (r *run) created(ctx context.Context) error {
	records, err := r.records(ctx)
	if err != nil {
		return err
	}
	for _, p := range records {
		if !p.Created || p.Leader == 0 || len(p.ISR) < len(p.Replicas) {
			return fmt.Errorf("%s has leader %d and ISR %v of %v", p.Partition, p.Leader, p.ISR, p.Replicas)
		}
	}
	return nil
}

func (r *run) records(ctx context.Context) ([]control.RecordView, error) {
	reply, err := r.cluster.Control(ctx, control.Controller, control.Command{Do: control.Look})
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	return reply.View.Records, err
}

// replicas are the views of every broker's replicas, by partition.
func (r *run) replicas(ctx context.Context) (map[string]map[control.NodeID]control.PartitionView, error) {
	views := map[string]map[control.NodeID]control.PartitionView{}
	for _, id := range r.cluster.Brokers() {
		n := control.NodeID(id)
		reply, err := r.cluster.Control(ctx, n, control.Command{Do: control.Look})
		if err == nil && reply.Error != "" {
			err = errors.New(reply.Error)
		}
		if err != nil {
			return nil, err
		}
		for _, v := range reply.View.Partitions {
			if views[v.Partition] == nil {
				views[v.Partition] = map[control.NodeID]control.PartitionView{}
			}
			views[v.Partition][n] = v
		}
	}
	return views, nil
}

// unsettled says for each partition what keeps it from rest: ISR = replicas, every replica's high watermark at its log end.
func (r *run) unsettled(ctx context.Context) (map[string]string, error) {
	records, err := r.records(ctx)
	if err != nil {
		return nil, err
	}
	views, err := r.replicas(ctx)
	if err != nil {
		return nil, err
	}
	why := map[string]string{}
	for _, p := range records {
		why[p.Partition] = unsettled(p, views[p.Partition])
	}
	return why, nil
}

func unsettled(p control.RecordView, views map[control.NodeID]control.PartitionView) string {
	switch {
	case p.Leader == 0:
		return "nobody leads"
	case len(p.ISR) < len(p.Replicas):
		return fmt.Sprintf("the ISR %v does not have all of %v", p.ISR, p.Replicas)
	}
	end := views[p.Leader].LEO
	for _, n := range p.Replicas {
		v, ok := views[n]
		switch {
		case !ok:
			return fmt.Sprintf("broker %d has no replica", n)
		case v.Role == "offline":
			return fmt.Sprintf("the replica on broker %d is offline", n)
		case v.HW != v.LEO:
			return fmt.Sprintf("broker %d has high watermark %d and log end offset %d", n, v.HW, v.LEO)
		case v.LEO != end:
			return fmt.Sprintf("broker %d ends at %d, leader %d at %d", n, v.LEO, p.Leader, end)
		}
	}
	return ""
}

// end waits until the replicas agree and records what there is: final reads from the leaders, and every replica's log.
func (r *run) end(ctx context.Context, k cluster.Config, sink *history.Writer) error {
	r.tell("waiting for the replicas to agree")
	var why map[string]string
	err := r.cluster.waitFor(ctx, settledWithin, func(ctx context.Context) error {
		now, err := r.unsettled(ctx)
		if err != nil {
			return err // what was seen before still stands, should this be the deadline
		}
		why = now
		for _, p := range sortedKeys(why) {
			if why[p] != "" {
				return fmt.Errorf("%s: %s", p, why[p])
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && len(why) == 0 {
		return fmt.Errorf("the cluster cannot be asked at the end: %w", err)
	}
	for _, p := range sortedKeys(why) {
		s := &history.Settled{Partition: p, OK: why[p] == "", Why: why[p]}
		if err := sink.Append(&history.Event{Kind: history.KindSettled, Settled: s}); err != nil {
			return err
		}
	}
	r.tell("reading what there is")
	reading, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	w := r.workload(k)
	if err := r.cluster.finalReads(reading, w, sink); err != nil && !errors.Is(err, workload.ErrIncomplete) {
		return err
	}
	dumping, cancel := context.WithTimeout(ctx, settledWithin) // its own: what could not be read above may have taken all of that
	defer cancel()
	return errors.Join(r.dump(dumping, k, w, sink), sink.Flush())
}

// dump records every replica's log, with its epoch cache.
func (r *run) dump(ctx context.Context, k cluster.Config, w workload.Config, sink history.Sink) error {
	views, err := r.replicas(ctx)
	if err != nil {
		return err
	}
	for _, t := range k.Topics {
		for i, replicas := range t.Partitions {
			name := fmt.Sprintf("%s-%d", t.Name, i)
			for _, n := range replicas {
				d, err := r.cluster.dump(ctx, w, int32(n), t.Name, int32(i))
				if errors.Is(err, workload.ErrIncomplete) {
					continue // it is offline; that it did not come to rest is recorded
				}
				if err != nil {
					return fmt.Errorf("reading the replica of %s on broker %d: %w", name, n, err)
				}
				for _, e := range views[name][n].Epochs {
					d.Epochs = append(d.Epochs, history.EpochStart{Epoch: e.Epoch, Start: e.Start})
				}
				if err := sink.Append(&history.Event{Kind: history.KindReplica, Replica: d}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}

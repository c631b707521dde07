package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// Court is what a found schedule has to stand before: the rules it plays under and the contract that is broken or not.
type Court struct {
	Protocol rules.Protocol
	Rules    rules.Set
	// Budget replaces the power failures that the protocol promises to survive; "": the protocol's own.
	Budget history.CrashBudget
}

// Ruling is what a schedule came to on a [Stage], judged by its history alone.
type Ruling struct {
	Played  *schedule.Result
	Checked *checker.Result
}

// Try plays a schedule on a stage and has its history checked. An error is the harness's.
func (c Court) Try(ctx context.Context, f *schedule.File) (*Ruling, error) {
	topic, _, _ := strings.Cut(schedule.Partition, "-")
	sink := &history.Memory{}
	stage, err := NewStage(ctx, f.Cluster, c.Rules)
	if err != nil {
		return nil, err
	}
	played, err := schedule.Play(ctx, f, c.Protocol, c.Rules, stage, sink)
	if err != nil {
		return nil, err
	}
	checked, err := checker.Check(ctx, checker.Events(history.Header{
		Contract: history.Contract{Acks: "all", MinISR: f.Cluster.MinISR, Unclean: f.Cluster.Unclean, Protocol: string(c.Protocol),
			CrashBudget: c.Budget, Bar: strings.ReplaceAll(f.Cluster.Level, "-", " ")},
		Topics: []history.Topic{{Name: topic, Partitions: 1, Replicas: len(f.Cluster.Replicas)}},
		Meta:   map[string]string{"schedule": f.Name},
	}, sink.Events()), checker.Options{Porcupine: checker.Limits{Operations: -1}})
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", f.Name, err)
	}
	return &Ruling{Played: played, Checked: checked}, nil
}

// Clears says whether what is possible of a schedule under the court's rules comes to no violation: then a violation of it under others
// is due to what they have wrong.
func (c Court) Clears(ctx context.Context, f *schedule.File) (bool, error) {
	r, err := c.Try(ctx, optional(f))
	if err != nil {
		return false, err
	}
	return r.Played.Inconclusive == "" && !r.Violation(), nil
}

// Violation says whether the schedule happened as it is written and broke the contract.
func (r *Ruling) Violation() bool {
	return r.Played.Inconclusive == "" && r.Checked.Verdict == checker.Violation
}

// Kinds are the kinds of anomaly that break the contract, sorted.
func (r *Ruling) Kinds() []checker.Anomaly {
	var kinds []checker.Anomaly
	for _, f := range r.Checked.Findings {
		if f.Because == "" {
			kinds = append(kinds, f.Anomaly)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

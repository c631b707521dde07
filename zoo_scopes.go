package tidemark

import (
	"context"
	"slices"

	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
)

// zooScope is a small scope in which defects are looked for exhaustively.
type zooScope struct {
	name    string
	brokers int
	scope   sim.Scope
}

// zooScopes are tried one after the other. What they leave out makes room for what they are about.
var zooScopes = []zooScope{
	{"elections", 2, sim.Scope{Records: 1, Epochs: 4, Changes: 3, LeaveOut: []schedule.Verb{schedule.Lag, schedule.Unfence}}},
	{"three brokers", 3, sim.Scope{Records: 1, Epochs: 2, Changes: 2, LeaveOut: []schedule.Verb{schedule.Unfence, schedule.Transfer}}},
	{"crash", 2, sim.Scope{Records: 1, Epochs: 2, Changes: 4, Crashes: 1, Power: 1,
		LeaveOut: []schedule.Verb{schedule.Lag, schedule.Transfer, schedule.Unfence, schedule.Checkpoint}}},
	{"late fetches", 2, sim.Scope{Records: 1, Epochs: 2, Changes: 5, Crashes: 1, Power: 1, Late: true,
		LeaveOut: []schedule.Verb{schedule.Lag, schedule.Transfer, schedule.Unfence, schedule.Kill, schedule.Checkpoint, schedule.Flush}}},
	{"rivals", 2, sim.Scope{Records: 2, Epochs: 4, Changes: 4, LeaveOut: []schedule.Verb{schedule.Lag, schedule.Fence, schedule.Unfence}}},
}

// byExhaustion searches the scopes until one has a violation, each up to a bound that grows: most defects are found by few states.
func (s subject) byExhaustion(ctx context.Context, states int) (Attempt, error) {
	var a Attempt
	done := make([]bool, len(zooScopes))
	for bound := min(states, 4000); ; bound = min(4*bound, states) {
		for i, z := range zooScopes {
			if done[i] {
				continue
			}
			scope := z.scope
			scope.Cluster, scope.Court, scope.MaxStates = s.cluster(z.brokers), s.court, bound
			x, err := scope.Run(ctx)
			if err != nil {
				return a, err
			}
			if ctx.Err() != nil {
				return a, ctx.Err()
			}
			a.Runs += int64(x.States)
			a.Allowed, a.Unconfirmed = max(a.Allowed, int64(x.Excused)), max(a.Unconfirmed, int64(x.Unconfirmed))
			if x.Find == nil {
				done[i] = x.Complete
				continue
			}
			due, err := s.due(ctx, x.Find.File)
			if err != nil {
				return a, err
			}
			if due {
				a.Found, a.By, a.Anomalies, a.File = true, z.name, x.Find.Kinds, x.Find.File
				return a, nil
			}
			done[i], a.Partial = true, true // what comes first in the scope has another cause, and nothing is known of what comes after it
		}
		if bound == states || !slices.Contains(done, false) {
			break
		}
	}
	a.Partial = a.Partial || slices.Contains(done, false)
	return a, nil
}

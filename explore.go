package tidemark

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// ExploreConfig says what a search looks for, and where: random schedules or, with Exhaustive, everything within a scope.
type ExploreConfig struct {
	Protocol       rules.Protocol
	Without, Rules []string // as rules.Parse takes them
	Replicas       int
	MinISR         int // min.insync.replicas
	// Budget replaces the power failures that the protocol promises to survive: isr, min-isr, all; "": the protocol's own.
	Budget history.CrashBudget

	// Random schedules.
	Schedules int64 // 0: until Time is over
	Time      time.Duration
	Seed      uint64
	Severity  sim.Severity
	Faults    sim.Faults // in place of those of the severity, if there are any
	Steps     int        // of each schedule; 0 is sim's default
	KeepGoing bool
	// Twice runs the search once more and compares every step: two runs that differ are an error, a [sim.Mismatch].
	Twice bool

	// Exhaustive search. Its own bounds are in Scope; cluster and court are filled in from the above.
	Exhaustive bool
	Scope      sim.Scope

	// Progress is called every now and then with what has been seen so far, if it is not nil. It must not keep it.
	Progress func(*Exploration)
	// Found is called with each kind of anomaly, shrunk, if it is not nil.
	Found func(Found)
}

// Found is a violation that a search found.
type Found struct {
	sim.Find
	File   *schedule.File // shrunk, commented, with what every protocol does with it
	Shrunk *sim.Shrunk    // nil if the search was interrupted before: then File is as it was found
	Took   time.Duration  // for shrinking
}

// Exploration is what a search came to: one of Random and Exhaustive.
type Exploration struct {
	Random     *sim.Explored
	Exhaustive *sim.Covered
	Found      []Found
	Took       time.Duration // for searching, without shrinking
}

// Clean says that the search saw all that it was to see and found no violation.
func (x *Exploration) Clean() bool {
	if x.Exhaustive != nil {
		return x.Exhaustive.Complete
	}
	return len(x.Found) == 0 && x.Random.Violations == 0 && x.Random.Stopped != sim.Interrupted
}

// Court is where the search's finds are judged.
func (c *ExploreConfig) Court() (sim.Court, error) {
	set, err := rules.Parse(c.Protocol, c.Without, c.Rules)
	return sim.Court{Protocol: c.Protocol, Rules: set, Budget: c.Budget}, err
}

// Cluster is what it searches on: brokers from 1 on, assigned in that order.
func (c *ExploreConfig) Cluster() (schedule.Cluster, error) {
	if c.Replicas < 1 || c.Replicas > 5 {
		return schedule.Cluster{}, fmt.Errorf("%d replicas: want 1 to 5", c.Replicas)
	}
	if c.MinISR < 1 || c.MinISR > c.Replicas {
		return schedule.Cluster{}, fmt.Errorf("min.insync.replicas=%d with %d replicas: want 1 to %d", c.MinISR, c.Replicas, c.Replicas)
	}
	k := schedule.Cluster{MinISR: c.MinISR}
	for n := range c.Replicas {
		k.Replicas = append(k.Replicas, control.NodeID(n+1))
	}
	return k, nil
}

// Explore searches for violations. What was found before the context was done is returned; its end is no error.
func Explore(ctx context.Context, c ExploreConfig) (*Exploration, error) {
	court, err := c.Court()
	if err != nil {
		return nil, err
	}
	cluster, err := c.Cluster()
	if err != nil {
		return nil, err
	}
	searching := ctx
	if c.Time > 0 {
		var cancel context.CancelFunc
		searching, cancel = context.WithTimeout(ctx, c.Time)
		defer cancel()
	}
	x := &Exploration{}
	began := time.Now()
	var finds []sim.Find
	progress := func(at *Exploration) {
		if c.Progress != nil {
			at.Took = time.Since(began)
			c.Progress(at)
		}
	}
	if c.Exhaustive {
		c.Scope.Cluster, c.Scope.Court = cluster, court
		c.Scope.Progress = func(at sim.Covered) { progress(&Exploration{Exhaustive: &at}) }
		x.Exhaustive, err = c.Scope.Run(searching)
		if err == nil && x.Exhaustive.Find != nil {
			finds = append(finds, *x.Exhaustive.Find)
		}
	} else {
		search := sim.Search{Cluster: cluster, Court: court, Severity: c.Severity, Faults: c.Faults, Seed: c.Seed, Schedules: c.Schedules,
			Steps: c.Steps, KeepGoing: c.KeepGoing, Recorded: c.Twice,
			Progress: func(at *sim.Explored) { progress(&Exploration{Random: at}) }}
		x.Random, err = search.Run(searching)
		if x.Random != nil {
			finds = x.Random.Finds
		}
		x.Took = time.Since(began)
		if err == nil && c.Twice {
			err = search.Again(ctx, x.Random)
		}
	}
	x.Took = cmp.Or(x.Took, time.Since(began))
	if err != nil {
		return x, err
	}
	for _, find := range finds {
		began := time.Now()
		file, shrunk, err := find.Minimal(ctx, court)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			file, shrunk = find.File, nil
		default:
			return x, fmt.Errorf("shrinking what was found: %w", err)
		}
		found := Found{find, file, shrunk, time.Since(began)}
		x.Found = append(x.Found, found)
		if c.Found != nil {
			c.Found(found)
		}
	}
	return x, nil
}

// ParseBudget reads a crash budget.
func ParseBudget(word string) (history.CrashBudget, error) {
	all := []history.CrashBudget{"", history.BudgetISR, history.BudgetMinISR, history.BudgetAll}
	if slices.Contains(all, history.CrashBudget(word)) {
		return history.CrashBudget(word), nil
	}
	return "", fmt.Errorf("crash budget %q: want isr, min-isr or all", strings.TrimSpace(word))
}

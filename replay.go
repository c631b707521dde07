package tidemark

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
	"tidemark/results"
)

// ReplayConfig says where a schedule is played once more, and whether it is shrunk first.
type ReplayConfig struct {
	File           *schedule.File
	Protocol       rules.Protocol
	Without, Rules []string // as rules.Parse takes them
	On             Backend
	Shrink         bool
	Root           string // where the folder of the run is made; "" is results.Root
	Binary         string
}

// Replayed is what came of it.
type Replayed struct {
	File   *schedule.File // as it was played: shrunk, if that was asked for
	Shrunk *sim.Shrunk    // nil if it was not
	Cell   Cell
	// Same says that the transcript is the one that a simulation gives; Differs is the first line that is not, if it is not.
	Same    bool
	Differs string
}

// court is where the schedule is judged in simulation.
func (c *ReplayConfig) court() (sim.Court, error) {
	set, err := c.File.Rules(c.Protocol).With(c.Without, c.Rules)
	return sim.Court{Protocol: c.Protocol, Rules: set}, err
}

// Replay plays a schedule, wherever it was found, on any backend, and compares the transcript with the simulation's. With Shrink
// the schedule has to be a violation, and its shortest form is played.
func Replay(ctx context.Context, c ReplayConfig) (*Replayed, error) {
	court, err := c.court()
	if err != nil {
		return nil, err
	}
	simulated, err := court.Try(ctx, c.File)
	if err != nil {
		return nil, err
	}
	r := &Replayed{File: c.File}
	if c.Shrink {
		if !simulated.Violation() {
			return nil, fmt.Errorf("schedule %s under %s in simulation: %w to shrink", c.File.Name, c.Protocol, sim.ErrNoViolation)
		}
		if r.Shrunk, err = sim.Shrink(ctx, court, c.File, simulated.Kinds()); err != nil {
			return nil, err
		}
		if r.File, err = sim.Annotate(ctx, court, r.Shrunk.File); err != nil {
			return nil, err
		}
		if simulated, err = court.Try(ctx, r.File); err != nil {
			return nil, err
		}
	}
	folder, err := results.Create(rootOr(c.Root), "replay")
	if err != nil {
		return nil, err
	}
	play := ReproduceConfig{On: c.On, Without: c.Without, Rules: c.Rules, Root: c.Root, Binary: c.Binary}
	cell, err := play.cell(ctx, r.File, Column{Protocol: c.Protocol}, folder, nil)
	if err != nil {
		return r, fmt.Errorf("%s under %s on %s: %w", r.File.Name, c.Protocol, c.On, err)
	}
	if why := court.Expects(r.File, &sim.Ruling{Played: cell.Played, Checked: cell.Checked}); why != "" {
		cell.OK, cell.Why = false, why
	} else {
		cell.OK, cell.Why = true, ""
	}
	r.Cell = *cell
	r.Differs = firstDifference("in simulation", simulated.Played.Transcript, "as played", cell.Played.Transcript)
	r.Same = r.Differs == ""
	return r, nil
}

// Violation says whether what was played broke the contract.
func (r *Replayed) Violation() bool {
	return r.Cell.Played.Inconclusive == "" && r.Cell.Checked.Verdict == checker.Violation
}

// firstDifference is the first line in which two transcripts differ, each named; "" if there is none.
func firstDifference(name, want, other, is string) string {
	a, b := strings.Split(want, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			n := 1 + max(len(name), len(other))
			return fmt.Sprintf("line %d\n  %-*s %s\n  %-*s %s", i+1, n, name+":", x, n, other+":", y)
		}
	}
	return ""
}

// ExplainConfig says what is explained.
type ExplainConfig struct {
	File           *schedule.File
	Protocol       rules.Protocol // "": the newest under which the schedule is a violation
	Without, Rules []string
	Futures        int    // random futures of each beginning; 0 is 200
	Seed           uint64 // of the futures
}

// Explain says by which missing rule a schedule goes wrong, and from which step on nothing helps any more. It returns the protocol, too.
func Explain(ctx context.Context, c ExplainConfig) (*sim.Explanation, rules.Protocol, error) {
	protocols := []rules.Protocol{c.Protocol}
	if c.Protocol == "" {
		protocols = rules.Protocols()
		slices.Reverse(protocols)
	}
	for _, p := range protocols {
		replay := ReplayConfig{File: c.File, Protocol: p, Without: c.Without, Rules: c.Rules}
		court, err := replay.court()
		if err != nil {
			return nil, p, err
		}
		if c.Protocol == "" {
			r, err := court.Try(ctx, c.File)
			if err != nil {
				return nil, p, err
			}
			if !r.Violation() {
				continue
			}
		}
		x, err := sim.Explain(ctx, court, c.File, cmp.Or(c.Futures, 200), c.Seed)
		return x, p, err
	}
	return nil, "", fmt.Errorf("schedule %s under any protocol: %w to explain", c.File.Name, sim.ErrNoViolation)
}

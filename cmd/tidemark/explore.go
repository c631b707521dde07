package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// gcPercent trades memory for speed: searches make much garbage and keep little.
const gcPercent = 400

func newExplore() *cobra.Command {
	var (
		protocol, severity, budget, save string
		leaveOut, faults                 []string
		memory                           int
		c                                tidemark.ExploreConfig
		defect                           defectFlag
	)
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Search for schedules that break a protocol's promise: at random, or all of a small scope",
		Long: `Search for schedules that break a protocol's promise, in simulation.

Without --exhaustive, random schedules of faults and replication are played, by seed. With it, everything that can happen within
a scope is looked at, shortest first. What is found is confirmed by the checker, which knows only the history, shrunk, and printed
as a schedule that "tidemark replay" and "tidemark reproduce" play anywhere.
How far a long search is, it says every second on standard error. Ctrl-C ends it with what it has seen until then, marked PARTIAL.
Exit code 0: all that was asked for was looked at, and is clean; 1: a violation; 2: no violation, but not all was looked at.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Protocol, err = rules.ParseProtocol(protocol); err != nil {
				return usageError{err}
			}
			if err := defect.into(&c.Protocol, cmd.Flags().Changed("protocol"), &c.Rules); err != nil {
				return usageError{err}
			}
			if c.Severity, err = sim.ParseSeverity(severity); err != nil {
				return usageError{err}
			}
			if cmd.Flags().Changed("faults") {
				if c.Faults, err = sim.ParseFaults(faults); err != nil {
					return usageError{err}
				}
			}
			if c.Budget, err = tidemark.ParseBudget(budget); err != nil {
				return usageError{err}
			}
			if err := readBounds(cmd, &c, leaveOut, memory); err != nil {
				return usageError{err}
			}
			if _, err := c.Court(); err != nil {
				return usageError{err}
			}
			if _, err := c.Cluster(); err != nil {
				return usageError{err}
			}
			if save != "" {
				if err := os.MkdirAll(save, 0o755); err != nil {
					return usageError{err}
				}
			}
			debug.SetGCPercent(gcPercent)
			return explore(cmd, c, save)
		},
	}
	fs := cmd.Flags()
	defect.add(fs)
	fs.StringVar(&protocol, "protocol", string(rules.KIP966), "replication protocol: hw, kip101, kip279, kip320, kip966")
	fs.StringArrayVar(&c.Without, "without", nil, "take a rule away, by its name")
	fs.StringArrayVar(&c.Rules, "rule", nil, "set a rule: name=on|off, truncation=hw|kip101|kip279|on-fetch, registration=zk|kraft")
	fs.IntVar(&c.Replicas, "replicas", 3, "brokers, each with a replica of the one partition")
	fs.IntVar(&c.MinISR, "min-isr", 2, "min.insync.replicas")
	fs.StringVar(&budget, "budget", "", "power failures that have to be survived: isr (none of an ISR member's that leads without what it lost), min-isr (fewer than min.insync.replicas), all (default: the protocol's own)")
	fs.StringVar(&save, "save", "", "folder in which what is found is written, a file each")
	fs.Int64Var(&c.Schedules, "schedules", 0, "how many random schedules (default 100000, or with --time as many as there is time for)")
	fs.DurationVar(&c.Time, "time", 0, "how long to search")
	fs.Uint64Var(&c.Seed, "seed", 1, "what the random schedules follow from")
	fs.StringVar(&severity, "severity", sim.Failover.String(), "how bad it gets: sane, failover, zombies, power")
	fs.StringSliceVar(&faults, "faults", nil, "what goes wrong, in place of --severity: some of kill, isolate, lag, failover, zombies, power")
	fs.BoolVar(&c.Twice, "twice", false, "run the search once more and compare every step: a difference is an error that names the first")
	fs.IntVar(&c.Steps, "steps", 0, "steps of each random schedule (default 50)")
	fs.BoolVar(&c.KeepGoing, "keep-going", false, "count all violations and find each kind of anomaly")
	fs.BoolVar(&c.Exhaustive, "exhaustive", false, "look at everything within a scope")
	fs.IntVar(&c.Scope.Records, "records", 2, "scope: records produced")
	fs.IntVar(&c.Scope.Epochs, "epochs", 3, "scope: leader epochs, the first included")
	fs.IntVar(&c.Scope.Changes, "changes", 4, "scope: changes of what the controller knows")
	fs.IntVar(&c.Scope.Crashes, "crashes", 0, "scope: crashes, those with loss of power included")
	fs.IntVar(&c.Scope.Power, "power", 0, "scope: crashes with loss of power, every cut")
	fs.BoolVar(&c.Scope.Late, "late", false, "scope: fetches that arrive late, over restarts of who sent them")
	fs.StringSliceVar(&leaveOut, "leave-out", nil, "scope: verbs that are not taken")
	fs.IntVar(&c.Scope.MaxStates, "max-states", 0, "stop at so many states (default: no bound)")
	fs.IntVar(&memory, "max-memory", 1024, "stop at so many MiB of memory")
	return cmd
}

// readBounds completes what bounds the search, and refuses what does not go together.
func readBounds(cmd *cobra.Command, c *tidemark.ExploreConfig, leaveOut []string, memory int) error {
	given := func(names ...string) string {
		for _, n := range names {
			if cmd.Flags().Changed(n) {
				return "--" + n
			}
		}
		return ""
	}
	if !c.Exhaustive {
		if flag := given("records", "epochs", "changes", "crashes", "power", "late", "leave-out", "max-states", "max-memory"); flag != "" {
			return fmt.Errorf("%s bounds an exhaustive search; add --exhaustive", flag)
		}
		switch {
		case given("faults") != "" && given("severity") != "":
			return errors.New("--faults and --severity both say what goes wrong; leave one out")
		case c.Schedules < 0 || c.Steps < 0 || c.Steps > 10_000 || c.Time < 0:
			return fmt.Errorf("--schedules %d, --steps %d, --time %s: want 0 or more, and at most 10000 steps", c.Schedules, c.Steps, c.Time)
		case c.Schedules == 0 && c.Time == 0:
			c.Schedules = 100_000
		}
		return nil
	}
	if flag := given("schedules", "seed", "severity", "faults", "steps", "keep-going", "twice"); flag != "" {
		return fmt.Errorf("%s is about random schedules; leave out %s or --exhaustive", flag, flag)
	}
	for _, word := range leaveOut {
		c.Scope.LeaveOut = append(c.Scope.LeaveOut, schedule.Verb(word))
	}
	if c.Scope.MaxStates < 0 || memory < 1 {
		return fmt.Errorf("--max-states %d, --max-memory %d: want 0 or more states and 1 MiB or more", c.Scope.MaxStates, memory)
	}
	c.Scope.MaxMemory = uint64(memory) << 20
	k, err := c.Cluster()
	if err != nil {
		return err
	}
	scope := c.Scope
	scope.Cluster = k
	return scope.Validate()
}

func explore(cmd *cobra.Command, c tidemark.ExploreConfig, save string) error {
	out := cmd.OutOrStdout()
	c.Progress = exploring(cmd.ErrOrStderr(), time.Second)
	x, err := tidemark.Explore(cmd.Context(), c)
	if err != nil {
		if x == nil || cmd.Context().Err() == nil || !errors.Is(err, cmd.Context().Err()) {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "tidemark: %v\n", err)
	}
	printExploration(out, c, x)
	for _, f := range x.Found {
		printFound(out, f)
		if save != "" {
			path := filepath.Join(save, f.File.Name+".sched")
			if err := os.WriteFile(path, []byte(f.File.String()), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(out, "kept in %s\n", path)
		}
	}
	switch {
	case len(x.Found) > 0 || x.Random != nil && x.Random.Violations > 0:
		return exitCode(1)
	case !x.Clean(), cmd.Context().Err() != nil:
		return exitCode(2)
	}
	return nil
}

func printExploration(out io.Writer, c tidemark.ExploreConfig, x *tidemark.Exploration) {
	seconds := max(x.Took.Seconds(), 1e-3)
	under := string(c.Protocol)
	for _, w := range c.Without {
		under += " without " + w
	}
	for _, r := range c.Rules {
		under += " with " + r
	}
	fmt.Fprintf(out, "%s, %d replicas, min.insync.replicas=%d\n", under, c.Replicas, c.MinISR)
	if e := x.Exhaustive; e != nil {
		fmt.Fprintf(out, "%d states, %d moves, depth %d, in %.1f s: %.0f states/s, %d MiB\n", e.States, e.Transitions, e.Depth, seconds,
			float64(e.States)/seconds, e.Memory>>20)
		if e.Excused > 0 {
			fmt.Fprintf(out, "%d states lose what the contract permits to lose; what follows from them was not looked at\n", e.Excused)
		}
		if e.Unconfirmed > 0 {
			fmt.Fprintf(out, "%d states are wrong and the checker did not see it\n", e.Unconfirmed)
		}
		switch {
		case e.Find != nil:
			fmt.Fprintf(out, "a violation after %d moves; none is shorter\n", e.Depth+1)
		case e.Complete:
			fmt.Fprintln(out, "the scope is clean")
		default:
			fmt.Fprintf(out, "PARTIAL (%s): everything within %d moves was looked at, and is clean\n", e.Stopped, e.Depth)
		}
		return
	}
	r := x.Random
	k := r.Counts
	wrong := "severity " + c.Severity.String()
	if c.Faults != 0 {
		wrong = "faults " + c.Faults.String()
	}
	fmt.Fprintf(out, "%s, seed %d: %d schedules in %.1f s, %.0f schedules/s, %.0f steps/s\n", wrong, c.Seed, k.Schedules, seconds, float64(k.Schedules)/seconds, float64(k.Steps)/seconds)
	fmt.Fprintf(out, "  %d elections (%d without a guarantee), %d ISR changes, %d truncations, %d crashes, %d losses of power\n", k.Elections, k.Unclean,
		k.ISRChanges, k.Truncations, k.Crashes, k.PowerLosses)
	fmt.Fprintf(out, "  %d records produced, %d acknowledged, %d of unknown outcome\n", k.Produced, k.Acked, k.Unknown)
	if r.Stopped == sim.Interrupted {
		fmt.Fprintf(out, "PARTIAL (interrupted): %d schedules were played\n", k.Schedules)
	}
	if c.Twice && r.Stopped != sim.Interrupted {
		fmt.Fprintln(out, "the second run was the same, step by step")
	}
	switch {
	case r.Violations > 0:
		fmt.Fprintf(out, "%d violations, %d losses that the contract permits\n", r.Violations, r.Excused)
	default:
		fmt.Fprintf(out, "no violation, %d losses that the contract permits\n", r.Excused)
	}
	if r.Unconfirmed > 0 {
		fmt.Fprintf(out, "%d schedules end wrong and the checker did not see it\n", r.Unconfirmed)
	}
}

// exploring prints how far a search is, a line each time that so much time has passed.
func exploring(w io.Writer, every time.Duration) func(*tidemark.Exploration) {
	last, before := time.Now(), int64(0)
	return func(x *tidemark.Exploration) {
		now := time.Now()
		took := now.Sub(last)
		if took < every {
			return
		}
		done := int64(0)
		rate := func(is int64) float64 { return float64(is-before) / took.Seconds() }
		if e := x.Exhaustive; e != nil {
			done = int64(e.States)
			fmt.Fprintf(w, "%5.1f s: %d states, %d still to be looked at, depth %d, %.0f states/s\n", x.Took.Seconds(), e.States, e.States-e.Expanded, e.Depth,
				rate(done))
		} else {
			done = x.Random.Counts.Schedules
			fmt.Fprintf(w, "%5.1f s: %d schedules, %d violations, %.0f schedules/s\n", x.Took.Seconds(), done, x.Random.Violations, rate(done))
		}
		last, before = now, done
	}
}

func printFound(out io.Writer, f tidemark.Found) {
	where := "by exhaustive search"
	if f.Find.Schedule >= 0 {
		where = fmt.Sprintf("in schedule %d", f.Find.Schedule)
	}
	if f.Shrunk == nil {
		fmt.Fprintf(out, "\n%s, found %s, as it was found, %d steps:\n\n%s", strings.ReplaceAll(f.Name(), "+", ", "), where, len(f.File.Steps), f.File)
		return
	}
	fmt.Fprintf(out, "\n%s, found %s, %d steps shrunk to %d in %s:\n\n%s", strings.ReplaceAll(f.Name(), "+", ", "), where, len(f.Find.File.Steps),
		len(f.File.Steps), f.Took.Round(time.Millisecond), f.File)
}

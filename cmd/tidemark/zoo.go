package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/node/rules"
)

func newZoo() *cobra.Command {
	var (
		means            []string
		asJSON, markdown bool
		c                tidemark.ZooConfig
	)
	cmd := &cobra.Command{
		Use:   "zoo",
		Short: "Seed known defects one by one, and show which means finds each",
		Long: `Seed each defect of the bug zoo ("tidemark rules --defects") in simulation, and look for it by every means: the embedded schedules,
everything within small scopes, and random schedules of each severity. What is found is confirmed by the checker, which knows only
the history. The control must not be flagged.
Exit code 0: every defect is found by some means, and the control by none; 1: not so; 2: interrupted.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, m := range means {
				c.Means = append(c.Means, tidemark.Means(m))
			}
			debug.SetGCPercent(gcPercent)
			out := cmd.OutOrStdout()
			c.Done = func(d tidemark.Detection) {
				if asJSON {
					_ = json.NewEncoder(out).Encode(d)
				} else if !markdown {
					printDetection(out, d)
				}
			}
			matrix, err := tidemark.Zoo(cmd.Context(), c)
			var config *tidemark.ConfigError
			switch {
			case errors.As(err, &config):
				return usageError{config.Err}
			case err != nil && cmd.Context().Err() == nil:
				return err
			case markdown:
				printMatrix(out, matrix)
			case !asJSON:
				fmt.Fprintln(out)
				printSummary(out, matrix)
			}
			switch {
			case err != nil:
				return exitCode(2)
			case slices.ContainsFunc(matrix, func(d tidemark.Detection) bool { return !c.Without && d.Found() == d.Control || c.Without && d.Found() }):
				return exitCode(1)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&c.Defects, "defect", nil, "look for these only, by their IDs")
	fs.StringSliceVar(&means, "means", nil, "look by these only: schedule, exhaustive, random")
	fs.DurationVar(&c.Time, "time", 20*time.Second, "how long random schedules are played for each defect, in processor time")
	fs.IntVar(&c.States, "max-states", 60_000, "bound of each exhaustive search")
	fs.Uint64Var(&c.Seed, "seed", 1, "what the random schedules follow from")
	fs.BoolVar(&c.Without, "sound", false, "seed nothing: the same means over what the defects live in, where nothing must be found")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object a defect, a line each")
	fs.BoolVar(&markdown, "markdown", false, "print the table as it stands in nemesis/README.md")
	return cmd
}

// printDetection prints a defect and a line for each means.
func printDetection(out io.Writer, d tidemark.Detection) {
	fmt.Fprintf(out, "%-4s %s (%s)\n", d.ID, d.Defect.Says, d.Defect.Source)
	for _, a := range d.Attempts {
		fmt.Fprintf(out, "     %-10s %s\n", a.Means, describeAttempt(a))
	}
}

// describeAttempt is what one means came to, in words.
func describeAttempt(a tidemark.Attempt) string {
	unit := "schedule"
	if a.Means == tidemark.ByExhaustion {
		unit = "state"
	}
	s := "nothing in " + count(a.Runs, unit, "s")
	if a.Found {
		words := make([]string, len(a.Anomalies))
		for i, k := range a.Anomalies {
			words[i] = string(k)
		}
		s = fmt.Sprintf("%s: %s, after %s", a.By, strings.Join(words, ", "), count(a.Runs, unit, "s"))
	}
	s += fmt.Sprintf(", %.1f s", a.Seconds)
	if a.Allowed > 0 {
		s += fmt.Sprintf("; %s that the configuration permits", count(a.Allowed, "loss", "es"))
	}
	if a.Unconfirmed > 0 {
		s += fmt.Sprintf("; %s wrong and the checker did not see it", count(a.Unconfirmed, "time", "s"))
	}
	if a.Partial && !a.Found {
		s += "; not all of it was looked at"
	}
	return s
}

// count is a number of things, several of which have the ending.
func count(n int64, thing, ending string) string {
	if n != 1 {
		thing += ending
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// printMatrix prints the matrix in Markdown: a row a defect, a column a means.
func printMatrix(out io.Writer, matrix []tidemark.Detection) {
	fmt.Fprintln(out, "| defect | source | schedule | exhaustive | random |")
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, d := range matrix {
		cells := []string{d.ID, d.Defect.Source}
		for _, m := range tidemark.AllMeans() {
			cell := "-"
			if a, tried := d.By(m); tried {
				cell = describeAttempt(a)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintln(out)
	printSummary(out, matrix)
}

// printSummary counts what each means found, and says what is not seeded.
func printSummary(out io.Writer, matrix []tidemark.Detection) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defects := slices.DeleteFunc(slices.Clone(matrix), func(d tidemark.Detection) bool { return d.Control })
	for _, m := range tidemark.AllMeans() {
		tried, found := 0, 0
		var missed []string
		for _, d := range defects {
			a, is := d.By(m)
			switch {
			case !is:
				continue
			case a.Found:
				found++
			default:
				missed = append(missed, d.ID)
			}
			tried++
		}
		if tried > 0 {
			fmt.Fprintf(w, "%s\tfinds %d of %d\t%s\n", m, found, tried, missing(missed))
		}
	}
	for _, d := range matrix {
		if d.Control {
			is := "not flagged"
			if d.Found() {
				is = "FLAGGED"
			}
			fmt.Fprintf(w, "control %s\t%s\t\n", d.ID, is)
		}
	}
	_ = w.Flush()
	var unseeded []string
	for _, d := range rules.Defects() {
		if d.Unseeded != "" {
			unseeded = append(unseeded, d.ID)
		}
	}
	fmt.Fprintf(out, "not seeded: %s (tidemark rules --defects says why)\n", strings.Join(unseeded, ", "))
}

func missing(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return "not " + strings.Join(ids, ", ")
}

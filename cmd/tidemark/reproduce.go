package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func newReproduce() *cobra.Command {
	var (
		on, binary  string
		names       []string
		protocols   []string
		leaderEpoch string
		repeat      int
		asJSON      bool
		verbose     bool
		every, diag bool
		c           tidemark.ReproduceConfig
		defect      defectFlag
	)
	cmd := &cobra.Command{
		Use:   "reproduce [SCHEDULE...]",
		Short: "Play the schedules of KIP-101 and compare what is found with what is expected",
		Long: `Play schedules under several replication protocols, judge what came of each, and compare.

A SCHEDULE is the name of an embedded one or a file. Without one, those of KIP-101 are played: S1, S1b, S1c, S2, S2b.
With --all and --diagonal it is every embedded one.
Exit code 0: everything as expected; 1: something differs; 2: interrupted; 254: wrong arguments; 255: the harness failed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if c.Schedules, err = findSchedules(append(names, args...), every || diag); err != nil {
				return usageError{err}
			}
			if c.Columns, err = chooseColumns(protocols, leaderEpoch, every, diag, defect); err != nil {
				return usageError{err}
			}
			if c.On, err = tidemark.ParseBackend(on); err != nil {
				return usageError{err}
			}
			if repeat < 1 {
				return usageError{fmt.Errorf("--repeat %d: want 1 or more", repeat)}
			}
			if c.Parallel < 0 {
				return usageError{fmt.Errorf("--parallel %d: want 1 or more", c.Parallel)}
			}
			c.Repeat, c.Binary = repeat, binary
			out := cmd.OutOrStdout()
			c.Done = func(cell tidemark.Cell) {
				if asJSON {
					_ = json.NewEncoder(out).Encode(cell)
				} else {
					printCell(out, cell, verbose)
				}
			}
			cells, err := tidemark.Reproduce(cmd.Context(), c)
			var config *tidemark.ConfigError
			switch {
			case errors.As(err, &config):
				return usageError{config.Err}
			case err != nil:
				return interrupted(cmd, err)
			}
			if !asJSON {
				printTable(out, cells)
			}
			if slices.ContainsFunc(cells, func(cell tidemark.Cell) bool { return !cell.OK }) {
				return exitCode(1)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	defect.add(fs)
	fs.StringVar(&on, "on", string(tidemark.OnProcess), "where nodes run: process, docker, sim")
	fs.StringArrayVar(&names, "schedule", nil, "name or file of a schedule")
	fs.StringSliceVar(&protocols, "protocol", nil, "protocols, one column each: hw, kip101, kip279, kip320, kip966 (default hw,kip101,kip320)")
	fs.StringVar(&leaderEpoch, "leader-epoch", "", "off: protocol hw; on: protocol kip101")
	fs.BoolVar(&every, "all", false, "every embedded schedule under every protocol")
	fs.BoolVar(&diag, "diagonal", false, "every embedded schedule under kip320 and kip966 with one rule wrong at a time")
	fs.StringArrayVar(&c.Without, "without", nil, "take a rule away from every protocol, by its name")
	fs.StringArrayVar(&c.Rules, "rule", nil, "set a rule in every protocol: name=on|off, truncation=hw|kip101|kip279|on-fetch")
	fs.IntVar(&repeat, "repeat", 1, "play everything so often; verdicts and transcripts have to be the same each time")
	fs.IntVar(&c.Parallel, "parallel", 0, "how many schedules play at a time (default one a processor, at most 4)")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object a cell, a line each")
	fs.BoolVarP(&verbose, "verbose", "v", false, "print transcripts and what was found")
	fs.StringVar(&binary, "binary", "", "tidemark executable that nodes run (default: this one, or one that is built)")
	fs.StringVar(&c.Root, "results", "", "folder in which the folder of this run is made (default results/runs)")
	return cmd
}

func findSchedules(words []string, every bool) ([]*schedule.File, error) {
	if len(words) == 0 && every {
		return schedule.All()
	}
	if len(words) == 0 {
		words = schedule.KIP101()
	}
	var found []*schedule.File
	for _, w := range words {
		f, err := findSchedule(w)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

// findSchedule takes a word for a file if it looks like one.
func findSchedule(word string) (*schedule.File, error) {
	if !strings.ContainsAny(word, "./"+string(os.PathSeparator)) {
		return schedule.Find(word)
	}
	text, err := os.ReadFile(word)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	return schedule.Parse(word, string(text))
}

// chooseColumns makes the columns of the table.
func chooseColumns(protocols []string, leaderEpoch string, every, diagonal bool, defect defectFlag) ([]tidemark.Column, error) {
	d, seeded, err := defect.find()
	switch {
	case err != nil:
		return nil, err
	case seeded && diagonal:
		return nil, fmt.Errorf("--defect %s and --diagonal: give one of them", d.ID)
	case seeded && len(protocols) == 0 && leaderEpoch == "":
		return []tidemark.Column{{Protocol: d.Protocol, Change: d.Setting()}}, nil
	case every && diagonal:
		return nil, fmt.Errorf("--all and --diagonal: give one of them")
	case (every || diagonal) && (len(protocols) > 0 || leaderEpoch != ""):
		return nil, fmt.Errorf("--all and --diagonal choose the protocols themselves; leave --protocol and --leader-epoch out")
	case every:
		return tidemark.Columns(rules.Protocols()...), nil
	case diagonal:
		return tidemark.Diagonal(), nil
	}
	chosen, err := chooseProtocols(protocols, leaderEpoch)
	columns := tidemark.Columns(chosen...)
	for i := range columns {
		if seeded {
			columns[i].Change = d.Setting()
		}
	}
	return columns, err
}

func chooseProtocols(words []string, leaderEpoch string) ([]rules.Protocol, error) {
	switch {
	case leaderEpoch != "" && len(words) > 0:
		return nil, fmt.Errorf("--leader-epoch %s and --protocol %s: give one of them", leaderEpoch, strings.Join(words, ","))
	case leaderEpoch == "off":
		words = []string{string(rules.HW)}
	case leaderEpoch == "on":
		words = []string{string(rules.KIP101)}
	case leaderEpoch != "":
		return nil, fmt.Errorf("--leader-epoch %s: want off or on", leaderEpoch)
	case len(words) == 0:
		words = []string{string(rules.HW), string(rules.KIP101), string(rules.KIP320)}
	}
	var protocols []rules.Protocol
	for _, w := range words {
		p, err := rules.ParseProtocol(w)
		if err != nil {
			return nil, err
		}
		if slices.Contains(protocols, p) {
			return nil, fmt.Errorf("--protocol %s: %s is given twice", strings.Join(words, ","), p)
		}
		protocols = append(protocols, p)
	}
	return protocols, nil
}

// printCell prints one cell: a line, and with -v everything that happened.
func printCell(w io.Writer, c tidemark.Cell, verbose bool) {
	mark := "as expected"
	if !c.OK {
		mark = "NOT AS EXPECTED"
	}
	fmt.Fprintf(w, "%-4s %-6s %s (%.1f s, %s)\n", c.Schedule, c.Protocol, describeCell(c), c.Seconds, mark)
	if !c.OK {
		fmt.Fprintf(w, "     %s\n", strings.ReplaceAll(strings.TrimSpace(c.Why), "\n", "\n     "))
	}
	if !verbose {
		return
	}
	fmt.Fprintf(w, "\n  %s\n\n", c.File.Title)
	for _, line := range strings.Split(strings.TrimRight(c.Played.Transcript, "\n"), "\n") {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintln(w)
	for _, line := range c.Played.Story {
		fmt.Fprintf(w, "  - %s\n", line)
	}
	for _, f := range c.Checked.Findings {
		fmt.Fprintf(w, "  ! %s: %s\n", f.Short(), f.Sentence)
	}
	fmt.Fprintf(w, "  kept in %s\n\n", c.Folder)
}

func describeCell(c tidemark.Cell) string {
	s := c.Observed
	if len(c.Findings) > 0 {
		s += ": " + strings.Join(c.Findings, ", ")
	}
	return s + "; porcupine " + string(c.Porcupine)
}

// printTable prints schedule x protocol, expected and observed.
func printTable(out io.Writer, cells []tidemark.Cell) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nschedule\tprotocol\texpected\tobserved\tfindings\tporcupine\t")
	wrong := 0
	for _, c := range cells {
		note := ""
		if !c.OK {
			note, wrong = "<- differs", wrong+1
		}
		findings := "-"
		if len(c.Findings) > 0 {
			findings = strings.Join(c.Findings, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Schedule, c.Protocol, c.Expected, c.Observed, findings, c.Porcupine, note)
	}
	_ = w.Flush()
	if wrong == 0 {
		fmt.Fprintf(out, "\n%d of %d as expected\n", len(cells), len(cells))
	} else {
		fmt.Fprintf(out, "\n%d of %d as expected, %d not\n", len(cells)-wrong, len(cells), wrong)
	}
}

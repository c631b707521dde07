package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func newExplain() *cobra.Command {
	var (
		protocol string
		c        tidemark.ExplainConfig
		defect   defectFlag
	)
	cmd := &cobra.Command{
		Use:   "explain SCHEDULE",
		Short: "Say by which missing rule a schedule goes wrong, and from which step on nothing helps any more",
		Long: `Play a violating schedule with each rule changed, and each of its beginnings with many random futures, in simulation.

SCHEDULE is a file, or the name of an embedded one. Without --protocol it is the newest under which it is a violation.`,
		Args: oneSchedule,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if c.File, err = findSchedule(args[0]); err != nil {
				return usageError{err}
			}
			if protocol != "" {
				if c.Protocol, err = rules.ParseProtocol(protocol); err != nil {
					return usageError{err}
				}
			}
			if err := defect.into(&c.Protocol, cmd.Flags().Changed("protocol"), &c.Rules); err != nil {
				return usageError{err}
			}
			if _, err := c.File.Rules(rules.HW).With(c.Without, c.Rules); err != nil {
				return usageError{err}
			}
			if c.Futures < 1 || c.Futures > 100_000 {
				return usageError{fmt.Errorf("--futures %d: want 1 to 100000", c.Futures)}
			}
			x, p, err := tidemark.Explain(cmd.Context(), c)
			if errors.Is(err, sim.ErrNoViolation) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			printExplanation(cmd.OutOrStdout(), c.File, p, x)
			return nil
		},
	}
	fs := cmd.Flags()
	defect.add(fs)
	fs.StringVar(&protocol, "protocol", "", "replication protocol: hw, kip101, kip279, kip320, kip966")
	fs.StringArrayVar(&c.Without, "without", nil, "take a rule away, by its name")
	fs.StringArrayVar(&c.Rules, "rule", nil, "set a rule: name=on|off, truncation=hw|kip101|kip279|on-fetch, registration=zk|kraft")
	fs.IntVar(&c.Futures, "futures", 200, "random futures of each beginning")
	fs.Uint64Var(&c.Seed, "seed", 1, "what the random futures follow from")
	return cmd
}

func printExplanation(out io.Writer, f *schedule.File, p rules.Protocol, x *sim.Explanation) {
	fmt.Fprintf(out, "%s under %s:\n", f.Name, p)
	for _, line := range x.Text(f) {
		fmt.Fprintf(out, "  %s\n", line)
	}
	if x.Chances == nil {
		fmt.Fprintln(out, "  (nothing is said of its beginnings: only schedules without pause, resume and fail have random futures)")
		return
	}
	fmt.Fprintln(out, "\nhow often it ends so after each step:")
	for _, c := range x.Chances {
		step := "(nothing)"
		if c.Steps > 0 {
			step = f.Steps[c.Steps-1].String()
		}
		percent := 100 * c.Lost / max(c.Future, 1)
		fmt.Fprintf(out, "  %3d %%  %-20s  %s\n", percent, strings.Repeat("#", percent/5), step)
	}
}

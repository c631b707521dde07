package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/cluster/sim"
	"tidemark/node/rules"
)

func newReplay() *cobra.Command {
	var (
		on, protocol string
		verbose      bool
		node         string
		c            tidemark.ReplayConfig
		defect       defectFlag
	)
	cmd := &cobra.Command{
		Use:   "replay SCHEDULE | RUN --node NODE",
		Short: "Play a schedule once more, anywhere; or run a node of a stored run again",
		Long: `Play a schedule on any backend, compare its transcript with the simulation's, and judge what came of it.

SCHEDULE is a file, or the name of an embedded one. With --shrink it has to be a violation; it is shrunk in simulation, printed,
and its shortest form is played.
Exit code 0: what it expects, and the simulation's transcript; 1: anything else.

With --node (a broker's number, controller, or all), RUN is the folder of a run on processes or in containers, or of one schedule in
that of a reproduction. The node is run again in this process from the journal that it wrote: every message that passed its inbox,
over all its incarnations, with the kills and power failures between. The hash of each step is compared with the one in the
journal, and what was on the disk at each start with what is on the disk in memory; the first difference is named. With
--without and --rule it runs with other rules, and the difference says where they begin to matter.
Exit code 0: everything is the same; 1: there is a difference; 255: the journal cannot be read.`,
		Args: oneSchedule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("node") {
				return replayNodes(cmd, tidemark.ReplayNodesConfig{Folder: args[0], Node: node, Without: c.Without, Rules: c.Rules}, verbose)
			}
			var err error
			if c.File, err = findSchedule(args[0]); err != nil {
				return usageError{err}
			}
			if c.On, err = tidemark.ParseBackend(on); err != nil {
				return usageError{err}
			}
			if c.Protocol, err = rules.ParseProtocol(protocol); err != nil {
				return usageError{err}
			}
			if err := defect.into(&c.Protocol, cmd.Flags().Changed("protocol"), &c.Rules); err != nil {
				return usageError{err}
			}
			if _, err := c.File.Rules(c.Protocol).With(c.Without, c.Rules); err != nil {
				return usageError{err}
			}
			r, err := tidemark.Replay(cmd.Context(), c)
			if errors.Is(err, sim.ErrNoViolation) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if r.Shrunk != nil {
				fmt.Fprintf(out, "%d steps shrunk to %d (%d schedules looked at, %d of them played)\n\n%s\n", len(c.File.Steps), len(r.File.Steps),
					r.Shrunk.Tried, r.Shrunk.Played, r.File)
			}
			printCell(out, r.Cell, verbose)
			if !r.Same {
				fmt.Fprintf(out, "the transcript is not the simulation's: %s\n", r.Differs)
			} else if c.On != tidemark.OnSim {
				fmt.Fprintln(out, "the transcript is the simulation's, line by line")
			}
			if !r.Cell.OK || !r.Same {
				return exitCode(1)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	defect.add(fs)
	fs.StringVar(&on, "on", string(tidemark.OnSim), "where nodes run: sim, process, docker")
	fs.StringVar(&protocol, "protocol", string(rules.HW), "replication protocol: hw, kip101, kip279, kip320, kip966")
	fs.StringArrayVar(&c.Without, "without", nil, "take a rule away, by its name")
	fs.StringArrayVar(&c.Rules, "rule", nil, "set a rule: name=on|off, truncation=hw|kip101|kip279|on-fetch, registration=zk|kraft")
	fs.StringVar(&node, "node", "", "run this node of a stored run again, from its journal: a broker's number, controller, or all")
	fs.BoolVar(&c.Shrink, "shrink", false, "make it as short as it gets first")
	fs.BoolVarP(&verbose, "verbose", "v", false, "print transcript and findings")
	fs.StringVar(&c.Binary, "binary", "", "tidemark executable that nodes run (default: this one, or one that is built)")
	fs.StringVar(&c.Root, "results", "", "folder in which the folder of this run is made (default results/runs)")
	return cmd
}

// oneSchedule refuses anything but one word.
func oneSchedule(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one schedule, a file or a name: %q", cmd.CommandPath(), strings.Join(args, " "))}
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/node/control"
	"tidemark/node/replay"
)

// replayNodes runs nodes of a run again and prints what came of each.
func replayNodes(cmd *cobra.Command, c tidemark.ReplayNodesConfig, verbose bool) error {
	for _, name := range []string{"on", "protocol", "shrink", "binary", "results"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s is for schedules: with --node a stored run is run again as it was", name)}
		}
	}
	reports, err := tidemark.ReplayNodes(cmd.Context(), c)
	var config *tidemark.ConfigError
	if errors.Is(err, tidemark.ErrNoNode) || errors.As(err, &config) {
		return usageError{err}
	}
	same := true
	for _, r := range reports {
		printReplayed(cmd.OutOrStdout(), r, verbose)
		same = same && r.Difference == nil
	}
	if err != nil {
		return err
	}
	if !same {
		return exitCode(1)
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func printReplayed(w io.Writer, r *replay.Report, verbose bool) {
	name := "controller"
	if r.Node != control.Controller {
		name = "broker " + r.Node.String()
	}
	inputs := 0
	for i, x := range r.Incarnations {
		inputs += x.Inputs
		if !verbose {
			continue
		}
		line := fmt.Sprintf("%s, incarnation %d: %d inputs, %d hashes compared; %s", name, i+1, x.Inputs, x.Hashes, x.Ended)
		switch {
		case x.Unknown > 0 && x.Handled >= 0:
			line += fmt.Sprintf("; %d of the last %s handled, by what the next one found on its disk", x.Handled, counted(x.Unknown, "input"))
		case x.Unknown > 0:
			line += fmt.Sprintf("; nobody knows of the last %s", counted(x.Unknown, "input"))
		}
		fmt.Fprintln(w, line)
	}
	verdict := "all the same"
	if r.Difference != nil {
		verdict = "the same up to here"
	}
	fmt.Fprintf(w, "%s: %s, %d inputs, %d hashes compared: %s\n", name, counted(len(r.Incarnations), "incarnation"), inputs, r.Hashes(), verdict)
	if r.Cut > 0 {
		fmt.Fprintf(w, "%s: the journal is cut off: its last %d bytes are no whole record\n", name, r.Cut)
	}
	if r.Difference != nil {
		fmt.Fprintf(w, "%s: first difference: %s\n", name, r.Difference)
	}
}

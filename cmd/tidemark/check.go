package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
)

func newCheck() *cobra.Command {
	var (
		asJSON, strict bool
		o              checker.Options
	)
	cmd := &cobra.Command{
		Use:   "check RUN_OR_HISTORY",
		Short: "Judge a stored history again",
		Long: `Judge a stored history: a file, or the folder of a run. One that breaks off is judged up to its last whole line.

Exit code 0: consistent, or allowed by the configuration; 1: violation (with --strict also what is allowed);
2: inconclusive; 254: not a history, or wrong arguments; 255: the harness failed.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("check takes one run or history, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := tidemark.Check(cmd.Context(), args[0], o)
			if err := notAHistory(err); err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				if err := e.Encode(result); err != nil {
					return err
				}
			} else if err := result.WriteText(cmd.OutOrStdout()); err != nil {
				return err
			}
			return verdictCode(result.Verdict, strict)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	fs.BoolVar(&strict, "strict", false, "exit 1 also for what the configuration allows")
	fs.IntVar(&o.Enough.Acked, "min-acked", 0, "acknowledged produces that a pass needs (at least 1)")
	fs.IntVar(&o.Enough.Reads, "min-reads", 0, "reads that a pass needs")
	return cmd
}

// notAHistory makes a mistake of the user's out of an error about the input.
func notAHistory(err error) error {
	var line *history.LineError
	var path *fs.PathError
	if errors.As(err, &line) || errors.As(err, &path) || errors.Is(err, checker.ErrInvalid) || errors.Is(err, checker.ErrContract) {
		return usageError{err}
	}
	return err
}

// verdictCode is the exit code of a verdict.
func verdictCode(v checker.Verdict, strict bool) error {
	if code := v.ExitCode(strict); code != 0 {
		return exitCode(code)
	}
	return nil
}

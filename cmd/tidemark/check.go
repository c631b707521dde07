package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/results"
)

func newCheck() *cobra.Command {
	var (
		asJSON, strict        bool
		contract, draw, files string
		o                     checker.Options
	)
	cmd := &cobra.Command{
		Use:   "check RUN_OR_HISTORY",
		Short: "Judge a stored history again",
		Long: `Judge a stored history: a file, or the folder of a run. One that breaks off is judged up to its last whole line.

Exit code 0: consistent, or allowed by the configuration; 1: violation (with --strict also what is allowed);
2: inconclusive; 254: not a history, or wrong arguments; 255: the harness failed.

What holds is confirmed by a replay of the operations in an order that explains them, what does not by a slice of at most 30 operations that
porcupine judges anew; --draw DIR draws the slices. If they do not confirm it, files for a report are written and named (exit code 255).

A history that another tool wrote (see the package comment of checker/history) is judged by the contract in its header, or by
--contract acks=all,min.insync.replicas=2,unclean.leader.election.enable=false,protocol=kip320,crash-budget=isr,bar=committed-log.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("check takes one run or history, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("contract") {
				c, err := checker.ParseContract(contract)
				if err != nil {
					return usageError{err}
				}
				o.Contract = &c
			}
			done := showReading(cmd.ErrOrStderr(), &o)
			result, err := tidemark.Check(cmd.Context(), args[0], o)
			done()
			if err := reported(notAHistory(err), files); err != nil {
				return err
			}
			if draw != "" {
				if _, err := result.DrawSlices(draw); err != nil {
					return err
				}
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
	fs.StringVar(&contract, "contract", "", "judge by this contract and not by the one in the history's header: key=value,...")
	fs.StringVar(&draw, "draw", "", "draw the slices of what was found into this folder")
	fs.StringVar(&files, "report", "tidemark-disagreement", "where files for a report are written if the checkers disagree")
	fs.IntVar(&o.Enough.Acked, "min-acked", 0, "acknowledged produces that a pass needs (at least 1)")
	fs.IntVar(&o.Enough.Reads, "min-reads", 0, "reads that a pass needs")
	return cmd
}

// notAHistory makes a mistake of the user's out of an error about the input.
func notAHistory(err error) error {
	var line *history.LineError
	var path *fs.PathError
	if errors.As(err, &line) || errors.As(err, &path) || errors.Is(err, checker.ErrInvalid) || errors.Is(err, results.ErrNoHistory) || errors.Is(err, checker.ErrContract) {
		return usageError{err}
	}
	return err
}

// reported adds to a disagreement of the checkers the files with which it can be reported.
func reported(err error, dir string) error {
	var d *checker.DisagreementError
	if !errors.As(err, &d) {
		return err
	}
	files, failed := d.WriteFiles(dir)
	return errors.Join(fmt.Errorf("%w; the files to report it with: %s", err, strings.Join(files, ", ")), failed)
}

// showReading shows on a terminal how far a long check has come. The returned function clears the line.
func showReading(w io.Writer, o *checker.Options) (done func()) {
	f, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	shown := false
	began := time.Now()
	o.Progress = func(p checker.Progress) {
		switch since := time.Since(began); {
		case since < time.Second:
			return
		case p.Partition == "":
			fmt.Fprintf(f, "\r\x1b[K%d million events read, %.1f million/s", p.Events/1e6, float64(p.Events)/1e6/since.Seconds())
		default:
			fmt.Fprintf(f, "\r\x1b[Kdeciding %s, %d operations", p.Partition, p.Operations)
		}
		shown = true
	}
	return func() {
		if shown {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}

// verdictCode is the exit code of a verdict.
func verdictCode(v checker.Verdict, strict bool) error {
	if code := v.ExitCode(strict); code != 0 {
		return exitCode(code)
	}
	return nil
}

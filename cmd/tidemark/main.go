// Command tidemark finds out whether a Kafka-style replicated log keeps its word.
//
// Each file is one command: flags and printing only. What the commands do is package tidemark, and package node for the
// processes themselves.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tidemark/results"
)

// Exit codes, beside those of a verdict (0, 1, 2).
const (
	exitUsage    = 254
	exitInternal = 255
)

// exitCode is an error that only says with which code to exit: what there is to say was printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError marks a mistake in the command line.
type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who cannot wait for everything to be taken down ends it by a second Ctrl-C; tidemark down does the rest
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "tidemark: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "tidemark: %s\n", once(err))
	if errors.Is(err, results.ErrRoot) || errors.Is(err, syscall.ENOSPC) {
		fmt.Fprintln(os.Stderr, "tidemark: name another folder with --results")
	}
	return exitInternal
}

// once is an error's text without lines that stand there already: a full disk is noticed by many.
func once(err error) string {
	var lines []string
	for _, line := range strings.Split(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidemark",
		Short:         "A consistency harness for Kafka-style replicated logs",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: tidemark --help lists them", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newReproduce(), newRun(), newCheck(), newUp(), newDown(), newDescribe(), newDumpLog(), newRules(), newExplore(), newReplay(), newExplain(), newCampaign(), newZoo(), newNode(), newController(), newSandbox())
	return root
}

// noArgs refuses words that no flag takes.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument: %q", cmd.CommandPath(), args[0])}
	}
	return nil
}

package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"tidemark/node"
)

func newNode() *cobra.Command {
	var f node.Flags
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run one broker process",
		Long:  "Run one broker process. It prints a line of JSON when it is ready and then one for each event; its log goes to standard error.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Broker(os.Stdout, nodeLog())
			if err != nil {
				return usageError{err}
			}
			return node.RunBroker(untilParentEnds(cmd.Context(), f.WithParent), c)
		},
	}
	f.AddBroker(cmd.Flags())
	return cmd
}

func newController() *cobra.Command {
	var f node.Flags
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller process",
		Long:  "Run the controller process. It prints a line of JSON when it is ready and then one for each event; its log goes to standard error.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.ControllerConfig(os.Stdout, nodeLog())
			if err != nil {
				return usageError{err}
			}
			return node.RunController(untilParentEnds(cmd.Context(), f.WithParent), c)
		},
	}
	f.AddController(cmd.Flags())
	return cmd
}

func nodeLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

// untilParentEnds is a context that ends with standard input too, so that a node does not outlive whoever started it.
func untilParentEnds(ctx context.Context, with bool) context.Context {
	if !with {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

package main

import (
	"os"

	"github.com/spf13/cobra"

	"tidemark/cluster/docker/sandbox"
)

// newSandbox is the process that owns a node's network in the docker backend. Nobody types it: cluster/docker starts it.
func newSandbox() *cobra.Command {
	return &cobra.Command{
		Use:    "sandbox",
		Short:  "Change the packet rules of this network namespace as standard input says",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sandbox.Serve(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

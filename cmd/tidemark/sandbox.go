package main

import (
	"os"

	"github.com/spf13/cobra"

	"tidemark/cluster/docker/sandbox"
)

// newSandbox is the process that owns a node's network in the docker backend. Nobody types it: cluster/docker starts it.
func newSandbox() *cobra.Command {
	guest := false
	cmd := &cobra.Command{
		Use:    "sandbox",
		Short:  "Change the packet rules of this network namespace as standard input says",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if guest {
				return sandbox.ServeGuest(cmd.Context(), os.Stdin, os.Stdout)
			}
			return sandbox.Serve(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().BoolVar(&guest, "guest", false, "the network is somebody else's: take the rules away at the end")
	return cmd
}

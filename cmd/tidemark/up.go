package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidemark"
)

func newUp() *cobra.Command {
	var c tidemark.RunConfig
	var cf clusterFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster to play with, until Ctrl-C",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cf.read(&c); err != nil {
				return usageError{err}
			}
			out := cmd.OutOrStdout()
			err := tidemark.Up(cmd.Context(), c, func(bootstrap []string, folder string) {
				fmt.Fprintf(out, "bootstrap: %s\n", strings.Join(bootstrap, ","))
				fmt.Fprintf(out, "folder:    %s\n", folder)
				fmt.Fprintf(out, "try:       kcat -b %s -L\n", bootstrap[0])
				fmt.Fprintln(out, "Ctrl-C takes it down.")
			})
			var config *tidemark.ConfigError
			if errors.As(err, &config) {
				return usageError{config.Err}
			}
			return err
		},
	}
	cf.add(cmd.Flags(), &c, "where nodes run: process, docker")
	return cmd
}

func newDown() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove what a killed harness left behind: processes, containers, networks",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := tidemark.Down(cmd.Context(), root)
			for _, r := range removed {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", r)
			}
			if len(removed) == 0 && err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing was left behind")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&root, "results", "", "folder that holds the folders of runs (default results/runs)")
	return cmd
}

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

func newRules() *cobra.Command {
	defects := false
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List the protocol's rules: source, protocols that have them, the schedule that shows each",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if defects {
				return printDefects(cmd.OutOrStdout())
			}
			files, err := schedule.All()
			if err != nil {
				return err
			}
			return printRules(cmd.OutOrStdout(), files)
		},
	}
	cmd.Flags().BoolVar(&defects, "defects", false, "list the bug zoo instead: known faults that can be seeded, what each lives in and how it is made")
	return cmd
}

func printRules(out io.Writer, files []*schedule.File) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rule\tsource\tprotocols\tshown by\t")
	for _, r := range rules.Rules() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Source, protocolsWith(r), strings.Join(shownBy(r, files), ", "), r.Says)
	}
	return w.Flush()
}

// protocolsWith says from which protocol on the rule is there.
func protocolsWith(r rules.Rule) string {
	all := rules.Protocols()
	if r.Since == all[len(all)-1] {
		return string(r.Since)
	}
	return string(r.Since) + "+"
}

// shownBy names the schedules that expect something else of a protocol when the rule is taken away or, for truncation,
// replaced by an older one.
func shownBy(r rules.Rule, files []*schedule.File) []string {
	var names []string
	for _, f := range files {
		for _, e := range f.Expects {
			name, value, _ := strings.Cut(e.Change, "=")
			if name == r.Name && value != "on-fetch" && e.Verdict != f.Expected(e.Only.First, "").Verdict {
				if len(names) == 0 || names[len(names)-1] != f.Name {
					names = append(names, f.Name)
				}
			}
		}
	}
	return names
}

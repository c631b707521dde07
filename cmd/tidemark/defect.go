package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// defectFlag is --defect: an entry of the bug zoo that is seeded.
type defectFlag struct{ id string }

func (d *defectFlag) add(fs *pflag.FlagSet) {
	fs.StringVar(&d.id, "defect", "", "seed a defect of the bug zoo, for example Z11; without --protocol under the protocol that it lives in (tidemark rules --defects lists them)")
}

// find is the defect, if one is given.
func (d *defectFlag) find() (found rules.Defect, given bool, err error) {
	if d.id == "" {
		return found, false, nil
	}
	if found, err = rules.FindDefect(d.id); err == nil {
		err = found.Seedable()
	}
	return found, err == nil, err
}

// into puts the defect before the other settings, so that they win, and its protocol in the place of one that nobody has chosen.
func (d *defectFlag) into(protocol *rules.Protocol, chosen bool, settings *[]string) error {
	found, given, err := d.find()
	if err != nil || !given {
		return err
	}
	if !chosen {
		*protocol = found.Protocol
	}
	*settings = append([]string{found.Setting()}, *settings...)
	return nil
}

// printDefects lists the bug zoo.
func printDefects(out io.Writer) error {
	files, err := schedule.Zoo()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "defect\tsource\tlives in\tis\tseen as\t")
	for _, d := range rules.Defects() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, d.Source, livesIn(d), whatItIs(d, files), d.Seen, d.Says)
	}
	return w.Flush()
}

// livesIn is the protocol, and what is set in it.
func livesIn(d rules.Defect) string {
	if d.Unseeded != "" {
		return "-"
	}
	return strings.Join(append([]string{string(d.Protocol)}, d.Where...), " ")
}

// whatItIs says how the defect is made.
func whatItIs(d rules.Defect, files []*schedule.File) string {
	switch {
	case d.Unseeded != "":
		return "not seeded: " + d.Unseeded
	case d.Control:
		return "the control"
	case len(d.Changes) > 0:
		return strings.Join(d.Changes, " ")
	}
	for _, f := range files {
		if f.Name == d.ID {
			return "seeded, schedule " + f.Name
		}
	}
	return "seeded"
}

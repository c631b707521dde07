package schedule

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed kip101/*.sched kip279/*.sched kip320/*.sched kip903/*.sched kip966/*.sched zoo/*.sched
var files embed.FS

// order is the order in which a reader meets the schedules.
var order = []string{"S1", "S1b", "S1c", "S2", "S2b", "S3", "S3b", "S4", "S5", "S7", "S10", "S6", "S6b", "S9", "S8"}

var embedded = sync.OnceValues(func() ([]*File, error) {
	var all []*File
	paths, err := fs.Glob(files, "*/*.sched")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := Parse(path, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b *File) int { return place(a) - place(b) })
	return all, nil
})

// place is where a schedule stands: those of the bug zoo, which are in no order, come last, as their files do.
func place(f *File) int {
	if i := slices.Index(order, f.Name); i >= 0 {
		return i
	}
	return len(order)
}

// KIP101 names the schedules of KIP-101's two scenarios.
func KIP101() []string { return []string{"S1", "S1b", "S1c", "S2", "S2b"} }

// All is every embedded schedule of the protocol's history, in the order in which they are best read. Nobody changes what it returns.
func All() ([]*File, error) {
	all, err := embedded()
	return all[:min(len(order), len(all)):min(len(order), len(all))], err
}

// Zoo is every embedded schedule that shows a defect of the bug zoo which is no rule of history taken away (rules.Defects), by
// the defect's ID. Nobody changes what it returns.
func Zoo() ([]*File, error) {
	all, err := embedded()
	return all[min(len(order), len(all)):], err
}

// Find is the embedded schedule of that name, those of the bug zoo included.
func Find(name string) (*File, error) {
	all, err := embedded()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, f := range all {
		if strings.EqualFold(f.Name, name) {
			return f, nil
		}
		names[i] = f.Name
	}
	return nil, fmt.Errorf("no schedule %q: there are %s", name, strings.Join(names, ", "))
}

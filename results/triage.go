package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Summary is what a campaign comes to: index.json.
type Summary struct {
	Campaign
	Status Status `json:"status"`
	// Why says what keeps it from being consistent.
	Why []string `json:"why,omitempty"`
	// Counts are runs by status, controls left out; Known are the violations among them that the project knows.
	Counts map[Status]int `json:"counts"`
	Known  int            `json:"known"`
	// Controls are how many runs with a defect there were, and Caught how many of them were.
	Controls int `json:"controls"`
	Caught   int `json:"caught"`
	// Events are the sums over all runs but the controls.
	Events map[string]int64 `json:"events"`
	// Power says what this campaign would have found, if it was asked for.
	Power string `json:"power,omitempty"`
	// Missing are tasks that were not run: the budget was over, or the first violation ended it.
	Missing  int       `json:"missing"`
	Seconds  float64   `json:"seconds"`
	Failures []Failure `json:"failures,omitempty"`
	Outcomes []Outcome `json:"outcomes"`
}

// Failure is one kind of failure, however often it came: what runs with the same fingerprint have in common.
type Failure struct {
	Fingerprint string `json:"fingerprint"`
	Known       string `json:"known,omitempty"`
	// Hits of Runs: how many runs of the cells in which it came failed like this.
	Hits int `json:"hits"`
	Runs int `json:"runs"`
	// First and Last are when it was seen, over all campaigns that are stored beside this one; Campaigns are how many of those have it.
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Campaigns int       `json:"campaigns"`
	// Example is the first run of this campaign that failed so.
	Example Outcome `json:"example"`
}

// Summarize makes the index of a campaign, and looks through the campaigns in the same folder for when a failure was seen before.
func (c *Campaign) Summarize() (*Summary, error) {
	outcomes, err := c.Outcomes()
	if err != nil {
		return nil, err
	}
	s := &Summary{Campaign: *c, Counts: map[Status]int{}, Events: map[string]int64{}, Outcomes: outcomes}
	var first, last time.Time
	for _, o := range outcomes {
		if first.IsZero() || o.Began.Before(first) {
			first = o.Began
		}
		if end := o.Began.Add(time.Duration(o.Seconds * 1e9)); end.After(last) {
			last = end
		}
		if o.Control {
			s.Controls++
			if o.Status == Violation {
				s.Caught++
			}
			continue
		}
		s.Counts[o.Status]++
		if o.Status == Violation && o.Known != "" {
			s.Known++
		}
		for event, n := range o.Events {
			s.Events[event] += n
		}
	}
	s.Seconds = last.Sub(first).Seconds()
	s.Missing = max(0, c.Tasks-len(outcomes))
	s.judge()
	s.Failures, err = c.failures(outcomes)
	return s, err
}

// judge decides what the campaign as a whole is: a violation outranks all else, and a green needs its controls caught and enough events.
func (s *Summary) judge() {
	unknown := s.Counts[Violation] - s.Known
	if unknown > 0 {
		s.Status = Violation
		s.Why = append(s.Why, count(unknown, "violation"))
		return
	}
	if n := s.Counts[Inconclusive]; n > 0 {
		s.Why = append(s.Why, count(n, "inconclusive run"))
	}
	if n := s.Counts[Failed]; n > 0 {
		s.Why = append(s.Why, "the harness failed in "+count(n, "run"))
	}
	if s.Missing > 0 {
		s.Why = append(s.Why, count(s.Missing, "run")+" not done")
	}
	if s.Counts[Consistent]+s.Counts[Allowed]+s.Known == 0 {
		s.Why = append(s.Why, "nothing was decided")
	}
	if s.Controls == 0 {
		s.Why = append(s.Why, "no run with a defect shows that defects are found here")
	}
	if n := s.Controls - s.Caught; n > 0 {
		s.Why = append(s.Why, count(n, "run")+" with a defect not caught")
	}
	for _, event := range slices.Sorted(maps.Keys(s.Minimum)) {
		if have, want := s.Events[event], s.Minimum[event]; have < want {
			s.Why = append(s.Why, fmt.Sprintf("%d %s, at least %d are needed", have, event, want))
		}
	}
	switch {
	case len(s.Why) > 0:
		s.Status = Inconclusive
	case s.Counts[Allowed] > 0:
		s.Status = Allowed
	default:
		s.Status = Consistent
	}
}

// ExitCode is the exit code of the command line.
func (s *Summary) ExitCode() int {
	switch s.Status {
	case Consistent, Allowed:
		return 0
	case Violation:
		return 1
	}
	return 2
}

// failures groups what failed by fingerprint, most frequent first.
func (c *Campaign) failures(outcomes []Outcome) ([]Failure, error) {
	runs := map[string]int{}
	for _, o := range outcomes {
		if !o.Control {
			runs[o.Cell]++
		}
	}
	by := map[string]*Failure{}
	cells := map[string]map[string]bool{}
	for _, o := range outcomes {
		if o.Fingerprint == "" || o.Control {
			continue
		}
		f := by[o.Fingerprint]
		if f == nil {
			f = &Failure{Fingerprint: o.Fingerprint, Known: o.Known, First: o.Began, Last: o.Began, Campaigns: 1, Example: o}
			by[o.Fingerprint], cells[o.Fingerprint] = f, map[string]bool{}
		}
		f.seen(o.Began)
		f.Hits++
		if !cells[o.Fingerprint][o.Cell] {
			cells[o.Fingerprint][o.Cell] = true
			f.Runs += runs[o.Cell]
		}
	}
	if len(by) == 0 {
		return nil, nil
	}
	others, err := c.others()
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		outcomes, err := other.Outcomes()
		if err != nil {
			return nil, err
		}
		has := map[string]bool{}
		for _, o := range outcomes {
			if f := by[o.Fingerprint]; f != nil && !o.Control {
				f.seen(o.Began)
				has[o.Fingerprint] = true
			}
		}
		for fingerprint := range has {
			by[fingerprint].Campaigns++
		}
	}
	failures := make([]Failure, 0, len(by))
	for _, f := range by {
		failures = append(failures, *f)
	}
	slices.SortFunc(failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return failures, nil
}

func (f *Failure) seen(at time.Time) {
	if at.Before(f.First) {
		f.First = at
	}
	if at.After(f.Last) {
		f.Last = at
	}
}

// others are the campaigns that are stored beside this one, merged ones left out: their runs are in the others.
func (c *Campaign) others() ([]*Campaign, error) {
	entries, err := os.ReadDir(filepath.Dir(c.path))
	if err != nil {
		return nil, err
	}
	var others []*Campaign
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(c.path), e.Name())
		if !e.IsDir() || path == c.path {
			continue
		}
		other, err := OpenCampaign(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the folder of something else
		}
		if err != nil {
			return nil, err
		}
		if len(other.Merged) == 0 && !slices.ContainsFunc(c.Merged, func(m string) bool { return strings.Fields(m)[0] == other.ID }) {
			others = append(others, other)
		}
	}
	return others, nil
}

// count is a number of things in words: "1 run", "3 runs".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

package tidemark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/checker"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// Means is a way of looking for a defect.
type Means string

// The means, in the order in which they are tried.
const (
	BySchedule   Means = "schedule"   // a story that is known to go wrong, embedded
	ByExhaustion Means = "exhaustive" // everything within a small scope, breadth first
	ByRandom     Means = "random"     // random schedules, each severity in turn
)

// AllMeans lists the means.
func AllMeans() []Means { return []Means{BySchedule, ByExhaustion, ByRandom} }

// ZooConfig says which defects of the bug zoo are looked for, and how long.
type ZooConfig struct {
	Defects []string // IDs; nil is all that can be seeded, and the control
	Means   []Means  // nil is all
	// Time is how long random schedules are played for each defect, in processor time; 0 is 20 seconds.
	Time time.Duration
	// States bounds each exhaustive search; 0 is 60,000.
	States int
	Seed   uint64 // of the random schedules; 0 is 1
	// Without seeds nothing: the same means over what the defects live in. Nothing has to be found.
	Without bool
	// Done is called after each defect, if it is not nil.
	Done func(Detection)
}

// Attempt is what one means came to.
type Attempt struct {
	Means Means `json:"means"`
	Found bool  `json:"found"`
	// By says what found it: a schedule, a scope, a severity. "" if nothing did.
	By        string            `json:"by,omitempty"`
	Anomalies []checker.Anomaly `json:"anomalies,omitempty"` // that break the contract, sorted
	// Runs is how much was looked at until it was found, or in all: schedules, or states.
	Runs int64 `json:"runs"`
	// Seconds of processor time of this process, so that what runs beside it does not count.
	Seconds float64 `json:"seconds"`
	// Allowed is how often something was lost that the contract permits to lose.
	Allowed int64 `json:"allowed,omitempty"`
	// Unconfirmed is how often the truth, which only a simulation knows, had something to say of which the checker saw nothing.
	Unconfirmed int64 `json:"unconfirmed,omitempty"`
	// Partial: something that had to be looked at was not, for want of time or room.
	Partial bool `json:"partial,omitempty"`
	// File is the schedule that found it, as it was found.
	File *schedule.File `json:"-"`
}

// Detection is a row of the detection matrix: one defect, and what each means came to.
type Detection struct {
	Defect   rules.Defect `json:"-"`
	ID       string       `json:"defect"`
	Control  bool         `json:"control,omitempty"` // nothing has to be found
	Attempts []Attempt    `json:"attempts"`
}

// Found says whether any of the means found the defect.
func (d Detection) Found() bool {
	return slices.ContainsFunc(d.Attempts, func(a Attempt) bool { return a.Found })
}

// By is the attempt by that means; false if it was not tried.
func (d Detection) By(m Means) (Attempt, bool) {
	i := slices.IndexFunc(d.Attempts, func(a Attempt) bool { return a.Means == m })
	if i < 0 {
		return Attempt{}, false
	}
	return d.Attempts[i], true
}

// Zoo makes the detection matrix: every defect, by every means, in simulation, each find confirmed by the checker from its
// history alone. What was done before the context's end is returned with its error.
func Zoo(ctx context.Context, c ZooConfig) ([]Detection, error) {
	defects, err := c.chosen()
	if err != nil {
		return nil, &ConfigError{err}
	}
	means := c.Means
	if means == nil {
		means = AllMeans()
	}
	var matrix []Detection
	for _, d := range defects {
		s, err := c.subject(d)
		if err != nil {
			return matrix, err
		}
		row := Detection{Defect: d, ID: d.ID, Control: d.Control}
		for _, m := range means {
			if ctx.Err() != nil {
				return matrix, ctx.Err()
			}
			began := processorTime()
			a, err := s.try(ctx, c, m)
			if err != nil {
				return matrix, fmt.Errorf("defect %s by %s: %w", d.ID, m, err)
			}
			a.Means, a.Seconds = m, (processorTime() - began).Seconds()
			row.Attempts = append(row.Attempts, a)
		}
		matrix = append(matrix, row)
		if c.Done != nil {
			c.Done(row)
		}
	}
	return matrix, ctx.Err()
}

// chosen are the defects that are looked for, in the registry's order.
func (c *ZooConfig) chosen() ([]rules.Defect, error) {
	for _, m := range c.Means {
		if !slices.Contains(AllMeans(), m) {
			return nil, fmt.Errorf("means %q: want %s, %s or %s", m, BySchedule, ByExhaustion, ByRandom)
		}
	}
	if c.Time < 0 || c.States < 0 {
		return nil, fmt.Errorf("time %s, states %d: want 0 or more", c.Time, c.States)
	}
	var chosen []rules.Defect
	for _, id := range c.Defects {
		d, err := rules.FindDefect(id)
		if err == nil && !d.Control {
			err = d.Seedable()
		}
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, d)
	}
	if c.Defects != nil {
		return chosen, nil
	}
	return slices.DeleteFunc(rules.Defects(), func(d rules.Defect) bool { return d.Unseeded != "" }), nil
}

// subject is what is looked at: a cluster with the defect.
type subject struct {
	defect rules.Defect
	court  sim.Court
	sound  sim.Court // without the defect
}

func (c *ZooConfig) subject(d rules.Defect) (subject, error) {
	sound, err := d.Sound()
	if err != nil {
		return subject{}, err
	}
	s := subject{defect: d, sound: sim.Court{Protocol: d.Protocol, Rules: sound}}
	s.court = s.sound
	if !c.Without && !d.Control {
		s.court.Rules, err = d.Set()
	}
	return s, err
}

// cluster is what searches run on.
func (s subject) cluster(brokers int) schedule.Cluster {
	k := schedule.Cluster{MinISR: 2, Registration: s.sound.Rules.Registration, Unclean: s.defect.Control}
	for n := range brokers {
		k.Replicas = append(k.Replicas, control.NodeID(n+1))
	}
	return k
}

func (s subject) try(ctx context.Context, c ZooConfig, m Means) (Attempt, error) {
	switch m {
	case BySchedule:
		return s.bySchedule(ctx)
	case ByExhaustion:
		return s.byExhaustion(ctx, cmp.Or(c.States, 60_000))
	}
	return s.byRandom(ctx, cmp.Or(c.Time, 20*time.Second), cmp.Or(c.Seed, 1))
}

// bySchedule plays the embedded schedules until one is a violation that it is not without the defect. The defect's own, if it
// has one, comes first.
func (s subject) bySchedule(ctx context.Context) (Attempt, error) {
	var a Attempt
	all, err := schedule.All()
	if err != nil {
		return a, err
	}
	zoo, err := schedule.Zoo()
	if err != nil {
		return a, err
	}
	files := slices.Concat(all, zoo)
	if i := slices.IndexFunc(files, func(f *schedule.File) bool { return f.Name == s.defect.ID }); i >= 0 {
		own := files[i]
		files = slices.Insert(slices.Delete(files, i, i+1), 0, own)
	}
	for _, f := range files {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if s.defect.Control {
			unclean := *f
			unclean.Cluster.Unclean = true
			f = &unclean
		}
		a.Runs++
		r, err := s.court.Try(ctx, f)
		if err != nil {
			return a, err
		}
		if r.Checked.Verdict == checker.Allowed {
			a.Allowed++
		}
		if !r.Violation() {
			continue
		}
		if due, err := s.due(ctx, f); err != nil {
			return a, err
		} else if !due {
			continue
		}
		a.Found, a.By, a.Anomalies, a.File = true, f.Name, r.Kinds(), f
		return a, nil
	}
	return a, nil
}

// due says whether a violation is due to the defect: the same schedule is none without it. Where nothing is seeded, it always is.
func (s subject) due(ctx context.Context, f *schedule.File) (bool, error) {
	if s.court == s.sound {
		return true, nil
	}
	return s.sound.Clears(ctx, f)
}

// byRandom plays random schedules of each severity in turn, twice as many each round, until the time is over.
func (s subject) byRandom(ctx context.Context, limit time.Duration, seed uint64) (Attempt, error) {
	var a Attempt
	searching, cancel := withProcessorTime(ctx, limit)
	defer cancel()
	for n := int64(250); searching.Err() == nil; n, seed = 2*n, seed+1 {
		for _, d := range difficulties {
			var failed error
			x, err := sim.Search{Cluster: s.cluster(3), Court: s.court, Faults: d.faults, Seed: seed, Schedules: n,
				Wanted: func(f sim.Find) bool {
					due, err := s.due(ctx, f.File)
					if failed = errors.Join(failed, err); due {
						a.Found, a.By, a.Anomalies, a.File = true, d.name, f.Kinds, f.File
					}
					return due || failed != nil
				}}.Run(searching)
			if err = errors.Join(err, failed); err != nil {
				if searching.Err() != nil {
					return a, ctx.Err()
				}
				return a, err
			}
			a.Runs += x.Counts.Schedules
			a.Allowed += x.Excused
			a.Unconfirmed += x.Unconfirmed
			if a.Found {
				return a, nil
			}
		}
	}
	return a, ctx.Err()
}

// difficulties are how bad it gets in random schedules, one after the other.
var difficulties = func() []difficulty {
	var all []difficulty
	for _, s := range sim.Severities() {
		all = append(all, difficulty{s.String(), s.Faults()})
	}
	return all
}()

type difficulty struct {
	name   string
	faults sim.Faults
}

// withProcessorTime is a context that ends when the process has used so much more of the processors.
func withProcessorTime(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	end := processorTime() + limit
	go func() {
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for processorTime() < end {
			select {
			case <-limited.Done():
				return
			case <-look.C:
			}
		}
		cancel()
	}()
	return limited, cancel
}

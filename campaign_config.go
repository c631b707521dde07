package tidemark

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"tidemark/cluster"
	"tidemark/cluster/sim"
	"tidemark/nemesis"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// CampaignConfig says what a campaign runs: a YAML file, or a preset. [ParseCampaign] reads it.
//
//	name: nightly
//	time: 6h
//	parts:
//	  - schedules: [all]
//	    on: [process, docker]
//	    protocol: [kip320, kip966]
//	  - run: 60s
//	    on: [docker]
//	    protocol: [kip320]
//	    faults: ["kill,pause", partition]
//	    seeds: 20
//	  - explore: 1000000
//	    protocol: [kip966]
//	    severity: [power]
type CampaignConfig struct {
	Name string `yaml:"name"`
	// Time and Runs end the campaign when that much time has passed or so many runs were begun; 0: when all is done. What was not run is missing.
	Time time.Duration `yaml:"time,omitempty"`
	Runs int           `yaml:"runs,omitempty"`
	// Parallel is how many runs go on at a time; 0: one a processor, at most four.
	Parallel int `yaml:"parallel,omitempty"`
	// StopOnFirst ends the campaign at the first violation that is not known.
	StopOnFirst bool `yaml:"stop-on-first,omitempty"`
	// Seed is that of the first of each cell's runs; 0 is 1. The others follow.
	Seed uint64 `yaml:"seed,omitempty"`
	// Minimum is how often each event has to happen in all runs together, for the campaign to be worth anything.
	Minimum map[string]int64 `yaml:"minimum,omitempty"`
	// Known are failures that the project knows. They are told of, and do not fail the campaign.
	Known []KnownFailure `yaml:"known,omitempty"`
	// Control are runs with a defect, which have to be caught; none: one random search under kip966 with Z21, a follower that counts as having what
	// was only sent to it.
	Control []Part `yaml:"control,omitempty"`
	Parts   []Part `yaml:"parts"`
}

// KnownFailure is a failure by its fingerprint, as the report names it.
type KnownFailure struct {
	Fingerprint string `yaml:"fingerprint"`
	Note        string `yaml:"note"`
}

// Part is a matrix of cells: every combination of what its lists name, each with as many seeds. Exactly one of Schedules, Explore, Run and Zoo says
// what is done.
type Part struct {
	// Schedules are played, embedded ones by name, or "all"; seeds do not matter to them.
	Schedules []string `yaml:"schedules,omitempty"`
	// Explore is a number of random schedules in simulation.
	Explore int64 `yaml:"explore,omitempty"`
	// Run is for how long clients work in a free run.
	Run time.Duration `yaml:"run,omitempty"`
	// Zoo looks for every defect of the bug zoo by every means, each for that long at random; nothing else belongs to it.
	Zoo time.Duration `yaml:"zoo,omitempty"`

	On       []Backend        `yaml:"on,omitempty"`       // default process; of Explore it is simulation
	Protocol []rules.Protocol `yaml:"protocol,omitempty"` // default kip320
	Without  []string         `yaml:"without,omitempty"`  // rules that are taken away, in each cell
	Rules    []string         `yaml:"rule,omitempty"`     // rules that are set, in each cell
	Seeds    int              `yaml:"seeds,omitempty"`    // default 1

	// Of Explore.
	Severity []string `yaml:"severity,omitempty"` // default failover
	Replicas int      `yaml:"replicas,omitempty"` // default 3
	MinISR   int      `yaml:"min-isr,omitempty"`  // default 2

	// Of Run, as the flags of the command with these names.
	Faults   []string `yaml:"faults,omitempty"`  // default "kill,pause,partition"; each is a cell
	Clients  []int    `yaml:"clients,omitempty"` // default 10; each is a cell
	Rate     float64  `yaml:"rate,omitempty"`
	Acks     string   `yaml:"acks,omitempty"`
	Topics   []string `yaml:"topic,omitempty"`
	Brokers  int      `yaml:"brokers,omitempty"`
	Settings []string `yaml:"config,omitempty"`
}

// ErrCampaign is wrapped by every error about a campaign's configuration.
var ErrCampaign = errors.New("not a campaign")

// ParseCampaign reads a campaign; name is the file's, for errors. What it does not know it refuses, with line and column.
func ParseCampaign(name, text string) (*CampaignConfig, error) {
	c := &CampaignConfig{}
	if err := yaml.UnmarshalWithOptions([]byte(text), c, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, ErrCampaign, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	if _, err := c.tasks(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrCampaign, err)
	}
	return c, nil
}

// String is the campaign as [ParseCampaign] reads it.
func (c *CampaignConfig) String() string {
	text, err := yaml.Marshal(c)
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return string(text)
}

//go:embed nemesis/campaigns/*.yaml
var presets embed.FS

// Presets lists the names of the campaigns that come with Tidemark.
func Presets() []string {
	files, err := fs.Glob(presets, "nemesis/campaigns/*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// Preset is a campaign that comes with Tidemark.
func Preset(name string) (*CampaignConfig, error) {
	text, err := presets.ReadFile("nemesis/campaigns/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("preset %q: there are %s", name, strings.Join(Presets(), ", "))
	}
	return ParseCampaign(name, string(text))
}

// events are what [CampaignConfig.Minimum] can ask for.
func events() []string {
	return []string{"acked", "elections", "faults", "isr_changes", "power_losses", "reads", "schedules", "truncations", "unknown"}
}

// defaultControl is caught within a second.
func defaultControl() []Part {
	return []Part{{Explore: 20_000, Protocol: []rules.Protocol{rules.KIP966}, Rules: []string{"defect=Z21"}}}
}

// task is one run of a campaign.
type task struct {
	id      string
	cell    string // the command that repeats it, without its seed
	command string
	seed    uint64
	control bool
	work    work
}

// work is what a task does: one of Reproduce, Explore, Run and Zoo.
type work struct {
	reproduce *ReproduceConfig
	explore   *ExploreConfig
	run       *RunConfig
	zoo       *ZooConfig
}

// shard says which of how many parts a task belongs to, from 1 on. It depends on cell and seed alone, so that machines that know nothing of each
// other share a campaign.
func (t *task) shard(of int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.id)) // never fails
	return int(h.Sum64()%uint64(of)) + 1
}

// tasks lists all runs: the controls first, then the first seed of every cell, the second, and so on, so that a budget that is over too soon has
// seen a little of everything.
func (c *CampaignConfig) tasks() ([]*task, error) {
	if c.Name == "" || strings.ContainsAny(c.Name, "/\\\n") {
		return nil, fmt.Errorf("name %q: want a word", c.Name)
	}
	if len(c.Parts) == 0 {
		return nil, errors.New("parts: there are none")
	}
	if c.Time < 0 || c.Runs < 0 || c.Parallel < 0 {
		return nil, fmt.Errorf("time %s, runs %d, parallel %d: want 0 or more", c.Time, c.Runs, c.Parallel)
	}
	for event := range c.Minimum {
		if !slices.Contains(events(), event) {
			return nil, fmt.Errorf("minimum: %q: there are %s", event, strings.Join(events(), ", "))
		}
	}
	for _, k := range c.Known {
		if k.Fingerprint == "" {
			return nil, fmt.Errorf("known: %q has no fingerprint", k.Note)
		}
	}
	var all []*task
	control := c.Control
	if len(control) == 0 {
		control = defaultControl()
	}
	for i, p := range control {
		ts, err := p.tasks(1)
		if err != nil {
			return nil, fmt.Errorf("control %d: %w", i+1, err)
		}
		for _, t := range ts {
			t.control, t.id = true, "control "+t.id
			if t.work.explore != nil {
				t.work.explore.KeepGoing = false // caught once is caught
			}
		}
		all = append(all, ts...)
	}
	var rest []*task
	for i, p := range c.Parts {
		ts, err := p.tasks(cmp.Or(c.Seed, 1))
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
		rest = append(rest, ts...)
	}
	slices.SortStableFunc(rest, func(a, b *task) int { return cmp.Compare(a.seed, b.seed) })
	all = append(all, rest...)
	seen := map[string]bool{}
	for _, t := range all {
		if seen[t.id] {
			return nil, fmt.Errorf("%s: is there twice", t.command)
		}
		seen[t.id] = true
	}
	return all, nil
}

// tasks lists the runs of a part.
func (p *Part) tasks(seed uint64) ([]*task, error) {
	kinds := 0
	for _, given := range []bool{len(p.Schedules) > 0, p.Explore != 0, p.Run != 0, p.Zoo != 0} {
		if given {
			kinds++
		}
	}
	if kinds != 1 || p.Explore < 0 || p.Run < 0 || p.Zoo < 0 {
		return nil, errors.New("want one of schedules, explore, run and zoo")
	}
	if p.Seeds < 0 {
		return nil, fmt.Errorf("seeds %d: want 1 or more", p.Seeds)
	}
	if err := p.only(); err != nil {
		return nil, err
	}
	if p.Zoo > 0 {
		return p.defects(), nil
	}
	for _, protocol := range p.Protocol {
		if _, err := rules.ParseProtocol(string(protocol)); err != nil {
			return nil, err
		}
	}
	var ts []*task
	for _, on := range orDefault(p.On, OnProcess) {
		if _, err := ParseBackend(string(on)); err != nil {
			return nil, err
		}
		for _, protocol := range orDefault(p.Protocol, rules.KIP320) {
			if _, err := rules.Parse(protocol, p.Without, p.Rules); err != nil {
				return nil, err
			}
			more, err := p.cells(on, protocol, seed)
			if err != nil {
				return nil, err
			}
			ts = append(ts, more...)
		}
	}
	return ts, nil
}

func orDefault[T any](list []T, otherwise T) []T {
	if len(list) == 0 {
		return []T{otherwise}
	}
	return list
}

// only refuses what a part of that kind does not have: nobody is to believe that it was heeded.
func (p *Part) only() error {
	ofExplore := len(p.Severity) > 0 || p.Replicas != 0 || p.MinISR != 0
	ofRun := len(p.Faults) > 0 || len(p.Clients) > 0 || p.Rate != 0 || p.Acks != "" || len(p.Topics) > 0 || p.Brokers != 0 || len(p.Settings) > 0
	switch {
	case ofExplore && p.Explore == 0:
		return errors.New("severity, replicas and min-isr belong to explore")
	case ofRun && p.Run == 0:
		return errors.New("faults, clients, rate, acks, topic, brokers and config belong to run")
	case p.Explore != 0 && len(p.On) > 0 && !slices.Equal(p.On, []Backend{OnSim}):
		return errors.New("explore: searches are in simulation; leave out on")
	case p.Zoo != 0 && len(p.On)+len(p.Protocol)+len(p.Without)+len(p.Rules)+p.Seeds > 0:
		return errors.New("zoo: each defect has its own protocol, in simulation; leave out all else")
	case len(p.Schedules) > 0 && p.Seeds > 1:
		return errors.New("schedules: are the same for every seed; leave out seeds")
	}
	return nil
}

// cells lists the runs on one backend under one protocol.
func (p *Part) cells(on Backend, protocol rules.Protocol, seed uint64) ([]*task, error) {
	words := []string{"--protocol", string(protocol)}
	for _, rule := range p.Without {
		words = append(words, "--without", rule)
	}
	for _, rule := range p.Rules {
		words = append(words, "--rule", rule)
	}
	switch {
	case len(p.Schedules) > 0:
		files, err := p.schedules()
		if err != nil {
			return nil, err
		}
		c := &ReproduceConfig{Schedules: files, Columns: Columns(protocol), On: on, Without: p.Without, Rules: p.Rules, Parallel: 1}
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		return []*task{newTask(work{reproduce: c}, slices.Concat([]string{"reproduce"}, names, []string{"--on", string(on)}, words), 0)}, nil
	case p.Explore > 0:
		return p.searches(protocol, words, seed)
	}
	return p.runs(on, protocol, words, seed)
}

func (p *Part) schedules() ([]*schedule.File, error) {
	if slices.Equal(p.Schedules, []string{"all"}) {
		return schedule.All()
	}
	var files []*schedule.File
	for _, name := range p.Schedules {
		f, err := schedule.Find(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (p *Part) searches(protocol rules.Protocol, words []string, seed uint64) ([]*task, error) {
	var ts []*task
	replicas, minISR := cmp.Or(p.Replicas, 3), cmp.Or(p.MinISR, 2)
	for _, word := range orDefault(p.Severity, sim.Failover.String()) {
		severity, err := sim.ParseSeverity(word)
		if err != nil {
			return nil, err
		}
		for i := range max(p.Seeds, 1) {
			c := &ExploreConfig{Protocol: protocol, Without: p.Without, Rules: p.Rules, Replicas: replicas, MinISR: minISR, Schedules: p.Explore,
				Severity: severity, Seed: seed + uint64(i), KeepGoing: true}
			if _, err := c.Cluster(); err != nil {
				return nil, err
			}
			command := slices.Concat([]string{"explore"}, words, []string{"--severity", severity.String(), "--replicas", strconv.Itoa(replicas),
				"--min-isr", strconv.Itoa(minISR), "--schedules", strconv.FormatInt(p.Explore, 10), "--keep-going"})
			ts = append(ts, newTask(work{explore: c}, command, c.Seed))
		}
	}
	return ts, nil
}

func (p *Part) runs(on Backend, protocol rules.Protocol, words []string, seed uint64) ([]*task, error) {
	var ts []*task
	for _, word := range orDefault(p.Faults, "kill,pause,partition") {
		faults, err := nemesis.ParseFaults(word)
		if err != nil {
			return nil, err
		}
		for _, clients := range orDefault(p.Clients, 10) {
			for i := range max(p.Seeds, 1) {
				c := &RunConfig{On: on, Brokers: p.Brokers, Topics: p.Topics, Protocol: protocol, Without: p.Without, Rules: p.Rules, Settings: p.Settings,
					Time: p.Run, Clients: clients, Rate: p.Rate, Acks: p.Acks, Seed: seed + uint64(i), Faults: faults}
				if _, _, err := c.withDefaults(); err != nil && !errors.Is(err, cluster.ErrUnsupported) { // that is skipped when its turn comes
					return nil, err
				}
				ts = append(ts, newTask(work{run: c}, slices.Concat([]string{"run"}, words, runWords(c, word)), c.Seed))
			}
		}
	}
	return ts, nil
}

// runWords are the flags of a free run that are not the defaults of the command.
func runWords(c *RunConfig, faults string) []string {
	words := []string{"--on", string(c.On), "--time", c.Time.String(), "--clients", strconv.Itoa(c.Clients), "--faults", faults}
	for _, t := range c.Topics {
		words = append(words, "--topic", t)
	}
	for _, s := range c.Settings {
		words = append(words, "--config", s)
	}
	if c.Brokers != 0 {
		words = append(words, "--brokers", strconv.Itoa(c.Brokers))
	}
	if c.Rate != 0 {
		words = append(words, "--rate", strconv.FormatFloat(c.Rate, 'g', -1, 64))
	}
	if c.Acks != "" {
		words = append(words, "--acks", c.Acks)
	}
	return words
}

// newTask makes a task of what the words after "tidemark" do; seed 0: they have none.
func newTask(w work, words []string, seed uint64) *task {
	t := &task{cell: strings.Join(words, " "), seed: seed, work: w}
	t.command = t.cell
	if seed != 0 {
		t.command += fmt.Sprintf(" --seed %d", seed)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.command)) // never fails
	t.id = fmt.Sprintf("%016x", h.Sum64())
	return t
}

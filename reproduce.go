package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/docker"
	"tidemark/cluster/process"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
)

// Backend is where nodes run.
type Backend string

// The backends.
const (
	OnSim     Backend = "sim"     // in this process, without sockets, files or clock
	OnProcess Backend = "process" // child processes on loopback
	OnDocker  Backend = "docker"  // containers
)

// Backends lists the backends.
func Backends() []Backend { return []Backend{OnProcess, OnDocker, OnSim} }

// ParseBackend accepts the names of [Backends].
func ParseBackend(s string) (Backend, error) {
	if slices.Contains(Backends(), Backend(s)) {
		return Backend(s), nil
	}
	return "", fmt.Errorf("unknown backend %q: want process, docker or sim", s)
}

// Column is what schedules are played under: a protocol, or one with a rule changed.
type Column struct {
	Protocol rules.Protocol
	// Change is "fetch-fencing=off" or "truncation=kip101", as rules.Set.With takes it; "": the protocol as it was. Schedules say
	// what they expect of it.
	Change string
}

// String is the column's head: the protocol, and what is changed.
func (c Column) String() string {
	switch rule, off := strings.CutSuffix(c.Change, "=off"); {
	case c.Change == "":
		return string(c.Protocol)
	case off:
		return string(c.Protocol) + " without " + rule
	}
	return string(c.Protocol) + " with " + c.Change
}

// Columns makes a column of each protocol as it was.
func Columns(protocols ...rules.Protocol) []Column {
	columns := make([]Column, len(protocols))
	for i, p := range protocols {
		columns[i] = Column{Protocol: p}
	}
	return columns
}

// Diagonal is KIP-320's protocol with one rule wrong in each column, and KIP-966's without each of the rules that it brought:
// each change is noticed by its own schedule.
func Diagonal() []Column {
	columns := Columns(rules.KIP320)
	for _, change := range []string{"truncation=hw", "truncation=kip101", "truncation=on-fetch", "fetch-fencing=off", "epoch-at-election=off",
		"truncate-every-epoch=off", "isr-from-epoch-start=off"} {
		columns = append(columns, Column{rules.KIP320, change})
	}
	columns = append(columns, Column{Protocol: rules.KIP966})
	for _, r := range rules.Rules() {
		if r.Since == rules.KIP966 {
			columns = append(columns, Column{rules.KIP966, r.Name + "=off"})
		}
	}
	return columns
}

// ReproduceConfig says which schedules are played, under what, and where.
type ReproduceConfig struct {
	Schedules []*schedule.File
	Columns   []Column
	On        Backend
	// Repeat plays each cell so often; 0 is once.
	Repeat int
	// Without and Rules change the rules of every column, as rules.Parse takes them. What is expected stays.
	Without, Rules []string
	// Root is where the folder of the run is made; "" is results.Root.
	Root string
	// Binary names the executable that nodes run; "": found or built.
	Binary string
	// Done is called after each cell, in order, if it is not nil.
	Done func(Cell)

	containers *docker.Pool // what the cells share on OnDocker
}

// Cell is one schedule played in one column.
type Cell struct {
	Schedule string  `json:"schedule"`
	Protocol string  `json:"protocol"` // the column's head
	Backend  Backend `json:"backend"`
	// Expected and Observed are a verdict, with its reason where there is one.
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	// Findings are what was found that the schedule's expectation speaks of, sorted: "lost-acked m1".
	Findings  []string        `json:"findings"`
	Porcupine checker.Outcome `json:"porcupine"`
	OK        bool            `json:"ok"`
	Seconds   float64         `json:"seconds"`

	// Why says what differs from what was expected, "" if nothing does.
	Why string `json:"-"`
	// ExpectedFindings are those of the schedule.
	ExpectedFindings []string         `json:"-"`
	Played           *schedule.Result `json:"-"`
	Checked          *checker.Result  `json:"-"`
	File             *schedule.File   `json:"-"`
	Folder           string           `json:"-"`
}

// Reproduce plays every schedule in every column and compares what is found with what is expected. An error means
// that the harness failed; cells that were done before it are returned too.
func Reproduce(ctx context.Context, c ReproduceConfig) (cells []Cell, err error) {
	if err := c.check(); err != nil {
		return nil, &ConfigError{err}
	}
	folder, err := results.Create(rootOr(c.Root), "reproduce")
	if err != nil {
		return nil, err
	}
	if c.On == OnDocker {
		if c.containers, err = docker.NewPool(ctx, folder.ID, c.Binary); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.containers.Close(ctx)) }()
	}
	for i := range max(c.Repeat, 1) {
		for _, f := range c.Schedules {
			for _, column := range c.Columns {
				name := f.Name + "-" + strings.ReplaceAll(column.String(), " ", "-")
				if c.Repeat > 1 {
					name += fmt.Sprintf("-%d", i+1)
				}
				sub, err := folder.Sub(name)
				if err != nil {
					return cells, err
				}
				cell, err := c.cell(ctx, f, column, sub)
				if err != nil {
					return cells, fmt.Errorf("%s under %s on %s: %w", f.Name, column, c.On, err)
				}
				cells = append(cells, *cell)
				if c.Done != nil {
					c.Done(*cell)
				}
			}
		}
	}
	return cells, nil
}

// check says what is wrong with a configuration. Each cell has a folder of its own, by the names of its schedule and column.
func (c *ReproduceConfig) check() error {
	for i, f := range c.Schedules {
		if strings.ContainsAny(f.Name, `/\`) || f.Name == ".." {
			return fmt.Errorf("schedule %q: the name cannot be that of a folder", f.Name)
		}
		if slices.ContainsFunc(c.Schedules[:i], func(o *schedule.File) bool { return o.Name == f.Name }) {
			return fmt.Errorf("schedule %s is given twice", f.Name)
		}
		for _, column := range c.Columns {
			if _, err := c.RulesOf(f, column); err != nil {
				return fmt.Errorf("%s under %s: %w", f.Name, column, err)
			}
		}
	}
	for i, column := range c.Columns {
		if slices.Contains(c.Columns[:i], column) {
			return fmt.Errorf("column %s is given twice", column)
		}
	}
	return nil
}

func rootOr(root string) string {
	if root == "" {
		return results.Root
	}
	return root
}

// RulesOf are the rules that a schedule runs under in a column.
func (c *ReproduceConfig) RulesOf(f *schedule.File, column Column) (rules.Set, error) {
	set := f.Rules(column.Protocol)
	if column.Change != "" {
		var err error
		if set, err = set.With(nil, []string{column.Change}); err != nil {
			return set, err
		}
	}
	return set.With(c.Without, c.Rules)
}

// cell plays one schedule in one column and judges what came of it.
func (c *ReproduceConfig) cell(ctx context.Context, f *schedule.File, column Column, folder results.Folder) (*Cell, error) {
	began := time.Now()
	p := column.Protocol
	set, err := c.RulesOf(f, column)
	if err != nil {
		return nil, err
	}
	if err := folder.WriteText(results.Schedule, f.String()); err != nil {
		return nil, err
	}
	played, err := c.play(ctx, f, p, set, folder)
	if err != nil {
		return nil, err
	}
	if err := folder.WriteText(results.Transcript, played.Transcript); err != nil {
		return nil, err
	}
	checked, err := Check(ctx, folder.File(results.History), checker.Options{})
	if err != nil {
		return nil, err
	}
	if err := folder.WriteJSON(results.Result, checked); err != nil {
		return nil, err
	}
	cell := &Cell{Schedule: f.Name, Protocol: column.String(), Backend: c.On, Played: played, Checked: checked, File: f, Folder: folder.Path}
	cell.compare(f.Expected(p, column.Change))
	cell.Seconds = time.Since(began).Seconds()
	return cell, nil
}

// play plays the schedule on a new stage and records the history.
func (c *ReproduceConfig) play(ctx context.Context, f *schedule.File, p rules.Protocol, set rules.Set, folder results.Folder) (_ *schedule.Result, err error) {
	sink, err := history.Create(folder.File(results.History), scheduleHeader(f, p), history.Since(time.Now()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	var stage schedule.Stage
	if c.On == OnSim {
		stage, err = sim.NewStage(ctx, f.Cluster, set)
	} else {
		var s cluster.Stage
		if s, err = c.openStage(ctx, f, set, folder); err == nil {
			defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
		}
		stage = s
	}
	if err != nil {
		return nil, err
	}
	return schedule.Play(ctx, f, p, set, stage, sink)
}

func (c *ReproduceConfig) openStage(ctx context.Context, f *schedule.File, set rules.Set, folder results.Folder) (cluster.Stage, error) {
	topic, _, _ := strings.Cut(schedule.Partition, "-")
	config := cluster.Config{Run: folder.ID, Dir: folder.File(results.Nodes), Brokers: f.Cluster.Replicas, Hold: true, Rules: set,
		Topics: []node.Topic{{Name: topic, Partitions: [][]control.NodeID{f.Cluster.Replicas}}}, Settings: node.Defaults(), Binary: c.Binary}
	config.Settings.MinISR, config.Settings.Unclean = f.Cluster.MinISR, f.Cluster.Unclean
	k, err := c.openCluster(ctx, config)
	if err != nil {
		return nil, err
	}
	stage, err := cluster.NewStage(ctx, k)
	if err != nil {
		return nil, errors.Join(err, k.Close(context.WithoutCancel(ctx)))
	}
	return stage, nil
}

func (c *ReproduceConfig) openCluster(ctx context.Context, config cluster.Config) (cluster.Cluster, error) {
	if c.containers != nil {
		return c.containers.Open(ctx, config)
	}
	return openCluster(ctx, c.On, config)
}

// openCluster starts a cluster on a backend.
func openCluster(ctx context.Context, on Backend, c cluster.Config) (cluster.Cluster, error) {
	switch on {
	case OnProcess:
		return process.Open(ctx, c)
	case OnDocker:
		return docker.Open(ctx, c)
	}
	return nil, fmt.Errorf("backend %s has no free-running cluster", on)
}

func scheduleHeader(f *schedule.File, p rules.Protocol) history.Header {
	topic, _, _ := strings.Cut(schedule.Partition, "-")
	return history.Header{
		Contract: history.Contract{Acks: "all", MinISR: f.Cluster.MinISR, Unclean: f.Cluster.Unclean, Protocol: string(p),
			Bar: strings.ReplaceAll(f.Cluster.Level, "-", " ")},
		Topics: []history.Topic{{Name: topic, Partitions: 1, Replicas: len(f.Cluster.Replicas)}},
		Meta:   map[string]string{"schedule": f.Name},
	}
}

// compare fills in what was observed, and says whether it is what was expected.
func (c *Cell) compare(want schedule.Expect) {
	c.Expected, c.ExpectedFindings = verdictText(want.Verdict, want.Because), want.Findings
	reasons := make([]string, len(c.Checked.Reasons))
	for i, r := range c.Checked.Reasons {
		reasons[i] = string(r)
	}
	c.Findings = c.Checked.Shorts()
	slices.Sort(c.Findings)
	c.Porcupine = c.Checked.Porcupine
	verdict := string(c.Checked.Verdict)
	if c.Played.Inconclusive != "" {
		verdict, reasons = string(checker.Inconclusive), []string{"unplayable"}
	}
	c.Observed = verdictText(verdict, strings.Join(reasons, ", "))
	lost := slices.ContainsFunc(c.Findings, func(f string) bool { return !strings.HasPrefix(f, string(checker.Diverged)) })
	switch {
	case c.Played.Inconclusive != "":
		c.Why = c.Played.Inconclusive
	case c.Observed != c.Expected:
		c.Why = fmt.Sprintf("expected %s, observed %s", c.Expected, c.Observed)
	case !slices.Equal(c.Findings, want.Findings):
		c.Why = fmt.Sprintf("expected findings %s, observed %s", listOr(want.Findings, "none"), listOr(c.Findings, "none"))
	case lost && c.Porcupine != checker.Illegal, !lost && c.Porcupine != checker.Ok:
		c.Why = fmt.Sprintf("porcupine says %s", c.Porcupine)
	}
	c.OK = c.Why == ""
}

func verdictText(verdict, because string) string {
	if because == "" {
		return verdict
	}
	return verdict + " because " + because
}

func listOr(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return strings.Join(words, ", ")
}

// Check judges a stored history: a file, or the folder of a run. What the run needed for a pass, as its folder says, is needed
// again unless the options say otherwise. An error is never a verdict; see checker.Check.
func Check(ctx context.Context, path string, o checker.Options) (*checker.Result, error) {
	file, err := results.FindHistory(path)
	if err != nil {
		return nil, err
	}
	if o.Enough == (checker.Enough{}) {
		if o.Enough, err = neededBy(filepath.Dir(file)); err != nil {
			return nil, err
		}
	}
	r, err := history.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	result, err := checker.Check(ctx, r, o)
	if err != nil {
		return result, fmt.Errorf("%s: %w", file, err)
	}
	return result, nil
}

// neededBy is what the run in a folder needed for a pass: nothing, if it is not the folder of a run.
func neededBy(folder string) (checker.Enough, error) {
	path := filepath.Join(folder, results.Meta)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checker.Enough{}, nil
	}
	var meta struct {
		Enough checker.Enough `json:"enough"`
	}
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		return checker.Enough{}, fmt.Errorf("%s: what the run needed for a pass: %w", path, err)
	}
	return meta.Enough, nil
}

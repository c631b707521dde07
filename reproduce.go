package tidemark

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tidemark/cluster"
	"tidemark/cluster/docker"
	"tidemark/cluster/process"
	"tidemark/nemesis/schedule"
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
	// Parallel is how many cells play at a time; 0: one a processor, but no more than four.
	Parallel int
	// Done is called after each cell, in order, if it is not nil.
	Done func(Cell)
}

// Reproduce plays every schedule in every column and compares what is found with what is expected, and the transcripts of
// repetitions with the first. An error means that the harness failed; cells that were done before it are returned too.
func Reproduce(ctx context.Context, c ReproduceConfig) (cells []Cell, err error) {
	if err := c.check(); err != nil {
		return nil, &ConfigError{err}
	}
	folder, err := results.Create(rootOr(c.Root), "reproduce")
	if err != nil {
		return nil, err
	}
	jobs, err := c.jobs(folder)
	if err != nil {
		return nil, err
	}
	group, running := errgroup.WithContext(ctx)
	todo := make(chan *job, len(jobs))
	for _, j := range jobs {
		todo <- j
	}
	close(todo)
	for i := range min(c.atATime(), len(jobs)) {
		group.Go(func() error { return c.work(running, fmt.Sprintf("%s-%d", folder.ID, i+1), todo) })
	}
	firsts := map[string]*schedule.Result{}
	for _, j := range jobs {
		cell := j.wait(running)
		if cell == nil {
			break
		}
		cell.repeats(firsts)
		cells = append(cells, *cell)
		if c.Done != nil {
			c.Done(*cell)
		}
	}
	return cells, group.Wait()
}

// job is a cell to be played.
type job struct {
	file   *schedule.File
	column Column
	folder results.Folder
	done   chan *Cell // has room for it
}

// CellError says in which cell the harness failed.
type CellError struct {
	Schedule string
	Column   Column
	On       Backend
	Err      error
}

func (e *CellError) Error() string {
	return fmt.Sprintf("%s under %s on %s: %v", e.Schedule, e.Column, e.On, e.Err)
}

// Unwrap is what failed.
func (e *CellError) Unwrap() error { return e.Err }

// wait waits for the cell; nil: the context ended before it was done.
func (j *job) wait(ctx context.Context) *Cell {
	select {
	case cell := <-j.done:
		return cell
	case <-ctx.Done():
	}
	select {
	case cell := <-j.done:
		return cell
	default:
		return nil
	}
}

// jobs lists the cells in order, each with a folder of its own.
func (c *ReproduceConfig) jobs(folder results.Folder) ([]*job, error) {
	var jobs []*job
	for i := range max(c.Repeat, 1) {
		for _, f := range c.Schedules {
			for _, column := range c.Columns {
				name := f.Name + "-" + strings.ReplaceAll(column.String(), " ", "-")
				if c.Repeat > 1 {
					name += fmt.Sprintf("-%d", i+1)
				}
				sub, err := folder.Sub(name)
				if err != nil {
					return nil, err
				}
				jobs = append(jobs, &job{f, column, sub, make(chan *Cell, 1)})
			}
		}
	}
	return jobs, nil
}

// mostAtATime bounds how many cells play at a time if nobody says: each in containers needs a network of its own, of which an
// engine has some thirty.
const mostAtATime = 4

func (c *ReproduceConfig) atATime() int {
	if c.Parallel > 0 {
		return c.Parallel
	}
	return min(runtime.GOMAXPROCS(0), mostAtATime)
}

// work plays jobs one after the other. In containers they share a pool, of the run that id names.
func (c *ReproduceConfig) work(ctx context.Context, id string, todo <-chan *job) (err error) {
	var pool *docker.Pool
	if c.On == OnDocker {
		if pool, err = docker.NewPool(ctx, id, c.Binary); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pool.Close(context.WithoutCancel(ctx))) }()
	}
	for j := range todo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cell, err := c.cell(ctx, j.file, j.column, j.folder, pool)
		if err != nil {
			return &CellError{j.file.Name, j.column, c.On, err}
		}
		j.done <- cell
	}
	return nil
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

package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"tidemark/results"
	"tidemark/results/report"
)

// CampaignOptions say where and how a campaign is run, beside what it is.
type CampaignOptions struct {
	// Root is where the folder of the campaign is made; "" is [results.Root]. Resume, if not "", is the folder of one that goes on, as the
	// shard that it is.
	Root, Resume string
	// Shard of Shards, from 1 on, runs that part of the tasks; 0 of 0 runs all.
	Shard, Shards int
	// Binary names the executable that nodes run; "": found or built.
	Binary string
	// Begun and Done are called when a run begins and when it has ended, never two at a time, if they are not nil.
	Begun func(command string)
	Done  func(results.Outcome)
}

// errStopped says that a campaign ended before all was run, because the first violation was to end it or its budget was over.
var errStopped = errors.New("the campaign is over")

// Campaign runs a campaign and writes what came of it into its folder: index.json, index.html and junit.xml. That the harness fails in a run, or
// panics, is an outcome of that run and ends nothing. The error is one of the configuration, of the folder, or the context's; what has been run
// until then is kept and can go on with Resume.
func Campaign(ctx context.Context, c *CampaignConfig, o CampaignOptions) (*results.Summary, error) {
	tasks, err := c.tasks()
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("%w: %w", ErrCampaign, err)}
	}
	k := &campaign{config: c, options: o, began: time.Now(), known: map[string]string{}, likes: map[string]*like{}}
	for _, known := range c.Known {
		k.known[known.Fingerprint] = known.Note
	}
	if o.Resume != "" {
		if k.stored, err = results.OpenCampaign(o.Resume); err != nil {
			return nil, err
		}
		if o.Shard, o.Shards, err = k.stored.ShardOf(); err != nil {
			return nil, err
		}
	}
	if o.Shards != 0 {
		if o.Shard < 1 || o.Shard > o.Shards {
			return nil, &ConfigError{fmt.Errorf("shard %d/%d: want 1/%d to %d/%d", o.Shard, o.Shards, o.Shards, o.Shards, o.Shards)}
		}
		// Every shard has the controls: a green has to mean something on each machine.
		tasks = slices.DeleteFunc(tasks, func(t *task) bool { return !t.control && t.shard(o.Shards) != o.Shard })
	}
	if k.stored == nil {
		if k.stored, err = newCampaign(c, o, len(tasks)); err != nil {
			return nil, err
		}
	}
	done, err := k.stored.Outcomes()
	if err != nil {
		return nil, err
	}
	k.ended = len(done)
	ran := map[string]bool{}
	for _, d := range done {
		ran[d.Task] = true
	}
	tasks = slices.DeleteFunc(tasks, func(t *task) bool { return ran[t.id] })
	err = k.all(ctx, tasks)
	summary, failed := SummarizeCampaign(k.stored)
	return summary, errors.Join(err, failed)
}

// SummarizeCampaign makes the index of a campaign as far as it was run, with its power, and writes it into its folder with the page and the JUnit file.
func SummarizeCampaign(c *results.Campaign) (*results.Summary, error) {
	s, err := c.Summarize()
	if err != nil {
		return nil, err
	}
	if s.Power, err = power(s); err != nil {
		return s, err
	}
	return s, writeCampaign(s)
}

func newCampaign(c *CampaignConfig, o CampaignOptions, tasks int) (*results.Campaign, error) {
	begun := results.Campaign{Name: c.Name, Began: time.Now(), Tasks: tasks, Minimum: c.Minimum, Config: c.String()}
	if o.Shards > 0 {
		begun.Shard = fmt.Sprintf("%d/%d", o.Shard, o.Shards)
	}
	return results.NewCampaign(rootOr(o.Root), begun)
}

func writeCampaign(s *results.Summary) error {
	folder := results.Folder{ID: s.ID, Path: s.Path()}
	errs := []error{folder.WriteJSON(results.Index, s)}
	for name, write := range map[string]func(*os.File) error{
		"index.html": func(f *os.File) error { return report.Page(f, s) },
		"junit.xml":  func(f *os.File) error { return report.JUnit(f, s) },
	} {
		f, err := os.Create(filepath.Join(s.Path(), name))
		if err == nil {
			err = errors.Join(write(f), f.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// campaign is a campaign while it runs.
type campaign struct {
	config  *CampaignConfig
	options CampaignOptions
	stored  *results.Campaign
	known   map[string]string
	began   time.Time

	mu    sync.Mutex
	ended int              // and begun
	likes map[string]*like // by rules
}

// all runs tasks, several at a time, until they are done or something ends the campaign.
func (k *campaign) all(ctx context.Context, tasks []*task) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if k.config.Time > 0 {
		var cancel context.CancelFunc
		running, cancel = context.WithDeadlineCause(running, k.began.Add(k.config.Time), errStopped)
		defer cancel()
	}
	todo := make(chan *task, len(tasks))
	for _, t := range tasks {
		todo <- t
	}
	close(todo)
	parallel := k.config.Parallel
	if parallel == 0 {
		parallel = min(runtime.GOMAXPROCS(0), mostAtATime)
	}
	var wg sync.WaitGroup
	for range min(parallel, len(tasks)) {
		wg.Go(func() {
			for t := range todo {
				if running.Err() != nil || !k.begin(t) {
					return
				}
				if err := k.one(running, t); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := context.Cause(running); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// begin says whether the budget of runs has room for a task.
func (k *campaign) begin(t *task) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config.Runs > 0 && k.ended >= k.config.Runs {
		return false
	}
	k.ended++
	if k.options.Begun != nil {
		k.options.Begun(t.command)
	}
	return true
}

// one runs a task and keeps its outcome. The error ends the campaign.
func (k *campaign) one(ctx context.Context, t *task) error {
	o := k.do(ctx, t)
	if ctx.Err() != nil && o.Status != results.Violation {
		return nil // broken off: it is as if it had not begun
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.stored.Append(o); err != nil {
		return err
	}
	if k.options.Done != nil {
		k.options.Done(o)
	}
	if k.config.StopOnFirst && o.Status == results.Violation && !o.Control && o.Known == "" {
		return errStopped
	}
	return nil
}

// do runs a task, whatever happens in it.
func (k *campaign) do(ctx context.Context, t *task) (o results.Outcome) {
	o = results.Outcome{Task: t.id, Command: t.command, Cell: t.cell, Seed: t.seed, Control: t.control, Began: time.Now(), Events: map[string]int64{}}
	defer func() {
		if p := recover(); p != nil {
			o.Status, o.Error = results.Failed, fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
		o.Seconds = time.Since(o.Began).Seconds()
		if o.Fingerprint == "" {
			o.Fingerprint = fingerprint(&o)
		}
		o.Known = k.known[o.Fingerprint]
	}()
	var err error
	switch w := t.work; {
	case w.reproduce != nil:
		err = k.reproduce(ctx, *w.reproduce, &o)
	case w.explore != nil:
		err = k.explore(ctx, *w.explore, &o)
	case w.run != nil:
		err = k.run(ctx, *w.run, &o)
	case w.zoo != nil:
		var rows []Detection
		if rows, err = Zoo(ctx, *w.zoo); err == nil {
			k.zoo(&rows[0], &o)
		}
	}
	if err != nil {
		failed(&o, err)
	}
	return o
}

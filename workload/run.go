package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/checker/history"
)

// ErrNotReady is wrapped by the error about a cluster that does not know the workload's topics.
var ErrNotReady = errors.New("cluster is not ready for the workload")

// readyTimeout is how long a cluster may take until some broker knows every partition.
const readyTimeout = 10 * time.Second

// Run asks a cluster and records what is asked and answered in sink, until the configuration's time is over or ctx ends; both are
// ordinary ends. When ctx ends, operations that run are broken off: their outcomes are unknown.
//
// A produce is answered for certain with an error if its code is one that Kafka gives only before it appends, or if the answer's
// error message (Produce v8) begins with "refused before append", which Tidemark's own broker writes where the code leaves it open.
//
// An error is one of the configuration, one of the sink, or that the cluster did not get ready; that operations fail, even all of
// them, is none. What was recorded until then is whole. The stats are never nil.
func Run(ctx context.Context, c Config, d Dialer, sink history.Sink) (*Stats, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return c.Stats, err
	}
	r := newRoutes(d, c.partitions(), c.Stats)
	if err := ready(ctx, &c, r); err != nil {
		return c.Stats, err
	}
	group, running := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range c.Clients {
		w := newWorker(running, &c, r, sink, i, start)
		group.Go(w.run)
	}
	return c.Stats, watched(c.Stats, start, group.Wait)
}

// watched ends a second of the stats every second until wait returns, and then the rest of the last one.
func watched(s *Stats, start time.Time, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			s.tick(time.Since(start).Truncate(time.Second))
		case err := <-done:
			s.tick(time.Since(start))
			return err
		}
	}
}

// ready waits until every partition is known and has a leader. In the end it makes do with partitions that have none, since that
// is for the run to show.
func ready(ctx context.Context, c *Config, r *routes) error {
	waiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	cl := newClient(waiting, c, r)
	cl.become(c.FirstProcess)
	defer cl.close()
	for wait := (pause{}); ; {
		last := r.refresh(cl, r.now.Load())
		missing, leaderless := r.missing()
		if last == nil && len(missing)+leaderless == 0 {
			return nil
		}
		wait.longer(waiting)
		switch {
		case waiting.Err() == nil:
			continue
		case ctx.Err() != nil || len(missing) == 0:
			return nil // the run ends before it begins, or goes without leaders
		case last == nil || errors.Is(last, waiting.Err()):
			last = fmt.Errorf("no broker knows %s", strings.Join(missing, ", "))
		}
		return fmt.Errorf("%w: %w (after %s)", ErrNotReady, last, readyTimeout)
	}
}

// worker is one client at work.
type worker struct {
	Actor
	client *client
}

func newWorker(ctx context.Context, c *Config, r *routes, sink history.Sink, i int, start time.Time) *worker {
	w := &worker{Actor: newActor(c, r, sink, i, start), client: newClient(ctx, c, r)}
	w.client.become(w.record.process)
	return w
}

// become goes on as another process.
func (w *worker) become() {
	w.Actor.become()
	w.client.become(w.record.process)
}

func (w *worker) run() error {
	defer w.client.close()
	for w.pace.wait(w.client.ctx, w.until) {
		op := w.generator.Next()
		if err := w.attempt(&op); err != nil {
			return err
		}
	}
	return nil
}

// attempt makes one attempt of one operation, and writes it down.
func (w *worker) attempt(op *Operation) error {
	seen := w.routes.now.Load()
	node, err := w.begin(op)
	if err != nil {
		return err
	}
	start := time.Now()
	a, stale := w.client.do(op, node)
	then, err := w.end(a, stale, time.Since(start))
	if err != nil {
		return err
	}
	w.client.become(w.record.process)
	if then.Refresh {
		_ = w.routes.refresh(w.client, seen) // if nobody can tell, the next attempt shows it
	}
	if then.Pause {
		w.pause.longer(w.client.ctx)
	}
	return nil
}

package workload

import (
	"context"
	"time"
)

// pace spreads the operations of one client evenly over time. What a slow operation delayed is not made up for: the rate is a
// bound.
type pace struct {
	every time.Duration // 0: no bound
	next  time.Time
}

// newPace is that of client i: clients take turns.
func newPace(c *Config, start time.Time, i int) pace {
	if c.Rate == 0 {
		return pace{}
	}
	every := time.Duration(float64(c.Clients) / c.Rate * float64(time.Second))
	return pace{every: every, next: start.Add(every / time.Duration(c.Clients) * time.Duration(i))}
}

// due is when the next operation is to be begun, at once if that is in the past: no later than until, if there is one.
func (p *pace) due(until time.Time) time.Time {
	if p.every > 0 && !until.IsZero() && p.next.After(until) {
		p.next = until
	}
	return p.next
}

// begin takes note that it is due, and says whether there is one more operation.
func (p *pace) begin(now, until time.Time) bool {
	if p.every > 0 {
		if p.next.Before(now.Add(-p.every)) {
			p.next = now
		}
		p.next = p.next.Add(p.every)
	}
	return until.IsZero() || now.Before(until)
}

// wait returns true when it is time for the next operation, and false when there will be none: ctx has ended, or it is until.
func (p *pace) wait(ctx context.Context, until time.Time) bool {
	return sleep(ctx, time.Until(p.due(until))) && p.begin(time.Now(), until)
}

// The pauses after operations that came to nothing: without them, clients of a partition that nobody leads would write thousands of
// failures a second into the history, or retire as many processes.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// pause grows from one failure to the next.
type pause struct{ last time.Duration }

func (p *pause) reset() { p.last = 0 }

// next is how long to wait now: twice as long as the last time.
func (p *pause) next() time.Duration {
	p.last = min(max(2*p.last, firstPause), lastPause)
	return p.last
}

// longer waits for that.
func (p *pause) longer(ctx context.Context) { sleep(ctx, p.next()) }

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// roleWithin is how long a step waits for somebody to have the role that it names.
const roleWithin = 3 * time.Second

// Until is the time up to which a step waits for what it names.
func (s Step) Until() time.Duration {
	switch {
	case s.When != nil:
		return s.At + s.When.Within
	case len(s.Roles) > 0:
		return s.At + roleWithin
	}
	return s.At
}

// Ready says whether the state that a step waits for holds now, and somebody has each role that it names: for whoever plays steps by
// another clock.
func (n *Player) Ready(s Step) bool {
	if s.When != nil {
		if _, holds := n.Watch.holds(*s.When); !holds {
			return false
		}
	}
	return !slices.ContainsFunc(s.Roles, func(r Role) bool { return len(n.whoIs(s, r)) == 0 })
}

// waiting is a step whose time has come and that waits for a state, or for somebody to have a role.
type waiting struct {
	step  Step
	until time.Duration
	armed *armed // nil: the state was seen, or none is waited for
	seen  string
}

// Run plays a plan by the clock on the wall. It returns when the last step is done or given up, or the context ends, or the
// harness cannot do what the plan says; what goes on then is ended and recorded. If it panics the cluster is healed first.
func (n *Player) Run(ctx context.Context, p Plan) (err error) {
	if p.Watches() && n.Watch == nil {
		return fmt.Errorf("%w: it names roles or states, and nobody tells what the nodes report", ErrPlan)
	}
	var all []*waiting
	whole := false
	defer func() {
		for _, w := range all {
			if w.armed != nil {
				n.Watch.disarm(w.armed)
			}
		}
		if !whole {
			// A panic: whoever opened the cluster may not come to heal it.
			_ = n.Close(context.WithoutCancel(ctx))
			_ = Heal(context.WithoutCancel(ctx), n.cluster)
		}
	}()
	all, err = n.run(ctx, p)
	err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	whole = true
	return err
}

func (n *Player) run(ctx context.Context, p Plan) (all []*waiting, err error) {
	began := time.Now()
	for {
		// What waits comes first: between steps that are late too.
		if all, err = n.look(ctx, all, time.Since(began)); err != nil {
			return all, err
		}
		switch {
		case len(p) > 0 && p[0].At <= time.Since(began):
			all, err = n.due(ctx, p[0], all)
			p = p[1:]
		case len(p) == 0 && len(all) == 0:
			return nil, nil
		default:
			err = n.wait(ctx, p, all, began)
		}
		if err != nil {
			return all, err
		}
	}
}

// due does a step whose time has come, or has it wait.
func (n *Player) due(ctx context.Context, s Step, all []*waiting) ([]*waiting, error) {
	// Who ends a fault that still waits gives it up.
	for _, name := range s.Names {
		if i := slices.IndexFunc(all, func(w *waiting) bool { return w.step.As == name }); i >= 0 {
			if err := n.giveUp(all[i]); err != nil {
				return all, err
			}
			all = slices.Delete(all, i, i+1)
		}
	}
	if s.When != nil {
		return append(all, &waiting{step: s, until: s.Until(), armed: n.Watch.arm(*s.When)}), nil
	}
	resolved, ok := n.resolve(s)
	switch {
	case ok:
		return all, n.step(ctx, s, resolved, "")
	case len(s.Roles) > 0:
		return append(all, &waiting{step: s, until: s.Until()}), nil
	}
	return all, n.missed(s, vacant)
}

// look does the steps that need not wait any longer, and gives up those that waited long enough.
func (n *Player) look(ctx context.Context, all []*waiting, now time.Duration) ([]*waiting, error) {
	for i := 0; i < len(all); {
		w := all[i]
		if w.armed != nil {
			select {
			case w.seen = <-w.armed.seen:
				w.armed = nil
			default:
			}
		}
		var err error
		if resolved, ok := n.ready(w); ok {
			resolved.At = max(resolved.At, now.Truncate(time.Millisecond))
			err = n.step(ctx, w.step, resolved, w.seen)
		} else if now < w.until {
			i++
			continue
		} else {
			err = n.giveUp(w)
		}
		all = slices.Delete(all, i, i+1)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (n *Player) ready(w *waiting) (Step, bool) {
	if w.armed != nil {
		return Step{}, false
	}
	return n.resolve(w.step)
}

// giveUp records a step that waited in vain.
func (n *Player) giveUp(w *waiting) error {
	if w.armed == nil {
		return n.missed(w.step, vacant)
	}
	n.Watch.disarm(w.armed)
	w.armed = nil
	return n.missed(w.step, fmt.Sprintf("the state was not seen within %s", w.step.When.Within))
}

// wait returns when something may be due.
func (n *Player) wait(ctx context.Context, p Plan, all []*waiting, began time.Time) error {
	next := time.Duration(-1)
	if len(p) > 0 {
		next = p[0].At
	}
	var changed <-chan struct{}
	for _, w := range all {
		changed = n.Watch.changed
		if next < 0 || w.until < next {
			next = w.until
		}
	}
	timer := time.NewTimer(time.Until(began.Add(next)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

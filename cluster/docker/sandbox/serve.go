package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The two things that a sandbox can be asked.
const (
	opReplace = "replace" // put these rules in force instead of all others
	opCount   = "count"   // say what the rules in force have dropped
)

type request struct {
	ID    uint64 `json:"id"`
	Op    string `json:"op"`
	Rules []Rule `json:"rules,omitempty"`
}

type answer struct {
	ID       uint64    `json:"id"`
	Counters []Counter `json:"counters,omitempty"` // in the order in which the rules were given
	Error    string    `json:"error,omitempty"`
}

// filter is the part that does it: nftables, or a stand-in.
type filter interface {
	// replace puts the rules in force instead of all others in one step and returns what those had dropped.
	replace(rules []Rule) ([]Counter, error)
	// count returns what the rules in force have dropped.
	count() ([]Counter, error)
}

// Serve is what runs in a sandbox: it answers requests of a [Client] from in to out until in ends or ctx does, which
// returns nil. The rules stay in force after it, as long as the network namespace lives. A request that cannot be
// carried out is answered with the reason; only a broken stream ends Serve with an error.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return serve(ctx, newFilter(), in, out)
}

// ServeGuest is [Serve] in a network namespace that lives on without the sandbox, because it is somebody else's: when it ends, the
// rules are taken away.
func ServeGuest(ctx context.Context, in io.Reader, out io.Writer) error {
	return serveGuest(ctx, newFilter(), in, out)
}

func serveGuest(ctx context.Context, f filter, in io.Reader, out io.Writer) error {
	err := serve(ctx, f, in, out)
	if _, healed := f.replace(nil); healed != nil {
		err = errors.Join(err, fmt.Errorf("sandbox: take the rules away: %w", healed))
	}
	return err
}

func serve(ctx context.Context, f filter, in io.Reader, out io.Writer) error {
	requests := make(chan request)
	broken := make(chan error, 1)
	go func() { // reads ahead of ctx; stays behind in a read when ctx ends first, and the process ends then
		d := json.NewDecoder(in)
		for {
			var r request
			if err := d.Decode(&r); err != nil {
				broken <- err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	encoder := json.NewEncoder(out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("sandbox: read a request: %w", err)
		case r := <-requests:
			if err := encoder.Encode(handle(f, r)); err != nil {
				return fmt.Errorf("sandbox: answer request %d: %w", r.ID, err)
			}
		}
	}
}

func handle(f filter, r request) answer {
	a := answer{ID: r.ID}
	var err error
	switch r.Op {
	case opReplace:
		for _, rule := range r.Rules {
			if err = rule.validate(); err != nil {
				break
			}
		}
		if err == nil {
			a.Counters, err = f.replace(r.Rules)
		}
	case opCount:
		a.Counters, err = f.count()
	default:
		err = fmt.Errorf("operation %q is neither %s nor %s", r.Op, opReplace, opCount)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

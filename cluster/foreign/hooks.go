package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tidemark/checker/history"
	"tidemark/cluster"
)

// Hooks are shell commands that do to a broker what the harness cannot. An empty one is not there.
type Hooks struct {
	Kill, Start     string
	Pause, Resume   string
	Partition, Heal string
	CheckKill       string
	CheckPause      string
	CheckPartition  string
	Timeout         time.Duration // of one command; 0: 30 s
}

const hookTimeout = 30 * time.Second

// check says which hook lacks its counterpart.
func (h Hooks) check() error {
	for _, pair := range []struct{ name, command, needs, other, why string }{
		{"on-kill", h.Kill, "on-start", h.Start, "what is killed has to come back"},
		{"on-start", h.Start, "on-kill", h.Kill, "nothing else brings a broker down"},
		{"on-pause", h.Pause, "on-resume", h.Resume, "what is frozen has to go on"},
		{"on-resume", h.Resume, "on-pause", h.Pause, "nothing else freezes a broker"},
		{"on-partition", h.Partition, "on-heal", h.Heal, "what is cut off has to come back"},
		{"on-partition", h.Partition, "check-partition", h.CheckPartition, "clients cannot see whether brokers are cut off from each other"},
		{"on-heal", h.Heal, "on-partition", h.Partition, "nothing else cuts a broker off"},
		{"check-kill", h.CheckKill, "on-kill", h.Kill, "it is the evidence of that"},
		{"check-pause", h.CheckPause, "on-pause", h.Pause, "it is the evidence of that"},
		{"check-partition", h.CheckPartition, "on-partition", h.Partition, "it is the evidence of that"},
	} {
		if pair.command != "" && pair.other == "" {
			return fmt.Errorf("%w: --%s %q needs --%s: %s", ErrConfig, pair.name, pair.command, pair.needs, pair.why)
		}
	}
	if h.Timeout < 0 {
		return fmt.Errorf("%w: --hook-timeout %s: want more than nothing", ErrConfig, h.Timeout)
	}
	return nil
}

// hooks plays faults by commands.
type hooks struct {
	Hooks
	k *Cluster

	mu       sync.Mutex
	isolated map[int32]bool
	measured []history.Measurement // of those that are cut off
	unproven bool
}

// result is how a command ended.
type result struct {
	code   int
	output string
}

// first is the first line that was printed, for an error or a measurement.
func (r result) first() string {
	line, _, _ := strings.Cut(strings.TrimSpace(r.output), "\n")
	const most = 200
	if len(line) > most {
		line = line[:most] + "..."
	}
	return strings.ToValidUTF8(strings.TrimSpace(line), "?")
}

// run runs a command with the broker's names in it and keeps what it printed. The error says that it did not come to an end.
func (h *hooks) run(ctx context.Context, name, command string, b broker) (result, error) {
	var hosts []string
	for _, p := range h.k.peers(b.id) {
		hosts = append(hosts, p.host)
	}
	command = strings.NewReplacer("{host}", b.host, "{port}", strconv.Itoa(int(b.port)), "{id}", strconv.Itoa(int(b.id)),
		"{peers}", strings.Join(hosts, " ")).Replace(command)
	limit := h.Timeout
	if limit == 0 {
		limit = hookTimeout
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// A file and no pipe: a broker that a hook starts may go on printing when the hook is over, and nobody waits for it then.
	out, err := os.CreateTemp("", "tidemark-hook-*")
	if err != nil {
		return result{}, err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }()
	cmd := exec.CommandContext(limited, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the harness, which heals
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	err = cmd.Run()
	text, failed := os.ReadFile(out.Name())
	r := result{output: string(text)}
	how := ""
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		how = fmt.Sprintf("it took longer than %s", limit)
		err = fmt.Errorf("%s %d: %q: %s: %s", name, b.id, command, how, r.first())
	case ctx.Err() != nil:
		how, err = "it was broken off", ctx.Err()
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
		how, err = exit.String(), nil
		if r.code < 0 {
			r.code = 128 // ended by a signal
		}
	case err != nil:
		how = err.Error()
		err = fmt.Errorf("%s %d: %q: %w", name, b.id, command, err)
	default:
		how, err = "exit status 0", failed
	}
	h.k.mu.Lock()
	fmt.Fprintf(h.k.output, "%s %s %d: %s\n%s, after %.3f s\n%s\n", began.Format(time.RFC3339Nano), name, b.id, command, how, time.Since(began).Seconds(),
		strings.TrimRight(r.output, "\n"))
	h.k.mu.Unlock()
	return r, err
}

// must runs a command whose failure is the run's.
func (h *hooks) must(ctx context.Context, name, command string, b broker) error {
	r, err := h.run(ctx, name, command, b)
	if err == nil && r.code != 0 {
		err = fmt.Errorf("%s %d: %q: exit code %d: %s", name, b.id, command, r.code, r.first())
	}
	return err
}

// shown has a check tried until it says that the fault took effect.
func (h *hooks) shown(ctx context.Context, name, command string, b broker) (cluster.Evidence, error) {
	var last result
	var broken error
	err := cluster.WaitFor(ctx, shownWithin, func(context.Context) error {
		if last, broken = h.run(ctx, name, command, b); broken == nil && last.code != 0 {
			return fmt.Errorf("exit code %d", last.code)
		}
		return nil // shown, or it will not be by trying again
	})
	if broken != nil {
		return cluster.Evidence{}, broken
	}
	value := last.first()
	if err != nil {
		value = strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", last.code, value), ": ")
	}
	if value == "" {
		value = "exit code 0"
	}
	e := cluster.Measured(name, value)
	e.Proven = err == nil
	return e, nil
}

func (h *hooks) kill(ctx context.Context, b broker) (cluster.Evidence, error) {
	if err := h.must(ctx, "on-kill", h.Kill, b); err != nil {
		return cluster.Evidence{}, err
	}
	if h.CheckKill != "" {
		return h.shown(ctx, "check-kill", h.CheckKill, b)
	}
	return h.k.isDown(ctx, b), nil
}

func (h *hooks) start(ctx context.Context, b broker) error {
	return h.must(ctx, "on-start", h.Start, b)
}

func (h *hooks) pause(ctx context.Context, b broker) (cluster.Evidence, error) {
	if err := h.must(ctx, "on-pause", h.Pause, b); err != nil {
		return cluster.Evidence{}, err
	}
	if h.CheckPause != "" {
		return h.shown(ctx, "check-pause", h.CheckPause, b)
	}
	return h.k.isFrozen(ctx, b), nil
}

func (h *hooks) resume(ctx context.Context, b broker) error {
	return h.must(ctx, "on-resume", h.Resume, b)
}

func (h *hooks) anyShape() bool { return false }

// links cuts brokers off from all others, and lets the others back. The evidence is of those that were cut off until now.
func (h *hooks) links(ctx context.Context, cut []cluster.Link) (cluster.Evidence, error) {
	alone, err := isolated(h.k.ids, cut)
	if err != nil {
		return cluster.Evidence{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := cluster.Evidence{Measured: h.measured, Proven: !h.unproven}
	h.measured, h.unproven = nil, false
	var errs []error
	for _, id := range h.k.ids {
		b, err := h.k.broker(id)
		switch {
		case err != nil:
		case h.isolated[id] && !slices.Contains(alone, id):
			if err = h.must(ctx, "on-heal", h.Heal, b); err == nil {
				delete(h.isolated, id)
			}
		case !h.isolated[id] && slices.Contains(alone, id):
			h.isolated[id] = true
			err = h.must(ctx, "on-partition", h.Partition, b)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return before, err
	}
	for _, id := range alone {
		b, _ := h.k.broker(id)
		e, err := h.shown(ctx, "check-partition", h.CheckPartition, b)
		if err != nil {
			return before, err
		}
		h.measured = append(h.measured, e.Measured...)
		h.unproven = h.unproven || !e.Proven
	}
	return before, nil
}

// isolated are the brokers that links cut off from all others, both ways; links with clients and the controller do not matter.
func isolated(ids []int32, cut []cluster.Link) ([]int32, error) {
	lost := func(from, to int32) bool {
		return slices.Contains(cut, cluster.Link{From: cluster.NodeID(from), To: cluster.NodeID(to)})
	}
	var alone []int32
	for _, n := range ids {
		if len(ids) > 1 && !slices.ContainsFunc(ids, func(m int32) bool { return m != n && !(lost(n, m) && lost(m, n)) }) {
			alone = append(alone, n)
		}
	}
	for _, l := range cut {
		from, to := int32(l.From), int32(l.To)
		if slices.Contains(ids, from) && slices.Contains(ids, to) && !slices.Contains(alone, from) && !slices.Contains(alone, to) {
			return nil, fmt.Errorf("cut %d->%d: %w: a hook cuts a broker off from all others, both ways", from, to, cluster.ErrUnsupported)
		}
	}
	return alone, nil
}

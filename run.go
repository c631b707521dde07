package tidemark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/sim/virtual"
	"tidemark/nemesis"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
	"tidemark/workload"
)

// RunConfig says what a run is: a cluster, a workload and faults. The zero value of a field is the default named with it.
type RunConfig struct {
	On       Backend        // "": process
	Brokers  int            // 0: 3
	Topics   []string       // as node.ParseTopic reads them; none: orders:1:3, with fewer replicas if there are fewer brokers
	Protocol rules.Protocol // "": kip320
	// Without and Rules change the protocol's rules, as rules.Parse takes them.
	Without, Rules []string
	// Settings of the nodes by Kafka's names, "min.insync.replicas=2".
	Settings []string

	Time    time.Duration // of workload and faults; 0: 30 s
	Clients int           // 0: 10
	Rate    float64       // operations a second of all clients together; 0: as many as they get answered
	Acks    string        // "": all
	Seed    uint64        // decides what clients ask for and which faults come when

	// Faults are drawn from the seed. Plan, if not nil, is played in their place.
	Faults []nemesis.Fault
	Plan   nemesis.Plan

	// Direct lets connections run without links between, on processes: faster, and without partitions.
	Direct bool
	// NoJournal lets nodes write no journals: a run then costs a little less, and cannot be replayed.
	NoJournal bool
	// Network is how messages travel in a simulation; the zero value is virtual.DefaultNetwork.
	Network virtual.Network

	// Foreign is a cluster that is there, in place of one that the run starts; nil: the run starts one.
	Foreign *Foreign

	// Enough is what must have happened for a pass; what is zero gets a default that fits the run ([RunConfig.enough]).
	Enough checker.Enough
	Root   string // "": results.Root
	Binary string // executable that nodes run; "": found or built
	// Progress is called about once a second while the run goes on, if it is not nil.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Doing   string        // what the run is doing
	Elapsed time.Duration // since the workload began
	Totals  workload.Totals
	Fault   string // the last step of the plan of faults, "" before the first
}

// RunResult is what a run came to.
type RunResult struct {
	ID     string
	Folder string
	Seed   uint64
	// Plan is what was planned, Played what was done: with nodes and links in place of roles, names and shapes.
	Plan, Played nemesis.Plan
	Checked      *checker.Result
	Workload     workload.Totals
	// Latency is that of produces in the second in which its 99th percentile was worst.
	Latency workload.Latency
	Lasted  time.Duration // of the workload
	// Trace is a hash over everything that happened in a simulation, event by event; 0 on other backends.
	Trace uint64
	// NotKnown says what the verdict could not take into account, of a cluster that the run did not start.
	NotKnown []string
}

// Limits of a run's phases. They are long, because what takes so long is broken; nothing waits for them when all is well.
const (
	createdWithin = 30 * time.Second
	closedWithin  = 30 * time.Second
)

var settledWithin = 60 * time.Second // shorter in a test

// withDefaults fills in what is zero and says what is wrong.
func (c RunConfig) withDefaults() (RunConfig, cluster.Config, error) {
	var k cluster.Config
	if c.On == "" {
		c.On = OnProcess
	}
	if c.Brokers == 0 {
		c.Brokers = 3
	}
	if c.Brokers < 1 || c.Brokers > 100 {
		return c, k, fmt.Errorf("brokers: %d: want 1 to 100", c.Brokers)
	}
	if len(c.Topics) == 0 {
		c.Topics = []string{fmt.Sprintf("orders:1:%d", min(3, c.Brokers))}
	}
	if c.Protocol == "" {
		c.Protocol = rules.KIP320
	}
	if c.Time == 0 {
		c.Time = 30 * time.Second
	}
	if c.Clients == 0 {
		c.Clients = 10
	}
	if c.Acks == "" {
		c.Acks = "all"
	}
	var err error
	if k.Rules, err = rules.Parse(c.Protocol, c.Without, c.Rules); err != nil {
		return c, k, err
	}
	for i := range c.Brokers {
		k.Brokers = append(k.Brokers, control.NodeID(i+1))
	}
	smallest := c.Brokers
	for _, word := range c.Topics {
		t, err := node.ParseTopic(word, k.Brokers)
		if err != nil {
			return c, k, err
		}
		if slices.ContainsFunc(k.Topics, func(o node.Topic) bool { return o.Name == t.Name }) {
			return c, k, fmt.Errorf("topic %q: %s is given twice", word, t.Name)
		}
		for _, replicas := range t.Partitions {
			smallest = min(smallest, len(replicas))
			for _, id := range replicas {
				if !slices.Contains(k.Brokers, id) {
					return c, k, fmt.Errorf("topic %q: there is no broker %d", word, id)
				}
			}
		}
		k.Topics = append(k.Topics, t)
	}
	k.Settings = node.Defaults()
	k.Settings.MinISR = min(k.Settings.MinISR, smallest)
	for _, word := range c.Settings {
		if err := k.Settings.Set(word); err != nil {
			return c, k, err
		}
	}
	if k.Settings.MinISR > smallest {
		return c, k, fmt.Errorf("min.insync.replicas=%d: a partition has only %d replicas; nothing could be acknowledged", k.Settings.MinISR, smallest)
	}
	switch {
	case c.On != OnSim && c.Network != (virtual.Network{}):
		return c, k, fmt.Errorf("network: backend %s has a real one; only sim is told how messages travel", c.On)
	case c.On == OnSim && c.Direct:
		return c, k, fmt.Errorf("direct: a simulation has no connections; leave it out, it is fast as it is")
	case c.On == OnSim && c.Binary != "":
		return c, k, fmt.Errorf("binary %s: a simulation runs in this process; leave it out", c.Binary)
	case c.On == OnSim:
		if err := networkOr(c.Network).Check(); err != nil {
			return c, k, err
		}
	}
	if err := c.planFaults(k); err != nil {
		return c, k, err
	}
	k.Binary, k.Direct, k.NoJournal = c.Binary, c.Direct, c.NoJournal
	return c, k, nil
}

// enough is what must have happened in a run: something of everything that was asked for.
func (c *RunConfig) enough() checker.Enough {
	e := c.Enough
	if e.Acked == 0 {
		e.Acked = 20
	}
	if e.Reads == 0 {
		e.Reads = 20
	}
	if e.Faults == 0 {
		e.Faults = plannedFaults(c.Plan)
	}
	return e
}

// Run makes one run from the start of the cluster to the verdict. An error means that the harness failed, or that the context
// ended; the history as far as it goes is in the folder that the result names.
func Run(ctx context.Context, c RunConfig) (*RunResult, error) {
	if c.Foreign != nil {
		return runForeign(ctx, c)
	}
	c, k, err := c.withDefaults()
	if err != nil {
		return nil, &ConfigError{err}
	}
	folder, err := results.Create(rootOr(c.Root), "run")
	if err != nil {
		return nil, err
	}
	r := &run{config: c, folder: folder, stats: &workload.Stats{}, nodes: nemesis.NewWatch()}
	result := &RunResult{ID: folder.ID, Folder: folder.Path, Seed: c.Seed, Plan: c.Plan}
	k.Run, k.Dir = folder.ID, folder.File(results.Nodes)
	if err := r.describe(k); err != nil {
		return result, err
	}
	err = r.record(ctx, k)
	result.Played = r.played
	result.Workload, result.Latency, result.Lasted, result.Trace = r.stats.Totals(), r.latency(), r.lasted, r.trace
	if err != nil {
		return result, err
	}
	r.tell("checking")
	result.Checked, err = Check(ctx, folder.Path, checker.Options{Enough: c.enough()})
	if result.Checked != nil {
		err = errors.Join(err, folder.WriteJSON(results.Result, result.Checked))
	}
	return result, err
}

// ConfigError is an error about a configuration: the caller's to mend.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap is the error behind it.
func (e *ConfigError) Unwrap() error { return e.Err }

// run is a run while it goes on.
type run struct {
	config  RunConfig
	folder  results.Folder
	stats   *workload.Stats
	cluster theatre
	nodes   *nemesis.Watch
	played  nemesis.Plan
	lasted  time.Duration
	trace   uint64

	mu      sync.Mutex
	elapsed func() time.Duration // since the workload began; nil before
	fault   string
}

// describe keeps what the run is before it begins.
func (r *run) describe(k cluster.Config) error {
	c := r.config
	var topics []string
	for _, t := range k.Topics {
		topics = append(topics, t.String())
	}
	meta := map[string]any{"id": r.folder.ID, "backend": c.On, "protocol": c.Protocol, "rules": k.Rules.Settings(), "brokers": c.Brokers,
		"topics": topics, "settings": k.Settings.Words(), "time": c.Time.String(), "clients": c.Clients, "rate": c.Rate, "acks": c.Acks, "seed": c.Seed,
		"plan": strings.Split(strings.TrimSpace(c.Plan.String()), "\n"), "enough": c.enough()}
	if c.On == OnSim {
		meta["network"] = networkOr(c.Network)
	}
	return errors.Join(r.folder.WriteJSON(results.Meta, meta), r.folder.WriteText(results.Schedule, c.Plan.String()))
}

func (r *run) header(k cluster.Config) history.Header {
	c := r.config
	h := history.Header{
		Contract: history.Contract{Acks: c.Acks, MinISR: k.Settings.MinISR, Unclean: k.Settings.Unclean, Protocol: string(c.Protocol)},
		Meta:     map[string]string{"run": r.folder.ID, "seed": fmt.Sprint(c.Seed), "backend": string(c.On)},
	}
	if c.On == OnSim {
		delete(h.Meta, "run") // the history is that of the seed, whichever run it stands for
	}
	for _, t := range k.Topics {
		h.Topics = append(h.Topics, history.Topic{Name: t.Name, Partitions: len(t.Partitions), Replicas: len(t.Partitions[0])})
	}
	return h
}

// record runs everything up to the end of the history.
func (r *run) record(ctx context.Context, k cluster.Config) (err error) {
	clock, open := history.Since(time.Now()), openReal
	if r.config.On == OnSim {
		clock, open = simulate()
	}
	sink, err := history.Create(r.folder.File(results.History), r.header(k), clock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	r.tell("starting the cluster")
	if r.cluster, err = open(ctx, r.config, k, sink, r.nodes); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closedWithin)
		defer cancel()
		err = errors.Join(err, r.cluster.Close(ctx))
	}()
	if err := r.cluster.waitFor(ctx, createdWithin, r.created); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the cluster did not come up in %s: %w", createdWithin, err)
	}
	if err := r.cluster.disturb(ctx, r, r.workload(k), sink); err != nil {
		return err
	}
	if err := r.end(ctx, k, sink); err != nil {
		return err
	}
	if s, ok := r.cluster.(simulated); ok {
		r.trace = s.Trace()
	}
	return nil
}

func (r *run) workload(k cluster.Config) workload.Config {
	c := r.config
	return workload.Config{Clients: c.Clients, Rate: c.Rate, Time: c.Time, Acks: c.Acks, Seed: c.Seed, Stats: r.stats, Topics: r.header(k).Topics}
}

func (r *run) latency() workload.Latency {
	var most workload.Latency
	for _, s := range r.stats.Seconds() {
		if s.Produce.P99 > most.P99 {
			most = s.Produce
		}
	}
	return most
}

// tell reports progress.
func (r *run) tell(doing string) {
	if r.config.Progress == nil {
		return
	}
	p := Progress{Doing: doing, Totals: r.stats.Totals()}
	r.mu.Lock()
	if r.elapsed != nil {
		p.Elapsed = r.elapsed()
	}
	p.Fault = r.fault
	r.mu.Unlock()
	r.config.Progress(p)
}

// begins tells from when on progress counts.
func (r *run) begins(elapsed func() time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elapsed = elapsed
}

// struck notes which fault comes now.
func (r *run) struck(s nemesis.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = s.Asked()
}

// watch reports progress and brings the history to the disk once a second, until stop is called.
func (r *run) watch(ctx context.Context, sink *history.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				_ = sink.Flush() // an error of the file comes back with the next append
				r.tell("running")
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/foreign"
	"tidemark/nemesis"
	"tidemark/node"
	"tidemark/results"
	"tidemark/workload"
)

// OnForeign is the backend of a run against a cluster that it did not start. It is none of [Backends]: it has no nodes to be placed.
const OnForeign Backend = "foreign"

// Foreign is a cluster that somebody else started, for [RunConfig]. Of that configuration what makes a cluster has to be zero; Topics
// are names of topics that are there and empty, Settings those of the topics in Create.
type Foreign struct {
	foreign.Config
	// Create are topics to be created for the run, each NAME:PARTITIONS:REPLICAS. {now} in a name is the time, so that the same words
	// can be used again.
	Create []string
	// Contract is what the run is judged by; nil: what the topics' configuration promises, which the cluster has to tell.
	Contract *history.Contract
	// Plan is the text of a plan of faults, in place of random ones; its brokers are those of the cluster. PlanName is for errors.
	Plan, PlanName string
	// Able leaves out those of the faults to draw from for which there is neither hook nor container. Otherwise they are refused.
	Able bool
	// Stretch draws faults that last so many times as long, for clusters whose sessions last longer than those of the harness; 0: 1.
	Stretch int
}

// Limits of a run against brokers that may take long to start, and to get back into an ISR.
const foreignHealsWithin = 3 * time.Minute

var foreignSettledWithin = 3 * time.Minute // shorter in a test

// watchEvery is how often a broker is asked who leads.
const watchEvery = 250 * time.Millisecond

// foreignRun is a run while it goes on, against a cluster that it did not start.
type foreignRun struct {
	run
	own      *foreign.Cluster
	k        cluster.Config
	header   history.Header
	notKnown []string
}

// runForeign is [Run] for a cluster that is there.
func runForeign(ctx context.Context, c RunConfig) (_ *RunResult, err error) {
	c, err = c.foreignDefaults()
	if err != nil {
		return nil, &ConfigError{err}
	}
	f := &foreignRun{run: run{config: c, stats: &workload.Stats{}}}
	f.tell("looking at the cluster")
	// The containers that a partition needs are named after the run, whose folder is not made before all is known to be well.
	c.Foreign.Run = fmt.Sprintf("foreign-%x", uint32(time.Now().UnixNano()))
	if f.own, err = foreign.Open(ctx, c.Foreign.Config); err != nil {
		return nil, configError(err)
	}
	defer func() { err = errors.Join(err, f.own.Close(ctx)) }()
	if err := f.prepare(ctx); err != nil {
		return nil, configError(err)
	}
	if f.folder, err = results.Create(rootOr(c.Root), "run"); err != nil {
		return nil, err
	}
	f.header.Meta["run"] = f.folder.ID
	result := &RunResult{ID: f.folder.ID, Folder: f.folder.Path, Seed: c.Seed, Plan: f.config.Plan, NotKnown: f.notKnown}
	err = f.describe()
	if err == nil {
		err = f.record(ctx)
	}
	result.Workload, result.Latency, result.Lasted = f.stats.Totals(), f.latency(), f.lasted
	if err != nil {
		return result, err
	}
	f.tell("checking")
	result.Checked, err = Check(ctx, f.folder.Path, checker.Options{Enough: f.config.enough()})
	if result.Checked != nil {
		err = errors.Join(err, f.folder.WriteJSON(results.Result, result.Checked))
	}
	return result, err
}

// configError marks the caller's mistakes among the errors about a cluster.
func configError(err error) error {
	if errors.Is(err, foreign.ErrConfig) || errors.Is(err, foreign.ErrUntold) || errors.Is(err, nemesis.ErrPlan) {
		return &ConfigError{err}
	}
	return err
}

func (c RunConfig) foreignDefaults() (RunConfig, error) {
	own := *c.Foreign
	c.Foreign, c.On = &own, OnForeign
	switch {
	case c.Brokers != 0 || c.Protocol != "" || len(c.Without)+len(c.Rules) > 0 || c.Direct:
		return c, errors.New("brokers, protocol, rules and direct are of clusters that a run starts; one that is there has its own")
	case c.Plan != nil:
		return c, errors.New("plan: give it as text: the brokers of a cluster that is there are not known beforehand")
	case len(c.Settings) > 0 && len(own.Create) == 0:
		return c, fmt.Errorf("settings %v: they are of topics that are created, and none is", c.Settings)
	case own.Stretch < 0:
		return c, fmt.Errorf("stretch: %d: want 1 or more", own.Stretch)
	}
	if err := own.Check(); err != nil {
		return c, err
	}
	own.Stretch = max(own.Stretch, 1)
	if c.Time == 0 {
		c.Time = 30 * time.Second
	}
	if c.Clients == 0 {
		c.Clients = 10
	}
	if c.Acks == "" {
		c.Acks = "all"
	}
	if own.Contract != nil {
		contract := *own.Contract
		if contract.Acks == "" {
			contract.Acks = c.Acks
		}
		if contract.Acks != c.Acks {
			return c, fmt.Errorf("contract: acks=%s, and the clients ask for acks=%s", contract.Acks, c.Acks)
		}
		own.Contract = &contract
	}
	return c, nil
}

// prepare finds out everything that a run has to know of a cluster, and refuses what cannot be done. It creates the topics that are
// to be, as the last thing that can be refused.
func (f *foreignRun) prepare(ctx context.Context) error {
	c := &f.config
	if err := f.plan(); err != nil {
		return err
	}
	names := slices.Clone(c.Topics)
	now := time.Now().Format("20060102-150405")
	for _, word := range c.Foreign.Create {
		t, err := foreign.ParseNewTopic(strings.ReplaceAll(word, "{now}", now))
		if err != nil {
			return err
		}
		t.Configs = c.Settings
		if err := f.own.Create(ctx, t); err != nil {
			return err
		}
		names = append(names, t.Name)
	}
	topics, err := f.own.Topics(ctx, names)
	if err != nil {
		return err
	}
	for _, id := range f.own.Brokers() {
		f.k.Brokers = append(f.k.Brokers, cluster.NodeID(id))
	}
	f.k.Topics, f.k.Settings = topics, node.Defaults()
	contract, err := f.contract(ctx, names)
	if err != nil {
		if len(c.Foreign.Create) > 0 {
			err = fmt.Errorf("%w; the topics were created: name them as --topic now", err)
		}
		return err
	}
	f.header = f.run.header(f.k)
	f.header.Contract = contract
	f.header.Meta["bootstrap"] = strings.Join(c.Foreign.Bootstrap, ",")
	f.notKnown = append(f.notKnown,
		"whether the replicas are alike: a client is shown one log, so theirs were not compared",
		"what brokers did, but for who led when: findings are told by what clients saw")
	if contract.Unclean {
		f.notKnown = append(f.notKnown, "which elections were unclean, as the configuration permits: taken for it were those of leaders outside the ISR last told of")
	}
	if len(c.Plan) == 0 {
		f.notKnown = append(f.notKnown, "what faults would do: none was played")
	}
	return nil
}

// contract is what the run is judged by.
func (f *foreignRun) contract(ctx context.Context, names []string) (history.Contract, error) {
	promise, err := f.own.Promise(ctx, names)
	given := f.config.Foreign.Contract
	switch {
	case errors.Is(err, foreign.ErrUntold) && given == nil:
		return history.Contract{}, fmt.Errorf("%w; give --contract min.insync.replicas=N,unclean.leader.election.enable=false with what the topic has", err)
	case err != nil && !errors.Is(err, foreign.ErrUntold):
		return history.Contract{}, err
	case given != nil:
		return *given, nil
	}
	if promise.UncleanUntold {
		f.notKnown = append(f.notKnown, "unclean.leader.election.enable: the topic has no such setting, so it is taken to be off")
	}
	return history.Contract{Acks: f.config.Acks, MinISR: promise.MinISR, Unclean: promise.Unclean}, nil
}

// describe keeps what the run is before it begins.
func (f *foreignRun) describe() error {
	c := f.config
	var topics []string
	for _, t := range f.k.Topics {
		topics = append(topics, t.String())
	}
	meta := map[string]any{"id": f.folder.ID, "backend": c.On, "bootstrap": c.Foreign.Bootstrap, "brokers": f.own.Bootstrap(), "topics": topics,
		"contract": f.header.Contract, "hooks": c.Foreign.Hooks, "containers": c.Foreign.Containers, "time": c.Time.String(), "clients": c.Clients,
		"rate": c.Rate, "acks": c.Acks, "seed": c.Seed, "enough": c.enough(), "not_known": f.notKnown}
	return errors.Join(f.folder.WriteJSON(results.Meta, meta), f.folder.WriteText(results.Schedule, c.Plan.String()))
}

// hooksOutput is the file in a run's folder with what the hooks printed.
const hooksOutput = "hooks.log"

// record runs everything up to the end of the history.
func (f *foreignRun) record(ctx context.Context) (err error) {
	sink, err := history.Create(f.folder.File(results.History), f.header, history.Since(time.Now()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	if f.config.Foreign.Hooks != (foreign.Hooks{}) {
		out, err := os.Create(f.folder.File(hooksOutput))
		if err != nil {
			return err
		}
		defer out.Close()
		f.own.KeepOutput(out)
	}
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	var watchErr error
	watch.Go(func() {
		watchErr = f.own.Watch(watching, f.names(), watchEvery, f.header.Contract.Unclean, func(e *history.NodeEvent) error {
			return sink.Append(&history.Event{Kind: history.KindNode, Node: e})
		})
	})
	defer func() {
		cancel()
		watch.Wait()
		err = errors.Join(err, watchErr)
	}()
	if err := (&real{Cluster: f.own}).disturb(ctx, &f.run, f.workload(f.k), sink); err != nil {
		return err
	}
	return f.end(ctx, sink)
}

func (f *foreignRun) names() []string {
	var names []string
	for _, t := range f.k.Topics {
		names = append(names, t.Name)
	}
	return names
}

// end waits until the cluster is at rest, as far as that shows, and reads every log from its leader.
func (f *foreignRun) end(ctx context.Context, sink *history.Writer) error {
	f.tell("waiting for the replicas to be in sync")
	why := map[string]string{}
	for _, t := range f.header.Topics {
		for i := range t.Partitions {
			why[fmt.Sprintf("%s-%d", t.Name, i)] = "no broker could be asked"
		}
	}
	// Its error says no more than what is kept in why.
	_ = cluster.WaitFor(ctx, foreignSettledWithin, func(ctx context.Context) error {
		now, err := f.own.Unsettled(ctx, f.k.Topics)
		if err != nil {
			return err
		}
		why = now
		for _, p := range sortedKeys(why) {
			if why[p] != "" {
				return fmt.Errorf("%s: %s", p, why[p])
			}
		}
		return nil
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range sortedKeys(why) {
		s := &history.Settled{Partition: p, OK: why[p] == "", Why: why[p]}
		if err := sink.Append(&history.Event{Kind: history.KindSettled, Settled: s}); err != nil {
			return err
		}
	}
	f.tell("reading what there is")
	reading, cancel := context.WithTimeout(ctx, foreignSettledWithin)
	defer cancel()
	if err := workload.FinalReads(reading, f.workload(f.k), f.own, sink, f.stats.NextProcess()); err != nil && !errors.Is(err, workload.ErrIncomplete) {
		return err
	}
	return sink.Flush()
}

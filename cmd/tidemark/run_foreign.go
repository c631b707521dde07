package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tidemark"
	"tidemark/checker"
	"tidemark/cluster/foreign"
)

// foreignFlags are the flags of run about a cluster that is there.
type foreignFlags struct {
	bootstrap, create, containers []string
	contract                      string
	hooks                         foreign.Hooks
	stretch                       int
}

const bootstrapFlag = "bootstrap-server"

// onlyForeign are the flags that mean something with --bootstrap-server only; notForeign, those that mean nothing with it.
var (
	onlyForeign = []string{"create", "container", "contract", "on-kill", "on-start", "on-pause", "on-resume", "on-partition", "on-heal", "check-kill",
		"check-pause", "check-partition", "hook-timeout", "stretch"}
	notForeign = []string{"on", "brokers", "protocol", "leader-epoch", "without", "rule", "defect", "direct", "journal", "network"}
)

func (f *foreignFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.bootstrap, bootstrapFlag, nil, "your own cluster: host:port,... of brokers that are there; --topic is then the NAME of an empty topic")
	fs.StringArrayVar(&f.create, "create", nil, "your own cluster: NAME:PARTITIONS:REPLICAS of a topic to create, with --config as its settings")
	fs.StringVar(&f.contract, "contract", "", "your own cluster: what to judge by, as tidemark check takes it (default: the topics' configuration)")
	fs.StringArrayVar(&f.containers, "container", nil, "your own cluster: ID=NAME,... of the brokers' containers: kill, pause and partition by the engine")
	for _, h := range []struct {
		name, what string
		to         *string
	}{
		{"on-kill", "command that kills the broker {id} at {host}:{port}", &f.hooks.Kill},
		{"on-start", "command that starts it again", &f.hooks.Start},
		{"on-pause", "command that freezes it", &f.hooks.Pause},
		{"on-resume", "command that lets it go on", &f.hooks.Resume},
		{"on-partition", "command that cuts it off from the other brokers, {peers}", &f.hooks.Partition},
		{"on-heal", "command that ends that", &f.hooks.Heal},
		{"check-kill", "command that exits with 0 when it is dead, and prints what shows it (default: its port refuses connections)", &f.hooks.CheckKill},
		{"check-pause", "the same for frozen (default: it leaves a question unanswered for a second)", &f.hooks.CheckPause},
		{"check-partition", "the same for cut off", &f.hooks.CheckPartition},
	} {
		fs.StringVar(h.to, h.name, "", "your own cluster: "+h.what)
	}
	fs.DurationVar(&f.hooks.Timeout, "hook-timeout", 30*time.Second, "your own cluster: how long one command may take")
	fs.IntVar(&f.stretch, "stretch", 1, "your own cluster: faults, and the calm between, last so many times as long (Kafka's sessions take 9 s or more)")
}

// read says whether the run is against a cluster that is there, and fills in what is about it.
func (f *foreignFlags) read(fs *pflag.FlagSet, c *tidemark.RunConfig, plan string) (bool, error) {
	if !fs.Changed(bootstrapFlag) {
		for _, name := range onlyForeign {
			if fs.Changed(name) {
				return false, fmt.Errorf("--%s is about a cluster that is there: give --%s too", name, bootstrapFlag)
			}
		}
		return false, nil
	}
	for _, name := range notForeign {
		if fs.Changed(name) {
			return true, fmt.Errorf("--%s is about clusters that tidemark starts; the one at %s is there", name, strings.Join(f.bootstrap, ","))
		}
	}
	for _, t := range c.Topics {
		if strings.ContainsAny(t, ":=") {
			return true, fmt.Errorf("--topic %s: with --%s it is the NAME of a topic that is there; --create %s creates one", t, bootstrapFlag, t)
		}
	}
	if len(c.Topics)+len(f.create) == 0 {
		return true, fmt.Errorf("--%s: name an empty topic with --topic, or have one created with --create NAME:PARTITIONS:REPLICAS", bootstrapFlag)
	}
	if f.stretch < 1 {
		return true, fmt.Errorf("--stretch %d: want 1 or more", f.stretch)
	}
	names, err := foreign.ParseContainers(f.containers)
	if err != nil {
		return true, err
	}
	own := &tidemark.Foreign{Config: foreign.Config{Bootstrap: f.bootstrap, Hooks: f.hooks, Containers: names, Binary: c.Binary}, Create: f.create,
		Able: !fs.Changed("faults"), Stretch: f.stretch}
	if f.contract != "" {
		contract, err := checker.ParseContract(f.contract)
		if err != nil {
			return true, err
		}
		own.Contract = &contract
	}
	if plan != "" {
		text, err := os.ReadFile(plan)
		if err != nil {
			return true, fmt.Errorf("--plan: %w", err)
		}
		own.PlanName, own.Plan = plan, string(text)
	}
	c.Foreign, c.Brokers = own, 0
	return true, nil
}

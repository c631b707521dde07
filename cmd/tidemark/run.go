package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tidemark"
	"tidemark/cluster/sim/virtual"
	"tidemark/nemesis"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// clusterFlags are the flags about the cluster that run and up have in common.
type clusterFlags struct {
	on, protocol, leaderEpoch, journal string
	defect                             defectFlag
}

func (f *clusterFlags) add(fs *pflag.FlagSet, c *tidemark.RunConfig, where string) {
	fs.StringVar(&f.on, "on", string(tidemark.OnProcess), where)
	fs.IntVar(&c.Brokers, "brokers", 3, "how many brokers, besides the controller")
	fs.StringArrayVar(&c.Topics, "topic", nil, "NAME:PARTITIONS:REPLICAS, or NAME=1,3,2/2,1,3 (default orders:1:3)")
	fs.StringVar(&f.protocol, "protocol", "", "replication protocol: hw, kip101, kip279, kip320, kip966 (default kip320)")
	fs.StringVar(&f.leaderEpoch, "leader-epoch", "", "off: protocol hw; on: protocol kip101")
	fs.StringArrayVar(&c.Without, "without", nil, "take a rule away, by its name")
	fs.StringArrayVar(&c.Rules, "rule", nil, "set a rule: name=on|off, truncation=hw|kip101|kip279|on-fetch, registration=zk|kraft")
	f.defect.add(fs)
	fs.StringArrayVar(&c.Settings, "config", nil, "a setting of the nodes by Kafka's name, for example min.insync.replicas=2")
	fs.StringVar(&f.journal, "journal", "on", "on: nodes write journals, from which tidemark replay --node runs them again; off: they do not")
	fs.StringVar(&c.Binary, "binary", "", "tidemark executable that nodes run (default: this one, or one that is built)")
	fs.StringVar(&c.Root, "results", "", "folder in which the folder of this run is made (default results/runs)")
}

func (f *clusterFlags) read(c *tidemark.RunConfig) error {
	var err error
	if c.On, err = tidemark.ParseBackend(f.on); err != nil {
		return err
	}
	if f.journal != "on" && f.journal != "off" {
		return fmt.Errorf("--journal %q: want on or off", f.journal)
	}
	c.NoJournal = f.journal == "off"
	switch {
	case f.leaderEpoch != "" && f.protocol != "":
		return fmt.Errorf("--leader-epoch %s and --protocol %s: give one of them", f.leaderEpoch, f.protocol)
	case f.leaderEpoch != "":
		chosen, err := chooseProtocols(nil, f.leaderEpoch)
		if err != nil {
			return err
		}
		c.Protocol = chosen[0]
	case f.protocol != "":
		if c.Protocol, err = rules.ParseProtocol(f.protocol); err != nil {
			return err
		}
	}
	return f.defect.into(&c.Protocol, c.Protocol != "", &c.Rules)
}

func newRun() *cobra.Command {
	var (
		c              tidemark.RunConfig
		cf             clusterFlags
		ff             foreignFlags
		faults, plan   string
		network        string
		asJSON, strict bool
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a workload against a cluster under faults, and judge what came of it",
		Long: `Start a cluster, let clients produce and fetch while faults come and go, heal everything, wait until the replicas
agree, read what there is, and judge the history.

With --on sim all of it happens in this process and in virtual time: half a minute takes about a second, and the same seed is the
same run again, to the last byte of its history.

With --bootstrap-server the cluster is one of yours, which speaks Kafka's protocol, and stays up: name an empty topic or have one
created, and say how its brokers are killed, frozen and cut off, each with a check that shows it:

  tidemark run --bootstrap-server kafka-1:9092,kafka-2:9092 --create tidemark-{now}:4:3 --config min.insync.replicas=2 --time 5m \
    --on-kill 'ssh {host} pkill -9 -f kafka.Kafka' --check-kill '! nc -z {host} {port}' \
    --on-start 'ssh {host} systemctl start kafka' --stretch 4

{host}, {port} and {id} are the broker's, {peers} the hosts of the others. Faults without hooks are not drawn.

Exit code 0: consistent, or allowed by the configuration; 1: violation (with --strict also what is allowed);
2: inconclusive; 254: wrong arguments; 255: the harness failed.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own, err := ff.read(cmd.Flags(), &c, plan)
			if err != nil {
				return usageError{err}
			}
			if own {
				plan = "" // it is read, and waits for the brokers' ids
			} else if err := cf.read(&c); err != nil {
				return usageError{err}
			}
			if !cmd.Flags().Changed("seed") {
				c.Seed = uint64(time.Now().UnixNano())
			}
			if c.Faults, err = nemesis.ParseFaults(faults); err != nil {
				return usageError{err}
			}
			if plan != "" {
				if c.Plan, err = readPlan(plan, c.Brokers); err != nil {
					return usageError{err}
				}
			}
			if network != "" {
				if c.Network, err = virtual.ParseNetwork(network); err != nil {
					return usageError{fmt.Errorf("--%w", err)}
				}
			}
			if err := checkRunFlags(c); err != nil {
				return usageError{err}
			}
			out := cmd.OutOrStdout()
			if !asJSON {
				c.Progress = newProgress(out).print
			}
			r, err := tidemark.Run(cmd.Context(), c)
			if err != nil {
				return runFailed(cmd, r, err)
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(r.Checked)
			} else {
				err = printRun(out, r, repeatLine(cmd, c))
			}
			if err != nil {
				return err
			}
			return verdictCode(r.Checked.Verdict, strict)
		},
	}
	fs := cmd.Flags()
	cf.add(fs, &c, "where nodes run: process, docker, or sim: in this process, in virtual time, the same again with the same seed")
	fs.StringVar(&network, "network", "", "on sim: delay=200us,jitter=800us,reorder=0.005,late=20ms,duplicate=0.001,lose=0.0005, or some of it")
	ff.add(fs)
	fs.DurationVar(&c.Time, "time", 30*time.Second, "how long clients work")
	fs.IntVar(&c.Clients, "clients", 10, "how many clients work at a time")
	fs.Float64Var(&c.Rate, "rate", 0, "operations a second of all clients together (0: as many as they get answered)")
	fs.StringVar(&c.Acks, "acks", "all", "what a produce waits for: all, 1, 0")
	fs.StringVar(&faults, "faults", "kill,pause,partition", "faults to draw from: "+nemesis.FaultHelp())
	fs.StringVar(&plan, "plan", "", "file with faults and their times, as schedule.sched in the folder of a run has them, in place of random ones")
	fs.Uint64Var(&c.Seed, "seed", 0, "decides what clients ask for and which faults come when (default: a new one)")
	fs.IntVar(&c.Enough.Acked, "min-acked", 0, "acknowledged produces that a pass needs (default 20)")
	fs.IntVar(&c.Enough.Reads, "min-reads", 0, "reads that a pass needs (default 20)")
	fs.IntVar(&c.Enough.LeaderChanges, "min-leader-changes", 0, "leader changes that a pass needs")
	fs.BoolVar(&c.Direct, "direct", false, "on processes: no links between nodes, so no partitions; faster")
	fs.BoolVar(&asJSON, "json", false, "print only the result, as JSON")
	fs.BoolVar(&strict, "strict", false, "exit 1 also for what the configuration allows")
	return cmd
}

func checkRunFlags(c tidemark.RunConfig) error {
	switch {
	case c.Brokers < 1 && c.Foreign == nil:
		return fmt.Errorf("--brokers %d: want 1 or more", c.Brokers)
	case c.Time <= 0:
		return fmt.Errorf("--time %s: want more than nothing, for example 30s", c.Time)
	case c.Clients < 1:
		return fmt.Errorf("--clients %d: want 1 or more", c.Clients)
	case !(c.Rate >= 0):
		return fmt.Errorf("--rate %v: want operations a second, or 0 for no bound", c.Rate)
	case c.Acks != "all" && c.Acks != "1" && c.Acks != "0":
		return fmt.Errorf("--acks %s: want all, 1 or 0", c.Acks)
	}
	return nil
}

func readPlan(path string, brokers int) (nemesis.Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	var ids []control.NodeID
	for i := range brokers {
		ids = append(ids, control.NodeID(i+1))
	}
	p, err := nemesis.ParsePlan(path, string(text), ids)
	if p == nil && err == nil {
		p = nemesis.Plan{}
	}
	return p, err
}

// runFailed says what is left when a run could not be finished.
func runFailed(cmd *cobra.Command, r *tidemark.RunResult, err error) error {
	var config *tidemark.ConfigError
	if errors.As(err, &config) {
		return usageError{config.Err}
	}
	if r != nil && r.Folder != "" {
		fmt.Fprintf(os.Stderr, "tidemark: the history as far as it goes is in %s; tidemark check judges it\n", r.Folder)
	}
	return interrupted(cmd, err)
}

// interrupted says so if the command was interrupted, and anything that went wrong on top of it.
func interrupted(cmd *cobra.Command, err error) error {
	ended := cmd.Context().Err()
	switch {
	case ended == nil:
		return err
	case errors.Is(err, ended) && !strings.Contains(err.Error(), "\n"): // nothing joined to it
		left := "the cluster was taken down"
		if f := cmd.Flags().Lookup(bootstrapFlag); f != nil && f.Changed {
			left = "faults were healed, and the cluster runs on"
		}
		fmt.Fprintln(os.Stderr, "tidemark: interrupted; "+left)
	default:
		fmt.Fprintf(os.Stderr, "tidemark: interrupted; %v\n", err)
	}
	return exitCode(2)
}

func printRun(w io.Writer, r *tidemark.RunResult, repeat string) error {
	fmt.Fprintln(w)
	if err := r.Checked.WriteText(w); err != nil {
		return err
	}
	if len(r.NotKnown) > 0 {
		fmt.Fprintln(w, "\nnot known, since the cluster is not the harness's:")
		for _, what := range r.NotKnown {
			fmt.Fprintf(w, "- %s\n", what)
		}
	}
	t := r.Workload
	fmt.Fprintf(w, "\n%d operations in %.1f s (%.0f a second); seed %d\n", t.Operations(), r.Lasted.Seconds(), float64(t.Operations())/r.Lasted.Seconds(), r.Seed)
	fmt.Fprintf(w, "kept in %s\n", r.Folder)
	fmt.Fprintf(w, "again: %s\n", repeat)
	return nil
}

// repeatLine is the command that asks for the same run again.
func repeatLine(cmd *cobra.Command, c tidemark.RunConfig) string {
	words := []string{"tidemark run"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "seed" || f.Name == "json" {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok && f.Value.Type() == "stringSlice" {
			words = append(words, "--"+f.Name, shellWord(strings.Join(list.GetSlice(), ",")))
			return
		} else if ok {
			for _, v := range list.GetSlice() {
				words = append(words, "--"+f.Name, shellWord(v))
			}
			return
		}
		words = append(words, "--"+f.Name, shellWord(f.Value.String()))
	})
	return strings.Join(append(words, "--seed", fmt.Sprint(c.Seed)), " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,+-]+$`)

// shellWord is a word as a shell takes it.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// progress prints what a run is doing: each phase, and every few seconds how far the clients are.
type progress struct {
	w     io.Writer
	doing string
	fault string
	last  time.Time
}

func newProgress(w io.Writer) *progress { return &progress{w: w} }

// progressEvery is how often a line is printed while nothing changes.
const progressEvery = 5 * time.Second

func (p *progress) print(at tidemark.Progress) {
	if at.Doing != p.doing && at.Doing != "running" {
		fmt.Fprintf(p.w, "%s ...\n", at.Doing)
	}
	changed := at.Fault != p.fault || at.Doing != p.doing
	p.doing, p.fault = at.Doing, at.Fault
	if at.Doing != "running" || !changed && time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	t := at.Totals
	line := fmt.Sprintf("%4.0f s  %d acked, %d reads, %d unknown, %d failed, %d leader changes", at.Elapsed.Seconds(), t.Acked,
		t.Reads+t.EmptyReads+t.Ends, t.Unknown, t.Failed, t.LeaderChanges)
	if at.Fault != "" {
		line += "; " + shorten(at.Fault)
	}
	fmt.Fprintln(p.w, line)
}

func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "..."
}

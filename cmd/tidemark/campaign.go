package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark"
	"tidemark/node/rules"
	"tidemark/results"
	"tidemark/results/report"
)

func newCampaign() *cobra.Command {
	var f campaignFlags
	cmd := &cobra.Command{
		Use:   "campaign [FILE]",
		Short: "Run a matrix of schedules, searches and free runs, and tell what failed",
		Long: `Run a campaign: every combination of protocols, backends, faults, workloads and seeds that a YAML file or a preset names.

Presets: ` + strings.Join(tidemark.Presets(), ", ") + `. Each campaign has runs with a defect that must be caught, or it is inconclusive.
The folder of the campaign gets index.html, index.json, junit.xml, and the folder of each run. With GITHUB_STEP_SUMMARY set, a summary
is appended to that file and annotations are printed.

To spread a campaign over machines give each --shard 1/8, 2/8, ..; with --shards 8 the index comes from JOB_COMPLETION_INDEX, as
Kubernetes sets it. "tidemark campaign merge" puts the parts together. A campaign that was killed goes on with --resume FOLDER.

Exit code 0: consistent, or allowed; 1: a violation that is not known; 2: inconclusive: something was not decided, not run or not
caught, or too little happened; 254: wrong arguments; 255: the harness failed.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.config(args)
			if err != nil {
				return usageError{err}
			}
			if f.options.Shard, f.options.Shards, err = parseShard(f.shard, f.shards, os.Getenv("JOB_COMPLETION_INDEX")); err != nil {
				return usageError{err}
			}
			out, began, n := cmd.OutOrStdout(), time.Now(), 0
			f.options.Done = func(o results.Outcome) {
				n++
				printOutcome(out, n, time.Since(began), &o)
			}
			s, err := tidemark.Campaign(cmd.Context(), c, f.options)
			var wrong *tidemark.ConfigError
			switch {
			case errors.As(err, &wrong):
				return usageError{wrong.Err}
			case s == nil:
				return interrupted(cmd, err)
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "to go on: tidemark campaign --resume %s\n", s.Path())
				return interrupted(cmd, err)
			}
			return printCampaign(out, s)
		},
	}
	f.add(cmd)
	cmd.AddCommand(newCampaignMerge(), newCampaignShow())
	return cmd
}

// campaignFlags are the flags of campaign.
type campaignFlags struct {
	preset, shard string
	shards        int
	protocols     []string
	on            []string
	without, rule []string
	defect        string
	change        tidemark.CampaignConfig
	stop          bool
	options       tidemark.CampaignOptions
}

func (f *campaignFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.preset, "preset", "", "a campaign that comes with Tidemark: "+strings.Join(tidemark.Presets(), ", "))
	fs.StringSliceVar(&f.protocols, "protocol", nil, "protocols of every part, in place of those that it names")
	fs.StringSliceVar(&f.on, "on", nil, "backends of every part with nodes, in place of those that it names: process, docker, sim")
	fs.StringArrayVar(&f.without, "without", nil, "take a rule away in every part, by its name")
	fs.StringArrayVar(&f.rule, "rule", nil, "set a rule in every part: name=on|off, truncation=hw|kip101|kip279|on-fetch")
	fs.StringVar(&f.defect, "defect", "", "seed a defect of the bug zoo in every part, for example Z21: the campaign has to fail; without --protocol under the protocol that it lives in")
	fs.DurationVar(&f.change.Time, "time", 0, "end after that time, in place of the campaign's own bound")
	fs.IntVar(&f.change.Runs, "runs", 0, "end after so many runs, in place of the campaign's own bound")
	fs.IntVar(&f.change.Parallel, "parallel", 0, "how many runs go on at a time (default: the campaign's, or one a processor, at most 4)")
	fs.Uint64Var(&f.change.Seed, "seed", 0, "the first seed of each cell, in place of the campaign's own")
	fs.BoolVar(&f.stop, "stop-on-first", false, "end at the first violation that is not known")
	fs.StringVar(&f.shard, "shard", "", "run this part only: 2/8 is the second of eight")
	fs.IntVar(&f.shards, "shards", 0, "of how many parts one is run; which one, JOB_COMPLETION_INDEX says, from 0 on")
	fs.StringVar(&f.options.Resume, "resume", "", "folder of a campaign that was killed: go on with it")
	fs.StringVar(&f.options.Binary, "binary", "", "tidemark executable that nodes run (default: this one, or one that is built)")
	fs.StringVar(&f.options.Root, "results", "", "folder in which the folder of the campaign is made (default results/runs)")
}

// config is the campaign that the command line means.
func (f *campaignFlags) config(args []string) (*tidemark.CampaignConfig, error) {
	sources := 0
	for _, given := range []bool{len(args) > 0, f.preset != "", f.options.Resume != ""} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return nil, fmt.Errorf("give a file, --preset or --resume, one of them; presets: %s", strings.Join(tidemark.Presets(), ", "))
	}
	var c *tidemark.CampaignConfig
	var err error
	switch {
	case f.preset != "":
		c, err = tidemark.Preset(f.preset)
	case f.options.Resume != "":
		var stored *results.Campaign
		if stored, err = results.OpenCampaign(f.options.Resume); err == nil {
			c, err = tidemark.ParseCampaign(f.options.Resume, stored.Config)
		}
	default:
		var text []byte
		if text, err = os.ReadFile(args[0]); err == nil {
			c, err = tidemark.ParseCampaign(args[0], string(text))
		}
	}
	if err != nil {
		return nil, err
	}
	return c, f.apply(c)
}

// apply changes a campaign by the flags.
func (f *campaignFlags) apply(c *tidemark.CampaignConfig) error {
	if len(f.protocols)+len(f.on)+len(f.without)+len(f.rule)+len(f.defect)+len(f.shard)+f.shards > 0 && f.options.Resume != "" {
		return errors.New("--resume goes on with what was begun; leave out what changes it")
	}
	if f.defect != "" {
		if err := f.seed(c); err != nil {
			return err
		}
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		if len(f.protocols) > 0 {
			p.Protocol = nil
			for _, word := range f.protocols {
				protocol, err := rules.ParseProtocol(word)
				if err != nil {
					return err
				}
				p.Protocol = append(p.Protocol, protocol)
			}
		}
		if len(f.on) > 0 && p.Explore == 0 {
			p.On = nil
			for _, word := range f.on {
				on, err := tidemark.ParseBackend(word)
				if err != nil {
					return err
				}
				p.On = append(p.On, on)
			}
		}
		p.Without, p.Rules = append(p.Without, f.without...), append(p.Rules, f.rule...)
	}
	if f.change.Time != 0 {
		c.Time = f.change.Time
	}
	if f.change.Runs != 0 {
		c.Runs = f.change.Runs
	}
	if f.change.Parallel != 0 {
		c.Parallel = f.change.Parallel
	}
	if f.change.Seed != 0 {
		c.Seed = f.change.Seed
	}
	c.StopOnFirst = c.StopOnFirst || f.stop
	return nil
}

// seed puts a defect into every part.
func (f *campaignFlags) seed(c *tidemark.CampaignConfig) error {
	d, err := rules.FindDefect(f.defect)
	if err == nil {
		err = d.Seedable()
	}
	if err != nil {
		return err
	}
	for i := range c.Parts {
		c.Parts[i].Rules = append([]string{d.Setting()}, c.Parts[i].Rules...)
		if c.Parts[i].Zoo == 0 {
			c.Parts[i].Protocol = []rules.Protocol{d.Protocol}
		}
	}
	return nil
}

// parseShard reads "2/8", or takes the index of an indexed job, which counts from 0.
func parseShard(word string, shards int, index string) (shard, of int, err error) {
	switch {
	case word != "" && shards != 0:
		return 0, 0, errors.New("--shard and --shards: give one of them")
	case word != "":
		a, b, _ := strings.Cut(word, "/")
		shard, err = strconv.Atoi(a)
		if err == nil {
			of, err = strconv.Atoi(b)
		}
		if err != nil || shard < 1 || shard > of {
			return 0, 0, fmt.Errorf("--shard %s: want I/N, for example 1/8 to 8/8", word)
		}
		return shard, of, nil
	case shards != 0:
		i, err := strconv.Atoi(index)
		if err != nil || shards < 1 || i < 0 || i >= shards {
			return 0, 0, fmt.Errorf("--shards %d: JOB_COMPLETION_INDEX is %q, want 0 to %d", shards, index, shards-1)
		}
		return i + 1, shards, nil
	}
	return 0, 0, nil
}

func printOutcome(out io.Writer, n int, since time.Duration, o *results.Outcome) {
	status := string(o.Status)
	switch {
	case o.Control && o.Status == results.Violation:
		status = "caught"
	case o.Control:
		status = "NOT CAUGHT, " + status
	case o.Known != "":
		status += " (known)"
	}
	fmt.Fprintf(out, "%4d %7.1fs  %-12s %s (%.1f s)\n", n, since.Seconds(), status, o.Command, o.Seconds)
}

// printCampaign prints what a campaign came to, also for GitHub if it runs there, and gives its exit code.
func printCampaign(out io.Writer, s *results.Summary) error {
	fmt.Fprintln(out)
	if err := report.Text(out, s); err != nil {
		return err
	}
	fmt.Fprintf(out, "kept in %s (index.html, index.json, junit.xml)\n", s.Path())
	if path := os.Getenv("GITHUB_STEP_SUMMARY"); path != "" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err == nil {
			err = errors.Join(report.GitHubSummary(f, s), f.Close())
		}
		if err = errors.Join(err, report.GitHubAnnotations(out, s)); err != nil {
			return fmt.Errorf("summary for GitHub: %w", err)
		}
	}
	if code := s.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}

func newCampaignMerge() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "merge FOLDER...",
		Short: "Put the shards of a campaign together",
		Long: `Make one campaign of several: shards that ran on several machines, or repetitions. The folders of the runs stay where they are.
Exit codes are those of campaign.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				if _, err := results.OpenCampaign(path); err != nil {
					return usageError{err}
				}
			}
			if root == "" {
				root = results.Root
			}
			c, err := results.Merge(root, args)
			if err != nil {
				return err
			}
			s, err := tidemark.SummarizeCampaign(c)
			if err != nil {
				return err
			}
			return printCampaign(cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().StringVar(&root, "results", "", "folder in which the folder of the whole is made (default results/runs)")
	return cmd
}

func newCampaignShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show FOLDER",
		Short: "Tell once more what a campaign came to, as far as it was run",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := results.OpenCampaign(args[0])
			if err != nil {
				return usageError{err}
			}
			s, err := tidemark.SummarizeCampaign(c)
			if err != nil {
				return err
			}
			return printCampaign(cmd.OutOrStdout(), s)
		},
	}
}

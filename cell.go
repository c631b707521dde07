package tidemark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/docker"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/rules"
	"tidemark/results"
)

// Cell is one schedule played in one column.
type Cell struct {
	Schedule string  `json:"schedule"`
	Protocol string  `json:"protocol"` // the column's head
	Backend  Backend `json:"backend"`
	// Expected and Observed are a verdict, with its reason where there is one.
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	// Findings are what was found that the schedule's expectation speaks of, sorted: "lost-acked m1".
	Findings  []string        `json:"findings"`
	Porcupine checker.Outcome `json:"porcupine"`
	OK        bool            `json:"ok"`
	Seconds   float64         `json:"seconds"`

	// Why says what differs from what was expected, "" if nothing does.
	Why string `json:"-"`
	// ExpectedFindings are those of the schedule.
	ExpectedFindings []string         `json:"-"`
	Played           *schedule.Result `json:"-"`
	Checked          *checker.Result  `json:"-"`
	File             *schedule.File   `json:"-"`
	Folder           string           `json:"-"`
}

// cell plays one schedule in one column and judges what came of it.
func (c *ReproduceConfig) cell(ctx context.Context, f *schedule.File, column Column, folder results.Folder, pool *docker.Pool) (*Cell, error) {
	began := time.Now()
	p := column.Protocol
	set, err := c.RulesOf(f, column)
	if err != nil {
		return nil, err
	}
	if err := folder.WriteText(results.Schedule, f.String()); err != nil {
		return nil, err
	}
	played, err := c.play(ctx, f, p, set, folder, pool)
	if err != nil {
		return nil, err
	}
	if err := folder.WriteText(results.Transcript, played.Transcript); err != nil {
		return nil, err
	}
	checked, err := Check(ctx, folder.File(results.History), checker.Options{})
	if err != nil {
		return nil, err
	}
	if err := folder.WriteJSON(results.Result, checked); err != nil {
		return nil, err
	}
	cell := &Cell{Schedule: f.Name, Protocol: column.String(), Backend: c.On, Played: played, Checked: checked, File: f, Folder: folder.Path}
	cell.compare(f.Expected(p, column.Change))
	cell.Seconds = time.Since(began).Seconds()
	return cell, nil
}

// play plays the schedule on a new stage and records the history.
func (c *ReproduceConfig) play(ctx context.Context, f *schedule.File, p rules.Protocol, set rules.Set, folder results.Folder, pool *docker.Pool) (_ *schedule.Result, err error) {
	sink, err := history.Create(folder.File(results.History), scheduleHeader(f, p), history.Since(time.Now()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	var stage schedule.Stage
	if c.On == OnSim {
		stage, err = sim.NewStage(ctx, f.Cluster, set)
	} else {
		var s cluster.Stage
		if s, err = c.openStage(ctx, f, set, folder, pool); err == nil {
			defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
		}
		stage = s
	}
	if err != nil {
		return nil, err
	}
	return schedule.Play(ctx, f, p, set, stage, sink)
}

func (c *ReproduceConfig) openStage(ctx context.Context, f *schedule.File, set rules.Set, folder results.Folder, pool *docker.Pool) (cluster.Stage, error) {
	topic, _, _ := strings.Cut(schedule.Partition, "-")
	config := cluster.Config{Run: folder.ID, Dir: folder.File(results.Nodes), Brokers: f.Cluster.Replicas, Hold: true, Rules: set,
		Topics: []node.Topic{{Name: topic, Partitions: [][]control.NodeID{f.Cluster.Replicas}}}, Settings: node.Defaults(), Binary: c.Binary}
	config.Settings.MinISR, config.Settings.Unclean = f.Cluster.MinISR, f.Cluster.Unclean
	open := func() (cluster.Cluster, error) { return openCluster(ctx, c.On, config) }
	if pool != nil {
		open = func() (cluster.Cluster, error) { return pool.Open(ctx, config) }
	}
	k, err := open()
	if err != nil {
		return nil, err
	}
	stage, err := cluster.NewStage(ctx, k)
	if err != nil {
		return nil, errors.Join(err, k.Close(context.WithoutCancel(ctx)))
	}
	return stage, nil
}

func scheduleHeader(f *schedule.File, p rules.Protocol) history.Header {
	topic, _, _ := strings.Cut(schedule.Partition, "-")
	return history.Header{
		Contract: history.Contract{Acks: "all", MinISR: f.Cluster.MinISR, Unclean: f.Cluster.Unclean, Protocol: string(p),
			Bar: strings.ReplaceAll(f.Cluster.Level, "-", " ")},
		Topics: []history.Topic{{Name: topic, Partitions: 1, Replicas: len(f.Cluster.Replicas)}},
		Meta:   map[string]string{"schedule": f.Name},
	}
}

// compare fills in what was observed, and says whether it is what was expected.
func (c *Cell) compare(want schedule.Expect) {
	c.Expected, c.ExpectedFindings = verdictText(want.Verdict, want.Because), want.Findings
	reasons := make([]string, len(c.Checked.Reasons))
	for i, r := range c.Checked.Reasons {
		reasons[i] = string(r)
	}
	c.Findings = c.Checked.Shorts()
	slices.Sort(c.Findings)
	c.Porcupine = c.Checked.Porcupine
	verdict := string(c.Checked.Verdict)
	if c.Played.Inconclusive != "" {
		verdict, reasons = string(checker.Inconclusive), []string{"unplayable"}
	}
	c.Observed = verdictText(verdict, strings.Join(reasons, ", "))
	lost := slices.ContainsFunc(c.Findings, func(f string) bool { return !strings.HasPrefix(f, string(checker.Diverged)) })
	switch {
	case c.Played.Inconclusive != "":
		c.Why = c.Played.Inconclusive
	case c.Observed != c.Expected:
		c.Why = fmt.Sprintf("expected %s, observed %s", c.Expected, c.Observed)
	case !slices.Equal(c.Findings, want.Findings):
		c.Why = fmt.Sprintf("expected findings %s, observed %s", listOr(want.Findings, "none"), listOr(c.Findings, "none"))
	case lost && c.Porcupine != checker.Illegal, !lost && c.Porcupine != checker.Ok:
		c.Why = fmt.Sprintf("porcupine says %s", c.Porcupine)
	}
	c.OK = c.Why == ""
}

func verdictText(verdict, because string) string {
	if because == "" {
		return verdict
	}
	return verdict + " because " + because
}

func listOr(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return strings.Join(words, ", ")
}

// repeats compares the transcript of a cell with that of its first repetition.
func (c *Cell) repeats(firsts map[string]*schedule.Result) {
	name := c.Schedule + " " + c.Protocol
	first := firsts[name]
	if first == nil {
		firsts[name] = c.Played
		return
	}
	if d := firstDifference("the first time", first.Transcript, "this time", c.Played.Transcript); d != "" && c.OK {
		c.OK, c.Why = false, "the transcript is not that of the first time: "+d
	}
}

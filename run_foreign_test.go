package tidemark_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"tidemark"
	"tidemark/checker"
	"tidemark/cluster/foreign"
	"tidemark/results"
)

// fake is a cluster of three brokers in this process, with ids from 0 on and an empty topic. Nothing is ever lost in it unless a test
// sees to it.
func fake(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "orders"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// against makes a short run against a cluster that is there.
func against(t *testing.T, bootstrap []string, change func(*tidemark.RunConfig)) *tidemark.RunResult {
	t.Helper()
	c := tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders"}, Time: 1200 * time.Millisecond, Clients: 4, Rate: 400, Seed: 7,
		Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: bootstrap}, Able: true}}
	if change != nil {
		change(&c)
	}
	r, err := tidemark.Run(t.Context(), c)
	require.NoError(t, err)
	return r
}

// once has one produce request of the workload, not the first ones, answered by a test. The function is called while the cluster
// serves others.
func once(c *kfake.Cluster, answer func(p *kmsg.ProduceRequest, node int32) (errorCode int16, base int64)) {
	const which = 50
	n := 0
	c.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		p := r.(*kmsg.ProduceRequest)
		if n++; n != which {
			return nil, nil, false
		}
		node := c.CurrentNode()
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		t := kmsg.NewProduceResponseTopic()
		t.Topic = p.Topics[0].Topic
		tp := kmsg.NewProduceResponseTopicPartition()
		tp.Partition = p.Topics[0].Partitions[0].Partition
		c.SleepControl(func() { tp.ErrorCode, tp.BaseOffset = answer(p, node) })
		t.Partitions = append(t.Partitions, tp)
		resp.Topics = append(resp.Topics, t)
		return resp, nil, true
	})
}

func anomalies(r *checker.Result) []checker.Anomaly {
	var names []checker.Anomaly
	for _, f := range r.Findings {
		names = append(names, f.Anomaly)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestAFakeClusterWithoutFaultsIsConsistent(t *testing.T) {
	t.Parallel()
	r := against(t, fake(t).ListenAddrs(), nil)
	c := r.Checked
	assert.Equal(t, checker.Consistent, c.Verdict, "%v: %v", c.Reasons, c.Details)
	assert.Len(t, c.Partitions, 2)
	assert.Equal(t, 1, c.Contract.MinISR, "as the cluster tells")
	assert.Contains(t, r.NotKnown[0], "unclean.leader.election.enable: the topic has no such setting")
	assert.Contains(t, r.NotKnown, "what faults would do: none was played")
	assert.EqualValues(t, r.Workload.Acked, c.Evidence.Acked)
	again, err := tidemark.Check(t.Context(), r.Folder, checker.Options{})
	require.NoError(t, err)
	assert.Equal(t, asJSON(t, c), asJSON(t, again), "judged again")
}

// A broker acknowledges what it never wrote.
func TestARecordThatWasAckedAndDroppedIsFound(t *testing.T) {
	t.Parallel()
	c := fake(t)
	once(c, func(p *kmsg.ProduceRequest, _ int32) (int16, int64) {
		return 0, c.PartitionInfo("orders", p.Topics[0].Partitions[0].Partition).HighWatermark
	})
	r := against(t, c.ListenAddrs(), nil)
	assert.Equal(t, checker.Violation, r.Checked.Verdict)
	assert.Equal(t, []checker.Anomaly{checker.LostAcked}, anomalies(r.Checked), "%s", r.Checked.Summary())
	require.Len(t, r.Checked.Findings, 1)
	assert.Contains(t, r.Checked.Findings[0].Sentence, "was acked")
}

// A broker writes a record and answers that it did not: the error is one that Kafka gives only before it appends.
func TestARecordThatWasRefusedAndWrittenIsFound(t *testing.T) {
	t.Parallel()
	c := fake(t)
	writer, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.MaxVersions(kversion.V3_0_0())) // topics by name, as in the request
	require.NoError(t, err)
	defer writer.Close()
	once(c, func(p *kmsg.ProduceRequest, node int32) (int16, int64) {
		resp, err := p.RequestWith(t.Context(), writer.Broker(int(node)))
		if assert.NoError(t, err) {
			assert.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
		}
		return kerr.NotEnoughReplicas.Code, -1
	})
	r := against(t, c.ListenAddrs(), nil)
	assert.Equal(t, checker.Violation, r.Checked.Verdict)
	assert.Equal(t, []checker.Anomaly{checker.Phantom}, anomalies(r.Checked), "%s", r.Checked.Summary())
}

// The error says that nobody can know, and the record was written: that is no fault, and the record must not count as a phantom.
func TestAnErrorAfterTheAppendLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	c := fake(t)
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 5})
	r := against(t, c.ListenAddrs(), nil)
	assert.EqualValues(t, 5, fault.Hits())
	assert.Equal(t, checker.Consistent, r.Checked.Verdict, "%s", r.Checked.Summary())
	assert.Equal(t, 5, r.Checked.Evidence.Unknown)
}

// A leader that moves loses nothing here; that it moved is seen, and asked for.
func TestALeaderThatMovesIsSeen(t *testing.T) {
	t.Parallel()
	c := fake(t)
	var move sync.Once
	r := against(t, c.ListenAddrs(), func(config *tidemark.RunConfig) {
		config.Time = 3 * time.Second
		config.Enough.LeaderChanges = 2
		config.Progress = func(p tidemark.Progress) {
			if p.Doing == "running" { // a second after the first look at who leads
				move.Do(func() {
					for _, p := range c.PartitionInfos("orders") {
						assert.NoError(t, c.MoveTopicPartition("orders", p.Partition, (p.Leader+1)%3))
					}
				})
			}
		}
	})
	assert.Equal(t, checker.Consistent, r.Checked.Verdict, "%s: %v", r.Checked.Summary(), r.Checked.Details)
	assert.Equal(t, 2, r.Checked.Evidence.LeaderChanges)
	assert.Positive(t, r.Workload.LeaderChanges)
}

// The leadership moves to a replica that has nothing of the log, as an unclean election lets it: what was acknowledged is gone, and new
// records stand where it was.
func TestALeaderThatMovesToAnEmptyReplicaIsFound(t *testing.T) {
	t.Parallel()
	c := fake(t)
	var empty sync.Once
	r := against(t, c.ListenAddrs(), func(config *tidemark.RunConfig) {
		config.Time = 2500 * time.Millisecond
		config.Progress = func(p tidemark.Progress) {
			if p.Doing == "running" {
				empty.Do(func() {
					assert.NoError(t, c.DeleteTopic("orders"))
					assert.NoError(t, c.CreateTopic("orders", 2, nil))
				})
			}
		}
	})
	assert.Equal(t, checker.Violation, r.Checked.Verdict)
	assert.Subset(t, anomalies(r.Checked), []checker.Anomaly{checker.LostAcked, checker.RereadDiffers}, "%s", r.Checked.Summary())
}

// Whoever interrupts a run finds the cluster as it was.
func TestAnInterruptedRunHealsAForeignCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	mark := filepath.Join(dir, "paused-{id}")
	r, err := tidemark.Run(ctx, tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders"}, Time: time.Minute, Clients: 2, Rate: 50,
		Progress: func(tidemark.Progress) {
			if marks, _ := filepath.Glob(filepath.Join(dir, "*")); len(marks) > 0 {
				cancel()
			}
		},
		Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: fake(t).ListenAddrs(), Hooks: foreign.Hooks{Pause: "touch " + mark, Resume: "rm " + mark,
			CheckPause: "test -e " + mark}}, PlanName: "plan", Plan: "at 0.1s pause 0 2\nat 50s resume 0 2"}})
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, strings.Contains(err.Error(), "\n"), "nothing else went wrong: %v", err)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.FileExists(t, filepath.Join(r.Folder, results.History))
}

func TestATopicIsCreatedForARun(t *testing.T) {
	t.Parallel()
	r := against(t, fake(t).ListenAddrs(), func(c *tidemark.RunConfig) {
		c.Topics, c.Foreign.Create, c.Settings = nil, []string{"made-{now}:3:3"}, []string{"min.insync.replicas=2"}
	})
	assert.Equal(t, checker.Consistent, r.Checked.Verdict, "%s", r.Checked.Summary())
	assert.Equal(t, 2, r.Checked.Contract.MinISR)
	require.Len(t, r.Checked.Partitions, 3)
	assert.Regexp(t, `^made-\d{8}-\d{6}-0$`, r.Checked.Partitions[0].Name)
}

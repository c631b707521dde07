package tidemark

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/node"
	"tidemark/node/control"
	"tidemark/results"
)

// Described is one partition, as kafka-topics --describe has it.
type Described struct {
	Topic       string
	Partition   int32
	Leader      int32 // -1: nobody
	LeaderEpoch int32
	Replicas    []int32
	ISR         []int32
	ELR         []int32
	// ELRKnown: Kafka's protocol does not tell of the ELR in the version that is asked; only the controller's record does.
	ELRKnown bool
}

// DescribeRun describes the partitions of a run, while it goes on or long after, by the controller's record in its folder.
func DescribeRun(folder string) ([]Described, error) {
	dir, err := nodeDir(folder, "controller")
	if err != nil {
		return nil, err
	}
	records, _, err := node.ReadRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: the controller has left no record: the run ended before its cluster was up", folder)
	}
	if err != nil {
		return nil, err
	}
	var all []Described
	for _, r := range records {
		i := strings.LastIndexByte(r.Partition, '-')
		n, err := strconv.ParseInt(r.Partition[i+1:], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("controller's record: partition %q", r.Partition)
		}
		leader := int32(r.Leader)
		if leader == 0 {
			leader = -1
		}
		all = append(all, Described{Topic: r.Partition[:max(i, 0)], Partition: int32(n), Leader: leader, LeaderEpoch: r.LeaderEpoch,
			Replicas: numbers(r.Replicas), ISR: numbers(r.ISR), ELR: numbers(r.ELR), ELRKnown: true})
	}
	return all, nil
}

func numbers(ids []control.NodeID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// DescribeCluster describes the partitions of a running cluster, Tidemark's or another that speaks Kafka's protocol.
func DescribeCluster(ctx context.Context, bootstrap []string) ([]Described, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	m, err := kadm.NewClient(client).Metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("metadata from %s: %w", strings.Join(bootstrap, ","), err)
	}
	var all []Described
	for _, t := range m.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			all = append(all, Described{Topic: p.Topic, Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR})
		}
	}
	return all, nil
}

// DumpedReplica is a replica's files and whose they are.
type DumpedReplica struct {
	Broker string // the name of the broker's folder
	*node.DumpedLog
}

// DumpLogs reads the replicas' files of a run: of one broker or of all (0), of one partition or of all ("").
func DumpLogs(folder string, broker int32, partition string) ([]DumpedReplica, error) {
	nodes, err := nodesDir(folder)
	if err != nil {
		return nil, err
	}
	pattern := "broker-*"
	if broker != 0 {
		pattern = fmt.Sprintf("broker-%d", broker)
	}
	brokers, err := filepath.Glob(filepath.Join(nodes, pattern))
	if err != nil {
		return nil, err
	}
	var found []DumpedReplica
	for _, dir := range brokers {
		logs, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
		if err != nil {
			return nil, err
		}
		var partitions []string
		for _, path := range logs {
			if p := filepath.Base(filepath.Dir(path)); !slices.Contains(partitions, p) && (partition == "" || p == partition) {
				partitions = append(partitions, p)
			}
		}
		slices.Sort(partitions)
		for _, p := range partitions {
			d, err := node.DumpLog(dir, p)
			if err != nil {
				return found, err
			}
			found = append(found, DumpedReplica{filepath.Base(dir), d})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no log of broker %d, partition %q there (0 and \"\" are all)", folder, broker, partition)
	}
	return found, nil
}

// nodesDir is the folder of the nodes in a run's folder; a folder of nodes is taken as it is.
func nodesDir(folder string) (string, error) {
	for _, dir := range []string{filepath.Join(folder, results.Nodes), folder} {
		if _, err := os.Stat(filepath.Join(dir, "controller")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s: not the folder of a run with nodes (those of a simulation leave none)", folder)
}

func nodeDir(folder, name string) (string, error) {
	dir, err := nodesDir(folder)
	return filepath.Join(dir, name), err
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidemark"
)

// askWithin bounds questions to clusters that may not be there.
const askWithin = 10 * time.Second

func newDescribe() *cobra.Command {
	var bootstrap []string
	cmd := &cobra.Command{
		Use:   "describe [RUN]",
		Short: "Describe partitions: leader, epoch, replicas, ISR, ELR",
		Long:  "Describe the partitions of a run, by the controller's record in its folder (also while it runs), or of any running cluster.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []tidemark.Described
			var err error
			switch {
			case len(args) == 1 && len(bootstrap) > 0, len(args) == 0 && len(bootstrap) == 0:
				return usageError{fmt.Errorf("describe: want the folder of a run or --bootstrap-server, one of them")}
			case len(args) == 1:
				if all, err = tidemark.DescribeRun(args[0]); err != nil {
					return usageError{err}
				}
			default:
				ctx, cancel := context.WithTimeout(cmd.Context(), askWithin)
				defer cancel()
				if all, err = tidemark.DescribeCluster(ctx, bootstrap); err != nil {
					return err
				}
			}
			return printDescribed(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringSliceVar(&bootstrap, "bootstrap-server", nil, "host:port of brokers of a running cluster")
	return cmd
}

func printDescribed(out io.Writer, all []tidemark.Described) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Topic\tPartition\tLeader\tLeaderEpoch\tReplicas\tIsr\tElr")
	for _, d := range all {
		leader, elr := fmt.Sprint(d.Leader), "?"
		if d.Leader < 0 {
			leader = "none"
		}
		if d.ELRKnown {
			elr = commas(d.ELR)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", d.Topic, d.Partition, leader, d.LeaderEpoch, commas(d.Replicas), commas(d.ISR), elr)
	}
	return w.Flush()
}

func commas(ids []int32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = fmt.Sprint(id)
	}
	return strings.Join(words, ",")
}

func newDumpLog() *cobra.Command {
	var broker int32
	var partition string
	cmd := &cobra.Command{
		Use:   "dump-log RUN",
		Short: "Print the records, epochs and checkpoints in brokers' files",
		Long:  "Print what the brokers' files of a run hold, also while it runs: each record's offset, leader epoch, value and its batch's CRC, and beside them the leader epoch checkpoint. Nothing is changed.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err != nil {
				return usageError{err}
			}
			logs, err := tidemark.DumpLogs(args[0], broker, partition)
			if err != nil {
				return usageError{err}
			}
			return printLogs(cmd.OutOrStdout(), logs)
		},
	}
	cmd.Flags().Int32Var(&broker, "broker", 0, "only this broker's")
	cmd.Flags().StringVar(&partition, "partition", "", "only this partition, for example orders-0")
	return cmd
}

func printLogs(out io.Writer, logs []tidemark.DumpedReplica) error {
	for i, d := range logs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		hw := "none"
		if d.HighWatermark >= 0 {
			hw = fmt.Sprint(d.HighWatermark)
		}
		fmt.Fprintf(out, "%s %s  high watermark checkpoint: %s\n", d.Broker, d.Partition, hw)
		epochs := make([]string, len(d.Epochs))
		for i, e := range d.Epochs {
			epochs[i] = fmt.Sprintf("epoch %d from %d", e.Epoch, e.Start)
		}
		fmt.Fprintf(out, "leader-epoch-checkpoint: %s\n", strings.Join(epochs, ", "))
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "offset\tepoch\tCRC\tvalue")
		for _, r := range d.Records {
			fmt.Fprintf(w, "%d\t%d\t%08x\t%s\n", r.Offset, r.Epoch, r.CRC, r.Value)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if d.Damage != "" {
			fmt.Fprintf(out, "then: %s\n", d.Damage)
		}
	}
	return nil
}

package tidemark_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"tidemark"
	"tidemark/checker"
	"tidemark/nemesis"
	"tidemark/nemesis/schedule"
)

// A gate in a project's own tests is these few lines with t.Fatal for what is printed here: a run under faults, and its verdict with the
// sentences and the evidence. On OnProcess or OnDocker the brokers are real.
func ExampleRun() {
	root, err := os.MkdirTemp("", "runs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	r, err := tidemark.Run(context.Background(), tidemark.RunConfig{On: tidemark.OnSim, Time: 20 * time.Second, Faults: nemesis.Basic(), Seed: 1, Root: root})
	if err != nil {
		fmt.Println(err) // the harness failed
		return
	}
	if r.Checked.Verdict != checker.Consistent {
		fmt.Println(r.Checked.Summary(), r.Folder)
	}
	fmt.Println(r.Checked.Verdict, r.Checked.Evidence.Acked > 20, r.Checked.Findings)
	// Output: consistent true []
}

// KIP-101's loss, on demand: the same schedule with the leader epoch off and on.
func ExampleReproduce() {
	root, err := os.MkdirTemp("", "runs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	s1, err := schedule.Find("S1")
	if err != nil {
		panic(err)
	}
	cells, err := tidemark.Reproduce(context.Background(), tidemark.ReproduceConfig{Schedules: []*schedule.File{s1},
		Columns: tidemark.Columns("hw", "kip101"), On: tidemark.OnSim, Root: root})
	for _, c := range cells {
		fmt.Println(c.Schedule, c.Protocol, c.Observed, c.Findings, c.OK)
	}
	fmt.Println(err)
	// Output:
	// S1 hw violation [lost-acked m1 read-then-lost m1] true
	// S1 kip101 consistent [] true
	// <nil>
}

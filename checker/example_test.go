package checker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"tidemark/checker"
	"tidemark/checker/history"
)

// A tool of any kind records what its clients did, and has it judged: here a log that lost an acknowledged record.
func Example() {
	var file bytes.Buffer
	w, err := history.NewWriter(&file, history.Header{Contract: history.Contract{Acks: "all", MinISR: 2}}, nil)
	if err != nil {
		panic(err)
	}
	const p = "orders-0"
	for _, e := range []history.Event{
		{Time: 1e6, Kind: history.Invoke, Process: 1, Op: history.Op{Type: history.Produce, Partition: p, Values: []string{"m0"}, Acks: -1}},
		{Time: 3e6, Kind: history.OK, Process: 1, Op: history.Op{Type: history.Produce, Partition: p, Offset: 0}},
		{Time: 9e6, Kind: history.Invoke, Process: 2, Op: history.Op{Type: history.Fetch, Partition: p, From: 0, Node: 2, Final: true}},
		{Time: 9e6, Kind: history.OK, Process: 2, Op: history.Op{Type: history.Fetch, Partition: p, HighWatermark: 0, Node: 2, Final: true}},
	} {
		if err := w.Append(&e); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	r, err := history.NewReader(&file)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	res, err := checker.Check(context.Background(), r, checker.Options{})
	if err != nil {
		panic(err)
	}
	if err := res.WriteText(os.Stdout); err != nil {
		panic(err)
	}
	fmt.Println("exit code", res.Verdict.ExitCode(false))
	// Output:
	// violation: lost-acked m0
	//
	// lost-acked m0: offset 0 of orders-0 (m0) was acked to process 1 at 0.003 s; the final log ends at 0.
	//
	// partition  operations  end  level      porcupine  certificate
	// orders-0   2           0    agreement  Illegal    order replayed, 1 slice
	// contract: bar committed log, acks=all, min.insync.replicas=2, unclean.leader.election.enable=false, crash budget isr
	// evidence: 1 acked produces, 0 reads, 1 final reads, 0 of unknown outcome, 0 failed, 0 leader changes, 0 truncations
	// exit code 1
}

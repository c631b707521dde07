package history_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"tidemark/checker/history"
)

// A tool in any language writes a history with the JSON encoder that it has; nothing of this package is needed. Ours reads it back.
func Example_foreignTool() {
	var file strings.Builder
	seq := 0
	line := func(fields map[string]any) {
		if seq++; seq > 1 {
			fields["seq"], fields["time"] = seq-1, seq*1000
		}
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&file, "%s\n", text)
	}
	call := func(process int, op string, question map[string]any) {
		question["kind"], question["process"], question["op"], question["partition"] = "invoke", process, op, "orders-0"
		line(question)
	}
	ok := func(process int, op string, answer map[string]any) {
		answer["kind"], answer["process"], answer["op"], answer["partition"] = "ok", process, op, "orders-0"
		line(answer)
	}
	line(map[string]any{"tidemark-history": 1, "contract": map[string]any{"acks": "all", "min.insync.replicas": 2}})
	call(1, "produce", map[string]any{"values": []string{"m0"}})
	ok(1, "produce", map[string]any{"offset": 0})
	call(2, "fetch", map[string]any{"from": 0, "final": true})
	ok(2, "fetch", map[string]any{"records": [][]any{{0, 0, "m0"}}, "hw": 1, "final": true})

	r, err := history.NewReader(strings.NewReader(file.String()))
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for e, err := range r.All() {
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stdout, e.Seq, e.Kind, e.Op.Type, e.Op.Values, e.Op.Records)
	}
	// Output:
	// 1 invoke produce [m0] []
	// 2 ok produce [] []
	// 3 invoke fetch [] []
	// 4 ok fetch [] [{0 0 m0}]
}

// A recorder appends an event before each request is sent and one after its answer arrived.
func ExampleWriter() {
	w, err := history.NewWriter(os.Stdout, history.Header{Contract: history.Contract{Acks: "all", MinISR: 2}}, nil)
	if err != nil {
		panic(err)
	}
	for _, e := range []history.Event{
		{Time: 12000, Kind: history.Invoke, Process: 4, Op: history.Op{Type: history.Produce, Partition: "orders-0", Values: []string{"m0"}, Acks: -1}},
		{Time: 15000, Kind: history.Info, Process: 4, Op: history.Op{Type: history.Produce, Partition: "orders-0", Error: "REQUEST_TIMED_OUT"}},
	} {
		if err := w.Append(&e); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	// Output:
	// {"tidemark-history":1,"contract":{"acks":"all","min.insync.replicas":2}}
	// {"seq":1,"time":12000,"kind":"invoke","process":4,"op":"produce","partition":"orders-0","values":["m0"],"acks":-1}
	// {"seq":2,"time":15000,"kind":"info","process":4,"op":"produce","partition":"orders-0","error":"REQUEST_TIMED_OUT"}
}

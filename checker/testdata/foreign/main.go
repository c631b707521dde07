// Command foreign shows how a tool that knows nothing of Tidemark records a history: with a JSON encoder and the lines that the package
// comment of checker/history documents. Its clients talk to a log that forgets its last record.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

var (
	out = json.NewEncoder(os.Stdout)
	seq = 0
)

// line writes an event.
func line(kind string, process int, op string, more map[string]any) {
	seq++
	more["seq"], more["time"], more["kind"], more["process"], more["op"] = seq, time.Now().UnixNano(), kind, process, op
	more["partition"] = "orders-0"
	if err := out.Encode(more); err != nil {
		panic(err)
	}
}

func main() {
	if err := out.Encode(map[string]any{"tidemark-history": 1}); err != nil {
		panic(err)
	}
	var records [][]any
	for i := range 100 {
		value := fmt.Sprint("m", i)
		line("invoke", 1, "produce", map[string]any{"values": []string{value}})
		records = append(records, []any{i, 0, value})
		line("ok", 1, "produce", map[string]any{"offset": i})
	}
	records = records[:99]
	line("invoke", 2, "fetch", map[string]any{"from": 0, "final": true})
	line("ok", 2, "fetch", map[string]any{"records": records, "hw": len(records), "final": true})
}

package kafka

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/rules"
)

// Requests a second over loopback, with a core behind the listener, each connection waiting for its response before the
// next request (inflight=1) or keeping several on the way as kgo's producer does:
//
//	go test -run xxx -bench Requests ./node/kafka
func BenchmarkRequests(b *testing.B) {
	produce := produceRequest(-1, orderOf(0), value("a value as the workload's are"))
	fetch := fetchRequest(12, -1, 1, 1, 0)
	for _, bench := range []struct {
		name string
		req  kmsg.Request
	}{{"produce", produce}, {"fetch", fetch}} {
		for _, conns := range []int{1, 40} {
			for _, inflight := range []int{1, 5} {
				b.Run(fmt.Sprintf("%s/connections=%d/inflight=%d", bench.name, conns, inflight), func(b *testing.B) {
					c := newCluster(b, 1, 1, rules.Of(rules.KIP320))
					produceAll(b, kgoClient(b, c), 0, []string{"m0"})
					clients := make([]client, conns)
					for i := range clients {
						nc, err := net.Dial("tcp", c.bootstrap())
						if err != nil {
							b.Fatal(err)
						}
						defer nc.Close()
						clients[i] = client{b, nc, fmt.Sprintf("tidemark-p%d", i)}
					}
					b.ReportAllocs()
					b.ResetTimer()
					var wg sync.WaitGroup
					for i, cl := range clients {
						n := b.N / conns
						if i < b.N%conns {
							n++
						}
						wg.Go(func() { cl.exchange(bench.req, n, inflight) })
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
				})
			}
		}
	}
}

// exchange sends n requests, at most inflight of them before their responses, and receives those.
func (c client) exchange(req kmsg.Request, n, inflight int) {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.id)).AppendRequest(nil, req, 1)
	for sent, received := 0, 0; received < n; received++ {
		for ; sent < n && sent-received < inflight; sent++ {
			if _, err := c.nc.Write(frame); err != nil {
				c.t.Error(err)
				return
			}
		}
		if _, err := readFrame(c.nc, 1<<20); err != nil {
			c.t.Error(err)
			return
		}
	}
}

package virtual

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"tidemark/node/replica"
)

// Network is how messages travel. Every chance of it is drawn from the seed by a counter, so that a run is its seed.
//
// Nodes and clients speak over TCP, which keeps the messages of one connection in order and loses none while the connection lives. What
// a real network does to them therefore shows as one of these:
type Network struct {
	// Delay is what a message takes one way at least, and Jitter what it takes longer at most, each message anew. Messages of one
	// core to one peer arrive in order all the same; those of different cores, or to different peers, pass each other.
	Delay, Jitter time.Duration
	// Reorder is the share of messages that arrive up to Late later than they would and are overtaken by those after them: what was
	// sent over a connection that was given up meanwhile, and still reached its receiver when the next connection was already in use.
	Reorder float64
	Late    time.Duration
	// Duplicate is the share of the requests between nodes that arrive twice: the sender's connection broke, and it asked once more,
	// but the first request had arrived. Clients never ask twice, see package workload.
	Duplicate float64
	// Lose is the share of messages over which the connection breaks: it does not arrive, and whoever waits for an answer is told
	// that the connection is lost. A request may then have been carried out, if it is its answer that was lost.
	Lose float64
}

// DefaultNetwork is one of a data center with a hiccup now and then.
func DefaultNetwork() Network {
	return Network{Delay: 200 * time.Microsecond, Jitter: 800 * time.Microsecond, Reorder: 0.005, Late: 20 * time.Millisecond,
		Duplicate: 0.001, Lose: 0.0005}
}

// Check says what is wrong with the settings.
func (n Network) Check() error {
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"delay", n.Delay}, {"jitter", n.Jitter}, {"late", n.Late}} {
		if d.is < 0 || d.is > time.Hour {
			return fmt.Errorf("network: %s=%s: want a duration up to an hour", d.name, d.is)
		}
	}
	for _, s := range []struct {
		name string
		is   float64
	}{{"reorder", n.Reorder}, {"duplicate", n.Duplicate}, {"lose", n.Lose}} {
		if !(s.is >= 0 && s.is <= 1) {
			return fmt.Errorf("network: %s=%v: want a share from 0 to 1", s.name, s.is)
		}
	}
	if n.Delay == 0 {
		return fmt.Errorf("network: delay=0s: a message takes time, or time would stand still")
	}
	return nil
}

// ParseNetwork changes the default network by "delay=1ms,jitter=5ms,reorder=0.01,late=50ms,duplicate=0.01,lose=0.001"; what is not named
// stays.
func ParseNetwork(s string) (Network, error) {
	n := DefaultNetwork()
	if s == "" {
		return n, nil
	}
	for _, word := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		if !ok {
			return n, fmt.Errorf("network: %q: want name=value, for example delay=1ms", word)
		}
		var err error
		switch name {
		case "delay":
			n.Delay, err = time.ParseDuration(value)
		case "jitter":
			n.Jitter, err = time.ParseDuration(value)
		case "late":
			n.Late, err = time.ParseDuration(value)
		case "reorder":
			n.Reorder, err = strconv.ParseFloat(value, 64)
		case "duplicate":
			n.Duplicate, err = strconv.ParseFloat(value, 64)
		case "lose":
			n.Lose, err = strconv.ParseFloat(value, 64)
		default:
			return n, fmt.Errorf("network: unknown setting %q: there are delay, jitter, reorder, late, duplicate, lose", name)
		}
		if err != nil {
			return n, fmt.Errorf("network: %s=%s: want a duration such as 1ms for delay, jitter and late, and else a share from 0 to 1", name, value)
		}
	}
	return n, n.Check()
}

// random gives the numbers of a seed one after the other: SplitMix64 (Steele, Lea and Flood, 2014), written out because a seed has to
// mean the same in every version of Go.
type random struct{ seed, count uint64 }

const golden = 0x9e3779b97f4a7c15

func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	r.count++
	return scramble(r.seed + r.count*golden)
}

func (r *random) below(n int64) int64 {
	if n <= 0 {
		return 0
	}
	high, _ := bits.Mul64(r.next(), uint64(n))
	return int64(high)
}

// chance is a share in the form in which it is drawn: 0 is never drawn at all.
type chance uint64

func chanceOf(share float64) chance { return chance(share * (1 << 32)) }

func (r *random) hits(c chance) bool { return c > 0 && chance(r.next()>>32) < c }

// wires are the network between the ends: brokers, the controller, and all clients together as the last one.
type wires struct {
	random
	c                        Network
	reorder, duplicate, lose chance
	ends, parts              int
	busy                     []int64   // when the last message of a connection arrives
	cut                      []bool    // by from and to
	held                     [][]event // what waits for a cut way to open, as in the buffers of a connection
	heldCount                []int     // since it was cut
}

func newWires(c Network, seed uint64, ends, parts int) wires {
	return wires{random: random{seed: scramble(seed + golden)}, c: c, reorder: chanceOf(c.Reorder), duplicate: chanceOf(c.Duplicate),
		lose: chanceOf(c.Lose), ends: ends, parts: parts, busy: make([]int64, ends*ends*(parts+1)), cut: make([]bool, ends*ends),
		held: make([][]event, ends*ends), heldCount: make([]int, ends*ends)}
}

// delay is one way's.
func (w *wires) delay() int64 { return int64(w.c.Delay) + w.below(int64(w.c.Jitter)) }

func (w *wires) way(from, to int) int { return from*w.ends + to }

// arrival is when a message that is sent now arrives, and whether it goes a way of its own. part is the core that it belongs to.
func (w *wires) arrival(now int64, from, to, part int) (at int64, stray bool) {
	at = now + w.delay()
	if w.hits(w.reorder) {
		return at + w.below(int64(w.c.Late)), true
	}
	last := &w.busy[w.way(from, to)*(w.parts+1)+part]
	at = max(at, *last)
	*last = at
	return at, false
}

// isAnswer says whether a message between nodes answers one that went the other way.
func isAnswer(b replica.Body) bool {
	switch b.(type) {
	case *replica.Fetch, *replica.OffsetForLeaderEpoch, *replica.ListOffsets, *replica.LeaderAndIsr, *replica.AlterPartition:
		return false
	}
	return strings.HasSuffix(string(b.Kind()), " answer")
}

package workload

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// routes is what the clients of a workload know together of who leads what. It is learnt from brokers, any of them, and goes stale
// without notice, as it does for all clients of Kafka.
type routes struct {
	dial       Dialer
	partitions []partition
	place      map[string]map[int32]int // of a partition, by topic and index
	stats      *Stats

	clock      func() time.Duration // time since the routes began
	now        atomic.Pointer[topology]
	refreshing chan struct{} // a lock whose waiters can give up
	order      []int32       // brokers, the next to ask first; under refreshing
	brokers    map[int32]*contact
}

// topology is a snapshot of [routes]; nobody changes it.
type topology struct {
	partitions []route
	addresses  map[string]int32 // brokers by the host:port that they advertise
}

// route is where requests for a partition go.
type route struct {
	leader   int32 // nobody if none is known
	last     int32 // who led when last anybody did
	epoch    int32 // leader epoch, -1 if the broker does not tell
	replicas []int32
}

// nobody is the wire's word for no leader.
const nobody int32 = -1

// contact remembers that a broker does not answer.
type contact struct {
	quietUntil atomic.Int64 // ns since the routes began, 0 if it answers
}

var errNoBroker = errors.New("no broker tells who leads")

func newRoutes(d Dialer, ps []partition, stats *Stats) *routes {
	began := time.Now()
	r := routesTo(d.Brokers(), ps, stats, func() time.Duration { return time.Since(began) })
	r.dial = d
	return r
}

// routesTo makes routes that nobody asks by way of a connection.
func routesTo(brokers []int32, ps []partition, stats *Stats, clock func() time.Duration) *routes {
	r := &routes{partitions: ps, place: map[string]map[int32]int{}, stats: stats, clock: clock,
		refreshing: make(chan struct{}, 1), order: slices.Clone(brokers), brokers: map[int32]*contact{}}
	for i, p := range ps {
		if r.place[p.topic] == nil {
			r.place[p.topic] = map[int32]int{}
		}
		r.place[p.topic][p.index] = i
	}
	for _, b := range r.order {
		r.brokers[b] = &contact{}
	}
	none := make([]route, len(ps))
	for i := range none {
		none[i] = route{leader: nobody, last: nobody, epoch: -1}
	}
	r.now.Store(&topology{partitions: none, addresses: map[string]int32{}})
	return r
}

// node is whom an operation goes to, nobody if that is not known.
func (r *routes) node(op *Operation) int32 {
	to := &r.now.Load().partitions[op.Partition]
	if !op.Follower {
		return to.leader
	}
	n := 0
	for _, b := range to.replicas {
		if b != to.leader {
			n++
		}
	}
	// Beginning with the one that was picked, the first that is not known to be silent: to a broker that is frozen or cut off,
	// one client now and then is enough, since each waits for its whole timeout.
	for i := range n {
		skip := (int(op.Pick%uint64(n)) + i) % n
		for _, b := range to.replicas {
			if b == to.leader {
				continue
			}
			if skip == 0 && r.worthTrying(b) {
				return b
			}
			skip--
		}
	}
	return to.leader
}

// quiet is how long a broker is left alone that did not answer.
const quiet = time.Second

// worthTrying says whether a broker may answer. Of all who ask while it does not, one a second is told yes.
func (r *routes) worthTrying(node int32) bool {
	c := r.brokers[node]
	if c == nil {
		return true
	}
	until, now := c.quietUntil.Load(), int64(r.clock())
	return until == 0 || now >= until && c.quietUntil.CompareAndSwap(until, now+int64(quiet))
}

func (r *routes) isQuiet(node int32) bool {
	c := r.brokers[node]
	return c != nil && int64(r.clock()) < c.quietUntil.Load()
}

// silent notes that a broker cannot be reached or does not answer, heard that it did.
func (r *routes) silent(node int32) {
	if c := r.brokers[node]; c != nil {
		c.quietUntil.Store(int64(r.clock() + quiet))
	}
}

func (r *routes) heard(node int32) {
	if c := r.brokers[node]; c != nil && c.quietUntil.Load() != 0 {
		c.quietUntil.Store(0)
	}
}

// refresh asks who leads, unless somebody else has found out since the snapshot was taken: of the clients that notice a new
// leader at the same time one asks, and the others wait for it. It asks one broker after the other until one answers.
func (r *routes) refresh(cl *client, seen *topology) error {
	select {
	case r.refreshing <- struct{}{}:
	case <-cl.ctx.Done():
		return cl.ctx.Err()
	}
	defer func() { <-r.refreshing }()
	if r.now.Load() != seen {
		return nil
	}
	var failures []error
	for _, node := range r.toAsk() {
		r.asked(node)
		resp, err := cl.metadata(node)
		if err == nil {
			r.learn(resp)
			return nil
		}
		if cl.ctx.Err() != nil {
			return cl.ctx.Err()
		}
		failures = append(failures, fmt.Errorf("broker %d: %w", node, err))
	}
	return fmt.Errorf("%w: %w", errNoBroker, errors.Join(failures...))
}

// toAsk lists the brokers in the order in which they are to be asked who leads: who did not answer of late is asked last.
func (r *routes) toAsk() []int32 {
	order := slices.Clone(r.order)
	slices.SortStableFunc(order, func(a, b int32) int {
		if r.isQuiet(a) == r.isQuiet(b) {
			return 0
		}
		if r.isQuiet(b) {
			return -1
		}
		return 1
	})
	return order
}

// asked notes that a broker is asked. Next time somebody else comes first: a broker that is cut off tells what it knew, and must
// not be the only one asked.
func (r *routes) asked(node int32) {
	r.order = append(slices.DeleteFunc(r.order, func(b int32) bool { return b == node }), node)
}

// learn takes in what a broker tells.
func (r *routes) learn(resp *kmsg.MetadataResponse) {
	old := r.now.Load()
	// A broker tells of the live ones that it knows of: the others' addresses stay as they were last told.
	t := &topology{partitions: slices.Clone(old.partitions), addresses: maps.Clone(old.addresses)}
	for _, b := range resp.Brokers {
		t.addresses[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = b.NodeID
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			if i, ok := r.place[deref(rt.Topic)][rp.Partition]; ok {
				r.take(t, Told{Partition: i, Leader: rp.Leader, LeaderEpoch: rp.LeaderEpoch, Replicas: rp.Replicas})
			}
		}
	}
	r.now.Store(t)
}

// Told is what a broker tells of one partition when it is asked who leads (Metadata).
type Told struct {
	Partition   int   // its place in the configuration, counted through all topics
	Leader      int32 // -1: nobody
	LeaderEpoch int32 // -1: not told
	Replicas    []int32
}

func (r *routes) take(t *topology, p Told) {
	if t.partitions[p.Partition].learn(p) {
		r.stats.leaderChanges.Add(1)
	}
}

// learn takes in what a broker tells of one partition, and reports whether somebody else leads now.
func (to *route) learn(p Told) (changed bool) {
	if p.LeaderEpoch >= 0 && p.LeaderEpoch < to.epoch {
		return false // told by a broker that has not heard of the newest election (KIP-320)
	}
	*to = route{leader: p.Leader, last: to.last, epoch: max(p.LeaderEpoch, to.epoch), replicas: p.Replicas}
	if p.Leader == nobody {
		return false
	}
	changed = to.last != nobody && to.last != p.Leader
	to.last = p.Leader
	return changed
}

// missing names the partitions of which nothing is known, and counts those that are known to have no leader.
func (r *routes) missing() (names []string, leaderless int) {
	for i, to := range r.now.Load().partitions {
		switch {
		case len(to.replicas) == 0:
			names = append(names, r.partitions[i].name)
		case to.leader == nobody:
			leaderless++
		}
	}
	return names, leaderless
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

package workload

import (
	"time"

	"tidemark/checker/history"
)

// Crew are the clients of a workload without connections, goroutines or a clock, for a simulation in one goroutine: the same
// generators, records, routes and pauses as those of [Run], moved from outside.
//
//	for each client: Due -> Begin -> (send, wait for an answer or a time-out) -> End -> what Then says -> Due ...
//
// Who leads is what the crew knows together, as the clients of [Run] do. A crew is not safe for concurrent use.
type Crew struct {
	config Config
	routes *routes
	now    func() time.Time
	sink   history.Sink
	actors []Actor
	ops    []Operation // under way, a client's in its place
}

// NewCrew makes a crew that can be told who leads, and whose clients begin to work with [Crew.Start]. The clock must
// not give the zero time. The error is one of the configuration.
func NewCrew(c Config, brokers []int32, sink history.Sink, now func() time.Time) (*Crew, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	began := now()
	k := &Crew{config: c, now: now, sink: sink, ops: make([]Operation, c.Clients)}
	k.routes = routesTo(brokers, c.partitions(), c.Stats, func() time.Duration { return now().Sub(began) })
	return k, nil
}

// Start begins the workload now. Before it, the crew has no clients.
func (k *Crew) Start() {
	start := k.now()
	k.actors = make([]Actor, k.config.Clients)
	for i := range k.actors {
		k.actors[i] = newActor(&k.config, k.routes, k.sink, i, start)
	}
}

// Config is the configuration with its defaults filled in.
func (k *Crew) Config() Config { return k.config }

// Acks are the crew's, as a request has them.
func (k *Crew) Acks() int16 { return acksOnWire[k.config.Acks] }

// Due is when client i begins its next operation, at once if that is past.
func (k *Crew) Due(i int) time.Time { return k.actors[i].pace.due(k.actors[i].until) }

// Begin chooses client i's next operation, writes down that it begins, and says which broker is to be asked, -1 if nobody is known;
// ok is false when the time is over. The operation stays as it is until End.
func (k *Crew) Begin(i int) (op *Operation, node int32, ok bool, err error) {
	a := &k.actors[i]
	if !a.pace.begin(k.now(), a.until) {
		return nil, nobody, false, nil
	}
	k.ops[i] = a.generator.Next()
	node, err = a.begin(&k.ops[i])
	return &k.ops[i], node, true, err
}

// End writes down what came of client i's operation, which took so long. stale says that somebody else may lead ([StaleRoute]).
func (k *Crew) End(i int, a Answer, stale bool, took time.Duration) (Then, error) {
	return k.actors[i].end(a, stale, took)
}

// Pause is how long client i waits, if End told it to.
func (k *Crew) Pause(i int) time.Duration { return k.actors[i].pause.next() }

// Second tells the stats that a second is over, at a time since the workload began.
func (k *Crew) Second(at time.Duration) { k.config.Stats.tick(at) }

// Seen is a token of what the crew knows of who leads: it is another after each [Crew.Learn].
func (k *Crew) Seen() any { return k.routes.now.Load() }

// ToAsk lists the brokers in the order in which they are to be asked who leads, until one answers.
func (k *Crew) ToAsk() []int32 { return k.routes.toAsk() }

// Asked notes that a broker is asked who leads.
func (k *Crew) Asked(node int32) { k.routes.asked(node) }

// AskTimeout is how long one broker may take to tell.
func (k *Crew) AskTimeout() time.Duration { return min(askTimeout, k.config.Timeout) }

// Learn takes in what a broker told.
func (k *Crew) Learn(all []Told) {
	t := &topology{partitions: append([]route(nil), k.routes.now.Load().partitions...)}
	for _, p := range all {
		k.routes.take(t, p)
	}
	k.routes.now.Store(t)
}

// Ready says whether every partition is known and has a leader.
func (k *Crew) Ready() bool {
	missing, leaderless := k.routes.missing()
	return len(missing)+leaderless == 0
}

// Silent notes that a broker cannot be reached or does not answer, Heard that it did.
func (k *Crew) Silent(node int32) { k.routes.silent(node) }

// Heard is the opposite of Silent.
func (k *Crew) Heard(node int32) { k.routes.heard(node) }

// FinalReads is the function of that name, by way of reads that somebody else makes, as a process that nobody else has used.
func (k *Crew) FinalReads(reads Reads, sink history.Sink) error {
	return k.reader(reads).finalReads(sink)
}

// Dump is the function of that name, likewise.
func (k *Crew) Dump(reads Reads, node int32, topic string, index int32) (*history.Replica, error) {
	return k.reader(reads).dumpOf(node, topic, index)
}

func (k *Crew) reader(reads Reads) *reader {
	c := k.config
	c.Clients, c.FirstProcess, c.Stats = 1, k.config.Stats.NextProcess(), &Stats{}
	return &reader{Reads: reads, config: &c, routes: k.routes}
}

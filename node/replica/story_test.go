package replica_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/rules/rulestest"
	"tidemark/node/storage/memory"
)

// TestStories plays the files of testdata: messages to one replica, and what it makes of them. -rewrite writes what it
// makes of them now.
//
// Every directive is one command or several, a line each; below ---- stands what the replica sent, and how it looks after
// the last of them. How it looks is drawn as schedules draw it,
//
//	2f m0.0 |m1.0   epochs 0@0
//
// a follower with m0 committed and m1 not, both of epoch 0, which began at offset 0.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTestAny(t, path, s.tell)
	})
}

// tell carries out the commands of one directive and returns what there is to say of them.
func (s *story) tell(t testing.TB, d *datadriven.TestData) string {
	s.t, s.said = t, strings.Builder{}
	for i, line := range strings.Split(d.FullCmd()+"\n"+d.Input, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, args, err := datadriven.ParseLine(line)
		require.NoError(t, err, "%s, line %d", d.Pos, i+1)
		s.do(command{t: t, pos: d.Pos, name: name, args: args})
	}
	if s.replica != nil {
		s.say("%s", s.picture())
	}
	return s.said.String()
}

// story is one replica and its disk.
type story struct {
	t       testing.TB
	said    strings.Builder
	config  replica.Config
	wrong   rulestest.Change // made in every set of rules; zero: none
	disk    *memory.Disk
	log     *brittle
	replica *replica.Replica
	now     replica.Time

	brokerEpoch int64
	version     int64
	word        replica.LeaderAndIsr   // the newest
	clients     int64                  // processes so far
	asked       map[replica.Kind]int32 // number of the replica's newest request of a kind
	numbers     map[replica.ID]int32   // of the requests to the replica
}

var orders = replica.Partition{Topic: "orders"}

// brittle is a log of which the next call of one kind, or the one after it, can be told to fail.
type brittle struct {
	replica.Log
	fail string
}

var errDisk = errors.New("input/output error")

func (l *brittle) failing(call string) bool {
	if l.fail == "second-"+call {
		l.fail = call
		return false
	}
	if l.fail != call {
		return false
	}
	l.fail = ""
	return true
}

func (l *brittle) Append(b replica.Batch) error {
	if l.failing("append") {
		return errDisk
	}
	return l.Log.Append(b)
}

func (l *brittle) TruncateTo(offset int64) error {
	if l.failing("truncate") {
		return errDisk
	}
	return l.Log.TruncateTo(offset)
}

func (l *brittle) Reset(offset int64) error {
	if l.failing("reset") {
		return errDisk
	}
	return l.Log.Reset(offset)
}

func (l *brittle) Read(from int64, maxBytes int) ([]replica.Batch, error) {
	if l.failing("read") {
		return nil, errDisk
	}
	return l.Log.Read(from, maxBytes)
}

func (l *brittle) SetEpochs(e []replica.EpochStart) error {
	if l.failing("epochs") {
		return errDisk
	}
	return l.Log.SetEpochs(e)
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.said, format+"\n", args...) }

// do carries out one command.
func (s *story) do(c command) {
	switch c.name {
	case "open": // self=N [protocol=P] [without=(..)] [rules=(..)] [min-isr=K] [lag-max= fetch-wait= timeout= backoff=] [log=(..)] [epochs=(E@K ..)] [hw=K]
		s.open(c)
	case "kill": // the process; the page cache survives
		s.start(c)
	case "power-failure": // [keep=K]: the first K operations since the last flush survive
		lost, err := s.disk.Power(replica.Cut{orders: {Keep: int(c.number("keep", 0))}})
		require.NoError(s.t, err)
		for _, l := range lost {
			s.say("power failure: %d operations and %d bytes are lost", l.Operations, l.Bytes)
		}
		s.start(c)
	case "flush":
		require.NoError(s.t, s.disk.Flush(orders))
	case "checkpoint":
		require.NoError(s.t, s.disk.Checkpoint(map[replica.Partition]int64{orders: s.replica.HighWatermark()}))
	case "register": // epoch=K
		s.brokerEpoch = c.number("epoch", s.brokerEpoch)
		s.step(replica.None, 0, &replica.Registered{BrokerEpoch: s.brokerEpoch})
	case "fail": // append | truncate | reset | read | epochs, or second-..: the one after the next
		s.log.fail = c.args[0].Key
	case "at": // T: the time
		s.now = replica.Time(c.bare())
	case "deadline":
		if due := s.replica.Deadline(); due == replica.Never {
			s.say("no deadline")
		} else {
			s.say("deadline %d", due)
		}
	case "state":
		s.say("%x", s.replica.AppendState(s.now, nil))
	case "tick":
		s.step(replica.None, 0, &replica.Tick{})
	case "poll": // [max=K]
		s.step(replica.None, 0, &replica.Poll{MaxRecords: int32(c.number("max", 0))})
	case "lag": // N
		s.step(replica.None, 0, &replica.Lag{Replica: replica.ID(c.bare())})
	case "lost": // KIND: the connection broke over the newest request of that kind
		kind := replica.Kind(c.args[0].Key)
		s.step(replica.ID(c.number("from", 1)), s.asked[kind], &replica.ConnectionLost{Request: kind})
	default:
		if !s.clientOrPeer(c) && !s.answer(c) {
			s.t.Fatalf("%s: no command %q", c.pos, c.name)
		}
	}
}

// open opens a replica on an empty disk, or one that holds a log already.
func (s *story) open(c command) {
	set, err := rules.Parse(rules.Protocol(c.text("protocol", "kip320")), c.list("without"), c.list("rules"))
	require.NoError(s.t, err)
	set, _ = s.wrong.Of(set)
	*s = story{t: s.t, wrong: s.wrong, disk: memory.New(), brokerEpoch: 1, asked: map[replica.Kind]int32{}, numbers: map[replica.ID]int32{},
		word: replica.LeaderAndIsr{PartitionEpoch: -1}}
	s.config = replica.Config{Self: replica.ID(c.number("self", 1)), Partition: orders, Rules: set, MinISR: int(c.number("min-isr", 2)),
		LagMax: replica.Time(c.number("lag-max", 0)), FetchWait: replica.Time(c.number("fetch-wait", 0)),
		Timeout: replica.Time(c.number("timeout", 0)), Backoff: replica.Time(c.number("backoff", 0)), FirstNumber: 1}
	l, err := s.disk.Log(orders)
	require.NoError(s.t, err)
	var epochs []replica.EpochStart
	for _, b := range c.batches("log", 0) {
		require.NoError(s.t, l.Append(b))
		if n := len(epochs); n == 0 || epochs[n-1].Epoch != b.Epoch {
			epochs = append(epochs, replica.EpochStart{Epoch: b.Epoch, Start: b.Base})
		}
	}
	if c.has("epochs") {
		epochs = nil
	}
	for _, w := range c.list("epochs") {
		e, at, _ := strings.Cut(w, "@")
		epochs = append(epochs, replica.EpochStart{Epoch: int32(c.parse(e)), Start: c.parse(at)})
	}
	require.NoError(s.t, l.SetEpochs(epochs))
	require.NoError(s.t, s.disk.Checkpoint(map[replica.Partition]int64{orders: c.number("hw", 0)}))
	s.start(c)
}

// start opens the replica with what its disk holds, as a new process does, which registers at once.
func (s *story) start(c command) {
	l, err := s.disk.Log(orders)
	require.NoError(s.t, err)
	s.log = &brittle{Log: l}
	r, err := replica.Open(s.config, s.log)
	require.NoError(s.t, err, c.pos)
	s.replica, s.word.PartitionEpoch = r, -1
	if s.brokerEpoch != replica.NoBrokerEpoch {
		s.step(replica.None, 0, &replica.Registered{BrokerEpoch: s.brokerEpoch})
	}
}

// clientOrPeer carries out the commands that are requests to the replica.
func (s *story) clientOrPeer(c command) bool {
	var b replica.Body
	from := replica.Controller
	switch c.name {
	case "leader-and-isr": // leader=N epoch=K [pe=K] [version=K] [isr=(..)] [replicas=(..)] [fenced=(..)] [broker-epochs=(N@K)] [for=K]
		b = s.leaderAndIsr(c)
	case "produce": // V [acks=all|1|0] [timeout=T] [producer=P epoch=E seq=S]
		from = replica.Client(s.clients)
		s.clients++
		acks := map[string]int16{"all": replica.AcksAll, "1": replica.AcksOne, "0": replica.AcksNo, "2": 2}[c.text("acks", "all")]
		b = &replica.Produce{Acks: acks, Timeout: replica.Time(c.number("timeout", 0)), Batch: replica.Batch{
			Count: int32(c.number("count", 1)), Producer: c.number("producer", replica.NoProducer), ProducerEpoch: int16(c.number("epoch", 0)),
			Sequence: int32(c.number("seq", 0)), Data: []byte(c.args[0].Key)}}
	case "fetch": // N | consumer | debug, offset=K [epoch=E] [after=E] [broker-epoch=K] [max-wait=T] [max-bytes=K] [from-follower]
		from = s.sender(c)
		b = &replica.Fetch{Offset: c.number("offset", 0), LeaderEpoch: int32(c.number("epoch", int64(replica.NoEpoch))),
			LastEpoch: int32(c.number("after", int64(replica.NoEpoch))), BrokerEpoch: c.number("broker-epoch", replica.NoBrokerEpoch), MaxBytes: int32(c.number("max-bytes", 1<<20)),
			MaxWait: replica.Time(c.number("max-wait", 0)), Debug: c.args[0].Key == "debug", FromFollower: c.has("from-follower")}
	case "offset-for-leader-epoch": // N | consumer, of=E [epoch=E]
		from = s.sender(c)
		b = &replica.OffsetForLeaderEpoch{LeaderEpoch: int32(c.number("epoch", int64(replica.NoEpoch))), Epoch: int32(c.number("of", 0))}
	case "list-offsets": // N | consumer, latest | earliest | log-end | timestamp=K [epoch=E]
		from = s.sender(c)
		at := c.number("timestamp", replica.LatestOffset)
		switch {
		case c.has("earliest"):
			at = replica.EarliestOffset
		case c.has("log-end"):
			at = replica.LogEndOffset
		}
		b = &replica.ListOffsets{LeaderEpoch: int32(c.number("epoch", int64(replica.NoEpoch))), Timestamp: at}
	default:
		return false
	}
	s.numbers[from]++
	s.step(from, s.numbers[from], b)
	return true
}

// sender is who sends a request: a broker, or a new client.
func (s *story) sender(c command) replica.ID {
	if n, err := strconv.Atoi(c.args[0].Key); err == nil {
		return replica.ID(n)
	}
	s.clients++
	return replica.Client(s.clients - 1)
}

// leaderAndIsr is the controller's word. What the command does not say is as in the word before.
func (s *story) leaderAndIsr(c command) *replica.LeaderAndIsr {
	w := s.word
	if w.Replicas == nil {
		w.Replicas, w.ISR = []replica.ID{1, 2, 3}, []replica.ID{1, 2, 3}
	}
	s.version++
	w.Version = c.number("version", s.version)
	w.Leader = replica.ID(c.number("leader", int64(w.Leader)))
	w.LeaderEpoch = int32(c.number("epoch", int64(w.LeaderEpoch)))
	w.PartitionEpoch = int32(c.number("pe", int64(w.PartitionEpoch+1)))
	w.BrokerEpoch = c.number("for", s.brokerEpoch)
	if c.has("replicas") {
		w.Replicas = c.ids("replicas")
	}
	if c.has("isr") {
		w.ISR = c.ids("isr")
	}
	w.Brokers = nil
	for _, id := range w.Replicas {
		w.Brokers = append(w.Brokers, replica.BrokerState{ID: id, Epoch: 1})
	}
	for _, epoch := range c.list("broker-epochs") {
		id, k, _ := strings.Cut(epoch, "@")
		for i := range w.Brokers {
			if w.Brokers[i].ID == replica.ID(c.parse(id)) {
				w.Brokers[i].Epoch = c.parse(k)
			}
		}
	}
	for _, id := range c.ids("fenced") {
		for i := range w.Brokers {
			w.Brokers[i].Fenced = w.Brokers[i].Fenced || w.Brokers[i].ID == id
		}
	}
	if w.PartitionEpoch > s.word.PartitionEpoch {
		s.word = w
	}
	return &w
}

// answer carries out the commands that are answers to the replica's newest request of their kind.
func (s *story) answer(c command) bool {
	var b replica.Body
	var kind replica.Kind
	from := replica.ID(c.number("from", int64(s.word.Leader)))
	code := c.code()
	switch c.name {
	case "fetch-answer": // [CODE] [hw=K] [start=K] [batches=(V.E@K ..)] [diverging=E@K] [from=N] [number=K]
		kind = replica.KindFetch
		a := &replica.FetchAnswer{Error: code, HighWatermark: c.number("hw", 0), Start: c.number("start", 0), Batches: c.batches("batches", 0)}
		if epoch, end, ok := strings.Cut(c.text("diverging", ""), "@"); ok {
			a.Diverging = &replica.EpochEnd{Epoch: int32(c.parse(epoch)), End: c.parse(end)}
		}
		b = a
	case "epoch-answer": // [CODE] [epoch=E end=K]
		kind = replica.KindOffsetForLeaderEpoch
		b = &replica.OffsetForLeaderEpochAnswer{Error: code, Epoch: int32(c.number("epoch", int64(replica.NoEpoch))), End: c.number("end", replica.NoOffset)}
	case "list-answer": // [CODE] offset=K
		kind = replica.KindListOffsets
		b = &replica.ListOffsetsAnswer{Error: code, Offset: c.number("offset", replica.NoOffset)}
	case "alter-answer": // [CODE] [epoch=E pe=K isr=(..)]
		kind, from = replica.KindAlterPartition, replica.Controller
		a := &replica.AlterPartitionAnswer{Error: code, Leader: s.config.Self, LeaderEpoch: int32(c.number("epoch", int64(s.word.LeaderEpoch))),
			PartitionEpoch: int32(c.number("pe", int64(s.word.PartitionEpoch+1))), ISR: c.ids("isr")}
		if code == replica.OK {
			s.word.PartitionEpoch, s.word.ISR = a.PartitionEpoch, a.ISR
		}
		b = a
	default:
		return false
	}
	s.step(from, int32(c.number("number", int64(s.asked[kind]))), b)
	return true
}

// step hands a message to the replica and says what it sends.
func (s *story) step(from replica.ID, number int32, b replica.Body) {
	m := replica.Message{From: from, To: s.config.Self, Partition: orders, Number: number, Body: b}
	for _, out := range s.replica.Step(s.now, m, nil) {
		switch out.Body.(type) {
		case *replica.Fetch, *replica.OffsetForLeaderEpoch, *replica.ListOffsets, *replica.AlterPartition:
			s.asked[out.Body.Kind()] = out.Number
		}
		require.Equal(s.t, s.config.Self, out.From)
		require.Equal(s.t, orders, out.Partition)
		s.say("%s", sentence(out))
	}
}

// picture is how the replica looks.
func (s *story) picture() string {
	v := s.replica.View()
	role := map[replica.Role]string{replica.RoleNone: "-", replica.RoleLeader: "L", replica.RoleFollower: "f", replica.RoleOffline: "!"}[v.Role]
	if v.Truncating {
		role = "t"
	}
	p := fmt.Sprintf("%d%s", s.config.Self, role)
	batches, err := s.log.Log.Read(v.Start, 1<<30)
	require.NoError(s.t, err)
	if v.Start > 0 {
		p += fmt.Sprintf(" %d:", v.Start)
	}
	bar := " "
	for _, b := range batches {
		if b.Base == v.HW {
			bar = " |"
		}
		p += fmt.Sprintf("%s%s.%d", bar, b.Data, b.Epoch)
		bar = " "
	}
	if v.HW == v.LEO {
		p += " |"
	}
	p += "   epochs"
	for _, e := range v.Epochs {
		p += fmt.Sprintf(" %d@%d", e.Epoch, e.Start)
	}
	if v.Role == replica.RoleLeader {
		p += fmt.Sprintf(", ISR %s", names(v.ISR))
		if names(v.MaximalISR) != names(v.ISR) {
			p += fmt.Sprintf(" (maximal %s)", names(v.MaximalISR))
		}
		if v.Waiting > 0 {
			p += fmt.Sprintf(", %d waiting", v.Waiting)
		}
	}
	return p
}

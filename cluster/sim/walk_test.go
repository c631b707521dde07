package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// action is one step of a random walk. What it does depends on how things are; where that is nothing, it is skipped. So a
// walk from which actions were taken out is a walk, and shrinking one is easy.
type action struct {
	do   string
	node control.NodeID
	pick int // which of several messages, or how much of something
}

func (a action) String() string { return fmt.Sprintf("%s %d %d", a.do, a.node, a.pick) }

// The actions, as often as they should be taken relative to each other.
var (
	replication = []string{"produce", "produce", "exchange", "exchange", "exchange", "exchange", "poll", "deliver", "deliver",
		"deliver", "drop", "learn", "learn", "learn stale", "lag", "checkpoint", "checkpoint", "flush", "leader fetches"}
	faults = []string{"kill", "start", "start", "fence", "heartbeat", "heartbeat", "transfer", "isolate", "heal", "pause", "resume"}
	power  = []string{"powerfail", "start", "start"}
)

// walks draws random walks of the actions.
func walks(of ...[]string) *rapid.Generator[[]action] {
	one := rapid.Custom(func(t *rapid.T) action {
		return action{rapid.SampledFrom(slices.Concat(of...)).Draw(t, "do"), control.NodeID(rapid.IntRange(1, 3).Draw(t, "node")),
			rapid.IntRange(0, 7).Draw(t, "pick")}
	})
	return rapid.SliceOfN(one, 40, 120)
}

// command is one call of the stage: what an action came to. Commands and nothing else move the cluster, so that the same
// commands can be given to another one.
type command struct {
	call    string // do, start, kill, powerfail, pause, resume, send
	at      control.NodeID
	do      control.Command
	cut     schedule.Cut
	process int64
	request control.Request
}

// give gives the command to a stage.
func (c command) give(ctx context.Context, s *Stage) (control.Reply, error) {
	var reply control.Reply
	var err error
	switch c.call {
	case "start":
		return s.Start(ctx, c.at)
	case "kill":
		_, err = s.Kill(ctx, c.at)
	case "powerfail":
		_, err = s.PowerFail(ctx, c.at, c.cut)
	case "pause", "resume":
		reply, _, err = s.Pause(ctx, c.at, c.call == "pause")
	case "send":
		var m control.Message
		m, err = s.Send(ctx, c.process, c.at, c.request)
		reply.Sent = []control.Message{m}
	default:
		return s.Do(ctx, c.at, c.do)
	}
	return reply, err
}

// cluster is a stage on a walk, and what is known of it that no node knows.
type cluster struct {
	stage    *Stage
	check    func(*cluster) error // after every command
	commands []command
	trace    []uint64 // digest of everything after each command
	isolated []control.NodeID
	values   int64

	record    control.RecordView
	seen      map[control.NodeID]control.PartitionView // as last looked at
	acked     map[string]int64                         // value to offset
	written   map[control.Record]string                // offset and epoch to value
	forked    string                                   // how one offset and epoch came to have two values
	epochs    map[string]int32                         // the highest leader and partition epoch that a node has had
	cuts      []control.Event                          // truncations below the own high watermark
	unclean   bool                                     // an election from outside of the ISR and the ELR
	powerLoss int
}

// newCluster makes a cluster of three in which min.insync.replicas is two.
func newCluster(set rules.Set, check func(*cluster) error) (*cluster, error) {
	stage, err := NewStage(context.Background(), schedule.Cluster{Replicas: []control.NodeID{1, 2, 3}, MinISR: 2}, set)
	if err != nil {
		return nil, err
	}
	record := stage.nodes[control.Controller].host.View(0).Records[0]
	return &cluster{stage: stage, record: record, check: check, seen: map[control.NodeID]control.PartitionView{}, acked: map[string]int64{},
		written: map[control.Record]string{}, epochs: map[string]int32{}}, nil
}

// run takes the actions and brings everything back at the end.
func (c *cluster) run(actions []action) error {
	if err := c.settle(); err != nil {
		return err
	}
	for i, a := range actions {
		if err := c.take(a); err != nil {
			return fmt.Errorf("action %d, %s: %w", i, a, err)
		}
	}
	for _, n := range c.stage.ids {
		for _, do := range []string{"heal", "resume", "start"} {
			if err := c.take(action{do: do, node: n}); err != nil {
				return fmt.Errorf("at the end, %s %d: %w", do, n, err)
			}
		}
	}
	if err := c.settle(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}

// do gives a command, moves on what no action is for, and looks at everything.
func (c *cluster) do(cmd command) (control.Reply, error) {
	c.commands = append(c.commands, cmd)
	reply, err := cmd.give(context.Background(), c.stage)
	if err != nil {
		return reply, err
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	if err := c.note(cmd, reply); err != nil {
		return reply, err
	}
	for _, m := range reply.Sent {
		switch {
		case m.Fate == control.FateSent:
			err = c.receive(m)
		case m.Fate == control.FateLost:
			err = c.lost(m)
		}
		if err != nil {
			return reply, err
		}
	}
	return reply, nil
}

func (c *cluster) tell(at control.NodeID, cmd control.Command) (control.Reply, error) {
	return c.do(command{call: "do", at: at, do: cmd})
}

// receive takes an answer for a client.
func (c *cluster) receive(m control.Message) error {
	id, err := replica.ParseID(m.To)
	if err != nil {
		return err
	}
	answer, err := c.stage.Receive(context.Background(), id.Process())
	if err == nil && answer.Error == "" && m.Kind == string(replica.KindProduceAnswer) {
		c.acked[fmt.Sprintf("v%d", id.Process())] = answer.Offset
	}
	return err
}

// lost tells the sender of a request that its connection broke.
func (c *cluster) lost(m control.Message) error {
	if m.IsAnswer() {
		m = m.Request()
	}
	for n, node := range c.nodes() {
		if n.String() == m.From && node.up && !node.paused {
			_, err := c.tell(n, control.Command{Do: control.Break, Message: &m})
			return err
		}
	}
	return nil
}

// nodes visits the controller and the brokers in order.
func (c *cluster) nodes() func(func(control.NodeID, *node) bool) {
	return func(yield func(control.NodeID, *node) bool) {
		for _, n := range slices.Concat([]control.NodeID{control.Controller}, c.stage.ids) {
			if !yield(n, c.stage.nodes[n]) {
				return
			}
		}
	}
}

func (c *cluster) running(n control.NodeID) bool {
	x := c.stage.nodes[n]
	return x.up && !x.paused
}

func (c *cluster) held(n control.NodeID) []replica.Message { return c.stage.nodes[n].inbox.Held() }

// note takes notes after a command, and checks.
func (c *cluster) note(cmd command, reply control.Reply) error {
	switch cmd.call {
	case "powerfail":
		c.powerLoss++
		fallthrough
	case "kill": // it knows no epoch until it learns one
		delete(c.epochs, fmt.Sprintf("leader epoch of %s", cmd.at))
		delete(c.epochs, fmt.Sprintf("partition epoch of %s", cmd.at))
	}
	if err := c.look(cmd.at, reply.View); err != nil {
		return err
	}
	for _, e := range reply.Events {
		if e.What == string(replica.EventTruncate) && e.To < e.HW {
			c.cuts = append(c.cuts, e)
		}
		c.unclean = c.unclean || e.Unclean
	}
	digest := fnv.New64a()
	fmt.Fprint(digest, reply)
	if x := c.stage.nodes[cmd.at]; x.disk != nil {
		digest.Write(x.disk.AppendState(nil))
	}
	c.trace = append(c.trace, digest.Sum64())
	if c.check != nil {
		return c.check(c)
	}
	return nil
}

// look takes notes of the node that was moved. The others have changed only in what waits for them.
func (c *cluster) look(n control.NodeID, v control.View) error {
	for _, r := range v.Records {
		c.record = r
		if err := c.rises(n, r.LeaderEpoch, r.PartitionEpoch); err != nil {
			return err
		}
	}
	for _, p := range v.Partitions {
		c.seen[n] = p
		if err := c.rises(n, p.LeaderEpoch, p.PartitionEpoch); err != nil {
			return err
		}
		for _, r := range p.Log {
			at := control.Record{Offset: r.Offset, Epoch: r.Epoch}
			if is, ok := c.written[at]; ok && is != r.Value && c.forked == "" {
				c.forked = fmt.Sprintf("offset %d of epoch %d is %s on one broker and %s on another", r.Offset, r.Epoch, is, r.Value)
			}
			c.written[at] = r.Value
		}
	}
	return nil
}

// rises notes the epochs that a node has, and says if they went back.
func (c *cluster) rises(n control.NodeID, leaderEpoch, partitionEpoch int32) error {
	for _, e := range []struct {
		what string
		is   int32
	}{{"leader epoch", leaderEpoch}, {"partition epoch", partitionEpoch}} {
		key := fmt.Sprintf("%s of %s", e.what, n)
		if was, ok := c.epochs[key]; ok && e.is < was {
			return fmt.Errorf("%s went back from %d to %d", key, was, e.is)
		}
		c.epochs[key] = e.is
	}
	return nil
}

// take takes one action, if it is possible.
func (c *cluster) take(a action) error {
	x := c.stage.nodes[a.node]
	var err error
	switch a.do {
	case "start":
		if !x.up {
			return c.start(a.node)
		}
	case "kill", "powerfail":
		if !x.up {
			return nil
		}
		cmd := command{call: a.do, at: a.node, cut: schedule.Cut{Keep: a.pick % 4}}
		_, err = c.do(cmd)
	case "pause", "resume":
		if x.up && x.paused == (a.do == "resume") {
			if _, err = c.do(command{call: a.do, at: a.node}); err == nil && a.do == "resume" {
				err = c.cut() // it was told nothing while it was paused
			}
		}
	case "isolate":
		if !slices.Contains(c.isolated, a.node) {
			c.isolated = append(c.isolated, a.node)
			return c.cut()
		}
	case "heal":
		c.isolated = slices.DeleteFunc(c.isolated, func(n control.NodeID) bool { return n == a.node })
		return c.cut()
	case "fence", "transfer":
		_, err = c.tell(control.Controller, control.Command{Do: control.Verb(a.do), Node: a.node})
	case "produce":
		return c.produce(a)
	default:
		if x.up && !x.paused {
			return c.move(a)
		}
	}
	return err
}

// move takes an action of one broker that can be asked.
func (c *cluster) move(a action) error {
	switch a.do {
	case "poll":
		_, err := c.tell(a.node, control.Command{Do: control.Poll, Max: int32(a.pick % 3)})
		return err
	case "exchange":
		return c.exchange(a.node)
	case "leader fetches": // every follower's next request reaches its leader, the answers stay on the way
		for _, n := range c.stage.ids {
			if n == a.node || !c.running(n) {
				continue
			}
			if err := c.request(n); err != nil {
				return err
			}
		}
	case "deliver", "drop":
		return c.pass(a)
	case "learn", "learn stale":
		return c.learn(a.node, a.do == "learn")
	case "lag", "checkpoint", "flush":
		_, err := c.tell(a.node, control.Command{Do: control.Verb(a.do), Node: control.NodeID(1 + a.pick%3)})
		return err
	case "heartbeat":
		return c.beat(a.node)
	}
	return nil
}

// pass delivers or drops one of the messages that wait at a broker, or at the controller instead when none does.
func (c *cluster) pass(a action) error {
	at := a.node
	held := c.held(at)
	if len(held) == 0 || a.pick == 7 {
		at = control.Controller
		held = c.held(at)
	}
	if len(held) == 0 {
		return nil
	}
	m := control.Name(held[a.pick%len(held)])
	if _, err := c.tell(at, control.Command{Do: control.Verb(a.do), Message: &m}); err != nil {
		return err
	}
	if a.do == "drop" {
		return c.lost(m)
	}
	return nil
}

// produce sends a value to whoever leads in its own eyes, which need not be the newest leader.
func (c *cluster) produce(a action) error {
	to := c.record.Leader
	for _, n := range c.stage.ids {
		if a.pick > 4 && c.running(n) && c.seen[n].Role == "leader" {
			to = n
		}
	}
	if to == 0 || !c.running(to) {
		return nil
	}
	process := c.values
	c.values++
	reply, err := c.do(command{call: "send", at: to, process: process,
		request: control.Request{Partition: schedule.Partition, Produce: true, Value: fmt.Sprintf("v%d", process)}})
	if err != nil || reply.Sent[0].Fate != control.FateHeld {
		return err
	}
	_, err = c.tell(to, control.Command{Do: control.Deliver, Message: &reply.Sent[0]})
	return err
}

// request lets a broker send its next request and hands it to whoever it is for.
func (c *cluster) request(n control.NodeID) error {
	reply, err := c.tell(n, control.Command{Do: control.Poll})
	if err != nil {
		return err
	}
	_, err = c.follow(reply)
	return err
}

// exchange is a request and its answer, and what they give rise to.
func (c *cluster) exchange(n control.NodeID) error {
	reply, err := c.tell(n, control.Command{Do: control.Poll})
	for err == nil && len(reply.Sent) > 0 {
		reply, err = c.follow(reply)
	}
	return err
}

// follow delivers what a step gave rise to, pushes excepted, and returns what that gave rise to.
func (c *cluster) follow(of control.Reply) (control.Reply, error) {
	var all control.Reply
	for _, m := range of.Sent {
		id, err := replica.ParseID(m.To)
		if err != nil {
			return all, err
		}
		at := control.NodeID(id)
		if m.Fate != control.FateHeld || m.Kind == string(replica.KindLeaderAndIsr) || !c.running(at) {
			continue
		}
		reply, err := c.tell(at, control.Command{Do: control.Deliver, Message: &m})
		if err != nil {
			return all, err
		}
		all.Sent = append(all.Sent, reply.Sent...)
	}
	return all, nil
}

// learn gives a broker the newest word of the controller that waits for it, or the oldest.
func (c *cluster) learn(n control.NodeID, newest bool) error {
	if newest {
		if _, err := c.tell(control.Controller, control.Command{Do: control.Push, Node: n}); err != nil {
			return err
		}
	}
	words := slices.DeleteFunc(c.held(n), func(m replica.Message) bool { return m.Body.Kind() != replica.KindLeaderAndIsr })
	if len(words) == 0 {
		return nil
	}
	m := control.Name(words[0])
	if newest {
		m = control.Name(words[len(words)-1])
	}
	reply, err := c.tell(n, control.Command{Do: control.Deliver, Message: &m})
	for err == nil && len(reply.Sent) > 0 {
		reply, err = c.follow(reply)
	}
	return err
}

// beat lets a broker register, if it has to, and sends a heartbeat.
func (c *cluster) beat(n control.NodeID) error {
	for range 2 {
		reply, err := c.tell(n, control.Command{Do: control.Heartbeat})
		for err == nil && len(reply.Sent) > 0 {
			reply, err = c.follow(reply)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaken ends the fence of a broker that can hear the controller.
func (c *cluster) awaken(n control.NodeID) error {
	for _, b := range c.stage.nodes[control.Controller].host.View(0).Brokers {
		if b.Node == n && b.Fenced || c.stage.nodes[n].host.View(0).Fenced {
			return c.beat(n)
		}
	}
	return nil
}

func (c *cluster) start(n control.NodeID) error {
	if _, err := c.do(command{call: "start", at: n}); err != nil {
		return err
	}
	if err := c.cut(); err != nil {
		return err
	}
	if c.stage.rules.Registration == rules.KRaft {
		if _, err := c.tell(control.Controller, control.Command{Do: control.Fence, Node: n}); err != nil {
			return err
		}
	}
	return c.beat(n)
}

// cut tells every node whose messages are lost.
func (c *cluster) cut() error {
	for n := range c.nodes() {
		if !c.running(n) {
			continue
		}
		if _, err := c.tell(n, control.Command{Do: control.Cut, Alone: slices.Contains(c.isolated, n), From: slices.Clone(c.isolated)}); err != nil {
			return err
		}
	}
	return nil
}

// settle delivers everything, and lets brokers and controller talk until nothing changes.
func (c *cluster) settle() error {
	for range 100 {
		before := c.states()
		for _, n := range c.stage.ids {
			if !c.running(n) || slices.Contains(c.isolated, n) {
				continue
			}
			for _, move := range []func(control.NodeID) error{c.awaken, c.empty, func(n control.NodeID) error { return c.learn(n, true) }, c.exchange} {
				if err := move(n); err != nil {
					return err
				}
			}
		}
		if err := c.empty(control.Controller); err != nil {
			return err
		}
		if c.states() == before {
			return nil
		}
	}
	return fmt.Errorf("the cluster does not settle:\n%s", c)
}

// empty delivers what waits at a node.
func (c *cluster) empty(n control.NodeID) error {
	for _, m := range c.held(n) {
		name := control.Name(m)
		if _, err := c.tell(n, control.Command{Do: control.Deliver, Message: &name}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) states() string {
	var b strings.Builder
	for n, node := range c.nodes() {
		if node.up {
			fmt.Fprintf(&b, "%s %s %d;", n, node.host.View(0).State, len(node.inbox.Held()))
		}
	}
	return b.String()
}

// String is how things look, for a failing test.
func (c *cluster) String() string {
	var b strings.Builder
	r := c.record
	fmt.Fprintf(&b, "controller: leader %d, epoch %d/%d, ISR %v, ELR %v\n", r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.ISR, r.ELR)
	for n, node := range c.nodes() {
		if n == control.Controller {
			continue
		}
		v := c.seen[n]
		fmt.Fprintf(&b, "%d up=%t %s of %d, epoch %d/%d, truncating %t, hw %d, epochs %v, log", n, node.up, v.Role, v.Leader, v.LeaderEpoch,
			v.PartitionEpoch, v.Truncating, v.HW, v.Epochs)
		for _, r := range v.Log {
			fmt.Fprintf(&b, " %s.%d", r.Value, r.Epoch)
		}
		b.WriteString("\n")
	}
	return b.String()
}

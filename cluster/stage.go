package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/control"
)

// stepped makes a Stage of any Cluster whose nodes hold their messages.
type stepped struct {
	cluster Cluster
	ids     []NodeID
	starts  map[NodeID]int32
	up      map[NodeID]bool
	paused  map[NodeID]bool
	frozen  map[NodeID][]control.Message // in front of paused nodes
	clients map[int64]*client
}

// stepWithin bounds what takes milliseconds when all is well: a longer wait means that the harness or a node is broken.
const stepWithin = 20 * time.Second

// NewStage makes a stage of a cluster that was just opened with Hold: every broker is registered and the partitions are
// created. Closing the stage closes the cluster.
func NewStage(ctx context.Context, c Cluster) (Stage, error) {
	s := &stepped{cluster: c, starts: map[NodeID]int32{}, up: map[NodeID]bool{}, paused: map[NodeID]bool{},
		frozen: map[NodeID][]control.Message{}, clients: map[int64]*client{}}
	for _, id := range c.Brokers() {
		n := NodeID(id)
		s.ids = append(s.ids, n)
		s.starts[n], s.up[n] = 1, true
	}
	return s, schedule.Register(ctx, s, s.ids)
}

// Do gives a command and waits until everything that it gave rise to has arrived or is known to be lost.
func (s *stepped) Do(ctx context.Context, at NodeID, c control.Command) (control.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	reply, err := s.cluster.Control(ctx, at, c)
	if err != nil {
		return reply, err
	}
	for i := range reply.Sent {
		if reply.Sent[i].Fate, err = s.fate(ctx, reply.Sent[i]); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// fate waits until a message is where it can be.
func (s *stepped) fate(ctx context.Context, m control.Message) (control.Fate, error) {
	if m.Fate != "" {
		return m.Fate, nil
	}
	to, isNode := nodeAt(m.To)
	switch {
	case !isNode:
		return control.FateSent, nil
	case to != control.Controller && !s.up[to]:
		return control.FateLost, nil
	case m.IsAnswer() && to != control.Controller && m.Number < s.firstNumber(to):
		return control.FateLost, nil // the connection over which it was asked went with the process that asked
	case s.paused[to]:
		m.Fate = ""
		s.frozen[to] = append(s.frozen[to], m)
		return control.FateFrozen, nil
	}
	return s.arrival(ctx, to, m)
}

func (s *stepped) arrival(ctx context.Context, to NodeID, m control.Message) (control.Fate, error) {
	for {
		r, err := s.cluster.Control(ctx, to, control.Command{Do: control.Await, Message: &m})
		if err != nil {
			return "", fmt.Errorf("waiting for %s: %w", m, err)
		}
		if r.Fate != "" {
			return r.Fate, nil
		}
		// The connection that it went over may have been dead already: once more, over a new one.
		from, isNode := nodeAt(m.From)
		if !isNode || from != control.Controller && (!s.up[from] || s.paused[from]) {
			continue
		}
		if m.IsAnswer() {
			continue
		}
		if r, err = s.cluster.Control(ctx, from, control.Command{Do: control.Resend, Message: &m}); err != nil {
			return "", err
		}
		if r.Error != "" {
			return "", fmt.Errorf("waiting for %s: %s", m, r.Error)
		}
	}
}

func (s *stepped) firstNumber(n NodeID) int32 { return (s.starts[n]-1)*node.RequestsPerStart + 1 }

// nodeAt is the node with that address; false for a client's.
func nodeAt(address string) (NodeID, bool) {
	if address == control.Controller.String() {
		return control.Controller, true
	}
	n, err := strconv.ParseInt(address, 10, 32)
	return NodeID(n), err == nil
}

// Start starts a broker's process.
func (s *stepped) Start(ctx context.Context, n NodeID) (control.Reply, error) {
	events, err := s.cluster.Start(ctx, n)
	if err != nil {
		return control.Reply{}, err
	}
	s.starts[n]++
	s.up[n] = true
	return control.Reply{Events: events}, nil
}

// Kill ends a broker's process at once.
func (s *stepped) Kill(ctx context.Context, n NodeID) (Evidence, error) {
	return s.stop(ctx, n, Kill, nil)
}

// PowerFail kills a broker's process and has its disk cut at the next start.
func (s *stepped) PowerFail(ctx context.Context, n NodeID, cut schedule.Cut) (Evidence, error) {
	return s.stop(ctx, n, Power, map[string]schedule.Cut{schedule.Partition: cut})
}

func (s *stepped) stop(ctx context.Context, n NodeID, how How, cut map[string]schedule.Cut) (Evidence, error) {
	e, err := s.cluster.Stop(ctx, n, how, cut)
	s.up[n], s.paused[n] = false, false
	delete(s.frozen, n)
	return e, err
}

// Pause freezes a broker's process or lets it go on.
func (s *stepped) Pause(ctx context.Context, n NodeID, on bool) (control.Reply, Evidence, error) {
	e, err := s.cluster.Pause(ctx, n, on)
	if err != nil {
		return control.Reply{}, e, err
	}
	s.paused[n] = on
	var reply control.Reply
	if !on {
		ctx, cancel := context.WithTimeout(ctx, stepWithin)
		defer cancel()
		for _, m := range s.frozen[n] {
			if m.Fate, err = s.arrival(ctx, n, m); err != nil {
				return reply, e, err
			}
			reply.Sent = append(reply.Sent, m)
		}
		delete(s.frozen, n)
	}
	return reply, e, nil
}

// Send sends a client's request over a connection of its own.
func (s *stepped) Send(ctx context.Context, process int64, to NodeID, r control.Request) (control.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	m := control.Message{From: "p" + strconv.FormatInt(process, 10), To: to.String(), Kind: "Fetch", Number: 1}
	switch {
	case r.Produce:
		m.Kind = "Produce"
	case r.Latest:
		m.Kind = "ListOffsets"
	}
	conn, err := s.cluster.Dial(ctx, int32(to))
	if err != nil {
		return m, err
	}
	c, err := newClient(conn, m.From, r)
	if err != nil {
		_ = conn.Close()
		return m, err
	}
	s.clients[process] = c
	m.Fate, err = s.arrival(ctx, to, m)
	return m, err
}

// Receive is the answer to the process's request.
func (s *stepped) Receive(ctx context.Context, process int64) (control.Answer, error) {
	c := s.clients[process]
	if c == nil {
		return control.Answer{}, fmt.Errorf("process %d has asked nothing", process)
	}
	delete(s.clients, process)
	defer c.conn.Close()
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	a, err := c.answer(ctx)
	if err != nil {
		err = fmt.Errorf("answer to process %d: %w", process, err)
	}
	return a, err
}

// Close ends the clients' connections and the cluster.
func (s *stepped) Close(ctx context.Context) error {
	for _, c := range s.clients {
		_ = c.conn.Close()
	}
	clear(s.clients)
	return s.cluster.Close(ctx)
}

var _ Stage = (*stepped)(nil)

// topicOf splits "orders-0".
func topicOf(partition string) (string, int32, error) {
	i := strings.LastIndexByte(partition, '-')
	if i > 0 {
		if n, err := strconv.ParseInt(partition[i+1:], 10, 32); err == nil {
			return partition[:i], int32(n), nil
		}
	}
	return "", 0, fmt.Errorf("partition %q: want topic-index", partition)
}

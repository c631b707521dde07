package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/node/control"
)

// maxRounds bounds what is repeated until nothing changes: more than that is a livelock.
const maxRounds = 100

// fetch is one exchange of a follower with its leader, or a part of one.
func (p *player) fetch(ctx context.Context, n control.NodeID, mode string, limit int32) error {
	if mode == "answer" || mode == "drop" {
		v, _, err := p.look(ctx, n)
		if err != nil {
			return err
		}
		m, ok := newest(v.Held, "Fetch answer")
		if !ok {
			return impossible("no fetch answer waits at broker %d", n)
		}
		if mode == "drop" {
			return p.drop(ctx, m)
		}
		return p.deliver(ctx, m)
	}
	_, r, err := p.look(ctx, n)
	switch {
	case err != nil:
		return err
	case r.Role != "follower" || r.Leader == 0:
		return impossible("broker %d follows nobody", n)
	case r.Truncating:
		return impossible("broker %d has to truncate first", n)
	}
	// A request replaces the one before, wherever that is.
	if err := p.forget(ctx, n, "Fetch"); err != nil {
		return err
	}
	request, err := p.poll(ctx, n, limit)
	if err != nil {
		return err
	}
	if request.Number == 0 {
		return impossible("broker %d sends no fetch", n)
	}
	if mode == "send" || request.Fate != control.FateHeld {
		return nil
	}
	answer, err := p.exchange(ctx, request)
	if err != nil || mode == "request" || answer.Fate != control.FateHeld {
		return err
	}
	return p.deliver(ctx, answer)
}

// poll lets a follower send its next request, and names it.
func (p *player) poll(ctx context.Context, n control.NodeID, limit int32) (control.Message, error) {
	reply, err := p.command(ctx, n, control.Command{Do: control.Poll, Max: limit})
	if err != nil || len(reply.Sent) == 0 {
		return control.Message{}, err
	}
	return reply.Sent[0], nil
}

// exchange delivers a request that waits at its receiver, and names the answer.
func (p *player) exchange(ctx context.Context, request control.Message) (control.Message, error) {
	to := p.at(request.To)
	if err := p.reachable(to); err != nil {
		return control.Message{}, nil // it waits in front of a node that cannot take it
	}
	reply, err := p.command(ctx, to, control.Command{Do: control.Deliver, Message: &request})
	if err != nil {
		return control.Message{}, err
	}
	for _, m := range reply.Sent {
		if m.IsAnswer() && m.Request().Same(request) {
			return m, nil
		}
	}
	return control.Message{}, nil
}

// forget drops requests of that kind by the broker, and answers to them, that wait anywhere.
func (p *player) forget(ctx context.Context, n control.NodeID, kind string) error {
	if slices.Contains(p.manual, kind) {
		return nil // the schedule decides about each
	}
	for _, at := range p.ids {
		if p.reachable(at) != nil {
			continue
		}
		v, _, err := p.look(ctx, at)
		if err != nil {
			return err
		}
		for _, m := range v.Held {
			mine := at == n && m.Kind == kind+" answer" || m.From == n.String() && m.Kind == kind
			if !mine {
				continue
			}
			if _, err := p.command(ctx, at, control.Command{Do: control.Drop, Message: &m}); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest is the newest message of that kind.
func newest(held []control.Message, kind string) (control.Message, bool) {
	for _, m := range slices.Backward(held) {
		if m.Kind == kind {
			return m, true
		}
	}
	return control.Message{}, false
}

// learn gives a broker the controller's newest word, if it does not know it.
func (p *player) learn(ctx context.Context, n control.NodeID) error {
	if err := p.do(ctx, control.Controller, control.Command{Do: control.Push, Node: n}); err != nil {
		return err
	}
	v, _, err := p.look(ctx, n)
	if err != nil {
		return err
	}
	last, ok := newest(v.Held, "LeaderAndIsr")
	if !ok {
		return nil
	}
	for _, m := range v.Held {
		if m.Kind == "LeaderAndIsr" && m.Number != last.Number {
			if err := p.do(ctx, n, control.Command{Do: control.Drop, Message: &m}); err != nil {
				return err
			}
		}
	}
	return p.deliver(ctx, last)
}

// truncate leads a follower through its truncation dialogue, as far as it gets, or takes a part of one exchange.
func (p *player) truncate(ctx context.Context, n control.NodeID, mode string) error {
	const kind = "OffsetForLeaderEpoch"
	switch mode {
	case "request":
		return p.ask(ctx, n, kind)
	case "answer":
		v, _, err := p.look(ctx, n)
		if err != nil {
			return err
		}
		m, ok := newest(v.Held, kind+" answer")
		if !ok {
			return impossible("no answer about an epoch waits at broker %d", n)
		}
		return p.deliver(ctx, m)
	}
	for range maxRounds {
		before, r, err := p.look(ctx, n)
		if err != nil || r.Role != "follower" || r.Leader == 0 || !r.Truncating {
			return err
		}
		if err := p.converse(ctx, n, kind); err != nil {
			return err
		}
		if after, _, err := p.look(ctx, n); err != nil || after.State == before.State {
			return err
		}
	}
	return impossible("broker %d does not come to an end of its truncation in %d exchanges", n, maxRounds)
}

// settle lets replication run until nothing changes any more: rounds in which every live, connected broker (or those named)
// in the order of their numbers learns, truncates and fetches.
func (p *player) settle(ctx context.Context, only []control.NodeID) error {
	for range maxRounds {
		before, err := p.state(ctx)
		if err != nil {
			return err
		}
		for _, n := range p.ids {
			if p.reachable(n) != nil || p.nodes[n].isolated || len(only) > 0 && !slices.Contains(only, n) {
				continue
			}
			if err := p.round(ctx, n); err != nil {
				return err
			}
		}
		after, err := p.state(ctx)
		if err != nil || after == before {
			return err
		}
	}
	return impossible("the cluster does not settle in %d rounds", maxRounds)
}

func (p *player) round(ctx context.Context, n control.NodeID) error {
	if err := p.learn(ctx, n); err != nil {
		return err
	}
	if err := p.truncate(ctx, n, ""); err != nil {
		return err
	}
	_, r, err := p.look(ctx, n)
	if err != nil || r.Role != "follower" || r.Leader == 0 || r.Truncating {
		return err
	}
	return p.converse(ctx, n, "Fetch")
}

// converse is one whole exchange of a follower with its leader, as far as its messages get. It replaces what of that kind was
// under way.
func (p *player) converse(ctx context.Context, n control.NodeID, kind string) error {
	if err := p.forget(ctx, n, kind); err != nil {
		return err
	}
	request, err := p.poll(ctx, n, 0)
	if err != nil || request.Fate != control.FateHeld {
		return err
	}
	answer, err := p.exchange(ctx, request)
	if err != nil || answer.Fate != control.FateHeld {
		return err
	}
	return p.deliver(ctx, answer)
}

// ask lets a follower that has to truncate ask its leader, and leaves the answer where it waits.
func (p *player) ask(ctx context.Context, n control.NodeID, kind string) error {
	_, r, err := p.look(ctx, n)
	switch {
	case err != nil:
		return err
	case r.Role != "follower" || r.Leader == 0 || !r.Truncating:
		return impossible("broker %d has nothing to ask a leader", n)
	}
	if err := p.forget(ctx, n, kind); err != nil {
		return err
	}
	request, err := p.poll(ctx, n, 0)
	if err != nil || request.Fate != control.FateHeld {
		return err
	}
	_, err = p.exchange(ctx, request)
	return err
}

// state is a digest of every core that can be asked.
func (p *player) state(ctx context.Context) (string, error) {
	var b strings.Builder
	v, _, err := p.record(ctx)
	if err != nil {
		return "", err
	}
	b.WriteString(v.State)
	for _, n := range p.ids {
		if p.reachable(n) != nil {
			continue
		}
		v, _, err := p.look(ctx, n)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " %d:%s", n, v.State)
	}
	return b.String(), nil
}

// lag makes the leader's ISR clock jump for one follower.
func (p *player) lag(ctx context.Context, n control.NodeID) error {
	leader, err := p.leader(ctx)
	if err != nil {
		return err
	}
	if err := p.reachable(leader); err != nil {
		return err
	}
	reply, err := p.command(ctx, leader, control.Command{Do: control.Lag, Node: n})
	if err == nil && len(reply.Sent) == 0 {
		return impossible("broker %d does not lag behind the log of leader %d, or is not in its ISR", n, leader)
	}
	return err
}

// deliver hands a waiting message to its receiver.
func (p *player) deliver(ctx context.Context, m control.Message) error {
	m, to, err := p.waiting(ctx, m)
	if err != nil {
		return err
	}
	return p.do(ctx, to, control.Command{Do: control.Deliver, Message: &m})
}

// drop loses a waiting message; whoever waits for it learns that the connection broke.
func (p *player) drop(ctx context.Context, m control.Message) error {
	m, to, err := p.waiting(ctx, m)
	if err != nil {
		return err
	}
	if err := p.do(ctx, to, control.Command{Do: control.Drop, Message: &m}); err != nil {
		return err
	}
	return p.lost(ctx, m)
}

// waiting finds where a message waits, and which one is meant if it has no number.
func (p *player) waiting(ctx context.Context, m control.Message) (control.Message, control.NodeID, error) {
	to := p.at(m.To)
	if to == 0 {
		return m, to, impossible("%s goes to a client: it is not held", m)
	}
	if to != control.Controller {
		if err := p.reachable(to); err != nil {
			return m, to, err
		}
	}
	if m.Number != 0 {
		return m, to, nil
	}
	reply, err := p.stage.Do(ctx, to, control.Command{Do: control.Look})
	if err != nil {
		return m, to, err
	}
	i := slices.IndexFunc(reply.View.Held, func(h control.Message) bool { return h.From == m.From && h.Kind == m.Kind })
	if i < 0 {
		return m, to, impossible("no %s->%s %s waits", m.From, m.To, m.Kind)
	}
	return reply.View.Held[i], to, nil
}

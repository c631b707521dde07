package schedule

import (
	"context"
	"fmt"
	"slices"

	"tidemark/checker/history"
	"tidemark/node/control"
	"tidemark/node/rules"
)

// crash kills a broker, with or without its power.
func (p *player) crash(ctx context.Context, s Step, n control.NodeID) error {
	id := p.faultBegins(string(s.Verb), s.String(), n)
	var evidence Evidence
	var err error
	if s.Verb == PowerFail {
		evidence, err = p.stage.PowerFail(ctx, n, s.Cut)
	} else {
		evidence, err = p.stage.Kill(ctx, n)
	}
	if err != nil {
		return err
	}
	p.nodes[n].up, p.nodes[n].paused = false, false
	p.nodes[n].powerFailed = s.Verb == PowerFail
	p.faultEnds(id, string(s.Verb), s.String(), n, evidence)
	return nil
}

// start starts a broker's process and lets it register, so that it is a live member of the cluster without a role.
func (p *player) start(ctx context.Context, n control.NodeID) error {
	reply, err := p.stage.Start(ctx, n)
	if err != nil {
		return err
	}
	p.nodes[n].up = true
	if err := p.follow(ctx, reply); err != nil {
		return err
	}
	if err := p.cuts(ctx); err != nil { // the process has forgotten whom it cannot hear
		return err
	}
	if p.rules.Registration == rules.KRaft {
		if fenced, err := p.fenced(ctx, n); err != nil {
			return err
		} else if !fenced {
			if err := p.do(ctx, control.Controller, control.Command{Do: control.Fence, Node: n}); err != nil {
				return err
			}
		}
	}
	return p.beat(ctx, n)
}

// beat lets a broker register, if it has to, and sends the heartbeat that unfences it.
func (p *player) beat(ctx context.Context, n control.NodeID) error {
	for range 2 {
		if err := p.do(ctx, n, control.Command{Do: control.Heartbeat}); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) pause(ctx context.Context, n control.NodeID, on bool) error {
	verb := "pause"
	if on {
		id := p.faultBegins(verb, fmt.Sprintf("pause %d", n), n)
		_, evidence, err := p.stage.Pause(ctx, n, true)
		if err != nil {
			return err
		}
		p.nodes[n].paused = true
		p.faultEnds(id, verb, fmt.Sprintf("pause %d", n), n, evidence)
		return nil
	}
	reply, _, err := p.stage.Pause(ctx, n, false)
	if err != nil {
		return err
	}
	p.nodes[n].paused = false
	if err := p.cuts(ctx); err != nil {
		return err
	}
	return p.follow(ctx, reply)
}

// isolate cuts a broker off from everybody, or connects it again.
func (p *player) isolate(ctx context.Context, n control.NodeID, on bool) error {
	p.nodes[n].isolated = on
	return p.cuts(ctx)
}

// cuts tells every node whose messages are lost. A paused node is told on resume: nothing reaches it before.
func (p *player) cuts(ctx context.Context) error {
	var isolated []control.NodeID
	for _, n := range p.ids {
		if p.nodes[n].isolated {
			isolated = append(isolated, n)
		}
	}
	for _, n := range append([]control.NodeID{control.Controller}, p.ids...) {
		c := control.Command{Do: control.Cut, From: isolated}
		if n != control.Controller {
			if p.reachable(n) != nil {
				continue
			}
			c.Alone = p.nodes[n].isolated
		}
		if err := p.do(ctx, n, c); err != nil {
			return err
		}
	}
	return nil
}

// heal connects brokers again, all if none is named, and lets the next heartbeat of those that are fenced through.
func (p *player) heal(ctx context.Context, nodes []control.NodeID) error {
	if len(nodes) == 0 {
		nodes = p.ids
	}
	for _, n := range nodes {
		p.nodes[n].isolated = false
	}
	if err := p.cuts(ctx); err != nil {
		return err
	}
	for _, n := range nodes {
		if p.reachable(n) != nil {
			continue
		}
		fenced, err := p.fenced(ctx, n)
		if err != nil {
			return err
		}
		v, _, err := p.look(ctx, n)
		if err != nil {
			return err
		}
		if fenced || v.Fenced { // it may have started while it was cut off, and then the controller takes it for its predecessor
			if err := p.beat(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *player) fence(ctx context.Context, n control.NodeID) error {
	if fenced, err := p.fenced(ctx, n); err != nil {
		return err
	} else if fenced {
		return impossible("broker %d is fenced", n)
	}
	return p.do(ctx, control.Controller, control.Command{Do: control.Fence, Node: n})
}

func (p *player) unfence(ctx context.Context, n control.NodeID) error {
	if p.nodes[n].isolated {
		return impossible("broker %d is isolated: its heartbeat does not arrive", n)
	}
	if fenced, err := p.fenced(ctx, n); err != nil {
		return err
	} else if !fenced {
		return impossible("broker %d is not fenced", n)
	}
	return p.beat(ctx, n)
}

func (p *player) transfer(ctx context.Context, n control.NodeID) error {
	_, r, err := p.record(ctx)
	switch {
	case err != nil:
		return err
	case r.Leader == n:
		return impossible("broker %d leads already", n)
	case !slices.Contains(r.ISR, n):
		return impossible("broker %d is not in the ISR %s", n, joinNodes(r.ISR, ","))
	}
	if fenced, err := p.fenced(ctx, n); err != nil {
		return err
	} else if fenced {
		return impossible("broker %d is fenced", n)
	}
	return p.do(ctx, control.Controller, control.Command{Do: control.Transfer, Node: n})
}

// end brings everything back, lets it settle, and reads what there is.
func (p *player) end(ctx context.Context) error {
	var dead, paused []control.NodeID
	for _, n := range p.ids {
		switch {
		case !p.nodes[n].up:
			dead = append(dead, n)
		case p.nodes[n].paused:
			paused = append(paused, n)
		}
	}
	steps := []Step{{Verb: Heal}}
	if len(dead) > 0 {
		steps = append(steps, Step{Verb: Start, Nodes: dead})
	}
	if len(paused) > 0 {
		steps = append(steps, Step{Verb: Resume, Nodes: paused}, Step{Verb: Heal})
	}
	steps = append(steps, Step{Verb: Settle})
	for _, s := range steps {
		if s.Verb == Settle {
			if err := p.release(ctx); err != nil {
				return fmt.Errorf("at the end: %w", err)
			}
		}
		if err := p.take(ctx, s); err != nil {
			return fmt.Errorf("at the end, %s: %w", s, err)
		}
		if err := p.draw(ctx, "end "+s.String(), ""); err != nil {
			return err
		}
	}
	p.closeOpen()
	return p.final(ctx)
}

// release lets everything go on that the schedule has delivered by hand, and delivers what waits.
func (p *player) release(ctx context.Context) error {
	p.manual = nil
	for _, n := range append([]control.NodeID{control.Controller}, p.ids...) {
		reply, err := p.stage.Do(ctx, n, control.Command{Do: control.Look})
		if err != nil {
			return err
		}
		for _, m := range reply.View.Held {
			if !p.automatic(m) {
				continue
			}
			if err := p.do(ctx, n, control.Command{Do: control.Deliver, Message: &m}); err != nil {
				return err
			}
		}
	}
	return nil
}

// final reads the leader's log as a consumer and dumps every replica.
func (p *player) final(ctx context.Context) error {
	_, record, err := p.record(ctx)
	if err != nil {
		return err
	}
	why := ""
	if record.Leader == 0 {
		why = "nobody leads"
	} else if len(record.ISR) < len(record.Replicas) {
		why = fmt.Sprintf("the ISR %s does not have every replica", joinNodes(record.ISR, ","))
	}
	leads := false
	views := make([]control.PartitionView, len(p.ids))
	for i, n := range p.ids {
		_, v, err := p.look(ctx, n)
		if err != nil {
			return err
		}
		views[i] = v
		if n == record.Leader {
			leads = v.Role == "leader"
		}
		switch {
		case why != "":
		case v.Role != "leader" && v.Role != "follower":
			why = fmt.Sprintf("broker %d has the role %s", n, v.Role)
		case v.HW != v.LEO:
			why = fmt.Sprintf("broker %d has high watermark %d and log end offset %d", n, v.HW, v.LEO)
		}
	}
	p.append(history.Event{Kind: history.KindSettled, Settled: &history.Settled{Partition: Partition, OK: why == "", Why: why}})
	if leads {
		if err := p.consume(ctx, nil, true); err != nil {
			return err
		}
	}
	for i, n := range p.ids {
		p.dump(n, views[i])
	}
	return nil
}

package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tidemark/checker/history"
)

// deeds tells what the nodes did to a value's record.
func (t *teller) deeds(v int32) string { return t.cuts(t.p.values.at(v).offset, t.p.epochOf(v)) }

// part is what one broker had in the loss of a record.
type part struct {
	broker int32
	seq    int64
	did    []string
	// lost: by a power failure; led: while it lacked the record.
	lost, led bool
}

// cuts tells, broker by broker in the order of the file, who removed the record and who led without it. What only followed from that
// leader's log is summed up.
func (t *teller) cuts(offset int64, epoch int32) string {
	var parts []part
	for _, b := range t.x.brokers() {
		if p := t.partOf(b, offset, epoch); len(p.did) > 0 {
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.seq, b.seq) })
	var told []string
	var followed []int32
	led := false
	for _, p := range parts {
		if led && !p.lost && !p.led {
			followed = append(followed, p.broker)
			continue
		}
		led = led || p.led
		told = append(told, fmt.Sprintf("broker %d %s", p.broker, strings.Join(p.did, ", ")))
	}
	if len(followed) > 0 {
		slices.Sort(followed)
		told = append(told, brokers(followed)+" then cut the record too")
	}
	return strings.Join(told, "; ")
}

func (t *teller) partOf(broker int32, offset int64, epoch int32) part {
	s := t.x.streams[broker]
	p := part{broker: broker}
	add := func(d *deed, text string) {
		if len(p.did) == 0 {
			p.seq = d.seq
		}
		p.did = append(p.did, text)
	}
	for i := range s.deeds {
		switch d := &s.deeds[i]; d.What {
		case history.Truncated:
			if d.To <= offset && offset < d.From && s.held(i, offset, epoch) {
				add(d, cut(d))
			}
		case history.PowerLoss:
			if d.To <= offset && (d.From > offset || d.From == history.Unknown) && s.held(i, offset, epoch) {
				p.lost = true
				how := "in a power failure"
				if d.Why != "" { // its disk was damaged
					how = "because " + d.Why + ","
				}
				add(d, fmt.Sprintf("lost its log from %d on %s%s", d.To, how, t.powerTime(broker, d)))
			}
		case history.RoleChanged:
			if d.Role == "leader" && len(p.did) > 0 && d.Epoch > epoch && !s.held(i, offset, epoch) {
				p.led = true
				add(d, fmt.Sprintf("was elected at %s (epoch %d)", seconds(d.time), d.Epoch))
			}
		}
	}
	if e := t.x.firstElection(broker, epoch); len(p.did) > 0 && e != nil && !s.led() {
		p.led = true
		p.did = append(p.did, fmt.Sprintf("was elected at %s (epoch %d)", seconds(e.time), e.epoch))
	}
	return p
}

// led reports whether the broker itself told that it led.
func (s *stream) led() bool {
	return slices.ContainsFunc(s.deeds, func(d deed) bool { return d.What == history.RoleChanged && d.Role == "leader" })
}

// highWatermark is the reason of the oldest kind of truncation, the one that KIP-101 did away with.
const highWatermark = "high watermark"

// cause is what took the clue's record away.
func (t *teller) cause(c *clue) Cause {
	offset, epoch := c.offset, int32(history.Unknown)
	switch {
	case c.lost != none:
		offset, epoch = t.p.values.at(c.lost).offset, t.p.epochOf(c.lost)
	case c.prover == none:
		return ""
	}
	var cause Cause
	for _, b := range t.x.brokers() {
		s := t.x.streams[b]
		for i := range s.deeds {
			d := &s.deeds[i]
			gone := d.To <= offset && (d.From > offset || d.From == history.Unknown) && s.held(i, offset, epoch)
			switch {
			case !gone:
			case d.What == history.PowerLoss:
				return ByPowerLoss
			case d.What == history.Truncated && (d.Why == "" || strings.Contains(d.Why, highWatermark)):
				cause = ByHighWatermark
			case d.What == history.Truncated && cause == "":
				cause = ByEpoch
			}
		}
	}
	return cause
}

func cut(d *deed) string {
	s := fmt.Sprintf("cut its log to %d at %s", d.To, seconds(d.time))
	why, follows := strings.CutPrefix(d.Why, fmt.Sprintf("becoming follower of %d: ", d.Leader))
	if (follows || why == "" || why == highWatermark) && d.Leader != history.Unknown {
		s += fmt.Sprintf(" on becoming follower of %d", d.Leader)
	}
	switch {
	case why == "" || why == highWatermark:
		why = fmt.Sprintf("%s %d", highWatermark, d.HW)
	case !strings.Contains(why, highWatermark):
		why += fmt.Sprintf(", %s %d", highWatermark, d.HW)
	}
	return s + " (" + why + ")"
}

// powerTime is when a power failure was asked for: its report comes only with the next start.
func (t *teller) powerTime(broker int32, d *deed) string {
	if f := powerFault(t.faults, broker, d.seq); f != nil {
		return " at " + seconds(f.beginTime)
	}
	return ""
}

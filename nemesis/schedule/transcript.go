package schedule

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"tidemark/node/control"
)

// transcript is one line a step, one column a broker, the controller's record last where it has changed.
type transcript struct {
	rows       [][]string
	controller string // as last drawn
}

// draw adds the line of a step.
func (p *player) draw(ctx context.Context, step, note string) error {
	row := []string{step}
	for _, n := range p.ids {
		var v control.PartitionView
		if p.reachable(n) == nil {
			var err error
			if _, v, err = p.look(ctx, n); err != nil {
				return err
			}
		}
		row = append(row, column(n, *p.nodes[n], v))
	}
	_, r, err := p.record(ctx)
	if err != nil {
		return err
	}
	last := ""
	if text := controllerText(r); text != p.transcript.controller {
		p.transcript.controller, last = text, text
	}
	if note != "" {
		last = strings.TrimLeft(last+"  ("+note+")", " ")
	}
	p.transcript.rows = append(p.transcript.rows, append(row, last))
	return nil
}

// String lines the columns up.
func (t *transcript) String() string {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// column is one broker: number, state, and its log with a bar at the high watermark.
func column(n control.NodeID, state broker, v control.PartitionView) string {
	switch {
	case !state.up:
		return fmt.Sprintf("%dx", n)
	case state.paused:
		return fmt.Sprintf("%dp", n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d%s ", n, roleLetter(v))
	if v.HW <= v.Start && len(v.Log) > 0 {
		b.WriteString("|")
	}
	for i, r := range v.Log {
		if i > 0 {
			b.WriteString(" ")
			if r.Offset == v.HW {
				b.WriteString("|")
			}
		}
		fmt.Fprintf(&b, "%s.%d", r.Value, r.Epoch)
	}
	if v.HW >= v.LEO {
		if len(v.Log) > 0 {
			b.WriteString(" ")
		}
		b.WriteString("|")
	}
	return b.String()
}

func roleLetter(v control.PartitionView) string {
	switch {
	case v.Role == "leader":
		return "L"
	case v.Role == "follower" && v.Truncating:
		return "t"
	case v.Role == "follower":
		return "f"
	case v.Role == "offline":
		return "!"
	}
	return "-"
}

// controllerText is the controller's record.
func controllerText(r control.RecordView) string {
	leader := "none"
	if r.Leader != 0 {
		leader = r.Leader.String()
	}
	s := fmt.Sprintf("controller: leader %s, epoch %d, %s", leader, r.LeaderEpoch, isrText(r.ISR))
	if len(r.ELR) > 0 {
		s += ", ELR " + joinNodes(r.ELR, ",")
	}
	return s
}

func isrText(isr []control.NodeID) string {
	if len(isr) == 0 {
		return "ISR empty"
	}
	return "ISR " + joinNodes(isr, ",")
}

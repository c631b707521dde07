package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidemark/checker/history"
	"tidemark/node/control"
)

// Link is a fault of the network: what happens to what From sends to To, on connections opened by either side. From or To can be
// ClientsID. The zero Impair cuts the link: what is sent is lost, and the connections stay open and silent. One link can have several
// faults at a time.
type Link struct {
	From, To NodeID
	Impair
}

// Impair says what is wrong with a link.
type Impair struct {
	Kind    LinkFault
	Percent int           // Loss: of what is sent, 1 to 99
	Delay   time.Duration // Delay: how much later everything arrives
	Rate    int64         // Rate: bytes a second at most
}

// LinkFault is a kind of fault of a link.
type LinkFault string

// The kinds of faults of a link.
const (
	Drop  LinkFault = ""      // nothing arrives
	Loss  LinkFault = "loss"  // a part is lost, and arrives when its sender sends it again
	Delay LinkFault = "delay" // everything arrives later, in order
	Rate  LinkFault = "rate"  // no more than so much arrives in a second
	Reset LinkFault = "reset" // the connection over which something is sent breaks
)

// Check says what is wrong with an impairment.
func (i Impair) Check() error {
	switch {
	case i.Kind == Drop && i == Impair{}, i.Kind == Reset && i == Impair{Kind: Reset},
		i.Kind == Loss && i.Percent > 0 && i.Percent < 100, i.Kind == Delay && i.Delay > 0, i.Kind == Rate && i.Rate > 0:
		return nil
	}
	return fmt.Errorf("link fault %q: %d %%, %s, %d bytes a second: not a fault of a link", i.Kind, i.Percent, i.Delay, i.Rate)
}

// String is "1->2", and what is wrong with it if it is not cut.
func (l Link) String() string {
	ends := l.From.String() + "->" + l.To.String()
	switch l.Kind {
	case Loss:
		return fmt.Sprintf("%s loss %d%%", ends, l.Percent)
	case Delay:
		return fmt.Sprintf("%s delay %s", ends, l.Impair.Delay)
	case Rate:
		return fmt.Sprintf("%s rate %dB/s", ends, l.Impair.Rate)
	case Reset:
		return ends + " reset"
	}
	return ends
}

// Ends names both ends for people: "from 1 to clients".
func (l Link) Ends() string {
	return "from " + linkEnd(l.From) + " to " + linkEnd(l.To)
}

func linkEnd(n NodeID) string {
	switch n {
	case ClientsID:
		return "clients"
	case control.Controller:
		return "controller"
	}
	return n.String()
}

// Counted is the count that a measurement of a link begins with, 0 if it begins with none.
func Counted(m history.Measurement) int64 {
	digits, _, _ := strings.Cut(m.Value, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

package sandbox

import (
	"fmt"
	"net/netip"
	"strings"
)

// Table is the name of the nftables table with all rules, for people who look into a sandbox's network namespace with
// "nft list table ip tidemark".
const Table = "tidemark"

// A Direction says which packets of a peer a rule is about, as seen from the node in the sandbox.
type Direction uint8

const (
	// In is about packets that the peer sends to the node.
	In Direction = iota + 1
	// Out is about packets that the node sends to the peer.
	Out
)

// String returns in or out, which [Direction.UnmarshalText] reads.
func (d Direction) String() string {
	switch d {
	case In:
		return "in"
	case Out:
		return "out"
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// MarshalText makes a direction a word in JSON.
func (d Direction) MarshalText() ([]byte, error) {
	if d != In && d != Out {
		return nil, fmt.Errorf("direction %d is neither in nor out", uint8(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what String returns.
func (d *Direction) UnmarshalText(text []byte) error {
	switch string(text) {
	case "in":
		*d = In
	case "out":
		*d = Out
	default:
		return fmt.Errorf("direction %q is neither in nor out", text)
	}
	return nil
}

// A Rule drops packets between the node and one peer in one direction: all of them, or those that Percent, Rate or Reset, at most one
// of which is set, say. To stop the bytes from node A to node B, B's sandbox gets the rule {Peer: A, Direction: In}: dropped on
// arrival, they look to A's kernel as lost on the way.
type Rule struct {
	// Peer is the other end's address: another node's, or the network's gateway for everything that runs on the host.
	Peer netip.Addr `json:"peer"`
	// Direction says whether packets from or to the peer are dropped.
	Direction Direction `json:"direction"`
	// Ports narrows the rule to TCP connections that have one of these ports on either end, which tells the clients of
	// one host apart, or clients from the control connection. Empty means all traffic with the peer, TCP or not.
	Ports []uint16 `json:"ports,omitempty"`
	// Percent is how many of a hundred packets are dropped, at random: 1 to 99.
	Percent int `json:"percent,omitempty"`
	// Rate is how many bytes a second, headers included, are let through, after a first second's worth and one large packet; what is
	// more is dropped, and TCP sends it again, slower.
	Rate uint64 `json:"rate,omitempty"`
	// Reset has each packet answered with TCP's reset instead of dropped in silence: its sender's connection breaks. The rule is
	// about TCP only.
	Reset bool `json:"reset,omitempty"`
}

// String returns the rule in words: in from 172.18.0.3, out to 172.18.0.1 ports 9092.
func (r Rule) String() string {
	var b strings.Builder
	preposition := "from"
	if r.Direction == Out {
		preposition = "to"
	}
	fmt.Fprintf(&b, "%v %s %v", r.Direction, preposition, r.Peer)
	for i, p := range r.Ports {
		if i == 0 {
			b.WriteString(" ports")
		}
		fmt.Fprintf(&b, " %d", p)
	}
	switch {
	case r.Percent != 0:
		fmt.Fprintf(&b, " loss %d%%", r.Percent)
	case r.Rate != 0:
		fmt.Fprintf(&b, " above %d bytes/s", r.Rate)
	case r.Reset:
		b.WriteString(" reset")
	}
	return b.String()
}

func (r Rule) validate() error {
	if !r.Peer.Is4() {
		return fmt.Errorf("rule %v: peer %v is not an IPv4 address, which all addresses of a run's network are", r, r.Peer)
	}
	if r.Direction != In && r.Direction != Out {
		return fmt.Errorf("rule %v: direction is neither in nor out", r)
	}
	ways := 0
	for _, is := range []bool{r.Percent != 0, r.Rate != 0, r.Reset} {
		if is {
			ways++
		}
	}
	if r.Percent < 0 || r.Percent > 99 {
		return fmt.Errorf("rule %v: want 1 to 99 percent; without percent all is dropped", r)
	}
	if ways > 1 {
		return fmt.Errorf("rule %v: has more than one of percent, rate and reset", r)
	}
	for _, p := range r.Ports {
		if p == 0 {
			return fmt.Errorf("rule %v: port 0 is no port", r)
		}
	}
	return nil
}

// A Counter says what a rule has dropped or reset since it was put in force.
type Counter struct {
	Rule
	// Packets is the number of dropped packets, retransmissions and acknowledgements included.
	Packets uint64 `json:"packets"`
	// Bytes is their size including the IP header.
	Bytes uint64 `json:"bytes"`
}

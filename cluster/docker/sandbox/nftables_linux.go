package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Where things are in the headers of a packet.
const (
	ipSource      = 12 // bytes into the IPv4 header
	ipDestination = 16
	tcpSource     = 0 // bytes into the TCP header
	tcpDest       = 2
)

// netfilter changes the rules of the network namespace that the process is in. It remembers which rules are in force to
// name them beside their counters; the kernel has the counters.
type netfilter struct {
	rules []Rule
}

func newFilter() filter { return &netfilter{} }

func (n *netfilter) replace(rules []Rule) ([]Counter, error) {
	before, err := n.count()
	if err != nil {
		return nil, err
	}
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("reach nftables: %w", err)
	}
	table := &nftables.Table{Name: Table, Family: nftables.TableFamilyIPv4}
	// Deleting what is not there fails the transaction, adding what is there does not.
	c.AddTable(table)
	c.DelTable(table)
	if len(rules) > 0 {
		c.AddTable(table)
		in := c.AddChain(chain(table, In, nftables.ChainHookInput))
		out := c.AddChain(chain(table, Out, nftables.ChainHookOutput))
		for i, r := range rules {
			at := in
			if r.Direction == Out {
				at = out
			}
			for _, e := range matches(r) {
				c.AddRule(&nftables.Rule{
					Table:    table,
					Chain:    at,
					Exprs:    slices.Concat(e, chosen(r), []expr.Any{&expr.Counter{}}, verdict(r)),
					UserData: binary.BigEndian.AppendUint32(nil, uint32(i)),
				})
			}
		}
	}
	if err := c.Flush(); err != nil {
		return nil, explain("change rules", err)
	}
	n.rules = rules
	return before, nil
}

func (n *netfilter) count() ([]Counter, error) {
	if len(n.rules) == 0 {
		return nil, nil
	}
	counters := make([]Counter, len(n.rules))
	for i, r := range n.rules {
		counters[i].Rule = r
	}
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("reach nftables: %w", err)
	}
	table := &nftables.Table{Name: Table, Family: nftables.TableFamilyIPv4}
	for _, d := range []Direction{In, Out} {
		rules, err := c.GetRules(table, &nftables.Chain{Name: d.String(), Table: table})
		if err != nil {
			return nil, explain("read counters", err)
		}
		for _, r := range rules {
			if len(r.UserData) != 4 {
				return nil, fmt.Errorf("read counters: table %s has a rule that is not ours in chain %v", Table, d)
			}
			i := binary.BigEndian.Uint32(r.UserData)
			if int(i) >= len(counters) {
				return nil, fmt.Errorf("read counters: table %s has a rule number %d in chain %v, and only %d are in force", Table, i, d, len(counters))
			}
			for _, e := range r.Exprs {
				if k, ok := e.(*expr.Counter); ok {
					counters[i].Packets += k.Packets
					counters[i].Bytes += k.Bytes
				}
			}
		}
	}
	return counters, nil
}

func chain(table *nftables.Table, d Direction, hook *nftables.ChainHook) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return &nftables.Chain{
		Name:     d.String(),
		Table:    table,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  hook,
		Priority: nftables.ChainPriorityFilter,
		Policy:   &accept,
	}
}

// matches returns the rule's conditions as nftables expressions. There is no "or" in them, so a rule with ports becomes
// two for each port.
func matches(r Rule) [][]expr.Any {
	offset := uint32(ipSource)
	if r.Direction == Out {
		offset = ipDestination
	}
	peer := r.Peer.As4()
	address := []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: peer[:]},
	}
	if len(r.Ports) == 0 {
		return [][]expr.Any{address}
	}
	var all [][]expr.Any
	for _, port := range r.Ports {
		for _, at := range []uint32{tcpSource, tcpDest} {
			all = append(all, append(address[:len(address):len(address)],
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: at, Len: 2},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
			))
		}
	}
	return all
}

// burst is how many bytes a rate lets through at once beside a second's worth of its own, which the kernel always adds: a whole packet
// of the largest size that a virtual network makes.
const burst = 64 << 10

// chosen returns the conditions that choose some of the packets that match: at random, or above a rate. A random number is in the
// machine's byte order, and comparing goes by bytes.
func chosen(r Rule) []expr.Any {
	switch {
	case r.Percent > 0:
		return []expr.Any{
			&expr.Numgen{Register: 1, Modulus: 100, Type: unix.NFT_NG_RANDOM},
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binary.BigEndian.AppendUint32(nil, uint32(r.Percent))},
		}
	case r.Rate > 0:
		return []expr.Any{&expr.Limit{Type: expr.LimitTypePktBytes, Rate: r.Rate, Over: true, Unit: expr.LimitTimeSecond, Burst: burst}}
	case r.Reset:
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		}
	}
	return nil
}

// verdict is what becomes of a packet.
func verdict(r Rule) []expr.Any {
	if r.Reset {
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
	}
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
}

// explain adds what to do about the two ways in which a kernel refuses.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w; the container needs the capability NET_ADMIN", what, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%s: %w; the kernel needs nf_tables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4; for loss, rate and reset CONFIG_NFT_NUMGEN, CONFIG_NFT_LIMIT, CONFIG_NFT_REJECT)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

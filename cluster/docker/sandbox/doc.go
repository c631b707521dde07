// Package sandbox cuts one node's network with packet rules, from inside the network namespace that the node lives in.
//
// In the docker backend every node is a pair of containers. The sandbox owns the network namespace, with its address and
// its published ports; the node joins it. So both address and rules outlive the node: it can be killed and started again
// behind a cut that stays. The sandbox runs "tidemark sandbox", which is [Serve] on its standard input and output, and
// the harness talks to it with a [Client] over the stream that "docker attach" gives:
//
//	harness                                        sandbox
//	{"id":1,"op":"replace","rules":[...]}    ->    one nftables transaction
//	{"id":1,"counters":[...]}                <-    what the rules that went had dropped
//	(the stream ends)                        ->    the sandbox exits
//
// The alternatives were measured with engine 20.10 on two cores. Starting a command in the sandbox for each change
// (docker exec) takes 80 to 120 ms, attaching 7 to 15, of which the kernel's transaction is the most; a port of its own
// is no faster, must be excepted from every rule, and is open to whoever reaches the network. The stream cannot be cut
// by a rule, works with an engine that is far away, and ends when the harness dies, however it dies, and the sandbox
// with it.
//
// # What a rule does
//
// A plain [Rule] drops the packets that come from a peer, or those that go to it. The connections that they belong to stay open
// and silent, whichever side opened them, and new ones cannot be opened, since a handshake needs both ways. Dropping
// packets one way stops bytes that way at once; bytes the other way arrive still, but unacknowledged, so they stop as
// well once the sender has filled the window. When the rule is gone a silent connection goes on by itself at its
// sender's next retransmission. Their intervals double while the cut lasts, so that can take as long again as the cut
// did; whoever has a shorter time-out opens a new connection, which works at once.
//
// A rule with a percentage drops a part of the packets at random, one with a rate those above it: TCP sends both again, so that
// what was sent arrives late. A rule with a reset answers each packet of its peer as if nobody knew the connection, which breaks it
// at its sender; the other end hears of it when it sends something itself. No rule can delay packets: nothing that nftables does
// keeps one, and netem, which does, is a kernel module of its own that cannot be assumed.
//
// All rules are in one nftables table, [Table], and are always replaced together: there is no moment with half of them,
// and no rule that a heal could forget. What each rule dropped is counted: the evidence that a fault took effect.
//
// # Guests
//
// A sandbox can join the network of a container that is not the harness's (cluster/foreign), which lives on without it. That is
// [ServeGuest]: when the stream ends, however the harness ended, the rules are taken away before the sandbox exits.
//
// It is Linux only: elsewhere Serve answers with an error that wraps errors.ErrUnsupported.
package sandbox

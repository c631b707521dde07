// Package docker runs the nodes of a cluster in containers, on a network of their own, with packet rules between them. It is
// the backend in which nothing but the machine is shared: every node has a kernel's network stack of its own, and a cut is a
// cut of packets.
//
//	k, err := docker.Open(ctx, config)        one cluster
//	p, err := docker.NewPool(ctx, run, "")    several, one after the other: p.Open(ctx, config)
//
// # A node is a pair of containers
//
//	+---------------------- network namespace, 172.18.0.3 ----------------------+
//	|  sandbox: tidemark sandbox, NET_ADMIN        node: tidemark node ...      |
//	|  lives as long as the pool                   killed, paused, started anew |
//	+---------------------------------------------------------------------------+
//
// The sandbox owns the address and the rules, so both survive the node's death, and the node's image needs no tools for
// either: see package sandbox. Each start of a node is a container of its own, since its command line differs from the last
// one's. Both run the same image, which holds nothing but the tidemark executable: see package image, and package binary
// for where that comes from.
//
// A node's data is in its folder in the folder of the run, mounted into its container, which runs as the user that the
// harness is; so it outlives every container, the journal of what is not flushed included. What the node prints comes over
// the connection by which the harness is attached to it, and all of it has arrived when [Cluster.Stop] returns.
//
// # Faults, and what is measured
//
//	kill, power failure   SIGKILL by the engine      the container's state and exit code; its port refuses connections
//	pause                 the engine's freezer       the container's state
//	cut                   packets dropped            how many packets each rule dropped since the link was cut
//
// A cut drops packets where they arrive, which says more than a cut of bytes. What A sends to B is lost, and B's kernel
// does not hear A's acknowledgements either: connections between them stay open, B's bytes to A arrive until the window is
// full, and no new connection can be opened, whoever tries. Clients are the network's gateway, on the port for clients;
// the harness's own connections come from the same address and are never cut.
//
// When a link heals, a connection that was silent goes on at its sender's next retransmission, which may take as long again
// as the cut lasted. Nodes and clients do not wait for it: they have time-outs of 1 to 2 s and connect anew. After cuts of
// 3 s brokers were back in every ISR within 0.8 s, and clients had answers from them within 1.3 s.
//
// # Containers of others
//
// [Guests] are sandboxes that join the network of containers that are none of the harness's, for as long as something is cut there:
// cluster/foreign has them for brokers that run in containers already.
//
// # What is left behind
//
// Nothing, when clusters and pools are closed. Containers and networks are made through testcontainers-go, and driven
// through the Docker API of the same engine; all of them carry the run's label, by which [Down] removes whatever a killed
// harness leaves. What it leaves is idle: the harness holds the standard input of every container, and they exit when it
// ends, save one that is paused. Images stay, as a cache, until Down is called.
//
// # Limits
//
// On Linux, containers are reached at their addresses: nothing is published, and nothing listens on anything but the run's
// network. Where that is impossible (Docker Desktop, an engine without root) ports are published on 127.0.0.1 and brokers
// advertise those; the engine's proxy there accepts connections also for dead and paused nodes, so a refused connection is
// no evidence, and connecting takes a moment longer. An engine on another machine serves only if its containers' addresses
// can be reached from here; it does not see our files, so that data and journals are in volumes, which go with the run.
package docker

// Package process is a cluster of child processes on loopback: it needs no Docker and no root, so it is what a fresh machine
// starts with.
//
// Every connection between two nodes, and from clients to brokers, runs through a link of the harness's own, because a
// partition of the network has to be made somewhere:
//
//	broker 1 ---> link 1->2 ---> broker 2
//	broker 1 ---> link 1->controller ---> controller
//	clients  ---> link clients->1 ---> broker 1 (the address that it advertises)
//
// The stable ports are the links'; nodes listen on ports of the system's choice and say which. Cutting A->B holds the bytes
// from A to B on connections that either side opened, and leaves them open and silent; when the link heals, what was held
// arrives, as with TCP's retransmission. A connection that is opened meanwhile stays silent too.
//
// A link can also lose a part of what is sent, which then arrives as late as TCP would send it again; delay everything, while it takes
// in what follows; hold to a rate; and reset the connection over which something comes. Each counts what it met.
//
// A process that is killed keeps what it wrote, as the page cache does. A power failure is a kill and a node that undoes,
// before it recovers, what was not flushed.
//
// Children end with the harness: their standard input is a pipe that it holds.
package process

// Package virtual is a cluster in virtual time: the cores of real brokers and of the controller, on disks that lose power exactly, with a
// network and clients in which nothing takes real time. Half a minute of a run takes about a second, and a run is its seed: the same
// seed gives the same history to the last byte.
//
//	workload.Crew (generators, routes, what an answer means)
//	     |  requests, deadlines                                answers, broken connections
//	     v                                                            |
//	   network: delay, order, hiccups, cuts  <---->  queue of events by (time, number)
//	     |                                                            ^
//	     v                                                            | messages, ticks at a core's Deadline
//	   servers: inbox.Broker over memory.Disk, controller.Controller -'
//
// [Open] starts a cluster; [Cluster.WaitFor], [Cluster.Work], [Cluster.FinalReads] and [Cluster.Dump] are the phases of a run, and nothing
// happens outside of them. Faults come by the methods that every cluster has (Start, Stop, Pause, Links), so a nemesis.Plan is played
// at virtual times by the player that plays it on processes and containers. `tidemark run --on sim` is that.
//
// # What is as on real nodes
//
// The cores, the generators, what an answer means to a client, the records of a history, the plans of faults. Around the cores the server does
// what package node's shell does: ticks when a core is due, flushes and checkpoints by the settings' intervals, the controller's record
// durable before anything that follows from it leaves, Metadata answered from the controller's last words and the brokers that it said
// are live, answers matched with requests, a connection given up when an answer is overdue.
//
// # The network
//
// Brokers, the controller and clients speak over TCP. A connection keeps its order and loses nothing while it lives, so what a network
// does to messages shows as one of these (see [Network]):
//
//   - Delay: every message takes its own time. Messages of one core to one peer keep their order; those of two cores, or to two
//     peers, pass each other freely.
//   - Reorder: a message comes late, over a connection that was given up, and is overtaken by those of the next one. That is the fetch of
//     KIP-903, which was sent before a reboot.
//   - Duplicate: a request arrives twice, because the sender's connection broke and it asked again, and the first had arrived. Cores between
//     nodes see that; clients make one attempt an operation and never repeat one.
//   - Lose: the connection breaks over a message. Whoever waits for the answer gets replica.ConnectionLost, or a client's "connection
//     lost"; the request may have been carried out.
//   - A cut link holds what comes to it, in one direction, and connections stay open and silent, as on the other backends. When it opens
//     what was held arrives, late. Until then a sender has nothing but its own time-outs.
//   - A process that ends resets its connections: who waits for it learns so after a round trip, if that way is not cut. What it had
//     sent still arrives. Who sends to the process that came after it over an old connection is reset too.
//
// # The truth
//
// With Options.Truth the simulation keeps, for every answer that reaches a client, the log of whoever gave it, as it was at that moment;
// that costs one slice. [Cluster.Judge] holds each of these against the final log. The checker is judged by it: see README.md.
//
// # Limits
//
//   - One clock: the processes' clocks do not drift apart. Nothing in the cores compares times of two nodes.
//   - A step of a core takes no time, and neither does a disk: fsync stalls and full disks do not happen.
//   - Values are not encoded. A batch carries its number, with as many bytes beside it as it would have.
package virtual

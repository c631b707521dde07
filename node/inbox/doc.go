// Package inbox is what waits in front of a core, and the cores of one process behind it.
//
// Every message on its way to a core passes an [Inbox], in simulation and in real nodes alike. In a free run it passes at
// once. When the inbox is holding, it waits until it is delivered or dropped by name; while its sender is cut off, it is
// lost on arrival. So a schedule decides every interleaving, and nothing else in a node needs to know of schedules.
//
//	peers, clients ---> Inbox ---deliver---> Broker --+--> session.Session
//	                      |                           +--> replica.Replica (one a partition)
//	                      +---drop, lost
//
// [Broker] is the cores of one broker process: its session with the controller and its replicas, over one disk. The
// controller is a core of its own. Both have the same Step, so that a driver (a broker process, the simulator) handles
// them alike.
//
// The package is pure: no clock, goroutine, lock or I/O beside the replica.Disk that it is given.
package inbox

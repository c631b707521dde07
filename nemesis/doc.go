// Package nemesis disturbs a cluster that runs freely: it kills, stops, pauses, partitions and power-fails nodes, impairs their
// links, breaks their disks, moves their leaders, and has each fault shown by a measurement.
//
// A [Plan] is a list of steps with times. It is drawn from a seed before the run begins, so that one number decides
// everything that is asked for; it is text that a run keeps and that can be played again:
//
//	at 2.310s pause 2
//	at 3.871s resume 2
//	at 5.102s cut 1->2 1->3 1->controller
//	at 7.440s heal
//	at 8.020s powerfail 3 cut=0+0
//	at 9.633s start 3
//
// A step can name its nodes by what they do, and its links by the shape of a partition. Both are resolved when the step is
// played, and "as" keeps the nodes for a later step:
//
//	at 2.000s kill leader of orders-0 as victim
//	at 3.500s cut isolate follower of orders-0
//	at 5.000s start victim
//
// It can wait for a state of the protocol, at most for so long:
//
//	at 1.000s when hw-only-on-leader of orders-0 within 10s kill leader of orders-0
//
// A line of comment right above a step belongs to it. README.md has all verbs, roles, shapes and states, and what each backend can do.
//
// [Run] plays a plan and records each fault in the history, from before it was asked for until it is over, with what was
// measured. What was asked for stands there in the plan's words, and beside it the nodes that it resolved to. A step that named
// nobody, or whose state never came, is recorded as a fault that nothing proves: the run is inconclusive. Whatever ends the run,
// even a panic, [Heal] sets the healthy state; setting it twice does nothing.
//
// Schedules, which decide every message, are in nemesis/schedule.
package nemesis

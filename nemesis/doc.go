// Package nemesis disturbs a cluster that runs freely: it kills, pauses, partitions and power-fails nodes, and has each
// fault shown by a measurement.
//
// A [Plan] is a list of steps with times. It is drawn from a seed before the run begins, so that one number decides
// everything that is asked for; it is text that a run keeps and that can be played again:
//
//	at 2.310s pause 2
//	at 3.871s resume 2
//	at 5.102s cut 1->2 1->3 1->controller
//	at 7.440s heal
//	at 8.020s powerfail 3 cut=0
//	at 9.633s start 3
//
// [Run] plays a plan and records each fault in the history, from before it was asked for until it is over, with what was
// measured. Whatever ends the run, even a panic, [Heal] sets the healthy state; setting it twice does nothing.
//
// Schedules, which decide every message, are in nemesis/schedule.
package nemesis

// Package control is how a harness looks into a node and, when the node was started with --control, moves it.
//
// A [Command] moves one core by one step: a poll, a delivery from its inbox, a checkpoint. The [Reply] lists the messages
// that the step gave rise to, the events it caused, and how the node looks now. Nothing else moves a node under control:
// it has no timers of its own. [Host] carries the commands out over the cores of node/inbox, and is the same code in a
// broker process and in simulation; so a schedule gives one transcript on both.
//
// What the harness and the nodes say to each other is JSON, a line a message ([Server], [Client]). The stream of events of
// a node in a free run uses the same [Event].
package control

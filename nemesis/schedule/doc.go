// Package schedule is the text in which Tidemark tells what happens in a run, line by line, and what is expected of it
// under each protocol.
//
// # The text
//
//	schedule S1b  High watermark truncation, then election
//	cluster replicas=1,3,2 min.insync.replicas=2
//	# m0 is on every replica, and every replica knows that it is committed.
//	produce m0
//	settle
//	...
//	expect hw       violation   lost-acked m1, read-then-lost m1
//	expect kip101+  consistent
//
// [Parse] reads it, [File.String] writes it back, [Play] plays it. Lines that begin with # are comments and belong to the
// step below them. A step may begin with [protocols] to be taken only under some, and with ? when it may be impossible;
// any other impossible step makes the run inconclusive. Every protocol is covered by exactly one expect.
//
// Nothing moves unless a line says so: every message between brokers, controller and clients waits in its receiver's
// inbox, clocks stand still, and sessions, ISR lag, checkpoints and flushes happen only by a step. So a schedule needs no
// time and no waiting, and gives the same transcript in simulation, on processes and in containers.
//
// # The stage
//
// A [Stage] is a cluster that moves only by commands. [Play] knows no backend: it translates steps into commands, keeps
// the record of the operations and events in a history, and draws the transcript, one line a step and one column a
// broker:
//
//	fetch 3 request   1L m0.0 m1.0 |    2f m0.0 |m1.0     3f m0.0 |m1.0
//	                  ||  |    |   |
//	                  ||  |    |   high watermark: what stands before it is committed, as far as this broker knows
//	                  ||  value.epoch of each record
//	                  |L leads, f follows, t has to truncate first, - has no role, ! is offline
//	                  broker; 2x is dead, 2p paused: nobody can ask them
//
// The embedded schedules are in a folder for each improvement proposal ([All], [Find]), and in one for the bug zoo ([Zoo]).
package schedule

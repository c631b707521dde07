// Package replay runs a node again from its journal (node/journal), in this process: the same cores over a disk in memory, message
// by message, incarnation by incarnation.
//
//	journal --> inputs --> inbox.Broker or controller.Controller --> hash --- equal? --- hash <-- journal
//	                              |
//	                         memory.Disk <-- power failures, flushes, checkpoints as the journal has them
//
// [Run] compares the hash of every step, and at every start what the process found on its disk with what the disk in memory has:
// after a kill everything, after a power failure what the same cut leaves, after a clean shutdown its marker too. The first
// difference is named ([Difference]) and ends the replay.
//
// # What it proves
//
// If all hashes are equal, then the node did what the cores do with these messages: what came of the run is explained by
// messages and rules, and not by a race, a clock or the disk. It says nothing of what happened between nodes: each of them is run
// again on its own. With rules changed ([Options]) the first difference says where another protocol would have gone another way.
//
// # The last inputs of a killed process
//
// They have no hash, since outcomes are written behind their inputs. The next start tells what was on the disk: the replay takes
// the last point in those steps, down to a call of the log, at which the disk in memory is the same. If there is none, that is
// the difference. Behind the last incarnation nobody looks; its last inputs are run and not compared.
//
// # Limits
//
// A journal has to begin with an empty disk. A call of the log that failed is taken as not done. A flush beside the steps is known by
// its beginning and end, and covers something in between; what a power failure took says what. A process that is killed while it
// plays a power failure, before its start is written down, is taken for one that never was, and the next one's losses then differ.
package replay

// Package journal is what a node writes down of itself, so that it can be run again: every message that passed its inbox, what
// the disk did to it, and a hash of what came of each step.
//
// A node's cores are functions of their input. So the input is enough to run them again, in one process, without a socket or a
// clock (package node/replay), and the hashes say whether what runs again is what ran. A fault that was found on processes or
// in containers comes back as a simulation that way.
//
// # What is in it
//
// A node has one file (node.journal, beside its data), and each of its incarnations appends to it. The file begins with a line
// that names the format and its version. Then come records:
//
//	start      a process has started: the configuration of its cores, and what it found on its disk ([Start])
//	opened     its cores are there: marker of a clean shutdown, hash of the state ([Opened])
//	inputs     messages that are about to be handled together, and at which time ([Inputs])
//	outcome    of those: a hash a step, errors of the log, now and then a hash of the state ([Outcome])
//	mark       what was done beside the messages: flushes, checkpoints, a failure that was asked for, a clean stop ([Mark])
//
// A record is framed by its length (4 bytes), a check of the length (2), the CRC-32C of what follows (4), and a byte for its
// kind. Numbers are little-endian; inside of a record they are varints. The start is JSON: it is what a person wants to read.
//
// # Written ahead
//
// Inputs are written before a core sees them, with one call for all that are handled together. Their outcome goes with the next
// call. So a process that is killed leaves at most one record of inputs without an outcome: nobody knows how many of them
// were handled. What the next incarnation finds on the disk tells: it is compared with every point in those steps at which
// the process can have died. Time is not asked for when a timer fires: each record of inputs has its time, and says whether
// a tick follows at that time if one is due, which is the core's own word.
//
// # What is hashed
//
// The hash is chained from the start of the incarnation on, over what each step sends ([Trace.Message]) and what it writes to
// its log (appends with the CRC of their bytes, truncations, epochs). Of batches the fields count and the bytes behind the
// leader epoch: those before it are patched by the log, and stand in the fields.
//
// # Limits
//
// A journal is as large as what passes through its node. It is not flushed: it is for processes that are killed, while a power
// failure is played (node/storage), so that the journal outlives it. When it cannot be written the node ends, like one that
// cannot report its events. Errors of the log are kept as texts.
package journal

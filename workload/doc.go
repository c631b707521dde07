// Package workload asks a cluster to append and to give back records, from several clients at once, and writes down what was
// asked and what came back, so that a checker can tell later whether the cluster kept its word.
//
//	Generator --Operation--> client (one attempt) ---request---> broker
//	    ^                       |          \--invoke, return--> history.Sink
//	    '------Answer-----------'
//
// # What is asked
//
// A [Generator] is a pure function of a seed, the number of its process and the answers that the process got: it knows no clock
// and no other process. So a seed asks the same questions again, as far as the answers are the same. Each process appends
// values that nobody else appends, reads on from where it is, reads again what it has read, reads the end, reads from the
// beginning, and asks where the log ends. One fetch in ten goes to a replica that does not lead: from leaders alone stale reads
// would hardly ever be seen.
//
// # What an outcome means
//
// [Run] makes one attempt an operation and never retries: only then does one operation stand for one append at most, and
// only then is it known which operation an append belongs to.
//
//	ok     it happened, and this is the answer
//	fail   it certainly did not happen and never will
//	info   nobody knows: it may have happened, or may still happen
//
// An operation that wrote nothing to a connection has failed, and so has a read that was answered with an error. A produce has
// failed if the broker's error certainly came before an append: either the broker says so (see [Run]), or Kafka gives that error
// at no other time. Everything else is unknown: a time-out, a connection that was lost after a byte was sent,
// REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, and NOT_LEADER_OR_FOLLOWER with acks=all, which Kafka answers also when
// leadership moved while the record, which is in the log, waited for its replicas (KAFKA-13574).
//
// After an unknown outcome a process is retired, since it may still be doing what it did last, and its client goes on under
// a number that was never used. Numbers are handed out so that they do not depend on who is faster: client i of n is the
// processes i, i+n, i+2n, ... one after the other.
//
// # The second family
//
// [RunIdempotent] uses an ordinary Kafka client, with idempotence, acks=all and endless retries. There a retry is the client's own
// business, and a record that is in the log twice is the fault that idempotence (KIP-98) promises to prevent.
//
// # At the end
//
// [FinalReads] reads each partition from its leader, from the beginning to the high watermark: what is not there is lost.
// [Dump] reads one replica up to its log end, for comparison with the others.
//
// # Limits
//
//   - No transactions and no consumer groups: the promise under test is that of a partition's log.
//   - Clients do not check leader epochs (KIP-320) in the first family. They are meant to be fooled by a deposed leader, if it
//     can fool anybody; the consumer of the second family checks them.
//   - Latencies are those of single attempts, from the invoke to the return. At a bounded rate an attempt that starts late because
//     the one before was slow does not count its own waiting.
//   - Any Kafka cluster from 0.11 on can be asked (fetches from replicas that do not lead need 2.4), but [Dump] needs Tidemark's
//     own broker.
package workload

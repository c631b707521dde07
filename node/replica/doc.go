// Package replica is one broker's replica of one partition: Kafka's replication rules and nothing else.
//
// # How it is driven
//
// A [Replica] is a state machine. [Replica.Step] is the only way in: it takes one [Message], calls the [Log] in between,
// and appends the messages that the step gives rise to, in order. It has no clock, goroutine or I/O of its own; time is a
// number that the driver passes in. The same code runs in broker processes (driven by sockets, files and the clock), in
// simulation (driven by a schedule or a search), and in tests.
//
//	LeaderAndIsr ---> +---------+ ---> Fetch, OffsetForLeaderEpoch (to the leader, as follower)
//	Produce, Fetch -> | Replica | ---> answers
//	answers --------> |         | ---> AlterPartition (to the controller, as leader)
//	Poll, Tick -----> +----+----+ ---> Event (what happened, for people and for the checker)
//	                       |
//	                      Log
//
// # Where the rules live
//
// Every rule of protocol history is asked for in exactly one place, by its name in node/rules:
//
//	leader.go    becoming leader, fetches by followers and consumers, the high watermark
//	produce.go   appending, idempotent producers, the purgatory of acks=all
//	isr.go       expanding and shrinking the in-sync replicas
//	follower.go  becoming follower, fetching, applying what was fetched
//	truncate.go  what a new follower cuts, by every way of truncation
//	epochs.go    the leader epoch cache
//
// # What it guarantees and what it does not
//
// Given the same messages and the same log, a replica gives the same messages, bit for bit. An error of the log takes the
// replica offline, as a failed log directory does in Kafka; Step itself never fails. Messages are never changed after
// they were sent or received. It does not guarantee that committed records survive: that depends on the rules in force,
// which is what this project is about.
package replica

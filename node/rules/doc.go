// Package rules names every rule of Kafka's partition replication protocol that was once missing, so that each can be
// taken away again.
//
// A [Set] says which rules are in force; the cores (node/replica, node/controller, node/session) ask it at the one place
// where the rule lives. A [Protocol] is the set that Kafka had at one time:
//
//	hw      truncate to the high watermark: Kafka before KIP-101
//	kip101  ask the leader where an epoch ends (0.11)
//	kip279  ... and which epoch that was (2.0)
//	kip320  ... and fence fetches by epoch, with the fixes that came with it (2.1)
//	kip966  ... and eligible leader replicas and what they need (4.0)
//
// Each contains all rules of the one before it, truncation itself excepted, which replaces its predecessor. [Rules] is
// the registry for people: name, source, one sentence, and the protocol that brought it. [Parse] turns what stands on a
// command line (--protocol, --without, --rule) into a Set or says what is wrong with it.
//
// The package imports nothing of this project and has no state.
package rules

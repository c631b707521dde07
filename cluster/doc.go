// Package cluster says what a cluster is to the harness: nodes that are started, stopped, paused and cut off from each
// other, whose every method sets a state and returns the evidence that it took effect.
//
//	cluster/process   child processes on loopback; no Docker, no root
//	cluster/docker    containers, a network of their own, packet rules
//	cluster/sim       the same cores in one process
//	cluster/foreign   brokers that somebody else started, as far as clients and hooks reach
//
// A [Cluster] runs freely, for random faults. A [Stage] is one in which nothing moves by itself, for schedules; see
// nemesis/schedule. Both are made of a [Config].
package cluster

// Package controller decides who leads: elections, leader and partition epochs, the compare-and-set of the in-sync
// replicas, broker sessions and registration. There is one controller and it is assumed to be reliable; its own consensus
// is another subject.
//
// Like node/replica it is a pure state machine. [Controller.Step] takes one message and appends what it gives rise to: the
// answer, and after every accepted change a LeaderAndIsr push to every registered broker, repeated until acknowledged.
// The driver makes [Controller.AppendSnapshot] durable before it lets those messages out, and [Restore] starts from it.
//
//	brokers.go     registration (ZooKeeper-like or KRaft-like), heartbeats, fencing
//	elections.go   who leads next, ISR and ELR (KIP-966)
//	partitions.go  AlterPartition (KIP-497), transfer
//	push.go        LeaderAndIsr
package controller

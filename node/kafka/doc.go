// Package kafka speaks Kafka's wire protocol for a node: with clients, between brokers, and between brokers and the
// controller.
//
// # The data's way
//
// A [Server] reads requests from connections, takes each apart into one message a partition, and puts those in front of the
// cores (node/replica, node/controller); the cores' answers are joined into the response. A [Conn] is the other direction:
// it makes requests of the messages that a core sends to one peer, and hands back the answers as messages.
//
//	client ----Produce, Fetch---> Server ---Deliver(message)---> inbox, core
//	       <------response------- (join) <------reply(answer)---
//
//	core --message--> Conn ----Fetch, OffsetForLeaderEpoch, AlterPartition ...----> another node's Server
//	     <-Receive--- (match) <--response--
//
// So the wire adds nothing and decides nothing about replication: a core cannot tell whether a message crossed a network or
// came from a simulation. There are no retries here. A [Conn] reports each request that gets no answer, exactly once, as
// lost, and the core decides.
//
// # Files
//
// One file an API, numbered by its key, each opening with its behaviour and its versions:
//
//	00_produce.go   01_fetch.go          02_list_offsets.go           03_metadata.go
//	18_api_versions.go   22_init_producer_id.go   23_offset_for_leader_epoch.go            for clients and followers
//	04_leader_and_isr.go                                                                   from the controller
//	56_alter_partition.go   62_broker_registration.go   63_broker_heartbeat.go             to the controller
//
// frame.go has the framing, server.go and server_conn.go the serving side, handler.go what all APIs share, conn.go the
// asking side, peer.go the versions between nodes, backend.go what a node has to offer, watch.go the wake-up of long polls.
// The sub-package batch makes and reads record batches for clients.
//
// # Order
//
// Requests of one connection are delivered in the order in which they were sent, each without waiting for the one before,
// so that a pipelining producer's batches reach the partition in their sequence. Clients get their responses in the order of
// their requests, as Kafka promises. Nodes get theirs as they come, matched by the correlation id, because one that waits
// in an inbox must not hold up the others.
//
// # Versions are the protocol's history
//
// Between nodes the rules in force choose the versions, so that a rule that is off cannot leak in through a field of the
// wire:
//
//	rules                     Fetch  ListOffsets  OffsetForLeaderEpoch  AlterPartition
//	truncation=hw, kip101     v8     v2           v0 (end offset)       v1
//	truncation=kip279         v8     v2           v1 (and its epoch)    v1
//	fetch-fencing             v10    v5           v3 (fenced)           v1
//	truncation=on-fetch       v12    -            never asked           -
//	broker-epoch              v12    -            -                     v3 (broker epochs)
//
// Clients are always offered everything. All versions name topics by their names: Fetch ends at 12, Produce at 9, Metadata
// at 9; AlterPartition alone needs ids, which follow from the names ([TopicID]).
//
// # Names
//
// The cores know senders by replica.ID. A follower's comes from its request's replica id (or, before OffsetForLeaderEpoch
// v3, from its client id, which is Kafka's: broker-2-fetcher-0), a client's from the client id tidemark-p4, which is
// process 4 of the workload; every other client is replica.AnyClient. A message's number is the correlation id.
//
// # What a refusal means
//
// Kafka's produce errors do not say whether the records may still appear. An error that certainly came before anything was
// appended has a message that begins with [RefusedBeforeAppend] (Produce v8 and later).
//
// # What bounds a connection
//
// Frames have a largest size, and memory for one grows only with the bytes that arrive. A client that sends and does not
// read is not read from either, once 64 of its requests wait or what they hold comes near 155 MiB. What is not Kafka's
// protocol, and an API or version that is not offered, ends the connection with a logged reason, as in Kafka; ApiVersions
// alone answers a version that it does not know.
//
// # What is left out, and why
//
//   - Transactions (FindCoordinator, AddPartitionsToTxn, EndTxn, ...): idempotence within a partition is all that the
//     replication protocol takes part in. Transactional batches are refused.
//   - Consumer groups (FindCoordinator, JoinGroup, OffsetCommit, ...): consumers assign their partitions themselves.
//   - Topic administration (CreateTopics, DescribeConfigs, ...): topics are given at start.
//   - Fetch sessions (KIP-227): answers carry session id 0, and clients stay without one.
//   - Topic ids for clients (Fetch 13, Produce 13, Metadata 10), leader hints (KIP-951).
//   - Down-conversion to formats before v2, offsets by timestamp, deletion of records.
//   - StopReplica, UpdateMetadata: LeaderAndIsr carries what they would.
//   - Authentication, authorization, TLS, quotas: everything runs on one machine, for tests.
package kafka

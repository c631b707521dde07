// Package clustertest is what every backend of package cluster has to pass: one suite of stories, told of brokers that are
// started, killed, paused, cut off and robbed of their power, so that a fault means the same wherever nodes run.
//
//	func TestCluster(t *testing.T) {
//		clustertest.Run(t, func(t *testing.T, c cluster.Config) cluster.Cluster { ... })
//	}
//
// [Run] is about clusters that run freely. [Schedules] is about those whose nodes hold their messages: a schedule played on
// them gives the transcript and the history of operations that it gives in simulation.
//
// Nothing in here sleeps. A story waits for an event of a node, for a state that a node shows, or for an answer; that
// something does not happen is looked at when something else has, which takes longer.
package clustertest

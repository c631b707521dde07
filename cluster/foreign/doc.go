// Package foreign is a cluster that the harness did not start: any that speaks Kafka's protocol, reached by its bootstrap
// addresses. What the harness knows of it, it has from the answers that every client gets.
//
//	k, err := foreign.Open(ctx, foreign.Config{Bootstrap: []string{"10.0.0.1:9092"}, Hooks: ...})
//	topics, err := k.Topics(ctx, []string{"orders"})      partitions and replicas; records already there are refused
//	promise, err := k.Promise(ctx, []string{"orders"})    min.insync.replicas, unclean.leader.election.enable
//
// # What it asks
//
// Metadata says which brokers there are, who leads, who is in the ISR; ListOffsets, where a log begins and ends. DescribeConfigs
// is asked for the promise, and who does not answer it costs nothing but a flag. [Cluster.Create] sends CreateTopics. Versions are
// agreed with each broker. All of this goes to the addresses that the brokers advertise, over plain TCP: TLS and SASL are not
// there.
//
// # Faults
//
// A fault is a shell command, a [Hooks] field, or is played on a broker's container (Config.Containers). {host}, {port} and {id} in
// a command are those of the broker, as it advertises them, and {peers} are the hosts of the other brokers. What a kind of fault
// needs:
//
//	kill         Kill and Start             shown by CheckKill, else by a port that refuses connections
//	pause        Pause and Resume           shown by CheckPause, else by a question without answer for a second
//	partition    Partition and Heal         shown by CheckPartition, which is needed: a client cannot see it
//
// A check is tried again until it exits with 0 or ten seconds are over. What it printed is the measurement. A fault whose check
// never exits with 0 is unproven, and the run inconclusive. A command that fails, or runs longer than Hooks.Timeout, ends the run;
// the commands that heal are run all the same, also where only the attempt was made. [Cluster.Start] returns when the broker
// answers.
//
// Containers are killed, started and frozen by the engine. A partition is packet rules in the container's own network namespace,
// from a sandbox that joins it for the time of the cut (cluster/docker/sandbox); when the harness dies the sandbox takes its rules
// away and ends. A hook is preferred where there is both.
//
// A hook cuts a broker off from all others, both ways; containers have every shape of a partition. Where the controller runs is
// not known, so links to it are left open, unless it is one of the brokers.
//
// # What cannot be known
//
// The logs of single replicas, so that they are not compared; what brokers do, save who leads when ([Cluster.Watch]); a power
// failure cannot be played. A log is at rest when every broker says that its ISR is whole and its end stays where it is.
package foreign

// Package tidemark finds out whether a Kafka-style replicated log keeps its word: one verb of the command a file.
//
// # A run
//
// A run is a cluster, a workload, a nemesis, a recorder and a check. [Run] starts the cluster, lets clients produce and
// fetch while faults come and go, heals everything, waits until the replicas agree, reads what is there at the end, and has
// the history judged. Nodes are containers, child processes, or simulated ones in virtual time, where a run is its seed;
// or the cluster is one of somebody else's ([Foreign]), known by its addresses only.
// [Reproduce] plays schedules in place of workload and nemesis, and compares what is found with what the schedules expect. [Explore] searches for schedules that break a promise. [Campaign] does all of that over a matrix, by night or
// on every pull request. [Check] judges a history that is there already.
//
// # One record's way
//
// A record begins in workload's generator and leaves through a raw client, which the recorder has noted (invoke). It comes
// over Kafka's protocol into a broker's listener (node/kafka), waits in the inbox of the leader's replica, and is appended
// to its log (node/replica calls node/storage). A follower's fetch carries it to the follower's log; the follower's next
// fetch tells the leader so. The high watermark rises, the produce request leaves the purgatory, and the answer goes back
// to the client; the recorder notes it (ok). All of that stands in the history, beside what the nodes reported. The checker
// asks whether some order of all operations explains every answer, and says what is wrong in sentences; they are kept in
// the folder of the run (results).
//
// # One schedule's way
//
// A schedule's text is parsed into steps (nemesis/schedule). The player turns each into commands to a stage: brokers in
// one process (cluster/sim), child processes (cluster/process) or containers (cluster/docker), none of which moves unless
// it is told to. What the cores gave rise to comes back: views become the transcript, answers and events the history. The
// checker judges it, and its findings are compared with what the schedule expects under the protocol.
package tidemark

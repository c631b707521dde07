// Package history is the file in which a run is kept: every operation of its clients, every fault, what the brokers and the
// controller reported, and the replicas as they were found at the end. One file is enough to judge a run again, and any tool can
// write one. The package imports nothing else of Tidemark.
//
//	recorder ---Append---> Writer ---> history.jsonl ---> Reader ---Next---> checker
//	                 `---> Memory ----------Events()-------------------------^
//
// # The format, version 1
//
// UTF-8 text, one JSON object a line, lines end with \n. A closed history may be compressed with zstd; readers see by the first
// four bytes. Keys may come in any order; an unknown key is an error. Integers are written without fraction or exponent.
// Text that is not UTF-8 cannot be written (encode such values first).
//
// The first line is the header. Everything but the version is optional, see [Header] for what its absence means:
//
//	{"tidemark-history":1,
//	 "contract":{"acks":"all","min.insync.replicas":2,"unclean.leader.election.enable":false,
//	             "protocol":"kip320","crash-budget":"isr","bar":"committed log"},
//	 "topics":[{"name":"orders","partitions":4,"replicas":3}],
//	 "meta":{"seed":"42"}}
//
// Every other line has seq (numbers rise along the file, from 1), time (ns since the run began) and kind.
//
// Operations. The process is a logical client with one operation at a time; invoke is written before the request is sent, the
// return after the answer arrived. Values are unique within a partition. acks is -1 (all, the default), 1 or 0; node is the broker
// that was asked; an offset of -1 in the answer of a produce means that the answer had none (acks=0).
//
//	{"seq":1,"time":12000,"kind":"invoke","process":4,"op":"produce","partition":"orders-0","values":["m0"],"acks":-1}
//	{"seq":2,"time":15000,"kind":"ok","process":4,"op":"produce","partition":"orders-0","offset":0}
//	{"seq":3,"time":16000,"kind":"invoke","process":5,"op":"fetch","partition":"orders-0","from":0,"node":2}
//	{"seq":4,"time":17000,"kind":"ok","process":5,"op":"fetch","partition":"orders-0","records":[[0,0,"m0"]],"hw":1,"node":2}
//	{"seq":5,"time":18000,"kind":"invoke","process":6,"op":"end","partition":"orders-0","node":1}
//	{"seq":6,"time":19000,"kind":"ok","process":6,"op":"end","partition":"orders-0","offset":1,"node":1}
//
// A record is [offset, leader epoch or -1, value]. A fetch's records begin at from: what a batch holds below it is dropped.
// Its hw and its records are of one snapshot. An operation that failed for certain ends with kind fail, one whose outcome nobody
// knows with kind info, or with nothing if the run ended first; both may carry error. After an info the process is never used again.
// The authoritative reads at the end carry "final":true in both lines: from the leader, from the first offset up to the high
// watermark, in as many fetches as it takes.
//
// Faults, by the clock and the numbering of the same recorder, before the fault is asked for and after it is over:
//
//	{"seq":7,"time":20000,"kind":"fault","id":1,"phase":"begin","verb":"powerfail","asked":"powerfail leader of orders-0","nodes":[1]}
//	{"seq":9,"time":25000,"kind":"fault","id":1,"phase":"end","verb":"powerfail","asked":"powerfail leader of orders-0","nodes":[1],
//	 "evidence":[["bytes lost","69"]],"proven":true}
//
// Node events, in each node's own order (see [What] for which fields belong to which; -1 as node is the controller, -1 as leader
// nobody). A field that is missing is zero.
//
//	{"seq":8,"time":24000,"kind":"node","node":1,"what":"powerloss","partition":"orders-0","from":2,"to":1,"bytes":69}
//	{"seq":10,"time":26000,"kind":"node","node":2,"what":"truncated","partition":"orders-0","epoch":1,"from":2,"to":1,"hw":1,
//	 "leader":3,"why":"high watermark"}
//	{"seq":11,"time":27000,"kind":"node","node":-1,"what":"elected","partition":"orders-0","epoch":2,"partition-epoch":4,"leader":2,
//	 "isr":[2,3],"why":"isr"}
//
// The end of the run, for each partition: did it come to rest, and the log of each replica. A long dump may be written in several
// events with rising entries; hw, leo and epochs stand in each.
//
//	{"seq":12,"time":28000,"kind":"settled","partition":"orders-0","ok":true}
//	{"seq":13,"time":29000,"kind":"replica","node":1,"partition":"orders-0","hw":1,"leo":1,"epochs":[[0,0]],"entries":[[0,0,"m0"]]}
//
// # Guarantees
//
// A [Writer] numbers events under one lock and writes them in that order. A process that is killed leaves a file that is cut at
// some byte; a [Reader] gives every whole line of it and says Torn. What had not been flushed is gone: call Flush from time to time.
// A [Reader] never panics on a damaged file and names the line and the field of the first error.
//
// # What the order means
//
// seq is the order of recording. A return that stands before an invoke happened before it, because the first was recorded after
// the answer arrived and the second before the request left: that, and only that, is the real-time order that is judged. Time
// is for people. A tool that merges the records of several recorders must not invent such an order: where their clocks cannot
// tell, it writes the invokes first.
//
// Node events arrive by way of streams, each with a delay of its own. What they tell happened before their place in the file, nobody
// knows how long before; the order within one node is that node's own. Across nodes, facts are joined by partition, epoch and offset.
package history

// Package checker decides from a history whether a replicated log kept its word: whether a record that was acknowledged or read was
// lost or changed, whether a record was read that nobody wrote, and which of that the configuration had promised to prevent.
//
//	history.Reader --Next--> intake: by partition, checked for contradictions
//	                           |
//	                           +-- resolve, sweep: the exact check, all four levels, every anomaly in one pass
//	                           +-- porcupine, within its budget: an independent judge that must agree
//	                           +-- replicas: the dumps compared below the lowest high watermark
//	                           +-- court: node events against the contract: violation or allowed, and why
//	                           `-- teller: one sentence a finding
//	                                 |
//	                               Result: verdict, reasons, findings, levels, evidence
//
// # Use
//
//	r, err := history.Open("history.jsonl")
//	...
//	res, err := checker.Check(ctx, r, checker.Options{})
//	res.WriteText(os.Stdout)
//	os.Exit(res.Verdict.ExitCode(false))
//
// # The exact check: a log is never seen to shrink
//
// The log of a partition is dense from offset 0 on, grows at its end only, and its values are unique. Operations are produce of a batch,
// fetch (records and a high watermark of one snapshot) and end; see [history.Op]. Two steps decide, in O(n log n) and in O(n) for
// events in order, what a general search takes exponential time for.
//
// Step 1 puts all answers into one log and rejects what does not fit: two values at one offset, one value at two, a value that nobody
// can have produced, an answer that contradicts itself, an offset below an end that was seen which no produce can fill.
//
// Step 2 gives each operation two numbers, the log length that it proves at its return and the length that it allows at its call, and
// goes over them in the order of time, calls before returns at equal times. At a return proved = max(proved, proves); at a call,
// if proved > allows, those two operations contradict each other.
//
//	operation                      proves          allows        level that needs allows
//	produce of m values -> k       k+m             k             committed log
//	produce, unknown, seen at k    -               k             committed log
//	fetch -> hw                    hw              hw            linearizable (a final one: committed log)
//	end -> h                       h               h             monotonic end (a final one: committed log)
//
// Theorem: the history is linearizable if and only if step 1 passes and no A, B have A.return < B.call and proves(A) > allows(B),
// counting the rows that the level needs. (Only if: a log's length never falls. If: let t(k) be the latest call of an
// operation that allows at most k; t does not fall with k and is not after any return that proves more than k; append offset k at t(k),
// and each answer fits at the later of its call and the t it needs.) It is exact for batches, if no exact end lies within one, and for
// unknown outcomes: one that was seen happened by then, one that was not seen fills the lowest hole that it can or never happened.
//
// # Guarantees
//
// The verdict on a partition is exact for the operations of the history, at each level, whatever the number of clients and unknown
// outcomes. The sole exception are holes that only batches of several sizes can fill: they are placed for level committed log, by
// a bounded search (reason checker-limit if the bound is met), and the levels above are then a lower bound. Within its budget porcupine
// judges the same partition at the level of the bar, and a difference is a [*DisagreementError], never a verdict. Every rejection
// has a name: a level that does not hold comes with at least one finding or observation.
//
// # Not guaranteed
//
// That no bug remained unseen: a history shows what its clients saw. Without final reads a lost tail cannot be seen, so such
// a run is inconclusive at best. Why a loss is allowed is decided from what the nodes report, and only what they report excuses. Logs that
// begin above offset 0, compacted topics and control records of transactions are not supported.
package checker

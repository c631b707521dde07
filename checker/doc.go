// Package checker decides from a history whether a replicated log kept its word: whether a record that was acknowledged or read was
// lost or changed, whether a record was read that nobody wrote, and which of that the configuration had promised to prevent.
//
//	history.Reader --Next--> intake: by partition, checked for contradictions
//	                           |
//	                           +-- resolve, sweep: the exact check, all four levels, every anomaly in one pass
//	                           +-- porcupine, within its budget: an independent judge that must agree
//	                           +-- certificates: package replay does what holds in order; porcupine judges slices of what does not
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
// counting the rows that the level needs. It assumes that the log begins at a known offset and is dense, that values are unique, that calls and
// returns are numbered by one counter, and that an operation takes effect at one moment between its call and its return.
//
// Only if: whatever the order, the log is at least proves(A) long when A takes effect and at most allows(B) when B does; A is before B, and a log's
// length never falls.
//
// If: let t(k) be the latest call of an operation that allows at most k. A greater k has more such operations, so t does not fall with k. An
// operation A that proves more than k has t(k) <= A.return, or the operation that gave t(k) would be a B as above. So append offset k at
// t(k), lower offsets first: within the interval of its produce, which allows k itself and proves more than k. Each answer that shows a length h
// stands at its call or at t(h-1), whichever is later: not after its return by the same argument, and, where it must be exact, not after t(h),
// which is at least its call. Values are those of step 1. That order is what a certificate is.
//
// It is exact for batches, if no exact end lies within one, and for unknown outcomes: one that was seen happened by then, one that was
// not seen fills the lowest hole that it can or never happened.
//
// # Certificates
//
// Nobody has to believe the above. Of a history in which a level holds, the order of the proof is made and replayed by
// [tidemark/checker/replay], thirty lines that share no code with this package: every answer is compared with a plain slice, and every
// operation's place with real time. What a level rejects is cut to a [Slice] of at most 30 operations, judged anew by porcupine
// with a model in which others may append what the slice does not show; so a slice that cannot be explained proves the rejection
// whatever was cut away. Both are the rule (Options.Uncertified switches them off), and what they do not confirm is a [*DisagreementError],
// whose WriteFiles writes what a report needs. A hole that more produces of unknown outcome might have filled than fit a slice has
// none, and leader epochs of records are no part of either model.
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

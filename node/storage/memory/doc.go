// Package memory is a broker's disk in memory that loses power exactly as node/storage does on real files.
//
// # What is durable
//
// Each log is what the broker sees (the page cache) plus the ordered list of its operations since the last flush, each
// with what undoes it:
//
//	flushed state --append--> --truncate--> --append--> what the broker sees
//	              `------------ unsynced ------------'
//
// [Disk.Flush] empties the list. A process that is killed loses nothing: whoever opens its logs again sees what it saw.
// [Disk.Power] is a power failure: for each log a prefix of the list survives, of a length that the caller chooses, and
// the rest is undone from the tail down. So a tail that was truncated without a flush can come back, as it does on a
// real disk. The epoch checkpoint, the high watermark checkpoint and the marker of a clean shutdown are atomic and
// durable at once: a power failure leaves them alone, so they can be ahead of the log. Clamping them to what the log
// still has is the replica's job at start (protocol rule R2), not the disk's.
//
// [Decide] is the one place that says what survives a cut; node/storage asks it too.
//
// # What it does not model
//
// Operations of one log survive in order: a later one never without the earlier ones. Real file systems may reorder
// writes of one file, and write zeros where bytes were promised; recovery by CRC makes both look like a shorter prefix.
// Torn bytes of an append are no batch, so recovery cuts them: in memory they change nothing. Errors of the disk (full,
// broken) do not happen here; a driver that wants them wraps the [replica.Log].
//
// # Purity and sharing
//
// There is no clock, goroutine, lock or file here, and all output is in a stable order. One goroutine owns a Disk.
// [Disk.Clone] costs a few allocations however long the logs are, because batches are shared: an element of a batch list
// is never overwritten once it was written. [Disk.AppendState] is canonical, for search that remembers where it was.
package memory

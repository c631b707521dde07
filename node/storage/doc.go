// Package storage is a broker's disk in real files, in Kafka's layout, and can lose power exactly.
//
//	data/
//	  .lock                           held by the broker that has the disk open
//	  .kafka_cleanshutdown            {"version":0,"brokerEpoch":12}: it stopped cleanly as this incarnation (KIP-966)
//	  replication-offset-checkpoint   high watermarks: "topic partition offset"
//	  orders-0/
//	    00000000000000000000.log      record batches in message format v2, one after the other
//	    00000000000000104120.log      the next segment, named by its first offset
//	    00000000000000104120.log.17.removed
//	    leader-epoch-checkpoint       the epoch cache: "epoch start-offset"
//	    unsynced.journal              what a power failure would undo
//
// [Files] is the disk and has the logs; the behaviour is that of node/storage/memory, to which the tests compare it
// operation by operation. [Header], [Verify] and [Split] read batches for whoever has some, the wire protocol above all.
//
// # Batches
//
// A batch is written as it came from the producer, but with base offset and leader epoch in place: both lie outside of
// the CRC, so nothing is computed or decompressed. The batch that was handed in is not changed. Reads return the stored
// bytes, which never change afterwards. An index in memory has 40 bytes for each batch, and the newest batches
// are in memory whole ([Options.CacheBytes]), because that is where followers and consumers read.
//
// # Power failures that are not one
//
// A process that is killed loses nothing, because the page cache is the kernel's. So a power failure is played: the
// broker is killed, and before its successor recovers, the changes to its files since the last fsync are undone, newest
// first, down to a cut ([replica.LogCut]); of the first one lost, some torn bytes may stay. The journal in each
// partition's folder makes that possible. It is the ordered list of operations since the last flush with what undoes
// them; every operation is written there before it is done:
//
//	append      segment, position, length, is the segment new    undone by cutting the segment, or removing it
//	truncation  segment, position, the bytes cut off, segments   undone by writing them back, and renaming segments back
//	            removed (they wait as *.removed)
//	reset       the new segment, segments removed                undone by removing it, and renaming them back
//	flush       recovery point, number of the first operation    what is before it is on the disk and forgotten
//	            not covered
//
// The journal begins with a flush record. A record is length (4 bytes), CRC-32C of what follows (4 bytes), kind, and the
// fields as unsigned varints, for a truncation followed by the bytes cut off. A torn record at the end means that its
// operation had not begun. After a kill at most the last operation is half done: an append is undone, a truncation or a
// reset done again. So each operation happened or did not, and exactly the operations in the journal can still be lost.
// Segments that an operation removed are deleted by the flush that covers it.
//
// Checkpoint files and the marker are replaced atomically (temporary file, fsync, rename, fsync of the folder) and
// survive power failures; they can be ahead of the log then. Clamping is the replica's job (protocol rule R2).
//
// # Recovery
//
// Opening a log reads it from the first segment on. Below the recovery point, batches were flushed, and their headers
// are enough; beyond it every batch is compared with its CRC. At the first one that is torn, broken or out of place the
// log ends: the rest is removed, and what stays is flushed. [Files.Recovery] says what was found. If the journal
// and the files do not go together, because somebody else changed them or the machine itself lost power, the journal is
// given up: everything is verified and counts as flushed.
//
// # Who may call what
//
// One goroutine owns a log: it appends, cuts, reads, and sets epochs. Meanwhile others may call every method of Files:
// a flush of the same log does not hold its owner up during the fsync and covers what the log held when it began.
// [Files.Power] and [Files.Close] are safe, too, but end the logs: their owners get [ErrStale].
//
// # Errors
//
// Errors name call, partition and file, and wrap the operating system's, so that [errors.Is] finds [syscall.ENOSPC].
// After a write or an fsync that failed, the log takes no calls ([ErrFailed]) until it is opened again, which recovers it
// (KAFKA-10778). A checkpoint file that is not as it should be is an error at open, with its line.
//
// # Limits
//
// A power failure here leaves a prefix of each log's operations. Real ones may also reorder the writes of a file, leave
// zeros where bytes were promised, or lose a file's name and not its bytes; recovery copes with what that leaves, but it
// is not played. Appends do not wait for the disk, like Kafka's; who wants that flushes. There is no retention, no compaction,
// no index on the disk, and no check of flushed batches when they are read: consumers check the CRC themselves. The whole
// of a journal is read at start, and one that is never flushed grows by some 20 bytes with each batch. flock and rename
// over open files are taken for granted, so this is for Unix.
package storage

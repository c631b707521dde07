// Package batch makes and reads record batches of Kafka's format v2 for those who stand outside a broker: the clients of
// the workload, which send a value and look for it again, and views and dumps, which show values to people.
//
// A batch is a header of 61 bytes and its records, compressed or not:
//
//	0 base offset  8 length  12 leader epoch  16 magic  17 crc32c  21 attributes  23 last offset delta
//	27 first and 35 max timestamp  43 producer id, 51 epoch, 53 sequence  57 count  61 records
//
// Base offset and leader epoch lie outside the checksum, because the leader that appends a batch writes them into it.
// [Encode] leaves them zero and -1. A fetch answer is a run of whole batches; [Decode] turns one into records.
//
// Brokers do not look into batches: what they need of the header, node/storage reads. So this package imports none of the
// node's, and a harness client that imports it does not depend on the broker that it tests.
package batch

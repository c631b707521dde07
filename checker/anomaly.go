package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Anomaly is the name of one way in which a log breaks its word.
type Anomaly string

// What clients can see.
const (
	// LostAcked: a produce was acknowledged and its value is absent from the final log.
	LostAcked Anomaly = "lost-acked"
	// ReadThenLost: an acknowledged value was returned to a consumer and is absent from the final log, where nothing that anybody
	// read has taken its offset (that would be [RereadDiffers]).
	ReadThenLost Anomaly = "read-then-lost"
	// UncommittedRead: as ReadThenLost, but the value was never acknowledged; or a record was returned at or above the high watermark
	// of the same answer.
	UncommittedRead Anomaly = "uncommitted-read"
	// RereadDiffers: two different values were read at one offset. Without final reads, which would tell which of them was lost, an
	// acknowledgement counts as a read.
	RereadDiffers Anomaly = "reread-differs"
	// Phantom: a value was read that nobody produced, whose produce certainly failed, or whose produce had not even been called.
	Phantom Anomaly = "phantom"
	// Duplicate: one value has two offsets.
	Duplicate Anomaly = "duplicate"
	// OrderInversion: a produce was called after the log had been proved to reach beyond an offset, and got that offset.
	OrderInversion Anomaly = "order-inversion"
	// Hole: an offset below an end that was seen has no value that anybody can have produced, or an answer had nothing there.
	Hole Anomaly = "hole"
	// TornBatch: some values of one produce are in the log and others are not next to them, or an end lies within a batch.
	TornBatch Anomaly = "torn-batch"
	// NonmonotonicFetch: the records of one answer are not consecutive from the offset that was asked for.
	NonmonotonicFetch Anomaly = "nonmonotonic-fetch"
	// EpochRegression: within one answer the leader epoch of records goes down.
	EpochRegression Anomaly = "epoch-regression"
	// EndRegression: an end offset is lower than what had been proved before it was asked for. In a final read this is a loss of
	// records that nobody had seen; before, it is the anomaly of KIP-207 and breaks only [MonotonicEnd].
	EndRegression Anomaly = "end-regression"
	// StaleRead: a fetch shows a shorter log than had been proved before it was asked for. It breaks only [Linearizable].
	StaleRead Anomaly = "stale-read"
)

// What only the replicas show. Diverged is a finding; the others are observations, printed and not judged, because protocols that keep
// their word to clients may do them.
const (
	// Diverged: two replicas differ below the lowest high watermark of all.
	Diverged Anomaly = "diverged"
	// CandidateIncomplete: a member of the ISR, that may be elected at any time, lacks records that are committed: below the high watermark
	// of another member or below the end that clients were told at the end of the run.
	CandidateIncomplete Anomaly = "candidate-incomplete"
	// TruncatedBelowHW: a replica cut its log below its own high watermark.
	TruncatedBelowHW Anomaly = "truncated-below-hw"
	// HWRegression: a replica's high watermark fell within one leader epoch, without a truncation.
	HWRegression Anomaly = "hw-regression"
	// OffsetEpochReused: one (leader epoch, offset) names two records.
	OffsetEpochReused Anomaly = "offset-epoch-reused"
	// EpochCacheBroken: a replica's leader epoch cache contradicts the epochs of its records, goes back, or reaches beyond the log.
	EpochCacheBroken Anomaly = "epoch-cache-broken"
)

// byValue are the anomalies of a value; the others are those of an offset.
var byValue = map[Anomaly]bool{LostAcked: true, ReadThenLost: true, UncommittedRead: true, Phantom: true, Duplicate: true,
	OrderInversion: true, TornBatch: true}

// Finding is one anomaly with what proves it.
type Finding struct {
	Anomaly   Anomaly `json:"anomaly"`
	Partition string  `json:"partition"`
	Offset    int64   `json:"offset"`
	// Values are those at stake, the one that the finding is about first.
	Values []string `json:"values,omitempty"`
	// Breaks is the weakest level that does not hold because of this.
	Breaks Level `json:"breaks"`
	// Because is why the configuration does not promise to prevent it; "": a clause of the contract was broken.
	Because Reason `json:"because,omitempty"`
	// Witness are the operations that prove it, in the order of their calls.
	Witness []Witness `json:"witness,omitempty"`
	// Cause is what the nodes reported to have taken the record away, "" if they reported nothing.
	Cause Cause `json:"cause,omitempty"`
	// Sentence tells a person what happened, operations and node events together.
	Sentence string `json:"sentence"`
}

// Witness is an operation that a finding rests on.
type Witness struct {
	Process int64 `json:"process"`
	// Operation is question and answer, "produce m1 -> 1".
	Operation string `json:"operation"`
	// Call and Return are the sequence numbers of its events in the history; Return is 0 if it has none.
	Call   int64 `json:"call"`
	Return int64 `json:"return,omitempty"`
}

// Short is the form in which schedules name a finding: "lost-acked m1", "diverged 1".
func (f Finding) Short() string {
	if byValue[f.Anomaly] && len(f.Values) > 0 {
		return string(f.Anomaly) + " " + f.Values[0]
	}
	return fmt.Sprintf("%s %d", f.Anomaly, f.Offset)
}

// Observation is an anomaly that is worth knowing and does not decide the verdict: it breaks only a level above the bar, or only
// replicas show it.
type Observation struct {
	Anomaly   Anomaly `json:"anomaly"`
	Partition string  `json:"partition"`
	Count     int     `json:"count"`
	// First tells of the first.
	First string `json:"first"`
}

func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(string(a.Anomaly), string(b.Anomaly)),
			cmp.Compare(a.Offset, b.Offset), slices.Compare(a.Values, b.Values))
	})
}

// Cause is what took a record away, by what the nodes reported: the first that applies, in this order. It groups findings of one kind, and is no
// excuse by itself.
type Cause string

// The causes.
const (
	// ByPowerLoss: a broker lost it in a power failure.
	ByPowerLoss Cause = "power-loss"
	// ByHighWatermark: a broker cut it because its own high watermark was lower, as before KIP-101.
	ByHighWatermark Cause = "truncation-to-high-watermark"
	// ByEpoch: a broker cut it because of leader epochs.
	ByEpoch Cause = "truncation-by-epoch"
)

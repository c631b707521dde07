package history

import "math/bits"

// fields is a set of the keys that an event's line may have.
type fields uint64

const (
	fSeq fields = 1 << iota
	fTime
	fKind
	fProcess
	fOp
	fPartition
	fValues
	fAcks
	fOffset
	fFrom
	fNode
	fRecords
	fHW
	fFinal
	fError
	fID
	fPhase
	fVerb
	fAsked
	fNodes
	fEvidence
	fProven
	fWhat
	fEpoch
	fPartitionEpoch
	fTo
	fLeader
	fISR
	fRole
	fWhy
	fBroker
	fBrokerEpoch
	fBytes
	fUnclean
	fLEO
	fEpochs
	fEntries
	fOK
)

var fieldNames = [...]string{"seq", "time", "kind", "process", "op", "partition", "values", "acks", "offset", "from", "node",
	"records", "hw", "final", "error", "id", "phase", "verb", "asked", "nodes", "evidence", "proven", "what", "epoch",
	"partition-epoch", "to", "leader", "isr", "role", "why", "broker", "broker-epoch", "bytes", "unclean", "leo", "epochs",
	"entries", "ok"}

var fieldByName = func() map[string]int {
	m := make(map[string]int, len(fieldNames))
	for i, n := range fieldNames {
		m[n] = i
	}
	return m
}()

func (f fields) first() string { return fieldNames[bits.TrailingZeros64(uint64(f))] }

// shape says which fields a line of one kind must and may have, beside seq, time and kind.
type shape struct{ must, may fields }

const opMust = fProcess | fOp | fPartition

func shapeOf(k Kind, op OpType, p Phase) shape {
	switch k {
	case Invoke:
		switch op {
		case Produce:
			return shape{opMust | fValues, fAcks}
		case Fetch:
			return shape{opMust | fFrom, fNode | fFinal}
		default:
			return shape{opMust, fNode | fFinal}
		}
	case OK:
		switch op {
		case Produce:
			return shape{opMust | fOffset, 0}
		case Fetch:
			return shape{opMust | fRecords | fHW, fNode | fFinal}
		default:
			return shape{opMust | fOffset, fNode | fFinal}
		}
	case Fail, Info:
		return shape{opMust, fError}
	case KindFault:
		if p == Over {
			return shape{fID | fPhase | fProven, fVerb | fAsked | fNodes | fEvidence}
		}
		return shape{fID | fPhase | fVerb, fAsked | fNodes}
	case KindNode:
		return shape{fNode | fWhat, fPartition | fEpoch | fPartitionEpoch | fFrom | fTo | fHW | fLeader | fISR | fRole | fWhy |
			fBroker | fBrokerEpoch | fBytes | fUnclean}
	case KindReplica:
		return shape{fNode | fPartition | fHW | fLEO | fEntries, fEpochs}
	default:
		return shape{fPartition | fOK, fWhy}
	}
}

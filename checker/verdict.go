package checker

import (
	"fmt"
	"slices"
)

// Verdict is what a run comes to.
type Verdict string

// The verdicts. An exit code of 254 (bad arguments) or 255 (the harness's own failure) is not a verdict.
const (
	// Consistent: nothing was found, and enough happened.
	Consistent Verdict = "consistent"
	// Allowed: only such things were found as the configuration does not promise to prevent.
	Allowed Verdict = "allowed"
	// Inconclusive: nothing that is forbidden was found, and it is not proved that nothing happened.
	Inconclusive Verdict = "inconclusive"
	// Violation: a clause of the contract was broken.
	Violation Verdict = "violation"
)

// Reason stands beside a verdict or a finding.
type Reason string

// Why a finding is allowed.
const (
	// BecauseAcks: the produce asked for acks 0 or 1.
	BecauseAcks Reason = "acks"
	// BecauseUncleanElection: unclean.leader.election.enable was on and was used after the record was written.
	BecauseUncleanElection Reason = "unclean-election"
	// BecauseMinISR: the record was acknowledged by one replica alone, as min.insync.replicas=1 permits, and its disk was lost.
	BecauseMinISR Reason = "min-isr"
	// BecauseCrashBudget: more replicas lost unflushed data than the protocol promises to survive.
	BecauseCrashBudget Reason = "crash-budget"
	// BecauseUncleanRecovery: the controller itself reported that it elected a leader without a guarantee (KIP-966, last known
	// leader).
	BecauseUncleanRecovery Reason = "unclean-recovery"
)

// Why a run is inconclusive.
const (
	// BecauseTooLittle: fewer operations or events than the thresholds ask for.
	BecauseTooLittle Reason = "too-little"
	// BecauseFaultUnproven: a fault was asked for and nothing shows that it took effect.
	BecauseFaultUnproven Reason = "fault-unproven"
	// BecauseCheckerLimit: the checker gave up a search.
	BecauseCheckerLimit Reason = "checker-limit"
	// BecauseUnavailable: a partition did not come to rest, or its final log was not read whole.
	BecauseUnavailable Reason = "unavailable"
)

var verdictRank = []Verdict{Consistent, Allowed, Inconclusive, Violation}

// Worst is the verdict of a set of runs: a violation outranks everything, then what is not known outranks what is allowed. Of no
// runs it is inconclusive.
func Worst(verdicts ...Verdict) Verdict {
	if len(verdicts) == 0 {
		return Inconclusive
	}
	return slices.MaxFunc(verdicts, func(a, b Verdict) int {
		return slices.Index(verdictRank, a) - slices.Index(verdictRank, b)
	})
}

// ExitCode is the exit code of a command that ends with this verdict; with strict an allowed finding is a failure too.
func (v Verdict) ExitCode(strict bool) int {
	switch v {
	case Consistent:
		return 0
	case Allowed:
		if strict {
			return 1
		}
		return 0
	case Violation:
		return 1
	case Inconclusive:
		return 2
	}
	panic(fmt.Sprintf("checker: exit code of verdict %q, which is none", v))
}

package checker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

// lostTail is a run in which m1 was acknowledged with an ISR, something happened, and m1 is gone.
func lostTail(isr []int32, happened func(*story)) *story {
	s := &story{}
	for _, n := range isr {
		s.role(n, 0, 1, isr...)
	}
	s.produce(0, "m0").appended(1, 0, 0, 2).appended(2, 0, 0, 2).appended(3, 0, 0, 2)
	s.acked(1, 0, 0, 2, isr...).produce(1, "m1")
	happened(s)
	return s.final("m0")
}

func TestWhyALossIsAllowed(t *testing.T) {
	kafka := history.Contract{MinISR: 2, Protocol: "kip320"}
	one := history.Contract{MinISR: 1, Protocol: "kip320"}
	kip966 := history.Contract{MinISR: 2, Protocol: "kip966"}
	all := []int32{1, 2, 3}
	for name, c := range map[string]struct {
		contract history.Contract
		isr      []int32
		happened func(*story)
		because  checker.Reason
	}{
		"nothing is known of the nodes": {kafka, nil, func(*story) {}, ""},
		"nobody lost power":             {kafka, all, func(s *story) { s.elected(1, 2, 2, 3).role(2, 1, 2, 2, 3) }, ""},
		"a member of the ISR lost power and led before it had the record again": {kafka, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, checker.BecauseCrashBudget},
		"it is counted in the ISR of a later epoch": {kafka, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 3, 3, 2)
		}, checker.BecauseCrashBudget},
		"it had fetched the record again before it led": {kafka, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).role(2, 0, 1, all...).appended(2, 0, 1, 2).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"it lost nothing of the record": {kafka, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 2).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"it lost power, but never led or counted again": {kafka, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 3, 3, 1)
		}, ""},
		"who lost power was not in the ISR": {kafka, []int32{1, 3}, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"who lost power had joined the ISR since": {kafka, []int32{1, 3}, func(s *story) {
			s.node(history.NodeEvent{Node: history.Controller, What: history.ISRChanged, Epoch: 0, PartitionEpoch: 1, ISR: []int32{1, 2, 3}})
			s.fault(true, "powerfail", 2).powerLoss(2, 1)
			s.elected(2, 2, 2, 3).role(2, 2, 2, 2, 3)
		}, checker.BecauseCrashBudget},
		"it joined only after it had lost power, which is KIP-903's fault": {kafka, []int32{1, 3}, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).role(2, 0, 1, 1, 3)
			s.node(history.NodeEvent{Node: history.Controller, What: history.ISRChanged, Epoch: 0, PartitionEpoch: 1, ISR: []int32{1, 2, 3}})
			s.elected(2, 2, 2, 3).role(2, 2, 2, 2, 3)
		}, ""},
		"it had cut the record before it lost power": {kafka, all, func(s *story) {
			s.node(history.NodeEvent{Node: 2, What: history.Truncated, Epoch: 0, From: 2, To: 1, HW: 1, Leader: 1, Why: "high watermark"})
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"the ISR was below min.insync.replicas": {kafka, []int32{1}, func(s *story) {
			s.fault(true, "powerfail", 1).powerLoss(1, 1).elected(1, 1, 1).role(1, 1, 1, 1)
		}, ""},
		"its sole holder lost it": {one, []int32{1}, func(s *story) {
			s.fault(true, "powerfail", 1).powerLoss(1, 1).elected(1, 1, 1).role(1, 1, 1, 1)
		}, checker.BecauseMinISR},
		"its sole holder kept it": {one, []int32{1}, func(s *story) {
			s.fault(true, "powerfail", 1).powerLoss(1, 2).elected(1, 1, 1).role(1, 1, 1, 1)
		}, ""},
		"the protocol survives one lossy crash and there was one": {kip966, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"the protocol survives one lossy crash and there were two": {kip966, all, func(s *story) {
			s.fault(true, "powerfail", 2, 3).powerLoss(2, 1).powerLoss(3, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, checker.BecauseCrashBudget},
		"one broker crashed twice": {kip966, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).fault(true, "powerfail", 2).powerLoss(2, 0)
		}, ""},
		"the controller reported a recovery without a guarantee": {kip966, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).uncleanlyElected(1, 2)
		}, checker.BecauseUncleanRecovery},
		"such a recovery came before the record": {kip966, all, func(s *story) { s.uncleanlyElected(0, 2) }, ""},
		"unclean election was enabled and used": {history.Contract{MinISR: 2, Unclean: true}, all, func(s *story) {
			s.uncleanlyElected(1, 2)
		}, checker.BecauseUncleanElection},
		"unclean election was enabled and not used": {history.Contract{MinISR: 2, Unclean: true}, all, func(s *story) {
			s.elected(1, 2, 2, 3)
		}, ""},
		"the log is promised to be flushed": {history.Contract{MinISR: 2, CrashBudget: history.BudgetAll}, all, func(s *story) {
			s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}, ""},
		"the run promises acks=1": {history.Contract{Acks: "1"}, all, func(*story) {}, checker.BecauseAcks},
	} {
		t.Run(name, func(t *testing.T) {
			res := lostTail(c.isr, c.happened).judge(t, c.contract, checker.Options{})
			require.Equal(t, []string{"lost-acked m1"}, res.Shorts())
			assert.Equal(t, c.because, res.Findings[0].Because)
			if c.because == "" {
				assert.Equal(t, checker.Violation, res.Verdict)
				assert.Empty(t, res.Reasons)
				return
			}
			assert.Equal(t, checker.Allowed, res.Verdict)
			assert.Equal(t, []checker.Reason{c.because}, res.Reasons)
			assert.Contains(t, res.Findings[0].Sentence, "; allowed because "+string(c.because)+": ")
		})
	}
}

func TestAPowerFailureBeforeTheAcknowledgementExcusesNothing(t *testing.T) {
	all := []int32{1, 2, 3}
	contract := history.Contract{MinISR: 2, Protocol: "kip320"}
	ledAgain := func(s *story) *story { return s.elected(2, 2, 2, 3).role(2, 2, 2, 2, 3).final("m0") }

	t.Run("the produce was called after the broker had reported its loss", func(t *testing.T) {
		s := (&story{}).produce(0, "m0").fault(true, "powerfail", 2).powerLoss(2, 1).role(2, 0, 1, all...)
		s.acked(1, 0, 1, 2, all...).produce(1, "m1")
		assert.Equal(t, checker.Violation, ledAgain(s).judge(t, contract, checker.Options{}).Verdict)
	})
	t.Run("the produce was called after the fault was over, and the report came late", func(t *testing.T) {
		s := (&story{}).produce(0, "m0").fault(true, "powerfail", 2)
		s.acked(1, 0, 1, 2, all...).produce(1, "m1").powerLoss(2, 1).role(2, 0, 1, all...)
		assert.Equal(t, checker.Violation, ledAgain(s).judge(t, contract, checker.Options{}).Verdict)
	})
	t.Run("the broker was let into the ISR again without the record, which is KIP-903's fault", func(t *testing.T) {
		s := (&story{}).produce(0, "m0")
		p := s.call(history.Op{Type: history.Produce, Values: []string{"m1"}, Acks: -1})
		s.fault(true, "powerfail", 2).powerLoss(2, 1).role(2, 0, 1, 1)
		// The controller admitted 2 after it had told 2's new incarnation of partition epoch 0: the acknowledgement is later still.
		s.node(history.NodeEvent{Node: history.Controller, What: history.ISRChanged, Epoch: 0, PartitionEpoch: 1, ISR: all})
		s.node(history.NodeEvent{Node: 1, What: history.Ack, Epoch: 0, PartitionEpoch: 1, From: 1, To: 2, ISR: all})
		s.answer(p, history.OK, history.Op{Type: history.Produce, Offset: 1})
		assert.Equal(t, checker.Violation, ledAgain(s).judge(t, contract, checker.Options{}).Verdict)
	})
	t.Run("while both are open nobody can tell, and the loss is excused", func(t *testing.T) {
		s := (&story{}).produce(0, "m0")
		p := s.call(history.Op{Type: history.Produce, Values: []string{"m1"}, Acks: -1})
		s.acked(1, 0, 1, 2, all...).fault(true, "powerfail", 2).powerLoss(2, 1).role(2, 0, 1, all...)
		s.answer(p, history.OK, history.Op{Type: history.Produce, Offset: 1})
		res := ledAgain(s).judge(t, contract, checker.Options{})
		assert.Equal(t, checker.Allowed, res.Verdict)
		assert.Equal(t, []checker.Reason{checker.BecauseCrashBudget}, res.Reasons)
	})
}

func TestDamageAtRestIsJudgedLikeAPowerFailureAndToldAsWhatItWas(t *testing.T) {
	all := []int32{1, 2, 3}
	contract := history.Contract{MinISR: 2, Protocol: "kip320"}
	damaged := history.NodeEvent{Node: 2, What: history.PowerLoss, From: 2, To: 1, Bytes: 70, Why: "the last 40 bytes of its log are gone"}
	for _, verb := range []string{"chop", "flip"} {
		res := lostTail(all, func(s *story) {
			s.fault(true, "kill", 2).fault(true, verb, 2).node(damaged).elected(1, 2, 2, 3).role(2, 1, 2, 2, 3)
		}).judge(t, contract, checker.Options{})
		assert.Equal(t, checker.Allowed, res.Verdict, verb)
		assert.Equal(t, []checker.Reason{checker.BecauseCrashBudget}, res.Reasons)
		assert.Contains(t, res.Findings[0].Sentence, "broker 2 lost its log from 1 on because the last 40 bytes of its log are gone, at ")

		// What was asked for only after the damage was done cannot have been on that disk.
		s := (&story{}).produce(0, "m0").fault(true, verb, 2)
		s.acked(1, 0, 1, 2, all...).produce(1, "m1").node(damaged).role(2, 0, 1, all...).elected(2, 2, 2, 3).role(2, 2, 2, 2, 3).final("m0")
		assert.Equal(t, checker.Violation, s.judge(t, contract, checker.Options{}).Verdict, verb)
	}
}

func TestAProduceWithFewerAcksIsExcusedAlone(t *testing.T) {
	s := (&story{}).produce(0, "m0").produceAcks(1, 1, "weak").produceAcks(0, history.Unknown, "weaker").produce(2, "m2").final("m0")
	res := s.judge(t, history.Contract{}, checker.Options{})
	require.Equal(t, []string{"lost-acked m2", "lost-acked weak"}, res.Shorts())
	assert.Equal(t, checker.Reason(""), res.Findings[1].Because)
	assert.Equal(t, checker.BecauseAcks, res.Findings[0].Because)
	assert.Equal(t, checker.Violation, res.Verdict)
	assert.Equal(t, 1, res.Evidence.Unknown, "an answer without an offset proves nothing")
}

func TestALossThatNobodySawTheValueOfIsExcusedLikeAnyOther(t *testing.T) {
	// u was committed, for an end of 2 was seen; then an unclean election lost it, and v was written in its place.
	run := func(election func(*story), rest func(*story)) *checker.Result {
		s := (&story{}).produce(0, "m0").unknown("u")
		s.end(2)
		election(s)
		rest(s)
		return s.judge(t, history.Contract{Unclean: true}, checker.Options{})
	}
	unclean := func(s *story) { s.uncleanlyElected(1, 2) }
	for name, rest := range map[string]func(*story){
		"order-inversion v": func(s *story) { s.produce(1, "v").final("m0", "v") },
		"end-regression 1":  func(s *story) { s.final("m0") },
	} {
		res := run(unclean, rest)
		assert.Equal(t, []string{name}, res.Shorts())
		assert.Equal(t, "allowed because unclean-election: "+name, res.Summary())
		assert.Equal(t, "violation: "+name, run(func(*story) {}, rest).Summary())
	}
}

func TestAnAmbiguousAcknowledgementMustBeExcusedEitherWay(t *testing.T) {
	// m1's epoch is not known, for nobody read it; offset 1 was acknowledged in two epochs, and only one ISR was hit.
	lost := func(other []int32) *checker.Result {
		s := (&story{}).produce(0, "m0").acked(1, 0, 1, 2, 1, 2).acked(3, 1, 1, 2, other...).produce(1, "m1")
		s.fault(true, "powerfail", 2).powerLoss(2, 1).elected(2, 2, 2, 3).role(2, 2, 2, 2, 3).final("m0")
		return s.judge(t, history.Contract{MinISR: 2}, checker.Options{})
	}
	assert.Equal(t, checker.Violation, lost([]int32{1, 3}).Verdict)
	assert.Equal(t, checker.Allowed, lost([]int32{3, 2}).Verdict)
}

func TestWhatMakesARunInconclusive(t *testing.T) {
	good := func() *story { return (&story{}).produce(0, "m0").fetch(0, 1, "m0") }
	ended := func() *story { return good().settled(true, "").final("m0") }
	for name, c := range map[string]struct {
		story   *story
		options checker.Options
		reason  checker.Reason
		detail  string
	}{
		"an empty history": {&story{}, checker.Options{}, checker.BecauseTooLittle, "too-little: 0 acked produces, at least 1 are needed"},
		"reads alone": {(&story{}).fetch(0, 0).final(), checker.Options{}, checker.BecauseTooLittle,
			"too-little: 0 acked produces, at least 1 are needed"},
		"fewer than asked for": {ended(), checker.Options{Enough: checker.Enough{Acked: 2}}, checker.BecauseTooLittle,
			"too-little: 1 acked produces, at least 2 are needed"},
		"no leader change": {ended(), checker.Options{Enough: checker.Enough{LeaderChanges: 1}}, checker.BecauseTooLittle,
			"too-little: 0 leader changes, at least 1 are needed"},
		"no fault": {ended(), checker.Options{Enough: checker.Enough{Faults: 1}}, checker.BecauseTooLittle,
			"too-little: 0 faults, at least 1 are needed"},
		"a fault that nothing shows": {ended().fault(false, "pause", 2), checker.Options{}, checker.BecauseFaultUnproven,
			`fault-unproven: nothing that was measured shows that "pause" (at 0.008 s) took effect`},
		"a fault without an end": {ended().add(history.Event{Kind: history.KindFault, Fault: &history.FaultEvent{ID: 9, Phase: history.Begin,
			Verb: "pause", Asked: "pause 2"}}), checker.Options{}, checker.BecauseFaultUnproven, `fault-unproven: "pause 2" (at 0.008 s) never ended`},
		"no final read": {good(), checker.Options{}, checker.BecauseUnavailable, "unavailable: there is no final read of orders-0"},
		"a partition that did not come to rest": {good().settled(false, "ISR 1 lacks 2").final("m0"), checker.Options{},
			checker.BecauseUnavailable, "unavailable: orders-0 did not come to rest: ISR 1 lacks 2"},
	} {
		t.Run(name, func(t *testing.T) {
			res := c.story.judge(t, history.Contract{}, c.options)
			assert.Equal(t, checker.Inconclusive, res.Verdict)
			assert.Contains(t, res.Reasons, c.reason)
			assert.Contains(t, res.Details, c.detail)
			assert.Equal(t, 2, res.Verdict.ExitCode(false))
		})
	}
	res := ended().judge(t, history.Contract{}, checker.Options{Enough: checker.Enough{Acked: 1, Reads: 1}})
	assert.Equal(t, checker.Consistent, res.Verdict, "the same run is good enough for less")
}

func TestFinalReadsThatDoNotReachTheEndAreNoLoss(t *testing.T) {
	s := (&story{}).produce(0, "m0").produce(1, "m1")
	p := s.call(history.Op{Type: history.Fetch, Final: true})
	s.answer(p, history.OK, history.Op{Type: history.Fetch, Final: true, HighWatermark: 2, Records: records(0, "m0")})
	res := s.judge(t, history.Contract{}, checker.Options{})
	assert.Equal(t, checker.Inconclusive, res.Verdict)
	assert.Equal(t, []string{"unavailable: the final reads of orders-0 end at 2 and lack offset 1"}, res.Details)
	p = s.call(history.Op{Type: history.Fetch, From: 1, Final: true})
	s.answer(p, history.OK, history.Op{Type: history.Fetch, Final: true, HighWatermark: 2, Records: records(1, "m1")})
	assert.Equal(t, checker.Consistent, s.judge(t, history.Contract{}, checker.Options{}).Verdict, "a second read completes the first")
}

func TestARecordAboveAStuckHighWatermarkIsLateAndNotLost(t *testing.T) {
	// One replica is dead for good, so the leader's high watermark stays at 1; but the leader still has m1.
	run := func(settled bool) *checker.Result {
		s := (&story{}).produce(0, "m0").produce(1, "m1").settled(settled, "broker 3 is down").final("m0")
		return s.replica(1, 1, records(0, "m0", "m1")...).judge(t, history.Contract{}, checker.Options{})
	}
	res := run(false)
	assert.Equal(t, checker.Inconclusive, res.Verdict)
	assert.Empty(t, res.Findings)
	assert.Equal(t, checker.Ok, res.Porcupine)
	res = run(true)
	assert.Equal(t, checker.Violation, res.Verdict, "at rest there is nothing to wait for")
}

func TestAReportedRecoveryThatLostNothingIsNamed(t *testing.T) {
	s := (&story{}).produce(0, "m0").uncleanlyElected(1, 1).final("m0")
	res := s.judge(t, history.Contract{Protocol: "kip966"}, checker.Options{})
	assert.Equal(t, "consistent because unclean-recovery", res.Summary())
	res = s.judge(t, history.Contract{Unclean: true}, checker.Options{})
	assert.Equal(t, "consistent", res.Summary(), "where unclean election is configured it is nothing to report")
}

func TestVerdictsOfASetOfRuns(t *testing.T) {
	assert.Equal(t, checker.Inconclusive, checker.Worst())
	assert.Equal(t, checker.Violation, checker.Worst(checker.Consistent, checker.Violation, checker.Inconclusive))
	assert.Equal(t, checker.Inconclusive, checker.Worst(checker.Allowed, checker.Inconclusive, checker.Consistent))
	assert.Equal(t, checker.Allowed, checker.Worst(checker.Allowed, checker.Consistent))
	for v, codes := range map[checker.Verdict][2]int{checker.Consistent: {0, 0}, checker.Allowed: {0, 1}, checker.Violation: {1, 1},
		checker.Inconclusive: {2, 2}} {
		assert.Equal(t, codes, [2]int{v.ExitCode(false), v.ExitCode(true)}, v)
	}
	assert.Panics(t, func() { checker.Verdict("fine").ExitCode(false) })
}

func TestAContractThatCannotBeUnderstoodIsRefused(t *testing.T) {
	for _, c := range []struct {
		contract history.Contract
		want     string
	}{
		{history.Contract{Acks: "2"}, `contract cannot be understood: acks: "2" is none of all, 1, 0`},
		{history.Contract{MinISR: -1}, "contract cannot be understood: min.insync.replicas: -1 is negative"},
		{history.Contract{CrashBudget: "some"}, `contract cannot be understood: crash-budget: "some" is none of isr, min-isr, all`},
		{history.Contract{Bar: "serial"}, `contract cannot be understood: bar: not a consistency level: "serial" is none of ` +
			`["agreement" "committed log" "monotonic end" "linearizable"]`},
	} {
		_, err := checker.Check(context.Background(), checker.Events(history.Header{Contract: c.contract}, nil), checker.Options{})
		require.ErrorIs(t, err, checker.ErrContract)
		assert.EqualError(t, err, c.want)
	}
	res := (&story{}).produce(0, "m0").final("m0").judge(t, history.Contract{Acks: "-1"}, checker.Options{})
	assert.Equal(t, "all", res.Contract.Acks, "Kafka's number for all is all")
	res = (&story{}).produce(0, "m0").final("m0").judge(t, history.Contract{}, checker.Options{Contract: &history.Contract{MinISR: 3}})
	assert.Equal(t, 3, res.Contract.MinISR, "a contract from outside replaces the one in the header")
}

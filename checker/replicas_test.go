package checker_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

func epoch(e int32, rs ...history.Record) []history.Record {
	for i := range rs {
		rs[i].Epoch = e
	}
	return rs
}

func TestReplicasAreComparedBelowTheLowestHighWatermark(t *testing.T) {
	abc := epoch(0, records(0, "a", "b", "c")...)
	axy := append(epoch(0, records(0, "a")...), epoch(1, records(1, "x", "y")...)...)
	for name, c := range map[string]struct {
		hw1, hw2 int64
		one, two []history.Record
		findings []string
		sentence string
	}{
		"equal":            {3, 3, abc, abc, nil, ""},
		"a tail above it":  {1, 3, abc, axy, nil, ""},
		"a tail below it":  {3, 3, abc, axy, []string{"diverged 1"}, "at offsets 1 to 2 of orders-0, below every replica's high watermark (the lowest is 3), the replicas differ: b (epoch 0) on broker 1, x (epoch 1) on broker 2 at 1."},
		"partly below it":  {3, 2, abc, axy, []string{"diverged 1"}, "at offset 1 of orders-0, below every replica's high watermark (the lowest is 2), the replicas differ: b (epoch 0) on broker 1, x (epoch 1) on broker 2."},
		"a missing record": {2, 2, abc, abc[:1], []string{"diverged 1"}, "at offset 1 of orders-0, below every replica's high watermark (the lowest is 2), the replicas differ: b (epoch 0) on broker 1, nothing on broker 2."},
		"another epoch":    {1, 1, abc[:1], epoch(1, records(0, "a")...), []string{"diverged 0"}, "at offset 0 of orders-0, below every replica's high watermark (the lowest is 1), the replicas differ: a (epoch 0) on broker 1, a (epoch 1) on broker 2."},
		"a deleted start":  {3, 3, abc, abc[1:], nil, ""},
		"two separate places": {3, 3, abc, []history.Record{{Epoch: 1, Value: "x"}, abc[1], {Offset: 2, Epoch: 1, Value: "z"}},
			[]string{"diverged 0", "diverged 2"}, "at offset 0 of orders-0, below every replica's high watermark (the lowest is 3), the replicas differ: a (epoch 0) on broker 1, x (epoch 1) on broker 2."},
		"a gap in both": {9, 9, []history.Record{abc[0], {Offset: 7, Value: "h"}}, []history.Record{abc[0], {Offset: 7, Value: "i"}},
			[]string{"diverged 7"}, "at offset 7 of orders-0, below every replica's high watermark (the lowest is 9), the replicas differ: h (epoch 0) on broker 1, i (epoch 0) on broker 2."},
		"a high watermark above both logs": {1 << 50, 1 << 50, abc, abc, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&story{}).produce(0, "a").fetch(0, 1, "a").final("a").replica(2, c.hw2, c.two...).replica(1, c.hw1, c.one...)
			res := s.judge(t, history.Contract{}, checker.Options{})
			var got []string
			for _, f := range res.Findings {
				got = append(got, f.Short())
				assert.Equal(t, checker.Diverged, f.Anomaly)
				assert.Empty(t, f.Because, "divergence is a violation in every configuration")
			}
			assert.Equal(t, c.findings, got)
			if len(c.findings) > 0 {
				assert.Equal(t, c.sentence, res.Findings[0].Sentence)
				assert.Equal(t, checker.Violation, res.Verdict)
			}
		})
	}
}

func TestInAPartitionThatIsNotAtRestOnlyTheISRIsCompared(t *testing.T) {
	run := func(settled bool, isr ...int32) []string {
		s := (&story{}).produce(0, "a").produce(1, "b").elected(1, 1, isr...).settled(settled, "broker 3 does not catch up").final("a", "b")
		s.replica(1, 2, records(0, "a", "b")...).replica(2, 2, records(0, "a", "b")...).replica(3, 2, records(0, "a", "x")...)
		return s.judge(t, history.Contract{}, checker.Options{}).Shorts()
	}
	assert.Empty(t, run(false, 1, 2), "3 may still have to cut its log")
	assert.Equal(t, []string{"diverged 1"}, run(false, 1, 2, 3))
	assert.Equal(t, []string{"diverged 1"}, run(true, 1, 2), "at rest all are compared")
}

func TestALongDumpComesInPieces(t *testing.T) {
	s := (&story{}).produce(0, "a", "b").fetch(0, 2, "a", "b").final("a", "b")
	s.replica(1, 2, records(0, "a")...).replica(2, 2, records(0, "a", "b")...).replica(1, 2, records(1, "b")...)
	assert.Equal(t, checker.Consistent, s.judge(t, history.Contract{}, checker.Options{}).Verdict)
	s = (&story{}).produce(0, "a", "b").final("a", "b").replica(1, 2, records(0, "a")...).replica(2, 2, records(0, "a", "b")...)
	assert.Equal(t, checker.Violation, s.judge(t, history.Contract{}, checker.Options{}).Verdict, "a piece that is missing is a difference")
}

func TestWhatOnlyNodesShowIsObserved(t *testing.T) {
	hw := func(from, to int64) history.NodeEvent {
		return history.NodeEvent{Node: 2, What: history.HW, Epoch: 1, From: from, To: to}
	}
	cut := history.NodeEvent{Node: 2, What: history.Truncated, Epoch: 1, From: 3, To: 1, HW: 2, Leader: 1, Why: "leader 1 says that epoch 0 ends at 1"}
	s := (&story{}).produce(0, "a").final("a")
	s.node(hw(0, 2)).node(cut).node(hw(2, 1)).appended(2, 1, 1, 2).node(hw(1, 2)).node(hw(2, 0))
	x := epoch(1, records(1, "x")...)
	y := epoch(1, records(1, "y")...)
	s.replica(1, 1, append(epoch(0, records(0, "a")...), x...)...).replica(2, 1, append(epoch(0, records(0, "a")...), y...)...)
	s.events[len(s.events)-1].Replica.Epochs = []history.EpochStart{{Epoch: 0, Start: 0}}
	s.events[len(s.events)-2].Replica.Epochs = []history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 1}, {Epoch: 2, Start: 2}}

	res := s.judge(t, history.Contract{}, checker.Options{})
	assert.Equal(t, checker.Consistent, res.Verdict)
	require.Len(t, res.Observations, 4)
	assert.Equal(t, []checker.Observation{
		{Anomaly: checker.TruncatedBelowHW, Partition: orders, Count: 1,
			First: "broker 2 cut its log from 3 to 1, below its high watermark 2, at 0.006 s"},
		{Anomaly: checker.HWRegression, Partition: orders, Count: 1,
			First: "the high watermark of broker 2 fell from 2 to 0 in epoch 1 at 0.010 s"},
		{Anomaly: checker.OffsetEpochReused, Partition: orders, Count: 1,
			First: "epoch 1, offset 1 is x on broker 1 and y on broker 2"},
		{Anomaly: checker.EpochCacheBroken, Partition: orders, Count: 1,
			First: "the leader epoch cache of broker 2 gives offset 1 another epoch than its record"},
	}, res.Observations, "a fall with a truncation is the truncation's")
	assert.Equal(t, 1, res.Evidence.Truncations)
}

func TestAMemberOfTheISRThatLacksCommittedRecordsIsObserved(t *testing.T) {
	abc := records(0, "a", "b", "c")
	for name, c := range map[string]struct {
		change func(*story) *story
		want   []string
	}{
		"below another's high watermark": {func(s *story) *story {
			return s.final("a").elected(1, 1, 1, 2).replica(1, 3, abc...).replica(2, 1, abc[:1]...)
		}, []string{"broker 2 is in the ISR and its log ends at 1, though broker 1 has the high watermark 3"}},
		"below what clients were told": {func(s *story) *story {
			return s.final("a", "b").settled(true, "").replica(1, 0, abc[:2]...).replica(2, 0, abc[:1]...)
		}, []string{"broker 2 is in the ISR and its log ends at 1, though clients were told that the log ends at 2"}},
		"outside the ISR": {func(s *story) *story {
			return s.final("a").elected(1, 1, 1).replica(1, 3, abc...).replica(2, 1, abc[:1]...)
		}, nil},
		"complete": {func(s *story) *story {
			return s.final("a", "b").settled(true, "").replica(1, 2, abc[:2]...).replica(2, 1, abc[:2]...)
		}, nil},
	} {
		res := c.change((&story{}).produce(0, "a").unknown("b").unknown("c")).judge(t, history.Contract{}, checker.Options{})
		var got []string
		for _, o := range res.Observations {
			if o.Anomaly == checker.CandidateIncomplete {
				got = append(got, o.First)
			}
		}
		assert.Equal(t, c.want, got, name)
	}
}

func TestALeaderEpochCacheMustRiseWithinTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		epochs []history.EpochStart
		want   string
	}{
		"good, with a leader that has not written": {[]history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 2}}, ""},
		"none": {nil, ""},
		"beyond the log": {[]history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 3}},
			"the leader epoch cache of broker 1 has epoch 3 begin at 3, beyond the log's end 2"},
		"an epoch that goes back": {[]history.EpochStart{{Epoch: 3, Start: 0}, {Epoch: 1, Start: 2}},
			"the leader epoch cache of broker 1 goes back: epoch 1 at 2 follows epoch 3 at 0"},
		"an offset that goes back": {[]history.EpochStart{{Epoch: 0, Start: 2}, {Epoch: 1, Start: 0}},
			"the leader epoch cache of broker 1 goes back: epoch 1 at 0 follows epoch 0 at 2"},
		"another epoch": {[]history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 1}},
			"the leader epoch cache of broker 1 gives offset 1 another epoch than its record"},
	} {
		s := (&story{}).produce(0, "a", "b").final("a", "b").replica(1, 2, epoch(0, records(0, "a", "b")...)...)
		s.events[len(s.events)-1].Replica.Epochs = c.epochs
		res := s.judge(t, history.Contract{}, checker.Options{})
		got := ""
		for _, o := range res.Observations {
			got = o.First
		}
		assert.Equal(t, c.want, got, name)
	}
}

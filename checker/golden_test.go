package checker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

// want is what a golden history comes to.
type want struct {
	verdict   checker.Verdict
	reasons   []checker.Reason
	findings  []string
	level     checker.Level
	porcupine checker.Outcome
	observed  []checker.Anomaly
}

func check(t *testing.T, path string, o checker.Options) *checker.Result {
	t.Helper()
	r, err := history.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	res, err := checker.Check(context.Background(), r, o)
	require.NoError(t, err)
	return res
}

func (w want) assert(t *testing.T, res *checker.Result) {
	t.Helper()
	assert.Equal(t, w.verdict, res.Verdict)
	assert.Equal(t, w.reasons, res.Reasons)
	assert.ElementsMatch(t, w.findings, res.Shorts())
	assert.Equal(t, w.level, res.Level())
	assert.Equal(t, w.porcupine, res.Porcupine)
	var observed []checker.Anomaly
	for _, o := range res.Observations {
		observed = append(observed, o.Anomaly)
	}
	assert.Equal(t, w.observed, observed)
}

// golden compares the report with the one kept beside the history.
func golden(t *testing.T, name string, res *checker.Result) {
	t.Helper()
	var got bytes.Buffer
	require.NoError(t, res.WriteText(&got))
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update to write it")
	assert.Equal(t, string(kept), got.String())
}

var (
	lostToTruncation = want{checker.Violation, nil, []string{"lost-acked m1", "read-then-lost m1"}, checker.Agreement, checker.Illegal, nil}
	good             = want{checker.Consistent, nil, nil, checker.Linearizable, checker.Ok, nil}
	lostToPower      = want{checker.Allowed, []checker.Reason{checker.BecauseCrashBudget}, []string{"lost-acked m1", "reread-differs 1"},
		checker.Broken, checker.Illegal, []checker.Anomaly{checker.TruncatedBelowHW}}
	diverged = want{checker.Violation, nil, []string{"diverged 1", "lost-acked m1", "reread-differs 1"}, checker.Broken, checker.Illegal, nil}
)

// TestScenariosOfKIP101 are the scenarios of KIP-101 as histories: by the high watermark they lose or diverge, by the leader epoch they do
// not, but for records that too many power failures took.
func TestScenariosOfKIP101(t *testing.T) {
	belowHW := func(w want) want { w.observed = []checker.Anomaly{checker.TruncatedBelowHW}; return w }
	for name, w := range map[string]want{
		"S1.hw":      lostToTruncation,
		"S1.kip101":  good,
		"S1b.hw":     belowHW(lostToTruncation),
		"S1b.kip101": good,
		"S1c.hw":     diverged,
		"S1c.kip101": good,
		"S2.hw":      diverged,
		"S2.kip101":  lostToPower,
		"S2b.hw":     diverged,
		"S2b.kip101": lostToPower,
	} {
		t.Run(name, func(t *testing.T) {
			res := check(t, filepath.Join("testdata", name+".jsonl"), checker.Options{})
			w.assert(t, res)
			golden(t, name, res)
		})
	}
}

// TestWhatOthersMiss are the nine kinds of history that Jepsen's workload for Kafka accepts or cannot judge, each with its exact findings.
func TestWhatOthersMiss(t *testing.T) {
	for name, w := range map[string]want{
		"A-acked-tail-read-once-then-truncated": {checker.Violation, nil, []string{"lost-acked a1", "read-then-lost a1"}, checker.Agreement,
			checker.Illegal, nil},
		"B-acked-tail-never-read-and-on-no-replica": {checker.Violation, nil, []string{"lost-acked a1"}, checker.Agreement, checker.Illegal, nil},
		"C-truncated-middle": {checker.Violation, nil, []string{"lost-acked a1", "lost-acked a2", "lost-acked a3"}, checker.Broken,
			checker.Illegal, nil},
		"D-truncated-and-overwritten": {checker.Violation, nil, []string{"lost-acked a1", "reread-differs 1"}, checker.Broken,
			checker.Illegal, nil},
		"E-phantom": {checker.Violation, nil, []string{"phantom a1", "phantom zz"}, checker.Broken, checker.Illegal, nil},
		"F-real-time-inversion-across-producers": {checker.Violation, nil, []string{"order-inversion b0"}, checker.Agreement, checker.Illegal,
			nil},
		"G-stale-fetch-and-end-that-goes-back": {checker.Consistent, nil, nil, checker.CommittedLog, checker.Ok,
			[]checker.Anomaly{checker.EndRegression, checker.StaleRead}},
		"H-unacked-record-read-then-gone":      {checker.Violation, nil, []string{"uncommitted-read a1"}, checker.Agreement, checker.Illegal, nil},
		"I-two-consumers-disagree-on-a-suffix": {checker.Violation, nil, []string{"reread-differs 1"}, checker.Broken, checker.Illegal, nil},
	} {
		t.Run(name, func(t *testing.T) {
			res := check(t, filepath.Join("testdata", name+".jsonl"), checker.Options{})
			w.assert(t, res)
			golden(t, name, res)
		})
	}
}

func TestTheBarDecidesWhatIsAFinding(t *testing.T) {
	path := filepath.Join("testdata", "G-stale-fetch-and-end-that-goes-back.jsonl")
	for bar, w := range map[string]want{
		"agreement":     {checker.Consistent, nil, nil, checker.CommittedLog, checker.NotRun, []checker.Anomaly{checker.EndRegression, checker.StaleRead}},
		"committed log": {checker.Consistent, nil, nil, checker.CommittedLog, checker.Ok, []checker.Anomaly{checker.EndRegression, checker.StaleRead}},
		"monotonic end": {checker.Violation, nil, []string{"end-regression 1"}, checker.CommittedLog, checker.Illegal,
			[]checker.Anomaly{checker.StaleRead}},
		"linearizable": {checker.Violation, nil, []string{"end-regression 1", "stale-read 1"}, checker.CommittedLog, checker.Illegal, nil},
	} {
		t.Run(bar, func(t *testing.T) {
			w.assert(t, check(t, path, checker.Options{Contract: &history.Contract{Bar: bar}}))
		})
	}
}

func TestHistoriesThatMustPass(t *testing.T) {
	stale := good
	stale.level, stale.observed = checker.MonotonicEnd, []checker.Anomaly{checker.StaleRead}
	for name, w := range map[string]want{
		"pass-unknown-produce-shows-up-late":    good,
		"pass-stale-read":                       stale,
		"pass-not-leader-whose-record-survives": good,
		"pass-failed-produce-never-seen":        good,
		"pass-empty-partition":                  good,
		"pass-unseen-unknown-fills-a-hole":      good,
	} {
		t.Run(name, func(t *testing.T) { w.assert(t, check(t, filepath.Join("testdata", name+".jsonl"), checker.Options{})) })
	}
}

// TestTheSentenceThatIsWanted is the form of a violation in words: two operations, what the nodes did between them, and where the record is.
func TestTheSentenceThatIsWanted(t *testing.T) {
	res := check(t, filepath.Join("testdata", "S1b.hw.jsonl"), checker.Options{})
	require.NotEmpty(t, res.Findings)
	f := res.Findings[0]
	assert.Equal(t, "lost-acked m1", f.Short())
	assert.Contains(t, f.Sentence, "offset 1 of orders-0 (m1) was acked to process 4 at 2.104 s (ISR 1,3,2) and read by process 6 at 2.131 s; ")
	assert.Contains(t, f.Sentence, "broker 2 cut its log to 1 at 2.317 s on becoming follower of 3 (high watermark 1), was elected at 2.530 s "+
		"(epoch 2)")
	assert.Contains(t, f.Sentence, ", and the record is on no replica.")
	assert.Equal(t, []string{"produce m1 -> 1", "fetch from 0 -> [m0 m1], hw 2", "final fetch from 0 -> [m0], hw 1"},
		[]string{f.Witness[0].Operation, f.Witness[1].Operation, f.Witness[2].Operation})
}

func TestAResultSurvivesJSON(t *testing.T) {
	res := check(t, filepath.Join("testdata", "S2b.hw.jsonl"), checker.Options{})
	b, err := json.Marshal(res)
	require.NoError(t, err)
	var back checker.Result
	require.NoError(t, json.Unmarshal(b, &back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	assert.Equal(t, string(b), string(again))
	again, err = json.Marshal(check(t, filepath.Join("testdata", "S2b.hw.jsonl"), checker.Options{}))
	require.NoError(t, err)
	assert.Equal(t, string(b), string(again), "the same history gives the same bytes")
}

// What took a record away groups findings of one kind, whoever did it and when.
func TestAFindingNamesWhatTookTheRecordAway(t *testing.T) {
	for name, want := range map[string][]checker.Cause{
		"S1b.hw":     {checker.ByHighWatermark, checker.ByHighWatermark},
		"S2b.hw":     {"", checker.ByPowerLoss, checker.ByPowerLoss},
		"S2b.kip101": {checker.ByPowerLoss, checker.ByPowerLoss},
		"B-acked-tail-never-read-and-on-no-replica": {""},
	} {
		var got []checker.Cause
		for _, f := range check(t, filepath.Join("testdata", name+".jsonl"), checker.Options{}).Findings {
			got = append(got, f.Cause)
		}
		assert.Equal(t, want, got, name)
	}
}

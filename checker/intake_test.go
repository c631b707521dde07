package checker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

func TestAHistoryThatContradictsItselfIsNotJudged(t *testing.T) {
	const (
		produce = `{"seq":1,"time":10,"kind":"invoke","process":1,"op":"produce","partition":"orders-0","values":["a"]}`
		fetch   = `{"seq":1,"time":10,"kind":"invoke","process":1,"op":"fetch","partition":"orders-0","from":0}`
		end     = `{"seq":1,"time":10,"kind":"invoke","process":1,"op":"end","partition":"orders-0"}`
		fault   = `{"seq":1,"time":10,"kind":"fault","id":1,"phase":"begin","verb":"kill"}`
		over    = `{"seq":2,"time":11,"kind":"fault","id":1,"phase":"end","proven":true}`
		replica = `{"seq":1,"time":10,"kind":"replica","node":1,"partition":"orders-0","hw":0,"leo":0,"entries":[[3,0,"a"]]}`
	)
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"a return without a call": {[]string{`{"seq":1,"time":10,"kind":"ok","process":7,"op":"produce","partition":"orders-0","offset":0}`},
			`line 2: field "process": process 7 returns without having called`},
		"a second return": {[]string{produce, `{"seq":2,"time":11,"kind":"fail","process":1,"op":"produce","partition":"orders-0"}`,
			`{"seq":3,"time":12,"kind":"ok","process":1,"op":"produce","partition":"orders-0","offset":0}`},
			`line 4: field "process": process 1 returns without having called`},
		"two calls at once": {[]string{produce, `{"seq":2,"time":11,"kind":"invoke","process":1,"op":"end","partition":"orders-0"}`},
			`line 3: field "process": process 1 calls again before the operation that it called at 1 has returned`},
		"a call after an unknown outcome": {[]string{produce, `{"seq":2,"time":11,"kind":"info","process":1,"op":"produce","partition":"orders-0"}`,
			`{"seq":3,"time":12,"kind":"invoke","process":1,"op":"end","partition":"orders-0"}`},
			`line 4: field "process": process 1 calls after an operation of unknown outcome: use a new process`},
		"a return before its call": {[]string{produce, `{"seq":2,"time":9,"kind":"ok","process":1,"op":"produce","partition":"orders-0","offset":0}`},
			`line 3: field "time": 9 is before the call's 10`},
		"a return of another operation": {[]string{produce, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"end","partition":"orders-0","offset":0}`},
			`line 3: field "op": end returns, produce was called`},
		"a return of another partition": {[]string{produce, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"produce","partition":"orders-1","offset":0}`},
			`line 3: field "partition": "orders-1" returns, "orders-0" was called`},
		"a value twice": {[]string{produce, `{"seq":2,"time":11,"kind":"invoke","process":2,"op":"produce","partition":"orders-0","values":["b","a"]}`},
			`line 3: field "values": "a" is produced twice to orders-0: values must be unique`},
		"a value twice in a batch": {[]string{`{"seq":1,"time":11,"kind":"invoke","process":2,"op":"produce","partition":"orders-0","values":["a","a"]}`},
			`line 2: field "values": "a" is produced twice to orders-0: values must be unique`},
		"a negative offset": {[]string{produce, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"produce","partition":"orders-0","offset":-2}`},
			`line 3: field "offset": -2 is negative`},
		"a negative end": {[]string{end, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"end","partition":"orders-0","offset":-1}`},
			`line 3: field "offset": -1 is negative`},
		"a negative high watermark": {[]string{fetch, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"fetch","partition":"orders-0","records":[],"hw":-1}`},
			`line 3: field "hw": -1 is negative`},
		"a negative record": {[]string{fetch, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"fetch","partition":"orders-0","records":[[-1,0,"a"]],"hw":1}`},
			`line 3: field "records": offset -1 is negative`},
		"an offset beyond all measure": {[]string{produce, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"produce","partition":"orders-0","offset":9223372036854775807}`},
			`line 3: field "offset": 9223372036854775807 is beyond 1152921504606846976`},
		"a high watermark beyond it": {[]string{fetch, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"fetch","partition":"orders-0","records":[],"hw":1152921504606846977}`},
			`line 3: field "hw": 1152921504606846977 is beyond 1152921504606846976`},
		"a record beyond it": {[]string{fetch, `{"seq":2,"time":11,"kind":"ok","process":1,"op":"fetch","partition":"orders-0","records":[[1152921504606846977,0,"a"]],"hw":1}`},
			`line 3: field "records": offset 1152921504606846977 is beyond 1152921504606846976`},
		"a fetch from beyond it": {[]string{`{"seq":1,"time":10,"kind":"invoke","process":1,"op":"fetch","partition":"orders-0","from":1152921504606846977}`},
			`line 2: field "from": 1152921504606846977 is beyond 1152921504606846976`},
		"a fetch from nowhere": {[]string{`{"seq":1,"time":10,"kind":"invoke","process":1,"op":"fetch","partition":"orders-0","from":-1}`},
			`line 2: field "from": -1 is negative`},
		"a fault that begins twice":         {[]string{fault, strings.Replace(fault, `"seq":1`, `"seq":2`, 1)}, `line 3: field "id": fault 1 begins twice`},
		"a fault that ends twice":           {[]string{fault, over, strings.Replace(over, `"seq":2`, `"seq":3`, 1)}, `line 4: field "id": fault 1 ends twice`},
		"a fault that ends without a begin": {[]string{over}, `line 2: field "id": fault 1 ends without having begun`},
		"a dump out of order": {[]string{replica, strings.Replace(strings.Replace(replica, `"seq":1`, `"seq":2`, 1), "[3,0", "[2,0", 1)},
			`line 3: field "entries": offset 2 follows 3: offsets must rise`},
	} {
		r, err := history.NewReader(strings.NewReader(`{"tidemark-history":1}` + "\n" + strings.Join(c.lines, "\n") + "\n"))
		require.NoError(t, err, name)
		res, err := checker.Check(context.Background(), r, checker.Options{})
		require.ErrorIs(t, err, checker.ErrInvalid, name)
		assert.EqualError(t, err, "invalid history: "+c.want, name)
		assert.Nil(t, res, name)
	}
}

func TestEventsInMemoryAreValidatedToo(t *testing.T) {
	for name, c := range map[string]struct {
		event history.Event
		want  string
	}{
		"no number":              {history.Event{}, `invalid history: event 0: field "seq": 0 follows 0: numbers must rise`},
		"no kind":                {history.Event{Seq: 1}, `invalid history: event 1: field "kind": 0 is no kind of event`},
		"a fault without fields": {history.Event{Seq: 1, Kind: history.KindFault}, `invalid history: event 1: field "kind": a fault event without its fields`},
		"a node without fields":  {history.Event{Seq: 1, Kind: history.KindNode}, `invalid history: event 1: field "kind": a node event without its fields`},
		"a replica without":      {history.Event{Seq: 1, Kind: history.KindReplica}, `invalid history: event 1: field "kind": a replica event without its fields`},
		"a settled without":      {history.Event{Seq: 1, Kind: history.KindSettled}, `invalid history: event 1: field "kind": a settled event without its fields`},
		"no partition":           {history.Event{Seq: 1, Kind: history.Invoke}, `invalid history: event 1: field "partition": is empty`},
		"no operation": {history.Event{Seq: 1, Kind: history.Invoke, Op: history.Op{Partition: orders}},
			`invalid history: event 1: field "op": 0 is no operation`},
		"an empty batch": {history.Event{Seq: 1, Kind: history.Invoke, Op: history.Op{Partition: orders, Type: history.Produce}},
			`invalid history: event 1: field "values": is empty: a produce has at least one value`},
		"acks that are none": {history.Event{Seq: 1, Kind: history.Invoke, Op: history.Op{Partition: orders, Type: history.Produce,
			Values: []string{"a"}, Acks: 2}}, `invalid history: event 1: field "acks": 2 is none of -1 (all), 0, 1`},
	} {
		_, err := checker.Check(context.Background(), checker.Events(history.Header{}, []history.Event{c.event}), checker.Options{})
		assert.EqualError(t, err, c.want, name)
	}
}

func TestAHistoryThatBreaksOffIsJudgedUpToThere(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "D-truncated-and-overwritten.jsonl"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cut.jsonl")
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-10], 0o600))
	res := check(t, path, checker.Options{})
	assert.True(t, res.Torn)
	assert.Equal(t, checker.Violation, res.Verdict, "what contradicts itself before the end needs no end")
	assert.Equal(t, []string{"reread-differs 1"}, res.Shorts())
	assert.Equal(t, []string{"unavailable: the history breaks off before the final read of orders-0"}, res.Details)

	whole, err = os.ReadFile(filepath.Join("testdata", "A-acked-tail-read-once-then-truncated.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-10], 0o600))
	res = check(t, path, checker.Options{})
	assert.Equal(t, checker.Inconclusive, res.Verdict, "without the end a lost tail cannot be seen")
}

func TestAnErrorOfTheReaderIsPassedOn(t *testing.T) {
	r, err := history.NewReader(strings.NewReader(`{"tidemark-history":1}` + "\nrubbish\n"))
	require.NoError(t, err)
	_, err = checker.Check(context.Background(), r, checker.Options{})
	var at *history.LineError
	require.ErrorAs(t, err, &at)
	assert.Equal(t, 2, at.Line)
}

func TestACheckThatIsCancelledGivesNoVerdict(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(os.ErrDeadlineExceeded)
	s := (&story{}).produce(0, "m0").final("m0")
	res, err := checker.Check(ctx, checker.Events(history.Header{}, s.events), checker.Options{})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Nil(t, res)
}

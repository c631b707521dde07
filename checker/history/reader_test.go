package history_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
)

const head = `{"tidemark-history":1}` + "\n"

func TestAFileThatIsCutAnywhereIsReadUpToItsLastWholeLine(t *testing.T) {
	h, events := sample()
	b := write(t, h, events)
	firstLine := bytes.IndexByte(b, '\n')
	for cut := range b {
		whole := bytes.Count(b[:cut], []byte("\n")) - 1
		atLineEnd := b[cut] == '\n'
		if cut < firstLine {
			_, err := history.NewReader(bytes.NewReader(b[:cut]))
			require.ErrorIs(t, err, history.ErrNotHistory, "cut at %d", cut)
			continue
		}
		if atLineEnd {
			whole++ // an object is whole when its brace is there
		}
		_, got, r := read(t, b[:cut])
		require.Len(t, got, whole, "cut at %d", cut)
		require.Equal(t, !atLineEnd && b[cut-1] != '\n', r.Torn(), "cut at %d", cut)
	}
}

func TestACompressedFileThatIsCutIsTorn(t *testing.T) {
	h, events := sample()
	var packed bytes.Buffer
	enc, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	plain := write(t, h, events)
	half := bytes.IndexByte(plain[len(plain)/2:], '\n') + len(plain)/2 + 1
	_, err = enc.Write(plain[:half])
	require.NoError(t, err)
	require.NoError(t, enc.Flush())
	_, err = enc.Write(plain[half:])
	require.NoError(t, err)
	require.NoError(t, enc.Close())

	_, got, r := read(t, packed.Bytes())
	assert.Equal(t, events, got)
	assert.False(t, r.Torn())

	_, got, r = read(t, packed.Bytes()[:packed.Len()-10])
	assert.True(t, r.Torn())
	assert.Equal(t, events[:bytes.Count(plain[:half], []byte("\n"))-1], got)
}

func TestAnyJSONSpellingIsTaken(t *testing.T) {
	const text = ` { "meta" : { } , "tidemark-history" : 1 , "topics":[ ], "contract":{} } ` + "\r\n" +
		"\t{ \"values\" : [ \"\\u00e9\\ud834\\udd1e\\/\\b\\f\\r\" , \"b\" ], \"op\":\"produce\" , \"kind\":\"invoke\",\r" +
		` "partition":"p-0","process":-9223372036854775808,"time":-0,"seq":9223372036854775807}`
	_, got, _ := read(t, []byte(text))
	require.Len(t, got, 1)
	assert.Equal(t, []string{"é𝄞/\b\f\r", "b"}, got[0].Op.Values)
	assert.Equal(t, int64(-9223372036854775808), got[0].Process)
	assert.Equal(t, int64(9223372036854775807), got[0].Seq)
	assert.Equal(t, int16(-1), got[0].Op.Acks, "acks that are not given are all")
}

func TestErrorsNameTheLineAndTheField(t *testing.T) {
	const ok = `{"seq":1,"time":0,"kind":"ok","process":1,"op":"produce","partition":"p-0","offset":0}`
	for name, c := range map[string]struct{ line, field, want string }{
		"no JSON":                {`hello`, "", `want "{", have "hello"`},
		"an empty line":          {``, "", `want "{", have the end of the line`},
		"something behind":       {ok + `x`, "", `want the end of the line, have "x"`},
		"an unknown field":       {`{"offest":1}`, "offest", `field "offest": is not a field of this format`},
		"a field twice":          {`{"seq":1,"seq":2}`, "seq", `field "seq": stands twice`},
		"a number as text":       {`{"seq":"1"}`, "seq", `field "seq": want an integer, have "\"1\"}"`},
		"a fraction":             {`{"seq":1.0}`, "seq", `field "seq": want an integer, have "1.0}"`},
		"a leading zero":         {`{"seq":01}`, "seq", `field "seq": want an integer, have "01}"`},
		"a number too large":     {`{"seq":9223372036854775808}`, "seq", `field "seq": integer is out of range`},
		"a far too large number": {`{"seq":99999999999999999999}`, "seq", `field "seq": integer is out of range`},
		"a node too large":       {`{"node":2147483648}`, "node", `field "node": integer is out of range`},
		"a seq of zero":          {`{"seq":0,"time":0,"kind":"settled","partition":"p-0","ok":true}`, "seq", `field "seq": 0 is not positive`},
		"a kind that is none": {`{"kind":"okay"}`, "kind",
			`field "kind": "okay" is none of ["invoke" "ok" "fail" "info" "fault" "node" "replica" "settled"]`},
		"a missing kind":          {`{"seq":1,"time":0}`, "kind", `field "kind": is missing`},
		"a missing operation":     {`{"seq":1,"time":0,"kind":"ok"}`, "op", `field "op": is missing`},
		"a missing phase":         {`{"seq":1,"time":0,"kind":"fault","id":1}`, "phase", `field "phase": is missing`},
		"a produce without batch": {`{"seq":1,"time":0,"kind":"invoke","process":1,"op":"produce","partition":"p-0"}`, "values", `field "values": is missing from invoke of produce`},
		"an empty batch":          {`{"seq":1,"time":0,"kind":"invoke","process":1,"op":"produce","partition":"p-0","values":[]}`, "values", `field "values": is empty: a produce has at least one value`},
		"an empty partition":      {`{"seq":1,"time":0,"kind":"fail","process":1,"op":"produce","partition":""}`, "partition", `field "partition": is empty`},
		"a field of another kind": {`{"seq":1,"time":0,"kind":"settled","partition":"p-0","ok":true,"isr":[1]}`, "isr", `field "isr": does not belong to settled`},
		"acks that are none":      {`{"acks":2}`, "acks", `field "acks": 2 is none of -1 (all), 0, 1`},
		"a record too short":      {`{"records":[[0,0]]}`, "records", `field "records": want ",", have "]]}"`},
		"a record too long":       {`{"records":[[0,0,"v",1]]}`, "records", `field "records": want "]", have ",1]]}"`},
		"a list without comma":    {`{"isr":[1 2]}`, "isr", `field "isr": want ",", have "2]}"`},
		"a bool that is none":     {`{"final":maybe}`, "final", `field "final": want true or false, have "maybe}"`},
		"a string without end":    {`{"verb":"kill`, "verb", `field "verb": string does not end on its line`},
		"a string ending in \\":   {`{"verb":"kill\`, "verb", `field "verb": string does not end on its line`},
		"a raw control character": {"{\"verb\":\"a\tb\"}", "verb", `field "verb": control character 0x09 in a string must be escaped`},
		"one after an escape":     {"{\"verb\":\"\\\\\tb\"}", "verb", `field "verb": control character 0x09 in a string must be escaped`},
		"a bad escape":            {`{"verb":"\x"}`, "verb", `field "verb": escape "\\x" is not JSON's`},
		"half a surrogate pair":   {`{"verb":"\ud834x"}`, "verb", `field "verb": \ud834 is half of a surrogate pair`},
		"bad hexadecimal digits":  {`{"verb":"\u12g4"}`, "verb", `field "verb": \u needs four hexadecimal digits`},
		"text that is not UTF-8":  {"{\"verb\":\"\xff\"}", "verb", `field "verb": string "\xff" is not UTF-8`},
		"not UTF-8 after escape":  {"{\"verb\":\"\\n\xff\"}", "verb", `field "verb": string "\n\xff" is not UTF-8`},
	} {
		r, err := history.NewReader(strings.NewReader(head + c.line + "\n" + ok + "\n"))
		require.NoError(t, err, name)
		var e history.Event
		err = r.Next(&e)
		var le *history.LineError
		require.ErrorAs(t, err, &le, name)
		assert.Equal(t, "line 2: "+c.want, err.Error(), name)
		assert.Equal(t, c.field, le.Field, name)
		assert.Equal(t, err, r.Next(&e), "%s: an error is final", name)
	}
}

func TestNumbersMustRiseAlongTheFile(t *testing.T) {
	line := `{"seq":7,"time":0,"kind":"settled","partition":"p-0","ok":true}` + "\n"
	r, err := history.NewReader(strings.NewReader(head + line + line))
	require.NoError(t, err)
	var errs []string
	for _, err := range r.All() {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	assert.Equal(t, []string{`line 3: field "seq": 7 follows 7: numbers must rise along the file`}, errs)
}

func TestWhatIsNoHistoryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		is   error
		want string
	}{
		"an empty file":       {"", history.ErrNotHistory, "not a tidemark history: it is empty"},
		"a text":              {"hello\n", history.ErrNotHistory, `line 1: not a tidemark history: want "{", have "hello"`},
		"other JSON":          {"{\"a\":[1,{\"b\":null}]}\n", history.ErrNotHistory, `line 1: not a tidemark history: field "tidemark-history" is missing from the first line`},
		"half a header":       {`{"tidemark-history":1,"con`, history.ErrNotHistory, "not a tidemark history: it breaks off within its first line"},
		"a later version":     {`{"news":{"x":[true,-1.5e3,"y"]},"tidemark-history":2}` + "\n", history.ErrVersion, "line 1: history of a foreign version: it is 2, this program reads 1"},
		"a version as text":   {`{"tidemark-history":"1"}` + "\n", history.ErrNotHistory, `line 1: not a tidemark history: field "tidemark-history": want an integer, have "\"1\"}"`},
		"an unknown clause":   {`{"tidemark-history":1,"contract":{"ack":"all"}}` + "\n", nil, `line 1: field "ack": is not a field of this format`},
		"a clause twice":      {`{"tidemark-history":1,"contract":{"acks":"all","acks":"1"}}` + "\n", nil, `line 1: field "acks": stands twice`},
		"a topic's number":    {`{"tidemark-history":1,"topics":[{"partitions":4294967296}]}` + "\n", nil, `line 1: field "partitions": integer is out of range`},
		"endless nesting":     {strings.Repeat(`{"a":`, 1000) + "\n", history.ErrNotHistory, "line 1: not a tidemark history: more than 100 levels of nesting"},
		"an array of nothing": {`{"a":[}` + "\n", history.ErrNotHistory, `line 1: not a tidemark history: want a value, have "}"`},
	} {
		_, err := history.NewReader(strings.NewReader(c.text))
		require.EqualError(t, err, c.want, name)
		if c.is != nil {
			assert.ErrorIs(t, err, c.is, name)
		}
	}
}

func TestAReadErrorIsNotTakenForTheEnd(t *testing.T) {
	broken := errors.New("input/output error")
	r, err := history.NewReader(io.MultiReader(strings.NewReader(head+head[:3]), &failing{broken}))
	require.NoError(t, err)
	var e history.Event
	require.ErrorIs(t, r.Next(&e), broken)
	assert.False(t, r.Torn())
	_, err = history.NewReader(&failing{broken})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzReader(f *testing.F) {
	h, events := sample()
	b := make([]byte, 0, 8192)
	var buf bytes.Buffer
	w, err := history.NewWriter(&buf, h, nil)
	require.NoError(f, err)
	for i := range events {
		require.NoError(f, w.Append(&events[i]))
	}
	require.NoError(f, w.Close())
	b = append(b, buf.Bytes()...)
	f.Add(b)
	for _, line := range bytes.SplitAfter(b, []byte("\n")) {
		f.Add(append([]byte(head), line...))
	}
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := history.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		var again bytes.Buffer
		w, err := history.NewWriter(&again, r.Header(), nil)
		require.NoError(t, err)
		var got []history.Event
		for e, err := range r.All() {
			var le *history.LineError
			if err != nil && errors.As(err, &le) {
				require.Greater(t, le.Line, 1)
				return
			}
			if err != nil {
				return
			}
			require.NoError(t, w.Append(&e), "what can be read can be written")
			got = append(got, e)
		}
		require.NoError(t, w.Close())
		_, reread, _ := read(t, again.Bytes())
		require.Equal(t, got, reread)
	})
}

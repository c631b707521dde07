package journal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/replica"
)

// fill sets every field, however deep, to something that no other field has.
func fill(v reflect.Value, next *int64) {
	*next++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(*next%100) + 1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(-*next)
	default:
		panic("fill does not know " + v.Kind().String())
	}
}

// filled is a message with a body of that kind in which every field says something.
func filled(k kind) replica.Message {
	next := int64(0)
	m := replica.Message{From: 1, To: replica.Controller, Partition: replica.Partition{Topic: "orders", Index: 3}, Number: 7, Body: k.empty()}
	fill(reflect.ValueOf(m.Body).Elem(), &next)
	return m
}

func written(m replica.Message) []byte {
	var c coder
	message(&c, &m)
	return c.b
}

func read(t *testing.T, data []byte) replica.Message {
	t.Helper()
	var m replica.Message
	c := coder{b: data, reading: true, topics: map[string]string{}}
	message(&c, &m)
	require.NoError(t, c.end())
	return m
}

// A field that the form of a message leaves out, because it is newer, comes back as zero and is not what was written.
func TestEveryMessageComesBackWithAllItsFields(t *testing.T) {
	for _, k := range kinds {
		m := filled(k)
		assert.Equal(t, m, read(t, written(m)), k.kind)
		m.Body = k.empty()
		assert.Equal(t, m, read(t, written(m)), "%s that says nothing", k.kind)
	}
}

func TestListsThatAreNotThereDifferFromEmptyOnes(t *testing.T) {
	for _, isr := range [][]replica.ID{nil, {}, {2}} {
		m := replica.Message{Body: &replica.AlterPartitionAnswer{ISR: isr}}
		assert.Equal(t, m, read(t, written(m)))
	}
	var none, empty Trace
	none.Message(replica.Message{Body: &replica.FetchAnswer{}})
	empty.Message(replica.Message{Body: &replica.FetchAnswer{Batches: []replica.Batch{}}})
	assert.Equal(t, none.Sum(), empty.Sum(), "but disks do not agree on that when nothing is read, so it makes no difference in a hash")
}

// Every type with a method Kind() of the packages that have messages is a kind of message, and there are no others.
func TestThereIsAFormForEveryKindOfMessage(t *testing.T) {
	want := map[string]bool{}
	for _, pkg := range []string{"replica", "session", "controller", "inbox", "control", "kafka", "."} {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			for _, d := range f.Decls {
				method, ok := d.(*ast.FuncDecl)
				if !ok || method.Name.Name != "Kind" || method.Recv == nil || strings.HasSuffix(name, "_test.go") {
					continue
				}
				star, ok := method.Recv.List[0].Type.(*ast.StarExpr)
				require.True(t, ok, "a body is a pointer: %s", name)
				want[f.Name.Name+"."+star.X.(*ast.Ident).Name] = true
			}
		}
	}
	require.Greater(t, len(want), 20)
	have := map[string]bool{}
	for _, k := range kinds {
		have[strings.TrimPrefix(fmt.Sprintf("%T", k.empty()), "*")] = true
	}
	assert.Equal(t, want, have)
	assert.Len(t, numbers, len(kinds), "no kind is there twice")
}

// leaves visits every field that has a value of its own.
func leaves(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		leaves(v.Elem(), path, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			visit(path, v)
			return
		}
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	default:
		visit(path, v)
	}
}

func sum(m replica.Message) uint32 {
	var t Trace
	t.Message(m)
	return t.Sum()
}

func TestEveryFieldOfAMessageIsHashed(t *testing.T) {
	for _, k := range kinds {
		m := filled(k)
		before := sum(m)
		require.Equal(t, before, sum(filled(k)))
		leaves(reflect.ValueOf(m.Body).Elem(), string(k.kind), func(path string, v reflect.Value) {
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			switch v.Kind() {
			case reflect.String:
				v.SetString("another")
			case reflect.Bool:
				v.SetBool(false)
			case reflect.Slice:
				v.Set(reflect.ValueOf([]byte("another")))
			default:
				if v.CanInt() {
					v.SetInt(v.Int() + 1)
				} else {
					v.SetUint(v.Uint() + 1)
				}
			}
			assert.NotEqual(t, before, sum(m), path)
			v.Set(old)
		})
	}
}

func TestTheHashOfABatchIsOfItsFieldsAndOfTheBytesThatTheLogDoesNotPatch(t *testing.T) {
	data := func(change int) []byte {
		b := []byte("base....len.epo.magic, crc and records")
		if change >= 0 {
			b[change] ^= 1
		}
		return b
	}
	answer := func(base int64, data []byte) uint32 {
		return sum(replica.Message{Body: &replica.FetchAnswer{Batches: []replica.Batch{{Base: base, Data: data}}}})
	}
	for i := range data(-1) {
		if i < 16 {
			assert.Equal(t, answer(3, data(-1)), answer(3, data(i)), "byte %d is the log's to write", i)
		} else {
			assert.NotEqual(t, answer(3, data(-1)), answer(3, data(i)), "byte %d", i)
		}
	}
	assert.NotEqual(t, answer(3, data(-1)), answer(4, data(-1)))
}

func TestATraceIsOfTheOrderToo(t *testing.T) {
	poll, tick := replica.Message{Body: &replica.Poll{}}, replica.Message{Body: &replica.Tick{}}
	var a, b Trace
	a.Message(poll)
	a.Message(tick)
	b.Message(tick)
	b.Message(poll)
	assert.NotEqual(t, a.Sum(), b.Sum())
	var c, d Trace
	c.Cut(replica.Partition{}, 5, false)
	d.Cut(replica.Partition{}, 5, true)
	assert.NotEqual(t, c.Sum(), d.Sum(), "a truncation is no reset")
}

func TestAMessageInWords(t *testing.T) {
	m := replica.Message{From: 2, To: 1, Partition: replica.Partition{Topic: "orders"}, Number: 7,
		Body: &replica.Fetch{Offset: 4, LeaderEpoch: 3, FromFollower: true}}
	assert.Equal(t, "2->1 Fetch#7 of orders-0 (Offset 4, LeaderEpoch 3, FromFollower true)", Words(m))
	m = m.Answer(&replica.FetchAnswer{Error: replica.FencedLeaderEpoch, Batches: []replica.Batch{{Base: 4, Count: 1, Data: make([]byte, 70)}, {Base: 5, Count: 2}},
		Diverging: &replica.EpochEnd{Epoch: 2, End: 3}})
	assert.Equal(t, "1->2 Fetch answer#7 of orders-0 (Error FENCED_LEADER_EPOCH, Batches [(Base 4, Count 1, Data 70 bytes) (Base 5, Count 2)], Diverging (Epoch 2, End 3))", Words(m))
	assert.Equal(t, "1->1 Tick", Words(replica.Message{From: 1, To: 1, Body: &replica.Tick{}}), "what has no number has none")
}

package node_test

import (
	"go/ast"
	"go/parser"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImpuritiesAreSeen judges the judge: each piece of source has one thing that is not pure, or nothing.
func TestImpuritiesAreSeen(t *testing.T) {
	r := newReader(t)
	for _, c := range []struct{ name, source, want string }{
		{"nothing", `import "fmt"; type s struct{ a []int32 }; func f(x s) string { return fmt.Sprintf("%v", x) }`, ""},
		{"the clock", `import "time"; func f() time.Time { return time.Now() }`, "imports time"},
		{"chance", `import "math/rand/v2"; func f() int { return rand.Int() }`, "imports math/rand/v2"},
		{"a hash with a seed of its own", `import "hash/maphash"; var s = maphash.MakeSeed()`, "imports hash/maphash"},
		{"files", `import "os"; func f() { os.Getpid() }`, "imports os"},
		{"locks", `import "sync"; type s struct{ m sync.Mutex }`, "imports sync"},
		{"a goroutine", `func f() { go f() }`, "starts a goroutine"},
		{"a channel", `type s struct{ c chan int }`, "uses a channel"},
		{"receiving", `func f(c interface{ C() <-chan int }) int { return <-c.C() }`, "uses a channel"},
		{"select", `func f() { select {} }`, "uses a channel"},
		{"the order of a map", `func f(m map[int]int) (last int) { for k := range m { last = k }; return }`, "ranges over a map"},
		{"the order of a map with a name", `type table map[int]int; func f(m table) (last int) { for k := range m { last = k }; return }`, "ranges over a map"},
		{"the order of a map, by maps.Keys", `import "maps"; func f(m map[int]int) (last int) { for k := range maps.Keys(m) { last = k }; return }`, "takes a map in no order"},
		{"the order of a map, collected", `import ("maps"; "slices"); func f(m map[int]int) []int { return slices.Collect(maps.Values(m)) }`, "takes a map in no order"},
		{"a map in order", `import ("maps"; "slices"); func f(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }`, ""},
		{"a map looked up", `func f(m map[int]int) int { return m[1] }`, ""},
		{"floating point", `func f(a int64) int64 { return int64(float64(a) * 1.5) }`, "computes with floating point"},
		{"a floating field", `type s struct{ x float64 }; func f(a s) bool { return a.x > 0 }`, "computes with floating point"},
		{"an address by its verb", `import "fmt"; func f(a any) string { return fmt.Sprintf("%p", a) }`, "prints an address"},
		{"an address inside", `import "fmt"; type s struct{ next *int32 }; func f(a s) string { return fmt.Sprintf("%v", a) }`, "may print an address"},
		{"addresses in a list", `import "fmt"; type s struct{ n int }; func f(a []*s) string { return fmt.Sprint(a) }`, "may print an address"},
		{"a function", `import "fmt"; func f() string { return fmt.Sprint(f) }`, "may print an address"},
		{"a pointer that fmt follows", `import "fmt"; type s struct{ n int }; func f(a *s) string { return fmt.Sprint(a) }`, ""},
		{"a pointer that says what it is", `import "fmt"; type s struct{ n *int }; func (s) String() string { return "s" }; func f(a []*s) string { return fmt.Sprint(a) }`, ""},
		{"the standard error", `func f() { println("here") }`, "prints to the standard error"},
		{"a counter", `var n int; func f() int { n++; return n }`, "changes the variable n"},
		{"a table that is changed", `var t = map[int]string{}; func f() { t[1] = "a" }`, "changes the variable t"},
		{"an element that is changed", `var t = [3]int{}; func f(i int) { t[i] = 1 }`, "changes the variable t"},
		{"a field that is changed", `var s struct{ n int }; func f() { s.n = 1 }`, "changes the variable s"},
		{"an address of a variable", `var n int; func f() *int { return &n }`, "takes the address of the variable n"},
		{"a table under another name", `var t = []int{1}; func f() { u := t; u[0] = 2 }`, "gives the variable t of the package another name"},
		{"a table in other hands", `import "slices"; var t = []int{2, 1}; func f() { slices.Sort(t) }`, "hands the variable t"},
		{"a table that is read", `import "slices"; var t = []string{"a"}; func f(s string) (int, string) { return slices.Index(t, s), t[len(t)-1] }`, ""},
		{"an error that is compared", `import "errors"; var e = errors.New("e"); func f(err error) bool { return errors.Is(err, e) }`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parser.ParseFile(r.fset, "case.go", "package p; "+c.source, parser.SkipObjectResolution)
			require.NoError(t, err)
			found := r.judge(r.check("p", []*ast.File{f}))
			if c.want == "" {
				assert.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			assert.Contains(t, found[0], c.want)
		})
	}
}

package virtual

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run is its seed only as long as nothing in here asks the clock on the wall, the operating system, another goroutine or the order of
// a map. The tests that make runs twice would find it out some day; this one says where it stands.
func TestNothingInHereKnowsMoreThanTheSeed(t *testing.T) {
	files := token.NewFileSet()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var parsed []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(files, name, nil, 0)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
	}
	require.NotEmpty(t, parsed)
	assert.Empty(t, chances(files, parsed))

	source := `package p
import ("math/rand"; "time")
var m map[int]int
func f(c chan int) { go f(c); select { case <-c: }; for range m { }; _ = time.Now(); _ = rand.Int() }`
	f, err := parser.ParseFile(files, "planted.go", source, 0)
	require.NoError(t, err)
	assert.Len(t, chances(files, []*ast.File{f}), 6, "each kind is seen: an import, a goroutine, a select, a channel, a map's order, the clock")
}

// chances lists what a run may depend on beside its seed.
func chances(files *token.FileSet, parsed []*ast.File) []string {
	var found []string
	say := func(at token.Pos, what string) { found = append(found, files.Position(at).String()+": "+what) }
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	// Types of other packages are not needed: what comes from there and is a map has to be looked at by people.
	check := types.Config{Importer: importer.Default(), Error: func(error) {}}
	_, _ = check.Check("virtual", files, parsed, info)
	for _, f := range parsed {
		for _, spec := range f.Imports {
			switch path, _ := strconv.Unquote(spec.Path.Value); path {
			case "math/rand", "math/rand/v2", "crypto/rand", "hash/maphash", "maps", "os", "net", "sync", "runtime":
				say(spec.Pos(), "imports "+path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n.Pos(), "starts a goroutine")
			case *ast.SelectStmt:
				say(n.Pos(), "selects")
			case *ast.ChanType:
				say(n.Pos(), "has a channel")
			case *ast.RangeStmt:
				if x := info.Types[n.X].Type; x != nil {
					if _, isMap := x.Underlying().(*types.Map); isMap {
						say(n.Pos(), "goes over a map")
					}
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
					switch n.Sel.Name {
					case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick":
						say(n.Pos(), "asks the clock: time."+n.Sel.Name)
					}
				}
			}
			return true
		})
	}
	return found
}

package node_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
)

// A defect is done in one place of the cores, beside the rule that it breaks, so that a reader sees both, and nowhere else.
func TestEveryDefectIsInOnePlaceOfTheCores(t *testing.T) {
	places := map[string][]string{}
	fset := token.NewFileSet()
	for _, pkg := range pure {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, names, pkg)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				if field, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := field.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Defect" {
						places[field.Sel.Name] = append(places[field.Sel.Name], fset.Position(n.Pos()).String())
					}
				}
				return true
			})
		}
	}
	for field := range reflect.TypeFor[rules.Seeded]().Fields() {
		assert.Len(t, places[field.Name], 1, "%s: %v", field.Name, places[field.Name])
	}
}

package node_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheCoresArePure reads the cores' source for whatever could make the same messages give something else: clocks,
// goroutines, channels, randomness, the order of maps, addresses, floating point, and variables that live longer than a
// core. That the same commands give the same states is tested elsewhere; here it cannot be otherwise.
func TestTheCoresArePure(t *testing.T) {
	r := newReader(t)
	for _, pkg := range pure {
		for _, complaint := range r.impurities(pkg) {
			assert.Fail(t, complaint)
		}
	}
}

// allowed lists the imports of pure packages beside each other: nothing there knows of time, chance or the world outside.
// What of maps gives an order is looked at call by call.
var allowed = []string{"cmp", "encoding/binary", "encoding/json", "errors", "fmt", "maps", "slices", "strconv", "strings"}

// reader type-checks the module's packages from their source.
type reader struct {
	t        *testing.T
	fset     *token.FileSet
	standard types.Importer
	known    map[string]*source
}

// source is a package with its syntax and what the compiler knows of it.
type source struct {
	pkg   *types.Package
	files []*ast.File
	info  *types.Info
}

func newReader(t *testing.T) *reader {
	fset := token.NewFileSet()
	return &reader{t: t, fset: fset, standard: importer.ForCompiler(fset, "gc", nil), known: map[string]*source{}}
}

// Import gives a package to the type checker.
func (r *reader) Import(name string) (*types.Package, error) {
	if folder, ok := strings.CutPrefix(name, "tidemark/"); ok {
		return r.read(folder).pkg, nil
	}
	return r.standard.Import(name)
}

// read reads a package of the module, test files excepted.
func (r *reader) read(folder string) *source {
	if s, ok := r.known[folder]; ok {
		return s
	}
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
	require.NoError(r.t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(r.fset, name, nil, parser.SkipObjectResolution)
		require.NoError(r.t, err)
		files = append(files, f)
	}
	require.NotEmpty(r.t, files, "%s has no source", folder)
	s := r.check("tidemark/"+folder, files)
	r.known[folder] = s
	return s
}

func (r *reader) check(name string, files []*ast.File) *source {
	s := &source{files: files, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}}
	var err error
	s.pkg, err = (&types.Config{Importer: r}).Check(name, r.fset, files, s.info)
	require.NoError(r.t, err)
	return s
}

// impurities says what in a package could make it not a function of its input.
func (r *reader) impurities(folder string) []string { return r.judge(r.read(folder)) }

func (r *reader) judge(s *source) []string {
	j := &judge{source: s}
	for _, f := range s.files {
		for _, spec := range f.Imports {
			j.imported(r.fset, spec)
		}
		var above []ast.Node
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				above = above[:len(above)-1]
				return true
			}
			if what := j.impure(n, above); what != "" {
				j.found = append(j.found, position(r.fset, n)+": "+what)
			}
			above = append(above, n)
			return true
		})
	}
	return j.found
}

func position(fset *token.FileSet, n ast.Node) string {
	p := fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.ToSlash(p.Filename), p.Line)
}

// judge looks at one package.
type judge struct {
	*source
	found []string
}

func (j *judge) imported(fset *token.FileSet, spec *ast.ImportSpec) {
	name := strings.Trim(spec.Path.Value, `"`)
	ours, isOurs := strings.CutPrefix(name, "tidemark/")
	if !slices.Contains(allowed, name) && !(isOurs && slices.Contains(pure, ours)) {
		j.found = append(j.found, fmt.Sprintf("%s: imports %s", position(fset, spec), name))
	}
}

// impure says what is wrong with one piece of syntax, "" if nothing is.
func (j *judge) impure(n ast.Node, above []ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		return "uses a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "uses a channel"
		}
	case *ast.RangeStmt:
		switch j.info.TypeOf(n.X).Underlying().(type) {
		case *types.Map:
			return "ranges over a map"
		case *types.Chan:
			return "uses a channel"
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.Contains(n.Value, "%p") {
			return "prints an address"
		}
	case *ast.CallExpr:
		return j.impureCall(n, above)
	case *ast.Ident:
		return j.impureName(n, above)
	}
	if e, ok := n.(ast.Expr); ok {
		if basic, ok := typeOf(j.info, e).(*types.Basic); ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0 {
			return "computes with floating point"
		}
	}
	return ""
}

func typeOf(info *types.Info, e ast.Expr) types.Type {
	if t := info.TypeOf(e); t != nil {
		return t.Underlying()
	}
	return nil
}

// impureCall looks at calls of the standard library's functions that give an order or an address away.
func (j *judge) impureCall(call *ast.CallExpr, above []ast.Node) string {
	if b, ok := call.Fun.(*ast.Ident); ok {
		if _, builtin := j.info.Uses[b].(*types.Builtin); builtin && (b.Name == "print" || b.Name == "println") {
			return "prints to the standard error"
		}
	}
	f := j.callee(call)
	switch {
	case f == nil || f.Pkg() == nil:
	case f.Pkg().Path() == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, f.Name()):
		if outer, ok := parent(above).(*ast.CallExpr); ok {
			if sorts := j.callee(outer); sorts != nil && sorts.Pkg().Path() == "slices" && strings.HasPrefix(sorts.Name(), "Sorted") {
				return ""
			}
		}
		return "takes a map in no order: sort it at once with slices.Sorted"
	case f.Pkg().Path() == "fmt":
		for _, a := range call.Args {
			if t := j.info.TypeOf(a); addressed(t, true, nil) {
				return fmt.Sprintf("may print an address: an argument is a %s", t)
			}
		}
	}
	return ""
}

func (j *judge) callee(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	if x, ok := fun.(*ast.IndexExpr); ok {
		fun = x.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		f, _ := j.info.Uses[fun].(*types.Func)
		return f
	case *ast.SelectorExpr:
		f, _ := j.info.Uses[fun.Sel].(*types.Func)
		return f
	}
	return nil
}

func parent(above []ast.Node) ast.Node {
	if len(above) == 0 {
		return nil
	}
	return above[len(above)-1]
}

// addressed says whether fmt would print an address of a value of the type: fmt follows a pointer only at the top, and not
// at all where a type says itself what it is.
func addressed(t types.Type, top bool, seen []types.Type) bool {
	if t == nil || speaks(t) || slices.Contains(seen, t) {
		return false
	}
	seen = append(seen, t)
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		_, isStruct := u.Elem().Underlying().(*types.Struct)
		return !top || !isStruct || addressed(u.Elem(), false, seen)
	case *types.Signature, *types.Chan:
		return true
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	case *types.Slice:
		return addressed(u.Elem(), false, seen)
	case *types.Array:
		return addressed(u.Elem(), false, seen)
	case *types.Map:
		return addressed(u.Key(), false, seen) || addressed(u.Elem(), false, seen)
	case *types.Struct:
		for f := range u.Fields() {
			if addressed(f.Type(), false, seen) {
				return true
			}
		}
	}
	return false
}

// speaks says whether fmt asks a value of the type for its text.
func speaks(t types.Type) bool {
	for _, name := range []string{"String", "Error"} {
		m, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
		if f, ok := m.(*types.Func); ok && f.Signature().Params().Len() == 0 {
			return true
		}
	}
	return false
}

// impureName looks at the uses of variables of the package: they may be read, and nothing else. Whoever hands one to a function
// that is not known to only read it may have it changed.
func (j *judge) impureName(name *ast.Ident, above []ast.Node) string {
	v, ok := j.info.Uses[name].(*types.Var)
	if !ok || v.Parent() != j.pkg.Scope() {
		return ""
	}
	var expr ast.Expr = name
	for i := len(above) - 1; i >= 0; i-- {
		switch n := above[i].(type) {
		case *ast.SelectorExpr, *ast.ParenExpr, *ast.StarExpr:
			expr = n.(ast.Expr)
			continue
		case *ast.IndexExpr:
			if n.X == expr {
				expr = n
				continue
			}
		case *ast.SliceExpr:
			if n.X == expr {
				expr = n
				continue
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				return fmt.Sprintf("takes the address of the variable %s of the package", name.Name)
			}
		case *ast.IncDecStmt:
			return fmt.Sprintf("changes the variable %s of the package", name.Name)
		case *ast.AssignStmt:
			if slices.Contains(n.Lhs, expr) {
				return fmt.Sprintf("changes the variable %s of the package", name.Name)
			}
			if alias(j.info.TypeOf(expr)) {
				return fmt.Sprintf("gives the variable %s of the package another name", name.Name)
			}
		case *ast.CallExpr:
			if slices.Contains(n.Args, expr) && alias(j.info.TypeOf(expr)) && !j.readsOnly(n) {
				return fmt.Sprintf("hands the variable %s of the package to a function", name.Name)
			}
		}
		return ""
	}
	return ""
}

// alias says whether a copy of a value of the type can change the value.
func alias(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Slice, *types.Map, *types.Pointer:
		return true
	}
	return false
}

// readsOnly says whether a function is known not to change its arguments.
func (j *judge) readsOnly(call *ast.CallExpr) bool {
	if b, ok := call.Fun.(*ast.Ident); ok && (b.Name == "len" || b.Name == "cap") {
		return true
	}
	f := j.callee(call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	name := path.Base(f.Pkg().Path()) + "." + f.Name()
	return slices.Contains([]string{"slices.Index", "slices.Contains", "slices.Equal", "slices.Clone", "strings.Join", "fmt.Errorf", "errors.Is"}, name)
}

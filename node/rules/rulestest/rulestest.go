// Package rulestest makes one rule at a time wrong, for tests that ask who notices.
//
// A rule that nobody notices when it is gone is not tested, or not needed. So each core's stories are told again with every
// [Change] of the rules that the core asks for ([AskedFor]), and so are the schedules.
package rulestest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"

	"tidemark/node/rules"
)

// Change is one rule gone wrong: taken away or, for truncation, replaced by an older way of it.
type Change struct {
	Rule  string // its name in rules.Rules
	Value string // as rules.Set.With takes it: "off", or an older way of truncation
}

// String is "elr=off", as --rule takes it.
func (c Change) String() string { return c.Rule + "=" + c.Value }

const truncation = "truncation"

// Changes lists every change, in the order of history; truncation's from the oldest way of it on.
func Changes() []Change {
	var all []Change
	for _, r := range rules.Rules() {
		if r.Name != truncation {
			all = append(all, Change{r.Name, "off"})
			continue
		}
		for older := range rules.OnFetch {
			all = append(all, Change{truncation, older.String()})
		}
	}
	return all
}

// Of makes the change in a set. It is false, and the set as it was, when there is nothing to make wrong: the set does not
// have the rule, or no newer way of truncation.
func (c Change) Of(s rules.Set) (rules.Set, bool) {
	wrong, err := s.With(nil, []string{c.String()})
	if err != nil || wrong == s || wrong.Truncation > s.Truncation {
		return s, false
	}
	return wrong, true
}

// AskedFor lists the rules that the Go files of a folder ask for, tests left out: those whose field of rules.Set stands
// behind a selector named Rules, as in r.c.Rules.ELR. In the order of history.
func AskedFor(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err == nil && len(files) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("rules asked for by the Go files of %s: %w", folder, err)
	}
	fields := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, fmt.Errorf("rules asked for: %w", err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if field, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := field.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Rules" {
					fields[field.Sel.Name] = true
				}
			}
			return true
		})
	}
	var names []string
	for _, r := range rules.Rules() {
		if fields[fieldOf(r)] {
			names = append(names, r.Name)
		}
	}
	return names, nil
}

// fieldOf is the field of rules.Set that is the rule: the one without which the rule is not there.
func fieldOf(r rules.Rule) string {
	for field := range reflect.TypeFor[rules.Set]().Fields() {
		var s rules.Set
		switch v := reflect.ValueOf(&s).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint8:
			v.SetUint(1)
		}
		if r.Has(s) {
			return field.Name
		}
	}
	return ""
}

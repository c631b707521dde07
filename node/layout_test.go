package node_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the module's folder, seen from here.
const root = ".."

// pure lists the packages that have no clock, goroutine or I/O: the cores, and what they are made of.
var pure = []string{"node/rules", "node/replica", "node/controller", "node/session", "node/inbox", "node/storage/memory"}

// TestPackagesImportOnlyWhatTheyMay holds the module against its import rules, tests excepted: what each part may know of
// the others, so that the checker is a library on its own, a node knows nothing of the harness, and the harness looks at
// nodes from outside, except in simulation.
func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	imports := ours(t)
	require.Contains(t, imports, "node/replica")
	require.Contains(t, imports, "", "the root package")
	for pkg, of := range imports {
		for _, complaint := range complaints(pkg, of) {
			assert.Fail(t, complaint)
		}
	}
}

// complaints says what a package imports against the rules. Packages are named by their folders, the root by "".
func complaints(pkg string, imports []string) []string {
	var all []string
	complain := func(imported, why string) {
		all = append(all, "package "+strconv.Quote(pkg)+" imports "+strconv.Quote(imported)+": "+why)
	}
	for _, imported := range imports {
		switch {
		case imported == "" && !within(pkg, "cmd"):
			complain(imported, "the root is for commands and for users of the module")
		case pkg == "checker/history" || pkg == "node/rules":
			complain(imported, "it imports nothing of ours")
		case slices.Contains(pure, pkg) && !slices.Contains(pure, imported):
			complain(imported, "the cores import node/rules and each other")
		case within(pkg, "checker") && !within(imported, "checker"):
			complain(imported, "the checker is a library on its own")
		case within(pkg, "node") && !within(imported, "node"):
			complain(imported, "a node knows nothing of the harness")
		case !within(pkg, "node") && !within(pkg, "cluster/sim") && core(imported) && !excepted(pkg, imported):
			complain(imported, "only the simulator imports the cores; nodes are looked at through node/control")
		}
	}
	return all
}

// core says whether the package is one of the pure ones that only nodes and the simulator are made of. The registry of
// rules is for everybody.
func core(pkg string) bool { return slices.Contains(pure, pkg) && pkg != "node/rules" }

// excepted is where the harness may name a type of the cores, and why.
func excepted(pkg, imported string) bool {
	// A node's configuration says what a power failure left, as a replica.LogCut.
	return imported == "node/replica" && (pkg == "cluster/process" || pkg == "cluster/docker")
}

// within says whether the package is that folder's or one below it.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// ours lists, for every package of the module, which others of the module it imports, test files excepted.
func ours(t *testing.T) map[string][]string {
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			name := d.Name()
			if file != root && (name == "testdata" || name[0] == '.' || name[0] == '_' || strings.HasSuffix(filepath.ToSlash(file), "results/runs")) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(folder)), "/")
		if _, ok := imports[pkg]; !ok {
			imports[pkg] = nil
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if imported == "tidemark" || strings.HasPrefix(imported, "tidemark/") {
				imports[pkg] = append(imports[pkg], strings.TrimPrefix(strings.TrimPrefix(imported, "tidemark"), "/"))
			}
		}
		return nil
	})
	require.NoError(t, err)
	return imports
}

func TestForbiddenImportsAreSeen(t *testing.T) {
	for _, c := range []struct {
		name, pkg, imported string
		want                bool
	}{
		{"a history that knows the checker", "checker/history", "checker", true},
		{"rules that know a core", "node/rules", "node/replica", true},
		{"a core that knows the wire", "node/replica", "node/kafka", true},
		{"a core that knows another", "node/inbox", "node/session", false},
		{"a checker that knows nodes", "checker", "node/control", true},
		{"a checker's helper that knows nodes", "checker/replay", "node/control", true},
		{"a checker that knows histories", "checker", "checker/history", false},
		{"a node that knows a harness", "node", "nemesis/schedule", true},
		{"a node's part that knows histories", "node/kafka", "checker/history", true},
		{"a harness that knows a core", "nemesis/schedule", "node/replica", true},
		{"the simulator that knows a core", "cluster/sim", "node/replica", false},
		{"a harness that knows the rules", "nemesis/schedule", "node/rules", false},
		{"a harness that talks to nodes", "nemesis/schedule", "node/control", false},
		{"a part that knows the whole", "workload", "", true},
		{"a command that knows the whole", "cmd/tidemark", "", false},
		{"a folder whose name begins like another's", "nodes", "nemesis", false},
	} {
		assert.Equal(t, c.want, len(complaints(c.pkg, []string{c.imported})) > 0, c.name)
	}
}

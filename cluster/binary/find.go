package binary

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

const (
	// Env is the environment variable that names the executable for nodes when no flag does.
	Env = "TIDEMARK_BINARY"
	// Package is the import path of tidemark's own command, what [Find] looks for and builds unless told otherwise.
	Package = "tidemark/cmd/tidemark"
)

// ErrNotFound is wrapped by the errors of [Find] that mean: there is no executable that nodes could run. The text says
// what was tried and what to do about it.
var ErrNotFound = errors.New("no tidemark executable for the nodes")

// Options say what the executable must be able to do. The zero value asks for one that this machine can run.
type Options struct {
	// Static asks for an executable that runs in an image that holds nothing else: ELF for Linux and Arch, without a
	// dynamic loader and without the race detector, whose runtime needs the C library.
	Static bool
	// Path names the executable, as a command line flag does. It comes before [Env]; empty leaves the choice to Find.
	Path string
	// Arch is the architecture that a static executable must be for, in Go's words (amd64, arm64): that of the container
	// engine, which can differ from ours. Empty means ours.
	Arch string
	// Package is the import path of the main package that is wanted; empty means [Package]. It exists for programs that
	// bring node commands of their own, as the tests of backends do.
	Package string
	// Cache is the folder that keeps what was built; empty means tidemark in the user's cache folder.
	Cache string

	_ struct{}
}

func (o Options) withDefaults() Options {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Package == "" {
		o.Package = Package
	}
	return o
}

// goos is the system that the executable must be for: an image is always Linux, also where the engine runs in a virtual
// machine of another system.
func (o Options) goos() string {
	if o.Static {
		return "linux"
	}
	return runtime.GOOS
}

// surroundings are what Find sees of its process, apart from the options: replaced in tests.
type surroundings struct {
	getenv     func(string) string
	executable func() (string, error)
	sources    func() string // the root of the module that the process was made from, if it is there
	goTool     string
}

// found remembers the answers of this process, because building again asks the go command again. Only successes stay: a
// failure may be cured meanwhile.
var found = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

// Find returns the absolute path of an executable for nodes, in the order that the package comment gives. Errors wrap
// [ErrNotFound], unless ctx ended or the file system failed.
func Find(ctx context.Context, o Options) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find a tidemark executable: %w", err)
	}
	key := fmt.Sprintf("%+v %q %q", o, os.Getenv(Env), dir)
	found.Lock()
	defer found.Unlock()
	if path, ok := found.paths[key]; ok {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := find(ctx, o.withDefaults(), surroundings{getenv: os.Getenv, executable: ownPath, sources: sources, goTool: "go"})
	if err != nil {
		return "", err
	}
	found.paths[key] = path
	return path, nil
}

// ownPath is the path of the running executable. A test binary of the command says of itself that it is the command, but it would
// run its tests where a node is wanted.
func ownPath() (string, error) {
	if flag.Lookup("test.v") != nil {
		return "", errors.New("it is a test binary")
	}
	return os.Executable()
}

func find(ctx context.Context, o Options, s surroundings) (string, error) {
	if o.Path != "" {
		return named(o, o.Path, "the binary that was asked for")
	}
	if path := s.getenv(Env); path != "" {
		return named(o, path, Env)
	}
	path, own := ownExecutable(o, s)
	if own == nil {
		return path, nil
	}
	path, built := build(ctx, o, s)
	if built == nil {
		return path, nil
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("build %s: %w", o.Package, err)
	}
	return "", fmt.Errorf("%w: %w; %w; run from inside tidemark's module with the go command at hand, "+
		"or build one with %q and name it in %s", ErrNotFound, own, built, o.buildLine(), Env)
}

// named judges a file that somebody chose. It is used or refused, never passed over.
func named(o Options, path, by string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s %q: %w", ErrNotFound, by, path, err)
	}
	if err := o.serves(abs); err != nil {
		return "", fmt.Errorf("%w: %s does not serve: %w; name one that was built with %q", ErrNotFound, by, err, o.buildLine())
	}
	return abs, nil
}

// ownExecutable returns the running executable if it is the wanted command and serves; otherwise the error says why not.
func ownExecutable(o Options, s surroundings) (string, error) {
	path, err := s.executable()
	if err != nil {
		return "", fmt.Errorf("the running executable is unknown: %w", err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the running executable does not say what it is: %w", err)
	}
	if info.Path != o.Package {
		return "", fmt.Errorf("the running executable is %s, not %s", info.Path, o.Package)
	}
	if err := o.serves(path); err != nil {
		return "", fmt.Errorf("the running executable does not serve: %w", err)
	}
	return path, nil
}

// buildLine is what a person types to get an executable that serves.
func (o Options) buildLine() string {
	if !o.Static {
		return "go build " + o.Package
	}
	return fmt.Sprintf("CGO_ENABLED=0 GOOS=linux GOARCH=%s go build %s", o.Arch, o.Package)
}

package binary

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standIn is a command small enough to build in a test.
const standIn = "tidemark/cluster/binary/testdata/node"

// built makes the stand-in with the given environment and flags on top of the usual ones.
func built(t *testing.T, env []string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node")
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), standIn)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func staticNode(t *testing.T) string {
	return built(t, []string{"CGO_ENABLED=0", "GOOS=linux"})
}

// dynamicNode is what an ordinary build gives where there is a C compiler.
func dynamicNode(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("no C compiler for Linux here, so no dynamic executable to refuse")
	}
	return built(t, []string{"CGO_ENABLED=1"})
}

// alone is a process with no environment, whose own executable is nothing of use, without a go command.
func alone() surroundings {
	return surroundings{
		getenv:     func(string) string { return "" },
		executable: func() (string, error) { return os.Executable() },
		sources:    func() string { return "" },
		goTool:     "no-such-go-command",
	}
}

func TestANamedExecutableIsUsedOrRefusedButNeverPassedOver(t *testing.T) {
	static := staticNode(t)
	text := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte("not an executable"), 0o644))
	foreign := "arm64"
	if runtime.GOARCH == foreign {
		foreign = "amd64"
	}

	for _, test := range []struct {
		name    string
		options Options
		env     string
		want    string
		refusal string
	}{
		{name: "the flag names a static one", options: Options{Path: static, Static: true}, want: static},
		{name: "the environment names a static one", options: Options{Static: true}, env: static, want: static},
		{name: "the flag comes before the environment", options: Options{Path: static}, env: "/nowhere", want: static},
		{name: "a file that is not there", options: Options{Path: "/no/such/tidemark"}, refusal: "no such file"},
		{name: "the environment's error names the variable", env: "/no/such/tidemark", refusal: Env + " does not serve"},
		{name: "a folder", options: Options{Path: filepath.Dir(static)}, refusal: "is not a file"},
		{name: "a text file for an image", options: Options{Path: text, Static: true}, refusal: "is not an ELF executable"},
		{name: "a text file to start", options: Options{Path: text}, refusal: "is not executable"},
		{
			name:    "another architecture than the image's",
			options: Options{Path: static, Static: true, Arch: foreign},
			refusal: "the image is for " + foreign,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := alone()
			s.getenv = func(name string) string {
				require.Equal(t, Env, name)
				return test.env
			}
			got, err := find(t.Context(), test.options.withDefaults(), s)
			if test.refusal == "" {
				require.NoError(t, err)
				assert.Equal(t, test.want, got)
				return
			}
			require.ErrorIs(t, err, ErrNotFound)
			assert.ErrorContains(t, err, test.refusal)
			assert.ErrorContains(t, err, "go build tidemark/cmd/tidemark", "it says what to do")
		})
	}
}

func TestADynamicExecutableServesProcessesButNotImages(t *testing.T) {
	dynamic := dynamicNode(t)

	got, err := find(t.Context(), Options{Path: dynamic}.withDefaults(), alone())
	require.NoError(t, err)
	assert.Equal(t, dynamic, got)

	_, err = find(t.Context(), Options{Path: dynamic, Static: true}.withDefaults(), alone())
	require.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "needs a dynamic loader")
	assert.ErrorContains(t, err, "CGO_ENABLED=0 GOOS=linux")
}

func TestTheRunningExecutableIsUsedOnlyIfItIsTheWantedCommandAndServes(t *testing.T) {
	static := staticNode(t)
	running := func(path string) surroundings {
		s := alone()
		s.executable = func() (string, error) { return path, nil }
		return s
	}

	t.Run("it is the command, and static", func(t *testing.T) {
		got, err := find(t.Context(), Options{Static: true, Package: standIn}.withDefaults(), running(static))
		require.NoError(t, err)
		assert.Equal(t, static, got)
	})
	t.Run("it is another command", func(t *testing.T) {
		_, err := find(t.Context(), Options{Static: true}.withDefaults(), running(static))
		require.ErrorIs(t, err, ErrNotFound)
		assert.ErrorContains(t, err, "the running executable is "+standIn+", not "+Package)
		assert.ErrorContains(t, err, "no go command")
	})
	t.Run("it is a test binary", func(t *testing.T) {
		_, err := find(t.Context(), Options{}.withDefaults(), alone())
		require.ErrorIs(t, err, ErrNotFound)
		assert.ErrorContains(t, err, "tidemark/cluster/binary.test, not")
	})
	t.Run("it is the command, but dynamic", func(t *testing.T) {
		_, err := find(t.Context(), Options{Static: true, Package: standIn}.withDefaults(), running(dynamicNode(t)))
		require.ErrorIs(t, err, ErrNotFound)
		assert.ErrorContains(t, err, "needs a dynamic loader")
	})
	t.Run("it is the command, but made for the race detector", func(t *testing.T) {
		if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
			t.Skip("no C compiler for Linux here, and the race detector needs one")
		}
		// Linked statically, so that only the record of the build gives it away.
		race := built(t, []string{"CGO_ENABLED=1"}, "-race", "-ldflags=-linkmode external -extldflags -static", "-tags=netgo,osusergo")
		_, err := find(t.Context(), Options{Static: true, Package: standIn}.withDefaults(), running(race))
		require.ErrorIs(t, err, ErrNotFound)
		assert.ErrorContains(t, err, "race detector")
	})
}

func TestWhatIsBuiltIsStaticEvenIfTheUsualFlagsAreNot(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOFLAGS", "-race")
	t.Setenv("CGO_ENABLED", "1")
	s := alone()
	s.goTool = "go"

	path, err := find(t.Context(), Options{Static: true, Package: standIn, Cache: cache}.withDefaults(), s)
	require.NoError(t, err)

	assert.NoError(t, static(path, runtime.GOARCH))
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
}

func TestEqualSourcesGiveOneFileAndNothingElseStays(t *testing.T) {
	cache := t.TempDir()
	s := alone()
	s.goTool = "go"
	o := Options{Static: true, Package: standIn, Cache: cache}.withDefaults()

	first, err := find(t.Context(), o, s)
	require.NoError(t, err)
	before, err := os.Stat(first)
	require.NoError(t, err)
	second, err := find(t.Context(), o, s)
	require.NoError(t, err)

	assert.Equal(t, first, second)
	after, err := os.Stat(second)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "a file that a run uses is never written again")
	leftovers, err := filepath.Glob(filepath.Join(cache, "binaries", "build-*"))
	require.NoError(t, err)
	assert.Empty(t, leftovers)
	kept, err := filepath.Glob(filepath.Join(cache, "binaries", "*", "tidemark*"))
	require.NoError(t, err)
	assert.Equal(t, []string{first}, kept)
}

func TestOnlyWhatNothingUsedForAWeekLeavesTheCache(t *testing.T) {
	cache := t.TempDir()
	age := func(name string, age time.Duration) string {
		dir := filepath.Join(cache, "binaries", name)
		file := filepath.Join(dir, "tidemark")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(file, nil, 0o755))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(file, then, then))
		require.NoError(t, os.Chtimes(dir, then, then))
		return file
	}
	forgotten := age("00000000000000aa", unusedFor+time.Hour)
	recent := age("00000000000000bb", unusedFor-time.Hour)
	s := alone()
	s.goTool = "go"

	_, err := find(t.Context(), Options{Static: true, Package: standIn, Cache: cache}.withDefaults(), s)
	require.NoError(t, err)

	assert.NoFileExists(t, forgotten)
	assert.FileExists(t, recent)
}

func TestOutsideOfTheModuleItIsBuiltFromWhereTheProgramComesFrom(t *testing.T) {
	o := Options{Package: standIn, Cache: t.TempDir()}.withDefaults()
	t.Chdir(t.TempDir())
	s := alone()
	s.goTool = "go"

	_, err := find(t.Context(), o, s)
	require.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "run from inside tidemark's module")

	if sources() == "" {
		t.Skip("this test was built with -trimpath, or away from its sources")
	}
	s.sources = sources
	path, err := find(t.Context(), o, s)
	require.NoError(t, err)
	assert.FileExists(t, path)
}

func TestAFailedBuildShowsWhatTheCompilerSaid(t *testing.T) {
	s := alone()
	s.goTool = "go"
	_, err := find(t.Context(), Options{Package: standIn + "/missing", Cache: t.TempDir()}.withDefaults(), s)
	require.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "package tidemark/cluster/binary/testdata/node/missing is not", "in the go command's own words")
}

func TestFindStopsWithItsContext(t *testing.T) {
	s := alone()
	s.goTool = "go"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := find(ctx, Options{Package: standIn, Cache: t.TempDir()}.withDefaults(), s)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrNotFound, "that it was stopped says nothing about what there is")
}

func TestFindRemembersWhatItFound(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(Env, "")
	first, err := Find(t.Context(), Options{Package: standIn, Cache: cache})
	require.NoError(t, err)

	// Without a go command on the path it could not build again.
	t.Setenv("PATH", t.TempDir())
	second, err := Find(t.Context(), Options{Package: standIn, Cache: cache})
	require.NoError(t, err)
	assert.Equal(t, first, second)

	out, err := exec.Command(second).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "a node at 127.0.0.1\n", string(out))
}

// The test binary of a command carries the command's own import path. Nodes started from it would run its tests again.
func TestATestBinaryIsNotTheCommand(t *testing.T) {
	_, err := ownPath()
	assert.ErrorContains(t, err, "test binary")
}

package binary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// unusedFor is how long an executable stays in the cache after its last use. Long, because a run that started with
	// it starts its nodes from it again after each kill.
	unusedFor = 7 * 24 * time.Hour
	// stampEvery is how old a file's time of use may be before it is set again.
	stampEvery = time.Hour
)

// build makes the executable with the go command and returns its place in the cache:
//
//	<cache>/binaries/<first 16 digits of SHA-256>/tidemark    the executable, never written again
//	<cache>/binaries/last-<digits>                            which of them the same question got last time
//	<cache>/binaries/build-*                                  work in progress
//
// The last answer is where the go command starts from: what is up to date it neither compiles nor links again. No step
// needs a lock, because everything appears under its final name by one rename.
//
// It is built in the working folder. Where that has nothing to do with tidemark, because somebody has put a tidemark command
// there or on the path, it is built where the sources of that command are.
func build(ctx context.Context, o Options, s surroundings) (string, error) {
	tool, err := exec.LookPath(s.goTool)
	if err != nil {
		return "", fmt.Errorf("no go command to build %s with: %w", o.Package, err)
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", o.Package, err)
	}
	path, err := buildIn(ctx, here, o, tool)
	// An error of sources that are here is not passed over.
	if err == nil || ctx.Err() != nil || known(ctx, here, o, tool) {
		return path, err
	}
	if sources := s.sources(); sources != "" {
		return buildIn(ctx, sources, o, tool)
	}
	return "", err
}

// known says whether the package can be named in a folder.
func known(ctx context.Context, dir string, o Options, tool string) bool {
	cmd := exec.CommandContext(ctx, tool, "list", "-find", o.Package)
	cmd.Dir = dir
	return cmd.Run() == nil
}

// sources is the root of the module that this program was made from, if it is still there. A program that was built with
// -trimpath does not know.
func sources() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return ""
	}
	return root
}

func buildIn(ctx context.Context, dir string, o Options, tool string) (string, error) {
	cache, err := o.cacheDir()
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", o.Package, err)
	}
	defer os.RemoveAll(work)

	name := "tidemark"
	if o.goos() == "windows" {
		name += ".exe"
	}
	last := o.lastFile(cache, dir)
	target := filepath.Join(work, name)
	if sum, err := os.ReadFile(last); err == nil {
		// Without it the build only takes longer.
		_ = copyFile(target, filepath.Join(cache, string(sum), name))
	}
	if err := runGo(ctx, dir, tool, o, target); err != nil {
		return "", err
	}
	if err := o.serves(target); err != nil {
		return "", fmt.Errorf("go build %s made something else than asked for: %w", o.Package, err)
	}
	sum, err := hashFile(target)
	if err != nil {
		return "", err
	}
	path, err := keep(cache, work, sum, name)
	if err != nil {
		return "", err
	}
	if err := writeAtomically(last, work, sum); err != nil {
		return "", err
	}
	prune(cache, sum)
	return path, nil
}

func (o Options) cacheDir() (string, error) {
	dir := o.Cache
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder to keep a built executable in: %w", err)
		}
		dir = filepath.Join(user, "tidemark")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "binaries"))
	if err != nil {
		return "", fmt.Errorf("no folder to keep a built executable in: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("no folder to keep a built executable in: %w", err)
	}
	return dir, nil
}

// lastFile names the file that remembers the last answer to this question: the same package, from the same folder (other
// checkouts have other sources), for the same system.
func (o Options) lastFile(cache, dir string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", dir, o.Package, o.goos(), o.Arch))
	return filepath.Join(cache, "last-"+hex.EncodeToString(sum[:8]))
}

func runGo(ctx context.Context, dir, tool string, o Options, target string) error {
	// -race=false beats a -race in GOFLAGS, which would ask for cgo; without version control's stamp and file paths
	// equal sources give equal executables, and so equal images.
	cmd := exec.CommandContext(ctx, tool, "build", "-race=false", "-trimpath", "-buildvcs=false", "-o", target, o.Package)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+o.goos(), "GOARCH="+o.arch())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second // the compilers that it started may hold its output for a moment after it is killed
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", o.Package, err, firstLines(out.String(), 8))
	}
	return nil
}

// arch is the architecture to build for: only images can be for another than ours.
func (o Options) arch() string {
	if o.Static {
		return o.Arch
	}
	return runtime.GOARCH
}

// keep moves the executable from work to its place by content, unless it is there already.
func keep(cache, work, sum, name string) (string, error) {
	place := filepath.Join(cache, sum)
	path := filepath.Join(place, name)
	if used, err := os.Stat(path); err == nil {
		// Touching it at every use would make every use a write.
		if now := time.Now(); now.Sub(used.ModTime()) > stampEvery {
			_ = os.Chtimes(path, now, now)
		}
		return path, nil
	}
	dir := filepath.Join(work, sum)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep a built executable: %w", err)
	}
	if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
		return "", fmt.Errorf("keep a built executable: %w", err)
	}
	// Renaming onto a folder that is not empty fails: then another process was faster, with the same content.
	if err := os.Rename(dir, place); err != nil {
		if _, there := os.Stat(path); there != nil {
			return "", fmt.Errorf("keep a built executable: %w", err)
		}
	}
	return path, nil
}

// prune removes the executables that nothing has used for a week. What cannot be removed stays: it costs only space.
func prune(cache, current string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == current {
			continue
		}
		if used, err := lastUse(filepath.Join(cache, e.Name())); err == nil && time.Since(used) > unusedFor {
			_ = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

// lastUse is the newest time of the folder and the files in it.
func lastUse(dir string) (time.Time, error) {
	var newest time.Time
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return nil
	})
	return newest, err
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func writeAtomically(path, work, content string) error {
	part := filepath.Join(work, "last")
	if err := os.WriteFile(part, []byte(content), 0o644); err != nil {
		return fmt.Errorf("remember a built executable: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("remember a built executable: %w", err)
	}
	return nil
}

// firstLines keeps an error readable when the compiler has much to say.
func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = append(lines[:n], "...")
	}
	return strings.Join(lines, "\n")
}

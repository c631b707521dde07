package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFile holds a node's process id, in its folder, while the process runs.
const pidFile = "pid"

// Down ends the processes that a killed harness has left behind: nodes whose folders are below root. Most end by themselves,
// with the pipe that the harness held. One that was paused cannot; POSIX systems end it, but not when whoever inherits it belongs
// to the same session. It says whom it ended.
func Down(root string) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var ended []string
	var errs []error
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Name() != pidFile || d.IsDir():
			return nil
		}
		dir := filepath.Dir(path)
		pid, running := nodeOf(path)
		if running {
			if err := endProcess(pid); err != nil {
				errs = append(errs, fmt.Errorf("process %d of %s: %w", pid, dir, err))
				return nil
			}
			ended = append(ended, fmt.Sprintf("process %d (%s)", pid, dir))
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return nil
	})
	return ended, errors.Join(append(errs, err)...)
}

// nodeOf reads a pid file. Numbers are given out again: it is running only if the process still is the node of that folder.
func nodeOf(path string) (pid int, running bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid < 2 {
		return 0, false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	between := "\x00"
	if errors.Is(err, fs.ErrNotExist) {
		if command, err = exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output(); err != nil {
			return pid, false
		}
		between = " "
	}
	// Not a part of a word: broker-1 is not broker-10.
	return pid, strings.Contains(between+string(command)+between, between+filepath.Dir(path)+between)
}

func endProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		state, err := processState(pid)
		if err != nil || state == "" || state == "Z" { // a zombie is for its parent to bury
			return nil
		}
	}
	return errors.New("it does not end")
}

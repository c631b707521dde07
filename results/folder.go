// Package results is where runs are kept: a folder a run, with everything in it that is needed to judge the run again, to
// read what happened, and to repeat it.
//
//	results/runs/20261129-101500-run-7f3a/
//	  history.jsonl      every operation, fault and event, final reads and replicas; `tidemark check` judges it
//	  result.json        what the checker said
//	  schedule.sched     what was done to the cluster, as it was resolved
//	  transcript.txt     of a schedule: one line a step
//	  meta.json          what was asked for: cluster, workload, seed, and what must have happened for a pass
//	  nodes/             each node's data folder, with its log and its journal
//
// The folder is made before anything starts, and each file is written as soon as its content is known; what a killed
// harness leaves can be judged as far as it goes.
package results

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in a run's folder.
const (
	History    = "history.jsonl"
	Result     = "result.json"
	Schedule   = "schedule.sched"
	Transcript = "transcript.txt"
	Meta       = "meta.json"
	Nodes      = "nodes"
)

// Root is where runs are kept unless a flag says otherwise, under the working folder.
var Root = filepath.Join("results", "runs")

// Folder is one run's folder.
type Folder struct {
	ID   string // of the run: what everything that it creates is labelled with
	Path string // absolute
}

// ErrRoot is wrapped by the error about a root in which no folder for a run can be made.
var ErrRoot = errors.New("no folder for a run can be made here")

// Create makes the folder of a new run of that kind under root, which is made if it does not exist.
func Create(root, kind string) (Folder, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Folder{}, fmt.Errorf("%w: %w", ErrRoot, err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Folder{}, fmt.Errorf("%w: %w", ErrRoot, err)
	}
	for {
		var random [2]byte
		_, _ = rand.Read(random[:]) // never fails
		id := fmt.Sprintf("%s-%s-%s", time.Now().Format("20060102-150405"), kind, hex.EncodeToString(random[:]))
		path := filepath.Join(root, id)
		err := os.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue // another run began in the same second and drew the same number
		}
		if err != nil {
			return Folder{}, fmt.Errorf("%w: %w", ErrRoot, err)
		}
		return Folder{ID: id, Path: path}, nil
	}
}

// Sub makes a folder for a part of the run.
func (f Folder) Sub(name string) (Folder, error) {
	path := filepath.Join(f.Path, name)
	return Folder{ID: f.ID, Path: path}, os.MkdirAll(path, 0o755)
}

// File is the path of a file in the folder.
func (f Folder) File(name string) string { return filepath.Join(f.Path, name) }

// WriteText writes a text file.
func (f Folder) WriteText(name, text string) error {
	return os.WriteFile(f.File(name), []byte(text), 0o644)
}

// WriteJSON writes a value as indented JSON.
func (f Folder) WriteJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.File(name), append(data, '\n'), 0o644)
}

// ErrNoHistory is wrapped by the error about a path that is no run and no history.
var ErrNoHistory = errors.New("no history here")

// FindHistory is the history file that a path means: the file itself, or the one in a run's folder, compressed or not.
func FindHistory(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w: there is no such folder or file", path, ErrNoHistory)
	case err != nil:
		return "", fmt.Errorf("%s: %w: %w", path, ErrNoHistory, err)
	case !info.IsDir():
		return path, nil
	}
	for _, name := range []string{History, History + ".zst"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return filepath.Join(path, name), nil
		}
	}
	return "", fmt.Errorf("%s: %w: not the folder of a run, which has a file %s", path, ErrNoHistory, History)
}

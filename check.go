package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/results"
)

// Check judges a stored history: a file, or the folder of a run. What the run needed for a pass, as its folder says, is needed
// again unless the options say otherwise. An error is never a verdict; see checker.Check.
func Check(ctx context.Context, path string, o checker.Options) (*checker.Result, error) {
	file, err := results.FindHistory(path)
	if err != nil {
		return nil, err
	}
	if o.Enough == (checker.Enough{}) {
		if o.Enough, err = neededBy(filepath.Dir(file)); err != nil {
			return nil, err
		}
	}
	r, err := history.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	result, err := checker.Check(ctx, r, o)
	if err != nil {
		return result, fmt.Errorf("%s: %w", file, err)
	}
	return result, nil
}

// neededBy is what the run in a folder needed for a pass: nothing, if it is not the folder of a run.
func neededBy(folder string) (checker.Enough, error) {
	path := filepath.Join(folder, results.Meta)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checker.Enough{}, nil
	}
	var meta struct {
		Enough checker.Enough `json:"enough"`
	}
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		return checker.Enough{}, fmt.Errorf("%s: what the run needed for a pass: %w", path, err)
	}
	return meta.Enough, nil
}

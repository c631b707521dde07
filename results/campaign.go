package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names of the files in a campaign's folder. The runs themselves are in its folder [Runs].
const (
	CampaignMeta = "campaign.json"
	Outcomes     = "outcomes.jsonl"
	Index        = "index.json"
	Runs         = "runs"
)

// Campaign is what is known of a campaign before its first run, and where it is kept.
type Campaign struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Began time.Time `json:"began"`
	// Shard is "2/8" if this is the second of eight parts, "" if it is whole; a merged one names what it was made of in Merged.
	Shard  string   `json:"shard,omitempty"`
	Merged []string `json:"merged,omitempty"`
	// Tasks are how many runs there are to be, those of other shards left out.
	Tasks int `json:"tasks"`
	// Minimum is how often each event has to have happened; see [Outcome.Events].
	Minimum map[string]int64 `json:"minimum,omitempty"`
	// Config is the text that the campaign was made from, so that it can go on after a kill.
	Config string `json:"config"`

	path string
	mu   *sync.Mutex
}

// Status is how a run of a campaign ended.
type Status string

// The ways in which a run of a campaign ends: the verdicts of the checker, and two that are none.
const (
	Consistent   Status = "consistent"
	Allowed      Status = "allowed"
	Violation    Status = "violation"
	Inconclusive Status = "inconclusive"
	// Failed: the harness failed, and what became of the run is not known.
	Failed Status = "failed"
	// Unsupported: the backend has no such fault; nothing was run.
	Unsupported Status = "unsupported"
)

// Outcome is what one run of a campaign came to: a line of outcomes.jsonl, written when it has ended.
type Outcome struct {
	// Task identifies the run within the campaign, and within every campaign of the same configuration.
	Task string `json:"task"`
	// Command repeats it: the words after "tidemark". Cell is the command without its seed.
	Command string    `json:"command"`
	Cell    string    `json:"cell"`
	Seed    uint64    `json:"seed"`
	Began   time.Time `json:"began"`
	// Seconds are from start to verdict, Working those of them in which the workload or the search ran.
	Seconds float64 `json:"seconds"`
	Working float64 `json:"working"`

	Status  Status   `json:"status"`
	Reasons []string `json:"reasons,omitempty"`
	// Control: it has a defect and must be caught; then a violation is what is wanted, and anything else is not.
	Control bool `json:"control,omitempty"`
	// Findings are the anomalies, the first of each kind.
	Findings []Finding `json:"findings,omitempty"`
	// Fingerprint groups runs that fail in the same way; "" if it did not fail.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Known is what the project's list of known failures says of the fingerprint, "" if it is not there.
	Known string `json:"known,omitempty"`
	// Events count what happened, so that a green is worth something: acked, reads, unknown, elections, isr_changes, truncations, power_losses,
	// faults, schedules.
	Events map[string]int64 `json:"events,omitempty"`
	// Folder has the history and all else, relative to the campaign's; Schedule is the shortest schedule with the same anomaly that the search
	// found, and Explained what is said of it.
	Folder    string `json:"folder,omitempty"`
	Schedule  string `json:"schedule,omitempty"`
	Explained string `json:"explained,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Finding is one kind of anomaly of a run.
type Finding struct {
	Anomaly string `json:"anomaly"`
	// Cause is what took a record away, "" if that is not known; Count is how many there were.
	Cause    string `json:"cause,omitempty"`
	Sentence string `json:"sentence"`
	Count    int    `json:"count"`
}

// ErrCampaign is wrapped by the error about a folder that is no campaign's.
var ErrCampaign = errors.New("not the folder of a campaign")

// NewCampaign makes the folder of a campaign under root.
func NewCampaign(root string, c Campaign) (*Campaign, error) {
	folder, err := Create(root, "campaign")
	if err != nil {
		return nil, err
	}
	c.ID, c.path, c.mu = folder.ID, folder.Path, &sync.Mutex{}
	return &c, folder.WriteJSON(CampaignMeta, c)
}

// OpenCampaign reads what is in the folder of a campaign, to go on with it or to look at it.
func OpenCampaign(path string) (*Campaign, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(path, CampaignMeta))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrCampaign, err)
	}
	c := &Campaign{path: path, mu: &sync.Mutex{}}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w: %s: %w", path, ErrCampaign, CampaignMeta, err)
	}
	return c, nil
}

// Path is the campaign's folder.
func (c *Campaign) Path() string { return c.path }

// Runs is the folder in which the folders of its runs are made.
func (c *Campaign) Runs() string { return filepath.Join(c.path, Runs) }

// ShardOf is which of how many parts the campaign is; 0 of 0: it is whole.
func (c *Campaign) ShardOf() (shard, of int, err error) {
	if c.Shard == "" {
		return 0, 0, nil
	}
	if _, err := fmt.Sscanf(c.Shard, "%d/%d", &shard, &of); err != nil || shard < 1 || shard > of {
		return 0, 0, fmt.Errorf("%s: %w: shard %q: want 2/8", c.path, ErrCampaign, c.Shard)
	}
	return shard, of, nil
}

// Relative is a path as an outcome names it.
func (c *Campaign) Relative(path string) string {
	if r, err := filepath.Rel(c.path, path); err == nil {
		return r
	}
	return path
}

// Append keeps an outcome. It is on the disk when Append returns: what has been run is not run again after a kill.
func (c *Campaign) Append(o Outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(c.path, Outcomes), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	// A line that a kill has cut off is ended here, so that it spoils no other.
	if end, err := f.Seek(0, 2); err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// Outcomes reads what has been run so far, in the order in which runs ended. A line that a kill has cut off is left out; that run is to be
// done again.
func (c *Campaign) Outcomes() ([]Outcome, error) {
	data, err := os.ReadFile(filepath.Join(c.path, Outcomes))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var o Outcome
		if json.Unmarshal(lines.Bytes(), &o) == nil && o.Task != "" {
			outcomes = append(outcomes, o)
		}
	}
	return outcomes, lines.Err()
}

// Merge makes one campaign of several, which are shards or repetitions: the folders stay where they are, and outcomes name them. A task that is
// in several counts once, the first time.
func Merge(root string, paths []string) (*Campaign, error) {
	if len(paths) == 0 {
		return nil, errors.New("merge: give the folders of campaigns")
	}
	whole := Campaign{Minimum: map[string]int64{}}
	var all []Outcome
	seen := map[string]bool{}
	for _, path := range paths {
		c, err := OpenCampaign(path)
		if err != nil {
			return nil, err
		}
		if whole.Name != "" && whole.Name != c.Name {
			return nil, fmt.Errorf("merge: %s is of campaign %s, those before are of %s", path, c.Name, whole.Name)
		}
		if whole.Name == "" || c.Began.Before(whole.Began) {
			whole.Began = c.Began
		}
		whole.Name, whole.Config = c.Name, c.Config
		whole.Tasks += c.Tasks
		for event, n := range c.Minimum {
			whole.Minimum[event] = max(whole.Minimum[event], n)
		}
		whole.Merged = append(whole.Merged, strings.TrimSpace(c.ID+" "+c.Shard))
		outcomes, err := c.Outcomes()
		if err != nil {
			return nil, err
		}
		for _, o := range outcomes {
			if seen[o.Task] {
				whole.Tasks--
				continue
			}
			seen[o.Task] = true
			for _, at := range []*string{&o.Folder, &o.Schedule} {
				if *at != "" && !filepath.IsAbs(*at) {
					*at = filepath.Join(c.path, *at)
				}
			}
			all = append(all, o)
		}
	}
	merged, err := NewCampaign(root, whole)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return a.Began.Compare(b.Began) })
	for _, o := range all {
		for _, at := range []*string{&o.Folder, &o.Schedule} {
			if *at != "" {
				*at = merged.Relative(*at)
			}
		}
		if err := merged.Append(o); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tidemark/node"
	"tidemark/node/control"
	"tidemark/node/replay"
	"tidemark/node/rules"
)

// AllNodes is the word for every node of a run.
const AllNodes = "all"

// ReplayNodesConfig says which nodes of a stored run are run again, from the journals that they wrote.
type ReplayNodesConfig struct {
	Folder string // of the run, or of one schedule in one of reproduce
	Node   string // a broker's number, "controller", or AllNodes
	// Without and Rules change the rules that the node had, as rules.Parse takes them: the first difference then says where another
	// protocol would have gone another way.
	Without, Rules []string
}

// ErrNoNode is wrapped by the error about a node that is not in a run.
var ErrNoNode = errors.New("no such node in the run")

// ReplayNodes runs nodes of a stored run again in this process, each on its own, and compares step by step. It stops at a journal that
// cannot be read; the reports before it are returned too.
func ReplayNodes(ctx context.Context, c ReplayNodesConfig) ([]*replay.Report, error) {
	dirs, err := c.dirs()
	if err != nil {
		return nil, err
	}
	var o replay.Options
	if len(c.Without)+len(c.Rules) > 0 {
		o.Rules = func(s rules.Set) (rules.Set, error) {
			s, err := s.With(c.Without, c.Rules)
			if err != nil {
				err = &ConfigError{err}
			}
			return s, err
		}
	}
	var all []*replay.Report
	for _, dir := range dirs {
		r, err := replay.Run(ctx, node.JournalPath(dir), o)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: nodes write one unless they are told not to (--journal off)", err)
		}
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// dirs are the folders of the nodes that are meant: the controller's first.
func (c *ReplayNodesConfig) dirs() ([]string, error) {
	nodes, err := nodesDir(c.Folder)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	if c.Node == AllNodes {
		brokers, err := filepath.Glob(filepath.Join(nodes, "broker-*"))
		if err != nil {
			return nil, err
		}
		number := func(dir string) int {
			n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "broker-"))
			return n
		}
		slices.SortFunc(brokers, func(a, b string) int { return number(a) - number(b) })
		return append([]string{filepath.Join(nodes, control.Controller.String())}, brokers...), nil
	}
	name := c.Node
	if name != control.Controller.String() {
		if n, err := strconv.ParseInt(name, 10, 32); err != nil || n < 1 {
			return nil, fmt.Errorf("%w: node %q: want a broker's number, controller, or %s", ErrNoNode, name, AllNodes)
		}
		name = "broker-" + name
	}
	dir := filepath.Join(nodes, name)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	return []string{dir}, nil
}

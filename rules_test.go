package tidemark_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
	"tidemark/node/rules/rulestest"
)

// cells are what schedules came to in simulation: each is played once for all tests.
var cells = struct {
	sync.Mutex
	of map[string]tidemark.Cell
}{of: map[string]tidemark.Cell{}}

// cellOf is what a schedule comes to in a column.
func cellOf(t testing.TB, name string, column tidemark.Column) tidemark.Cell {
	t.Helper()
	key := name + " " + column.String()
	cells.Lock()
	defer cells.Unlock()
	if c, ok := cells.of[key]; ok {
		return c
	}
	f, err := schedule.Find(name)
	require.NoError(t, err)
	played, err := tidemark.Reproduce(context.Background(), tidemark.ReproduceConfig{Schedules: []*schedule.File{f},
		Columns: []tidemark.Column{column}, On: tidemark.OnSim, Root: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, played, 1)
	cells.of[key] = played[0]
	return played[0]
}

// outcome is what a cell came to: the verdict with its reason, and the findings.
func outcome(c tidemark.Cell) string {
	return strings.Join(append([]string{c.Observed}, c.Findings...), ", ")
}

// changes are the columns in which one rule of the protocol is wrong: every rule that it has is taken away, and truncation is
// replaced by every older way of it.
func changes(p rules.Protocol) []tidemark.Column {
	var columns []tidemark.Column
	for _, c := range rulestest.Changes() {
		if _, changed := c.Of(rules.Of(p)); changed {
			columns = append(columns, tidemark.Column{Protocol: p, Change: c.String()})
		}
	}
	return columns
}

// witnesses are the schedules that come to something else in the column than under its protocol.
func witnesses(t testing.TB, column tidemark.Column) []string {
	all, err := schedule.All()
	require.NoError(t, err)
	var names []string
	for _, f := range all {
		right := cellOf(t, f.Name, tidemark.Column{Protocol: column.Protocol})
		if outcome(cellOf(t, f.Name, column)) != outcome(right) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Each rule is there for a reason that a schedule tells: when it is taken away from a protocol that has it, or truncation is
// replaced by an older way of it, some schedule comes to something else. -v prints which.
func TestEveryRuleThatIsTakenAwayIsNoticedByASchedule(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nprotocol\twrong\tnoticed by")
	for _, p := range []rules.Protocol{rules.KIP320, rules.KIP966} {
		for _, column := range changes(p) {
			names := witnesses(t, column)
			fmt.Fprintf(w, "%s\t%s\t%s\n", p, column.Change, strings.Join(names, ", "))
			assert.NotEmpty(t, names, "nobody notices %s", column)
		}
	}
	require.NoError(t, w.Flush())
	t.Log(table.String())
}

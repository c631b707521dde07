package replica_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules/rulestest"
)

// The stories are told again with each rule that a replica asks for made wrong in turn. Every time some story has to go
// another way: else nothing says what the rule is for. -v prints the first place in each file.
func TestEveryRuleThatIsTakenAwayIsNoticedByAStory(t *testing.T) {
	asked, err := rulestest.AskedFor(".")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)

	noticed := map[rulestest.Change][]string{}
	for _, c := range rulestest.Changes() {
		for _, file := range files {
			if place := firstDifference(t, file, c); place != "" {
				noticed[c] = append(noticed[c], place)
			}
		}
	}
	assert.Empty(t, rulestest.Missing(asked, noticed), "rules that no story notices")

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwrong\tnoticed in")
	for _, c := range rulestest.Changes() {
		fmt.Fprintf(w, "%s\t%s\n", c, strings.Join(noticed[c], ", "))
	}
	require.NoError(t, w.Flush())
	t.Log(table.String())
}

// firstDifference is the place of the first directive that comes to something else with the rule made wrong; "" if none does.
func firstDifference(t *testing.T, file string, c rulestest.Change) (place string) {
	s := &story{wrong: c}
	datadriven.RunTestAny(quiet{t}, file, func(t testing.TB, d *datadriven.TestData) string {
		if place == "" && s.tell(t, d) != d.Expected {
			place = strings.TrimPrefix(d.Pos, "testdata"+string(filepath.Separator))
		}
		return d.Expected
	})
	return place
}

// quiet is a test that does not print the stories that it is told.
type quiet struct{ testing.TB }

func (quiet) Log(...any)          {}
func (quiet) Logf(string, ...any) {}

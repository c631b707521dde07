package rulestest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Teller carries out one directive of a story and returns what comes of it.
type Teller func(testing.TB, *datadriven.TestData) string

// NoticedByStories tells the stories of a core, the files testdata/*.txt of its folder, again with each [Change] in turn: begin
// starts a story in which every set of rules has the change made in it. It fails for each change of a rule that the core asks
// for by which no story comes to something else, and logs the first place in each file that does.
func NoticedByStories(t *testing.T, folder string, begin func(Change) Teller) {
	asked, err := AskedFor(folder)
	require.NoError(t, err)
	require.NotEmpty(t, asked, "rules that %s asks for", folder)
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "stories of %s", folder)

	noticed := map[Change][]string{}
	for _, c := range Changes() {
		for _, file := range files {
			if place := firstDifference(t, file, begin(c)); place != "" {
				noticed[c] = append(noticed[c], place)
			}
		}
	}
	assert.Empty(t, missing(asked, noticed), "nobody notices when these rules are wrong")

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwrong\tnoticed in")
	for _, c := range Changes() {
		if slices.Contains(asked, c.Rule) {
			fmt.Fprintf(w, "%s\t%s\n", c, strings.Join(noticed[c], ", "))
		}
	}
	require.NoError(t, w.Flush())
	t.Log(table.String())
}

// firstDifference is the place of the first directive that comes to something else than what stands below it; "" if none does.
func firstDifference(t testing.TB, file string, tell Teller) (place string) {
	datadriven.RunTestAny(quiet{t}, file, func(t testing.TB, d *datadriven.TestData) string {
		if place == "" && tell(t, d) != d.Expected {
			place = filepath.Base(d.Pos)
		}
		return d.Expected
	})
	return place
}

// missing lists the changes of the rules asked for that were noticed nowhere.
func missing(asked []string, noticed map[Change][]string) []string {
	var none []string
	for _, c := range Changes() {
		if slices.Contains(asked, c.Rule) && len(noticed[c]) == 0 {
			none = append(none, c.String())
		}
	}
	return none
}

// quiet is a test that does not print the stories that it is told.
type quiet struct{ testing.TB }

func (quiet) Log(...any)          {}
func (quiet) Logf(string, ...any) {}

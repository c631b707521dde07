package report

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"tidemark/results"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"headline": headline,
	"verdict":  verdict,
	"events":   events,
	"seen":     seen,
	"cells":    rows,
	"link":     filepath.ToSlash,
	"day":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"names":    func(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) },
}).Parse(pageText))

// row is a cell as the page shows it.
type row struct {
	Name    string
	Runs    int
	Counts  []int
	Seconds float64
}

func rows(s *results.Summary) []row {
	var all []row
	for _, c := range cells(s) {
		r := row{Name: c.name, Runs: c.runs, Seconds: c.seconds / float64(c.runs)}
		for _, status := range []results.Status{results.Consistent, results.Allowed, results.Violation, results.Inconclusive, results.Failed, results.Unsupported} {
			r.Counts = append(r.Counts, c.counts[status])
		}
		all = append(all, r)
	}
	return all
}

// Page writes a campaign as an HTML page that needs no network; links lead to the folders of the runs, from the campaign's own folder.
func Page(w io.Writer, s *results.Summary) error { return page.Execute(w, s) }

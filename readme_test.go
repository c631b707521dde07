package tidemark_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark"
	"tidemark/nemesis/schedule"
	"tidemark/node/replica"
	"tidemark/node/rules"
	"tidemark/node/storage/memory"
)

// node/README.md explains the protocol. These tests run what it says: transcripts and tables are those of the code, functions,
// files and stories that it names are there. (Its commands are run in cmd/tidemark, its API versions in node/kafka.)
//
// A marker, <!-- transcript S3 kip101 rows 4-9 --> or <!-- table rules -->, stands before each block that is compared. With
// -rewrite, the flag of the stories, the blocks are written anew.
const nodeReadme = "node/README.md"

func readLines(t *testing.T) []string {
	text, err := os.ReadFile(nodeReadme)
	require.NoError(t, err)
	return strings.Split(string(text), "\n")
}

var markerLine = regexp.MustCompile(`^<!-- (transcript|table) (.+) -->$`)

func TestTheReadmesTranscriptsAndTablesAreWhatTheCodeDoes(t *testing.T) {
	lines := readLines(t)
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	var out []string
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		m := markerLine.FindStringSubmatch(lines[i])
		if m == nil {
			assert.False(t, lines[i] == "```" && !fenced(out[:len(out)-1]), "line %d: a block without marker or language", i+1)
			continue
		}
		var want []string
		if m[1] == "transcript" {
			want = slices.Concat([]string{"```"}, transcript(t, m[2]), []string{"```"})
		} else {
			want = table(t, m[2])
		}
		end := blockEnd(lines, i+1)
		if !rewrite {
			assert.Equal(t, strings.Join(want, "\n"), strings.Join(lines[i+1:end], "\n"), "line %d: %s", i+1, lines[i])
		}
		out = append(out, want...)
		i = end - 1
	}
	if rewrite {
		require.NoError(t, os.WriteFile(nodeReadme, []byte(strings.Join(out, "\n")), 0o644))
	}
}

// fenced says whether the lines end inside of a code block.
func fenced(lines []string) bool {
	inside := false
	for _, l := range lines {
		if strings.HasPrefix(l, "```") {
			inside = !inside
		}
	}
	return inside
}

// blockEnd is the line after the block of code, or the table, that begins at a line.
func blockEnd(lines []string, at int) int {
	end := at
	if at < len(lines) && lines[at] == "```" {
		for end++; end < len(lines) && lines[end] != "```"; end++ {
		}
		return min(end+1, len(lines))
	}
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	return end
}

var transcriptArgs = regexp.MustCompile(`^(\S+) (.+?)(?: rows (\d+)-(\d+))?(?: story (\d+)-(\d+))?( outcome)?$`)

// transcript is what a marker asks for: rows of what the schedule plays in a column, numbered from 1, all without "rows"; lines of
// its story; its outcome.
func transcript(t *testing.T, args string) []string {
	m := transcriptArgs.FindStringSubmatch(args)
	require.NotNil(t, m, "marker: transcript %s", args)
	column, err := parseColumn(m[2])
	require.NoError(t, err, "marker: transcript %s", args)
	c := cellOf(t, m[1], column)
	require.Empty(t, c.Played.Inconclusive, "%s under %s", m[1], column)
	var out []string
	add := func(lines []string, from, to string) {
		if len(out) > 0 {
			out = append(out, "")
		}
		a, b := number(t, from), number(t, to)
		require.True(t, 1 <= a && a <= b && b <= len(lines), "transcript %s: %d-%d of %d lines", args, a, b, len(lines))
		out = append(out, lines[a-1:b]...)
	}
	rows := strings.Split(strings.TrimRight(c.Played.Transcript, "\n"), "\n")
	if m[3] != "" || m[5] == "" {
		add(rows, orElse(m[3], "1"), orElse(m[4], strconv.Itoa(len(rows))))
	}
	if m[5] != "" {
		add(c.Played.Story, m[5], m[6])
	}
	if m[7] != "" {
		outcome := []string{fmt.Sprintf("=> %s; porcupine %s", strings.Join(append([]string{c.Observed + ":"}, strings.Join(c.Findings, ", ")), " "), c.Porcupine)}
		if len(c.Findings) == 0 {
			outcome = []string{fmt.Sprintf("=> %s; porcupine %s", c.Observed, c.Porcupine)}
		}
		add(outcome, "1", "1")
	}
	return out
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// parseColumn reads what Column.String writes.
func parseColumn(s string) (tidemark.Column, error) {
	name, change, with := strings.Cut(s, " with ")
	if before, rule, without := strings.Cut(s, " without "); without {
		name, change, with = before, rule+"=off", true
	}
	p, err := rules.ParseProtocol(name)
	if err != nil || !with {
		return tidemark.Column{Protocol: p}, err
	}
	_, err = rules.Of(p).With(nil, []string{change})
	return tidemark.Column{Protocol: p, Change: change}, err
}

// table is the table of that name.
func table(t *testing.T, args string) []string {
	name, args, _ := strings.Cut(args, " ")
	switch name {
	case "rules":
		return rulesTable(t)
	case "matrix":
		return matrixTable(t)
	case "diagonal":
		return diagonalTable(t)
	case "epochs":
		return epochsTable(t, strings.Fields(args))
	}
	require.Fail(t, "no such table", name)
	return nil
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

func head(cells ...string) []string {
	return []string{row(cells...), "|" + strings.Repeat("---|", len(cells))}
}

// rulesTable has the registry, where the cores ask for each rule, and who shows it.
func rulesTable(t *testing.T) []string {
	lines := head("rule", "since", "source", "asked for in", "shown by")
	for _, r := range rules.Rules() {
		var shown []string
		for _, column := range changes(r.Since) {
			if strings.HasPrefix(column.Change, r.Name+"=") {
				for _, name := range witnesses(t, column) {
					if !slices.Contains(shown, name) {
						shown = append(shown, name)
					}
				}
			}
		}
		if r.Name == "truncation" {
			shown = witnesses(t, tidemark.Column{Protocol: rules.KIP101, Change: "truncation=hw"})
			shown = append(shown, witnesses(t, tidemark.Column{Protocol: rules.KIP279, Change: "truncation=kip101"})...)
		}
		lines = append(lines, row("`"+r.Name+"`", string(r.Since), r.Source, strings.Join(askedIn(t, r), ", "), strings.Join(shown, ", ")))
	}
	return lines
}

// askedIn are the functions of the cores that ask for the rule.
func askedIn(t *testing.T, r rules.Rule) []string {
	var places []string
	for _, folder := range []string{"replica", "controller"} {
		files, err := filepath.Glob(filepath.Join("node", folder, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && asksFor(fn, ruleField(r)) {
					places = append(places, fmt.Sprintf("`%s/%s:%s`", folder, filepath.Base(file), fn.Name.Name))
				}
			}
		}
	}
	require.NotEmpty(t, places, "no core asks for %s", r.Name)
	return places
}

// ruleField is the field of rules.Set that is the rule: its name without dashes.
func ruleField(r rules.Rule) string { return strings.ReplaceAll(r.Name, "-", "") }

func asksFor(fn *ast.FuncDecl, field string) (asks bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.EqualFold(s.Sel.Name, field) {
			if of, ok := s.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Rules" {
				asks = true
			}
		}
		return true
	})
	return asks
}

// inShort is what a cell came to: the kinds of findings, bold where a promise is broken.
func inShort(c tidemark.Cell) string {
	var kinds []string
	for _, f := range c.Findings {
		if kind, _, _ := strings.Cut(f, " "); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	verdict, reason, because := strings.Cut(c.Observed, " because ")
	text := strings.Join(kinds, ", ")
	switch {
	case verdict == "violation":
		text = "**" + text + "**"
	case text == "":
		text = "ok"
	}
	if because {
		text += " (" + reason + ")"
	}
	return text
}

// matrixTable is schedule by protocol.
func matrixTable(t *testing.T) []string {
	names := []string{"schedule"}
	for _, p := range rules.Protocols() {
		names = append(names, string(p))
	}
	lines := head(names...)
	all, err := schedule.All()
	require.NoError(t, err)
	for _, f := range all {
		cells := []string{f.Name}
		for _, p := range rules.Protocols() {
			cells = append(cells, inShort(cellOf(t, f.Name, tidemark.Column{Protocol: p})))
		}
		lines = append(lines, row(cells...))
	}
	return lines
}

// diagonalTable is, for each rule gone wrong, what is not as under the protocol.
func diagonalTable(t *testing.T) []string {
	lines := head("protocol", "wrong", "what comes of it; every other schedule as before")
	for _, p := range []rules.Protocol{rules.KIP320, rules.KIP966} {
		for _, column := range append(changes(p), tidemark.Column{Protocol: p, Change: "truncation=on-fetch"}) {
			var noticed []string
			for _, name := range witnesses(t, column) {
				noticed = append(noticed, name+" "+inShort(cellOf(t, name, column)))
			}
			lines = append(lines, row(string(p), "`"+column.Change+"`", orElse(strings.Join(noticed, "; "), "nothing")))
		}
	}
	return lines
}

// epochsTable asks a leader whose cache has the entries given, E@START.., and whose log ends at the last number, where epochs end.
func epochsTable(t *testing.T, args []string) []string {
	disk, orders := memory.New(), replica.Partition{Topic: "orders"}
	log, err := disk.Log(orders)
	require.NoError(t, err)
	var entries []replica.EpochStart
	for _, e := range args[:len(args)-1] {
		epoch, start, _ := strings.Cut(e, "@")
		entries = append(entries, replica.EpochStart{Epoch: int32(number(t, epoch)), Start: int64(number(t, start))})
	}
	leo := int64(number(t, args[len(args)-1]))
	for at := int64(0); at < leo; at++ {
		epoch := entries[0].Epoch
		for _, e := range entries {
			if e.Start <= at {
				epoch = e.Epoch
			}
		}
		require.NoError(t, log.Append(replica.Batch{Base: at, Count: 1, Epoch: epoch, Producer: replica.NoProducer, Data: []byte("m")}))
	}
	require.NoError(t, log.SetEpochs(entries))
	last := entries[len(entries)-1].Epoch
	r, err := replica.Open(replica.Config{Self: 1, Partition: orders, Rules: rules.Of(rules.KIP279)}, log)
	require.NoError(t, err)
	step := func(b replica.Body) (answer replica.Body) {
		for _, m := range r.Step(0, replica.Message{From: 2, To: 1, Partition: orders, Body: b}, nil) {
			answer = m.Body
		}
		return answer
	}
	step(&replica.LeaderAndIsr{Leader: 1, LeaderEpoch: last, Replicas: []replica.ID{1, 2}, ISR: []replica.ID{1, 2}, BrokerEpoch: replica.NoBrokerEpoch})
	require.Equal(t, entries, []replica.EpochStart(r.View().Epochs))

	lines := head("asked for epoch", "answer: epoch", "ends at")
	for e := int32(0); e <= last+1; e++ {
		a := step(&replica.OffsetForLeaderEpoch{Epoch: e, LeaderEpoch: replica.NoEpoch}).(*replica.OffsetForLeaderEpochAnswer)
		if a.End == replica.NoOffset {
			lines = append(lines, row(strconv.Itoa(int(e)), "undefined", "undefined"))
			continue
		}
		lines = append(lines, row(strconv.Itoa(int(e)), strconv.Itoa(int(a.Epoch)), strconv.FormatInt(a.End, 10)))
	}
	return lines
}

// declaredIn lists what a Go file declares at its top level.
func declaredIn(t *testing.T, file string) []string {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if !assert.NoError(t, err) {
		return nil
	}
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// What the README says would happen if a schedule went a little differently.
func TestVariationsOfSchedulesComeToWhatTheReadmeSays(t *testing.T) {
	for _, c := range []struct {
		name, schedule string
		change         []string // pairs of texts, old and new
		protocol       rules.Protocol
		observed       string
		findings       []string
	}{
		{"with kraft registration S2b ends with nobody leading", "S2b", []string{" registration=zk", ""}, rules.HW, "consistent", nil},
		{"with one b less S3 loses a1", "S3", []string{"produce b2\n", "", "m0 b1 b2\n", "m0 b1\n", "require acked a1, acked a2\n", ""}, rules.KIP101,
			"violation", []string{"diverged 1", "lost-acked a1"}},
		{"with one b more S3 loses a1 and a2", "S3", []string{"produce b2\n", "produce b2\nproduce b3\n", "m0 b1 b2\n", "m0 b1 b2 b3\n"}, rules.KIP101,
			"violation", []string{"diverged 1", "lost-acked a1", "lost-acked a2"}},
		{"with 1 out of the ISR the new leader of S5 knows at once what is committed", "S5",
			[]string{"transfer 2\n", "fence 1\n", "fence 1\nisolate 2\n", "isolate 2\n", "require hw 2 = 2\n", "require hw 2 = 4\n"}, rules.KIP279,
			"consistent", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := schedule.Find(c.schedule)
			require.NoError(t, err)
			text := f.String()
			for i := 0; i < len(c.change); i += 2 {
				require.Contains(t, text, c.change[i])
				text = strings.Replace(text, c.change[i], c.change[i+1], 1)
			}
			changed, err := schedule.Parse(c.name, text)
			require.NoError(t, err)
			cells, err := tidemark.Reproduce(t.Context(), tidemark.ReproduceConfig{Schedules: []*schedule.File{changed},
				Columns: tidemark.Columns(c.protocol), On: tidemark.OnSim, Root: t.TempDir()})
			require.NoError(t, err)
			require.Len(t, cells, 1)
			require.Empty(t, cells[0].Played.Inconclusive)
			assert.Equal(t, c.observed, cells[0].Observed)
			assert.Subset(t, cells[0].Findings, c.findings)
			if c.findings == nil {
				assert.Empty(t, cells[0].Findings)
			}
		})
	}
}

var (
	place = regexp.MustCompile("`([a-z0-9_/]+\\.go):([A-Za-z]+)`")
	link  = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	quote = regexp.MustCompile(`\]\(([a-z/]+\.txt)\): "([^"]+)"`)
	code  = regexp.MustCompile("\\b([A-Z]+(?:_[A-Z]+)+)`? \\((\\d+)\\)")
)

func TestTheReadmeNamesWhatIsThere(t *testing.T) {
	text := strings.Join(readLines(t), "\n")
	t.Run("functions and types", func(t *testing.T) {
		found := place.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, found)
		for _, m := range found {
			assert.Contains(t, declaredIn(t, filepath.Join("node", m[1])), m[2], m[0])
		}
	})
	t.Run("files and headings", func(t *testing.T) {
		var anchors []string
		for _, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, "#") {
				anchors = append(anchors, "#"+anchor(l))
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				_, err := os.Stat(filepath.Join("node", m[1]))
				assert.NoError(t, err, m[0])
			} else {
				assert.Contains(t, anchors, m[2], m[0])
			}
		}
	})
	t.Run("what stories say", func(t *testing.T) {
		found := quote.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, found)
		for _, m := range found {
			assert.Contains(t, comments(t, filepath.Join("node", m[1])), strings.Join(strings.Fields(m[2]), " "), m[1])
		}
	})
	t.Run("error codes", func(t *testing.T) {
		found := code.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, found)
		for _, m := range found {
			e := kerr.TypedErrorForCode(int16(number(t, m[2])))
			if assert.NotNil(t, e, m[0]) {
				assert.Equal(t, strings.ReplaceAll(e.Message, "NOT_LEADER_FOR_PARTITION", "NOT_LEADER_OR_FOLLOWER"), m[1])
			}
		}
	})
	t.Run("every rule, source, protocol and schedule", func(t *testing.T) {
		for _, r := range rules.Rules() {
			assert.Contains(t, text, "`"+r.Name+"`")
			for _, source := range strings.Split(r.Source, ", ") {
				assert.Contains(t, text, "["+source+"](", "a link for %s", source)
			}
		}
		all, err := schedule.All()
		require.NoError(t, err)
		for _, f := range all {
			assert.Regexp(t, `<!-- transcript `+f.Name+` `, text, "a transcript of %s", f.Name)
		}
		for _, p := range rules.Protocols() {
			assert.Contains(t, text, "`"+string(p)+"`")
		}
	})
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	s := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	s = regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(s, "")
	return strings.ReplaceAll(s, " ", "-")
}

// comments is what a story says between its directives, as one line.
func comments(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if !assert.NoError(t, err) {
		return ""
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			words = append(words, strings.Fields(comment)...)
		}
	}
	return strings.Join(words, " ")
}

package tidemark

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tidemark/cluster/sim"
	"tidemark/node/rules"
	"tidemark/results"
)

// matrix is the detection matrix of the bug zoo as it was measured last: what `tidemark zoo --json` prints.
//
//go:embed nemesis/zoo.jsonl
var matrix []byte

// storedMatrix is the detection matrix that the power of a campaign is told from.
func storedMatrix() ([]Detection, error) {
	var rows []Detection
	lines := bufio.NewScanner(bytes.NewReader(matrix))
	for lines.Scan() {
		var d Detection
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("nemesis/zoo.jsonl: %w", err)
		}
		rows = append(rows, d)
	}
	return rows, lines.Err()
}

// surely is how many times the runs that a defect was found after are needed to find it with 95 % chance, if it was found after as many as it
// takes on average: 1 - exp(-3) is 95 %.
const surely = 3

// power says what a campaign that found nothing would have found: each defect of the zoo, had it been in the brokers, by the schedules that were
// played, or by random schedules of the severity that finds it, if there were enough of them.
func power(s *results.Summary) (string, error) {
	rows, err := storedMatrix()
	if err != nil {
		return "", err
	}
	played, searched := map[string]bool{}, map[string]int64{}
	var under []rules.Set
	for _, o := range s.Outcomes {
		if o.Control || o.Status != results.Consistent && o.Status != results.Allowed {
			continue
		}
		words := strings.Fields(o.Cell)
		if i := slices.Index(words, "--protocol"); i >= 0 {
			under = append(under, rules.Of(rules.Protocol(words[i+1])))
		}
		switch words[0] {
		case "reproduce":
			for _, w := range words[1:] {
				played[w] = true
			}
		case "explore":
			if i := slices.Index(words, "--severity"); i >= 0 {
				// A severity has all that milder ones have.
				for _, milder := range sim.Severities() {
					searched[milder.String()] += o.Events["schedules"]
					if milder.String() == words[i+1] {
						break
					}
				}
			}
		}
	}
	if len(played)+len(searched) == 0 {
		return "", nil
	}
	of, finds := 0, 0
	var missed []string
	for _, d := range rows {
		if d.Control || !slices.ContainsFunc(under, func(s rules.Set) bool { return canHave(s, d.ID) }) {
			continue
		}
		of++
		story, _ := d.By(BySchedule)
		random, _ := d.By(ByRandom)
		if story.Found && played[story.By] || random.Found && searched[random.By] >= surely*random.Runs {
			finds++
		} else {
			missed = append(missed, d.ID)
		}
	}
	text := fmt.Sprintf("these schedules and searches find %d of %d known defects with 95 %% chance", finds, of)
	if len(missed) > 0 {
		text += "; not " + strings.Join(missed, ", ")
	}
	return text, nil
}

// canHave says whether a defect changes anything where a set of rules is in force: a rule that is not there cannot be missing.
func canHave(s rules.Set, id string) bool {
	d, err := rules.FindDefect(id)
	if err != nil {
		return false // the matrix is older than the zoo
	}
	broken, err := s.With(nil, d.Where)
	if err == nil {
		s = broken
		broken, err = s.With(nil, append([]string{d.Setting()}, d.Changes...))
	}
	return err == nil && broken != s
}

// zoo looks for a defect. That it is found is what is wanted; that the control is flagged is a false alarm.
func (k *campaign) zoo(d *Detection, o *results.Outcome) {
	var found []string
	for _, a := range d.Attempts {
		if !a.Found {
			continue
		}
		found = append(found, fmt.Sprintf("%s %s (%d runs, %.1f s)", a.Means, a.By, a.Runs, a.Seconds))
		for _, anomaly := range a.Anomalies {
			if !slices.Contains(o.Reasons, string(anomaly)) && d.Control {
				o.Reasons = append(o.Reasons, string(anomaly))
			}
		}
	}
	o.Explained = "found by " + strings.Join(found, ", ")
	switch {
	case d.Control && len(found) > 0:
		o.Status = results.Violation
		o.Findings = []results.Finding{{Anomaly: "false-alarm", Count: 1,
			Sentence: fmt.Sprintf("%s is permitted by its configuration and was taken for a violation: %s.", d.ID, o.Explained)}}
	case d.Control:
		o.Status, o.Explained = results.Consistent, "the control, which nothing flagged"
	case len(found) > 0:
		o.Status = results.Consistent
	default:
		o.Status, o.Explained = results.Inconclusive, ""
		o.Reasons = []string{d.ID + ": no means found it"}
	}
}

// defects are the tasks of a part that looks for every defect of the zoo.
func (p *Part) defects() []*task {
	var ts []*task
	for _, d := range rules.Defects() {
		if d.Unseeded != "" {
			continue
		}
		c := &ZooConfig{Defects: []string{d.ID}, Time: p.Zoo}
		ts = append(ts, newTask(work{zoo: c}, []string{"zoo", "--defect", d.ID, "--time", p.Zoo.String()}, 0))
	}
	return ts
}

package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/rules"
)

// TestPlay plays the steps in the files of testdata/play, under kip320 unless they say otherwise; -rewrite writes what comes
// of them now. Each is a story about one thing that steps mean. Below ---- stand the transcript and, with the word history,
// what became of each client's operation.
func TestPlay(t *testing.T) {
	datadriven.Walk(t, "testdata/play", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "play", d.Cmd, d.Pos)
			text := func(key, without string) string {
				if a, ok := d.Arg(key); ok && len(a.Vals) > 0 {
					return strings.Join(a.Vals, ",")
				}
				return without
			}
			header := "schedule S  " + d.Pos + "\ncluster replicas=" + text("replicas", "1,2,3") + " min.insync.replicas=" + text("min-isr", "2") +
				" registration=" + text("registration", "kraft") + "\n"
			f, err := schedule.Parse(d.Pos, header+d.Input+"\nexpect hw+ consistent")
			require.NoError(t, err)
			p := rules.Protocol(text("protocol", "kip320"))
			set, err := f.Rules(p).With(nil, nil)
			require.NoError(t, err)
			stage, err := NewStage(t.Context(), f.Cluster, set)
			require.NoError(t, err)
			sink := &history.Memory{}
			r, err := schedule.Play(t.Context(), f, p, set, stage, sink)
			require.NoError(t, err)

			said := r.Transcript
			if r.Inconclusive != "" {
				said += "inconclusive: " + strings.TrimSpace(r.Inconclusive) + "\n"
			}
			if d.HasArg("story") {
				said += strings.Join(r.Story, "\n") + "\n"
			}
			if d.HasArg("history") {
				for _, e := range sink.Events() {
					said += operation(e)
				}
			}
			return said
		})
	})
}

// operation is an event of a client's operation, or of the end, as one line; "" for others.
func operation(e history.Event) string {
	if s := e.Settled; s != nil {
		return strings.TrimSpace(fmt.Sprintf("settled: %t %s", s.OK, s.Why)) + "\n"
	}
	if e.Kind != history.Invoke && e.Kind != history.OK && e.Kind != history.Fail && e.Kind != history.Info {
		return ""
	}
	op := e.Op
	s := fmt.Sprintf("p%d %s %s", e.Process, e.Kind, op.Type)
	switch {
	case op.Error != "":
		s += ": " + op.Error
	case e.Kind == history.Invoke && op.Type == history.Produce:
		s += fmt.Sprintf(" %s to %d", op.Values[0], op.Node)
	case e.Kind == history.Invoke && op.Type == history.Fetch:
		s += fmt.Sprintf(" at %d from %d", op.From, op.Node)
		if op.Final {
			s += ", final"
		}
	case e.Kind == history.Invoke:
		s += fmt.Sprintf(" from %d", op.Node)
	case op.Type == history.Fetch:
		var values []string
		for _, r := range op.Records {
			values = append(values, r.Value)
		}
		s += fmt.Sprintf(": %s; high watermark %d", strings.Join(values, " "), op.HighWatermark)
	default:
		s += fmt.Sprintf(": %d", op.Offset)
	}
	return s + "\n"
}

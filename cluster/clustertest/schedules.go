package clustertest

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/cluster"
	"tidemark/cluster/sim"
	"tidemark/nemesis/schedule"
	"tidemark/node"
	"tidemark/node/rules"
)

// Schedules plays schedules under protocols on clusters whose nodes hold their messages, and wants of each the transcript, the
// story and the operations that it has in simulation, and the same replicas at the end.
func Schedules(t *testing.T, open Open, files []*schedule.File, protocols []rules.Protocol) {
	for _, f := range files {
		for _, p := range protocols {
			t.Run(fmt.Sprintf("%s under %s", f.Name, p), func(t *testing.T) {
				t.Parallel()
				simulated, err := sim.NewStage(t.Context(), f.Cluster, f.Rules(p))
				require.NoError(t, err)
				want := &history.Memory{}
				expected, err := schedule.Play(t.Context(), f, p, f.Rules(p), simulated, want)
				require.NoError(t, err)

				c := newConfig(t)
				c.Brokers, c.Hold, c.Rules = f.Cluster.Replicas, true, f.Rules(p)
				c.Topics = []node.Topic{{Name: topic, Partitions: [][]cluster.NodeID{f.Cluster.Replicas}}}
				c.Settings.MinISR, c.Settings.Unclean = f.Cluster.MinISR, f.Cluster.Unclean
				k := open(t, c)
				stage, err := cluster.NewStage(t.Context(), k)
				if err != nil {
					require.NoError(t, k.Close(t.Context()))
				}
				require.NoError(t, err)
				got := &history.Memory{}
				played, err := schedule.Play(t.Context(), f, p, f.Rules(p), stage, got)
				closing := stage.Close(t.Context())
				require.NoError(t, err)
				require.NoError(t, closing)

				require.Equal(t, expected.Inconclusive, played.Inconclusive)
				require.Equal(t, expected.Transcript, played.Transcript)
				require.Equal(t, told(expected.Story), told(played.Story))
				require.Equal(t, judged(want.Events()), judged(got.Events()))
			})
		}
	}
}

// told is a story without the sizes of records: those in simulation are nothing but their values.
func told(story []string) []string {
	out := make([]string, len(story))
	for i, line := range story {
		out[i] = sizes.ReplaceAllString(line, "takes bytes")
	}
	return out
}

var sizes = regexp.MustCompile(`takes [1-9][0-9]* bytes`)

// judged is what a history says that the checker judges, without order and time of recording.
func judged(events []history.Event) []history.Event {
	var out []history.Event
	for _, e := range events {
		e.Seq, e.Time = 0, 0
		switch e.Kind {
		case history.KindFault, history.KindNode: // what was measured differs
		default:
			out = append(out, e)
		}
	}
	return out
}

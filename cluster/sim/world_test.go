package sim

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/checker/history"
	"tidemark/nemesis/schedule"
	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// threeBrokers is the cluster that most searches are about.
func threeBrokers() schedule.Cluster {
	return schedule.Cluster{Replicas: []control.NodeID{1, 2, 3}, MinISR: 2}
}

// worldColumn is a broker of a world as transcripts draw it.
func worldColumn(w *World, i int) string {
	id := w.c.ids[i]
	if !w.nodes[i].up {
		return fmt.Sprintf("%dx", id)
	}
	v := w.look(i)
	letter := "-"
	switch {
	case v.Role == replica.RoleLeader:
		letter = "L"
	case v.Role == replica.RoleFollower && v.Truncating:
		letter = "t"
	case v.Role == replica.RoleFollower:
		letter = "f"
	}
	words := []string{fmt.Sprintf("%d%s", id, letter)}
	log := w.batches(i)
	for _, b := range log {
		bar := ""
		if b.Base == v.HW {
			bar = "|"
		}
		words = append(words, fmt.Sprintf("%s%s.%d", bar, b.Data, b.Epoch))
	}
	if v.HW >= w.nodes[i].log.End() {
		words = append(words, "|")
	}
	return strings.Join(words, " ")
}

var cells = regexp.MustCompile(` {3,}`)

func TestAWorldTakesEveryStepAsAStageDoes(t *testing.T) {
	ctx := context.Background()
	for _, p := range rules.Protocols() {
		for _, s := range Severities() {
			t.Run(fmt.Sprintf("%s, %s", p, s), func(t *testing.T) {
				set := rules.Of(p)
				for i := range int64(6) {
					manual := []replica.Kind(nil)
					if i%2 == 1 && s >= Zombies {
						manual = []replica.Kind{replica.KindFetch}
					}
					begin, err := NewWorld(threeBrokers(), set, manual, nil)
					require.NoError(t, err)
					k := newWalker(begin.Clone(), streamOf(7, i), s.Faults())
					k.run(60)
					f := begin.Clone().schedule("walk", "a random walk", k.moves)
					if manual != nil && len(Manual(f.Steps)) == 0 {
						continue // nothing was delivered by hand, so nobody would know that it could have been
					}
					stage, err := NewStage(ctx, f.Cluster, set)
					require.NoError(t, err)
					sink := &history.Memory{}
					played, err := schedule.Play(ctx, f, p, set, stage, sink)
					require.NoError(t, err)
					require.Empty(t, played.Inconclusive, "%s\n%s", f, played.Transcript)

					w := begin.Clone()
					rows := strings.Split(played.Transcript, "\n")
					for at, step := range f.Steps {
						require.True(t, w.Apply(step), "step %d, %s", at, step)
						want := cells.Split(rows[at], -1)[1:4]
						for n := range w.nodes {
							require.Equal(t, want[n], worldColumn(w, n), "schedule %d, after step %d, %s:\n%s\n%s", i, at, step, f, played.Transcript)
						}
					}
					require.True(t, w.End())
					last := cells.Split(rows[len(rows)-2], -1)[1:4]
					for n := range w.nodes {
						require.Equal(t, last[n], worldColumn(w, n), "at the end of schedule %d:\n%s\n%s", i, f, played.Transcript)
					}
				}
			})
		}
	}
}

package clustertest

import (
	"testing"

	"tidemark/cluster"
)

// Open starts a cluster of a backend as the configuration says, and fails the test if it cannot. The suite closes it. Several
// stories open theirs at the same time.
type Open func(t *testing.T, c cluster.Config) cluster.Cluster

// Run tells every story of a free-running cluster, each on a cluster of its own. Stories run at the same time, as far as go
// test's -parallel allows.
func Run(t *testing.T, open Open) {
	for _, story := range []struct {
		name string
		tell func(*testing.T, Open)
	}{
		{"brokers come up, serve clients and report what they do", comesUp},
		{"what does not exist is an error that names it", unknown},
		{"a killed leader loses its place but no record", kill},
		{"after a clean stop a broker is trusted, after a kill it is not", cleanStop},
		{"without its controller a cluster elects nobody, and goes on when it is back", controllerKilled},
		{"a paused leader is silent, is replaced and then follows", pause},
		{"a paused broker can be killed and stopped", pauseEnds},
		{"a broker cut off from everybody leads nobody but does not know it", isolate},
		{"a link that is cut one way lets the other way through", oneWay},
		{"one link between brokers is cut and no other", oneLink},
		{"links lose, delay, hold to a rate and reset what is sent", impaired},
		{"a disk that fails takes its replica offline, and a slow one only takes longer", brokenDisk},
		{"what is damaged at rest is found at the next start, and lost like power", damagedDisk},
		{"a power failure takes what was not flushed, down to the cut", powerFailure},
		{"a closed cluster is closed for good", closed},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.tell(t, open)
		})
	}
}

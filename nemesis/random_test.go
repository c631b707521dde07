package nemesis

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
)

// everyPlan visits random plans of many seeds and kinds, by nodes alone and by roles too.
func everyPlan(visit func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration, partitions []string)) {
	for seed := range uint64(120) {
		for n := 1; n <= 5; n++ {
			var brokers []cluster.NodeID
			for i := range n {
				brokers = append(brokers, cluster.NodeID(10*i+1))
			}
			r := random(seed)
			faults := Faults()[r.below(len(Faults())):]
			var partitions []string
			if seed%2 == 0 {
				partitions = []string{"orders-0", "orders-1"}
			}
			within := time.Duration(3+seed%60) * time.Second
			visit(Random(seed, faults, brokers, within, partitions...), seed, faults, brokers, within, partitions)
		}
	}
}

func TestARandomPlanIsDecidedByItsSeed(t *testing.T) {
	seen := map[string]bool{}
	everyPlan(func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration, partitions []string) {
		require.Equal(t, p, Random(seed, faults, brokers, within, partitions...))
		if len(brokers) == 3 && within >= 30*time.Second && len(faults) > 3 {
			require.False(t, seen[p.String()], "seed %d gives another seed's plan", seed)
			seen[p.String()] = true
		}
	})
	assert.NotEmpty(t, seen)
	assert.Empty(t, Random(1, nil, three, time.Hour), "no faults")
	assert.Empty(t, Random(1, Faults(), three, time.Second), "no time")
}

// pinned is a plan that is not to change: a seed in somebody's notes has to mean the same next year.
const pinned = `at 2.287s cut controller-from 1
at 5.252s heal cut
at 13.584s reset isolate 3
at 13.663s rate 13165B/s isolate 1
at 13.890s ? transfer follower of orders-0
at 15.445s heal reset
at 15.591s heal rate
`

func TestASeedMeansTheSameNextYear(t *testing.T) {
	assert.Equal(t, pinned, Random(7, Faults(), three, 20*time.Second, "orders-0").String())
}

func TestWhatARandomPlanBeginsItEndsInTime(t *testing.T) {
	everyPlan(func(p Plan, seed uint64, faults []Fault, brokers []cluster.NodeID, within time.Duration, partitions []string) {
		wrong := func(s Step) []any { return []any{"seed %d: %s", seed, s} }
		read, err := ParsePlan("plan", p.String(), brokers)
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, p, read)
		if within >= 8*time.Second && slices.Contains(faults, LinkReset) {
			require.NotEmpty(t, p)
		}
		down, paused, broken, links, named := map[cluster.NodeID]bool{}, map[cluster.NodeID]bool{}, map[cluster.NodeID]bool{}, map[string]bool{}, map[string]string{}
		for i, s := range p {
			require.LessOrEqual(t, firstCalm, s.At, wrong(s)...)
			require.LessOrEqual(t, s.At, within, wrong(s)...)
			if i > 0 {
				require.LessOrEqual(t, p[i-1].At, s.At, wrong(s)...)
			}
			require.True(t, partitions != nil || len(s.Roles) == 0, wrong(s)...)
			require.Equal(t, len(s.Roles) > 0, s.Optional, wrong(s)...)
			if s.As != "" {
				named[s.As] = s.Verb
			}
			for _, name := range s.Names {
				require.Equal(t, s.Verb == "resume", named[name] == "pause", wrong(s)...)
				delete(named, name)
			}
			for _, n := range s.Nodes {
				// A broker is under one fault at a time.
				switch s.Verb {
				case "kill", "stop", "powerfail":
					require.False(t, down[n] || paused[n] || broken[n], wrong(s)...)
					down[n] = true
				case "flip", "chop", "forget":
					require.True(t, down[n], wrong(s)...)
				case "start":
					require.True(t, down[n], wrong(s)...)
					delete(down, n)
				case "pause":
					require.False(t, down[n] || paused[n] || broken[n], wrong(s)...)
					paused[n] = true
				case "resume":
					require.True(t, paused[n], wrong(s)...)
					delete(paused, n)
				case "eio", "full", "slowsync":
					require.False(t, down[n] || paused[n] || broken[n], wrong(s)...)
					broken[n] = true
				case "mend":
					require.True(t, broken[n], wrong(s)...)
					delete(broken, n)
				case "restart":
					require.False(t, down[n] || paused[n] || broken[n], wrong(s)...)
				}
			}
			if s.IsOfLinks() {
				require.False(t, links[s.Verb], wrong(s)...)
				links[s.Verb] = true
			}
			for _, v := range s.Heals {
				require.True(t, links[v], wrong(s)...)
				delete(links, v)
			}
		}
		require.Empty(t, down, "seed %d", seed)
		require.Empty(t, paused, "seed %d", seed)
		require.Empty(t, broken, "seed %d", seed)
		require.Empty(t, links, "seed %d", seed)
		require.Empty(t, named, "seed %d", seed)
	})
}

func TestARandomPlanDrawsEverythingThatItWasAskedFor(t *testing.T) {
	verbsOf := map[Fault][]string{Kill: {"kill", "start"}, Stop: {"start", "stop"}, Pause: {"pause", "resume"}, Power: {"powerfail", "start"},
		Partition: {"cut", "heal"}, Restarts: {"kill", "start"}, Rolling: {"restart"}, KillAll: {"kill", "start"}, LinkLoss: {"heal", "loss"},
		LinkDelay: {"delay", "heal"}, LinkRate: {"heal", "rate"}, LinkReset: {"heal", "reset"}, AppendError: {"eio", "mend"}, DiskFull: {"full", "mend"},
		SlowSync: {"mend", "slowsync"}, BitFlip: {"flip", "kill", "start"}, ChoppedTail: {"chop", "kill", "start"}, Forgotten: {"forget", "kill", "start"},
		Transfer: {"transfer"}, Fenced: {"fence"}}
	for _, f := range Faults() {
		seen := map[string]bool{}
		for seed := range uint64(20) {
			for _, s := range Random(seed, []Fault{f}, three, 20*time.Second, "orders-0") {
				seen[s.Verb] = true
			}
		}
		var got []string
		for v := range seen {
			got = append(got, v)
		}
		slices.Sort(got)
		assert.Equal(t, verbsOf[f], got, f)
	}
}

func TestPeriodsHaveSubsetsOfTheKindsAndTheEmptyOneToo(t *testing.T) {
	sizes := map[int]int{}
	overlap, roles, shapes := 0, map[RoleName]bool{}, map[Shape]bool{}
	for seed := range uint64(200) {
		d := &drawing{r: random(seed)}
		for i := range 10 {
			kinds := d.kinds(Faults(), i == 0)
			require.True(t, i > 0 || len(kinds) > 0)
			sizes[len(kinds)]++
			slices.Sort(kinds)
			require.Len(t, slices.Compact(kinds), len(kinds), "each kind once")
		}
		going := 0
		for _, s := range Random(seed, Faults(), three, 40*time.Second, "orders-0") {
			switch {
			case s.Verb == "kill" || s.Verb == "pause" || s.Verb == "powerfail" || s.Verb == "stop" || s.IsOfLinks():
				if going++; going > 1 {
					overlap++
				}
			case s.Verb == "start" || s.Verb == "resume" || s.Verb == "heal":
				going--
			}
			for _, r := range s.Roles {
				roles[r.Name] = true
			}
			if s.Shape != "" {
				shapes[s.Shape] = true
			}
		}
	}
	for n := range 4 {
		assert.Greater(t, sizes[n], 100, "periods of %d kinds", n)
	}
	assert.Greater(t, overlap, 100)
	assert.Len(t, shapes, len(Shapes()))
	assert.Equal(t, map[RoleName]bool{Leader: true, Follower: true, LastISR: true}, roles)
}

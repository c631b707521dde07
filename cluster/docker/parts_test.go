package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/cluster"
	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/sandbox"
	"tidemark/node"
	"tidemark/node/control"
)

func TestWhereAnEngineIsDecidesHowNodesAreReached(t *testing.T) {
	for _, test := range []struct {
		name, goos, host, system string
		security                 []string
		want                     place
	}{
		{"an engine on this Linux", "linux", "unix:///var/run/docker.sock", "Debian GNU/Linux 12", []string{"name=seccomp,profile=default"}, place{direct: true, files: true}},
		{"Docker Desktop on macOS", "darwin", "unix:///Users/ada/.docker/run/docker.sock", "Docker Desktop", nil, place{files: true}},
		{"Docker Desktop on Linux", "linux", "unix:///home/ada/.docker/desktop/docker.sock", "Docker Desktop", nil, place{files: true}},
		{"Docker Desktop on Windows", "windows", "npipe:////./pipe/docker_engine", "Docker Desktop", nil, place{files: true}},
		{"an engine without root", "linux", "unix:///run/user/1000/docker.sock", "Fedora", []string{"name=seccomp", "name=rootless"}, place{files: true}},
		{"an engine beside us in a pod of a CI", "linux", "tcp://localhost:2375", "Alpine", nil, place{direct: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, placeOf(test.goos, test.host, test.system, test.security))
		})
	}
}

func TestANodesOutputIsTakenApartHoweverItComes(t *testing.T) {
	const text = `{"ready":{"node":2,"listen":"172.18.0.3:9092"}}
not a line of a node's
{"event":{"node":2,"what":"append","to":1}}

{"event":{"node":2,"what":"hw","to":1}}
{"event":{"node":2,"wha`
	for _, size := range []int{1, 7, len(text)} {
		var got []string
		out := &lines{call: func(l node.Line) {
			switch {
			case l.Ready != nil:
				got = append(got, "ready at "+l.Ready.Listen)
			case l.Event != nil:
				got = append(got, l.Event.What)
			}
		}}
		for rest := []byte(text); len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			n, err := out.Write(part)
			require.NoError(t, err)
			require.Equal(t, len(part), n)
			rest = rest[n:]
		}
		assert.Equal(t, []string{"ready at 172.18.0.3:9092", "append", "hw"}, got, "in pieces of %d bytes", size)
	}
}

func TestTheLastWordsOfAContainerAreItsLastLine(t *testing.T) {
	w := &lastWords{}
	assert.Equal(t, "it said nothing", w.String())
	for i := range 1000 {
		_, err := fmt.Fprintf(w, "line %d\n", i)
		require.NoError(t, err)
	}
	assert.Equal(t, "line 999", w.String())
	assert.LessOrEqual(t, len(w.text), longest)
	assert.Equal(t, "it wrote nothing to nowhere", lastLine("nowhere"))
}

func TestARunThatContainersCannotBeNamedAfterIsRefused(t *testing.T) {
	for _, run := range []string{"", "a run", "-run", "läufe", "a/b"} {
		_, err := NewPool(t.Context(), run, "")
		assert.ErrorContains(t, err, fmt.Sprintf("run %q", run))
	}
}

func TestACutIsMadeWhereThePacketsArrive(t *testing.T) {
	k := newCluster(&Pool{network: &runNetwork{gateway: address(t, "172.18.0.1")}}, cluster.Config{Brokers: []cluster.NodeID{2, 1}}, 1)
	for n, at := range map[cluster.NodeID]string{control.Controller: "172.18.0.2", 1: "172.18.0.3", 2: "172.18.0.4"} {
		k.members[n].sandbox = &sandboxContainer{addr: address(t, at)}
	}
	const clients, controller = cluster.ClientsID, control.Controller
	for _, test := range []struct {
		link cluster.Link
		at   cluster.NodeID
		want string
	}{
		{cluster.Link{From: 1, To: 2}, 2, "in from 172.18.0.3"},
		{cluster.Link{From: 2, To: 1}, 1, "in from 172.18.0.4"},
		{cluster.Link{From: 1, To: controller}, controller, "in from 172.18.0.3"},
		{cluster.Link{From: controller, To: 1}, 1, "in from 172.18.0.2"},
		{cluster.Link{From: 1, To: 2, Impair: cluster.Impair{Kind: cluster.Loss, Percent: 20}}, 2, "in from 172.18.0.3 loss 20%"},
		{cluster.Link{From: 1, To: 2, Impair: cluster.Impair{Kind: cluster.Rate, Rate: 5000}}, 2, "in from 172.18.0.3 above 5000 bytes/s"},
		{cluster.Link{From: 1, To: clients, Impair: cluster.Impair{Kind: cluster.Reset}}, 1, "out to 172.18.0.1 ports 9092 reset"},
		{cluster.Link{From: clients, To: 1}, 1, "in from 172.18.0.1 ports 9092"},
		{cluster.Link{From: 1, To: clients}, 1, "out to 172.18.0.1 ports 9092"},
		{cluster.Link{From: clients, To: controller}, controller, "in from 172.18.0.1 ports 9090"},
	} {
		at, err := k.guard(test.link)
		require.NoError(t, err)
		assert.Equal(t, test.at, at, "%v", test.link)
		assert.Equal(t, []string{test.want}, inWords(k.rules([]cluster.Link{test.link})))
	}
	for _, l := range []cluster.Link{{From: 1, To: 1}, {From: clients, To: clients}, {From: 1, To: 3}, {From: 3, To: clients}} {
		_, err := k.Links(t.Context(), []cluster.Link{l})
		assert.ErrorContains(t, err, fmt.Sprintf("no link from %s to %s", linkEnd(l.From), linkEnd(l.To)))
	}
}

func address(t *testing.T, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	require.NoError(t, err)
	return a
}

func inWords(rules []sandbox.Rule) []string {
	var words []string
	for _, r := range rules {
		words = append(words, r.String())
	}
	return words
}

// exhausted is an engine that has no subnet left to give.
type exhausted struct{ client.NetworkAPIClient }

func (exhausted) NetworkCreate(context.Context, string, network.CreateOptions) (network.CreateResponse, error) {
	return network.CreateResponse{}, errors.New("could not find an available, non-overlapping IPv4 address pool among the defaults")
}

func TestAnEngineWithoutAddressesIsToldWhereTheyAre(t *testing.T) {
	_, err := createNetwork(t.Context(), exhausted{}, "r")
	require.ErrorContains(t, err, "create the network of run r: could not find an available")
	assert.ErrorContains(t, err, "tidemark down removes the networks of killed runs")
}

func TestDownIsQuietWithoutAnEngineUnlessOneIsMeant(t *testing.T) {
	none := func(context.Context) (*client.Client, error) {
		return nil, fmt.Errorf("%w: no socket", engine.ErrNoEngine)
	}
	t.Setenv("DOCKER_HOST", "")
	removed, err := down(t.Context(), none)
	require.NoError(t, err)
	assert.Empty(t, removed)

	_, err = down(t.Context(), func(context.Context) (*client.Client, error) { return nil, errors.New("broken") })
	require.EqualError(t, err, "broken")

	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "no.sock"))
	_, err = Down(t.Context())
	require.ErrorIs(t, err, engine.ErrNoEngine, "what it has cannot be seen, so nobody may say that nothing is left")
}

func TestWhatWasRemovedIsNamed(t *testing.T) {
	removed := engine.Removed{Containers: []string{"tidemark-a-broker-1-sandbox", "tidemark-a-broker-2-sandbox"}, Networks: []string{"n"}}
	assert.Equal(t, []string{"container tidemark-a-broker-1-sandbox", "container tidemark-a-broker-2-sandbox", "network n", "image tidemark:0"},
		words(removed, []string{"tidemark:0"}))
	assert.Empty(t, words(engine.Removed{}, nil))
}

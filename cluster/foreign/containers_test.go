package foreign_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark"
	"tidemark/checker"
	"tidemark/checker/history"
	"tidemark/cluster/binary"
	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/image"
	"tidemark/cluster/foreign"
)

// compose is a cluster as people start one by hand: a controller and three brokers in containers on a network, each with an address
// that stays, started by nobody that a run knows.
type compose struct {
	run       string
	names     map[int32]string
	bootstrap []string
}

func composed(t *testing.T, c *client.Client) compose {
	ctx := t.Context()
	arch, err := engine.Architecture(ctx, c)
	require.NoError(t, err)
	path, err := binary.Find(ctx, binary.Options{Static: true, Arch: arch})
	require.NoError(t, err)
	ref, err := image.Ensure(ctx, c, path, arch)
	require.NoError(t, err)

	k := compose{run: fmt.Sprintf("foreign-test-%x", rand.Uint32()), names: map[int32]string{}}
	t.Cleanup(func() {
		_, err := engine.Down(context.Background(), c, k.run)
		assert.NoError(t, err)
		dockertest.NothingLeft(t, c, k.run)
	})
	subnet := fmt.Sprintf("10.%d.%d", 200+rand.IntN(50), rand.IntN(250))
	name := "tidemark-" + k.run
	_, err = c.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Labels: map[string]string{engine.RunLabel: k.run},
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet + ".0/24", Gateway: subnet + ".1"}}}})
	require.NoError(t, err)
	start := func(node, address string, command ...string) string {
		made, err := c.ContainerCreate(ctx, &container.Config{Image: ref, Cmd: command, Labels: engine.Labels(k.run, node, "theirs")},
			&container.HostConfig{NetworkMode: container.NetworkMode(name)},
			&network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}}}},
			nil, name+"-"+node)
		require.NoError(t, err)
		require.NoError(t, c.ContainerStart(ctx, made.ID, container.StartOptions{}))
		return name + "-" + node
	}
	common := []string{"--brokers", "1,2,3", "--topic", "orders:2:3", "--dir", "/data"}
	start("controller", subnet+".10", append([]string{"controller", "--listen", subnet + ".10:9090"}, common...)...)
	for id := range int32(3) {
		id++
		address := fmt.Sprintf("%s.%d", subnet, 10+id)
		k.names[id] = start(fmt.Sprint("broker-", id), address, append([]string{"node", "--id", fmt.Sprint(id), "--listen", address + ":9092",
			"--controller", subnet + ".10:9090"}, common...)...)
		k.bootstrap = append(k.bootstrap, address+":9092")
	}
	return k
}

// inSync waits until every broker says that every ISR is whole.
func (k compose) inSync(t *testing.T) {
	require.Eventually(t, func() bool {
		c, err := foreign.Open(t.Context(), foreign.Config{Bootstrap: k.bootstrap})
		if err != nil {
			return false
		}
		defer c.Close(t.Context())
		topics, err := c.Topics(t.Context(), []string{"orders"})
		if err != nil || len(c.Brokers()) != 3 {
			return false
		}
		why, err := c.Unsettled(t.Context(), topics)
		return err == nil && strings.Join([]string{why["orders-0"], why["orders-1"]}, "") == ""
	}, time.Minute, 200*time.Millisecond)
}

func TestBrokersInContainersAreKilledFrozenAndCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("containers take long enough for some")
	}
	c := dockertest.Engine(t)
	k := composed(t, c)
	k.inSync(t)
	config := tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders"}, Time: 10 * time.Second, Clients: 4, Rate: 300, Seed: 9,
		Foreign: &tidemark.Foreign{Config: foreign.Config{Bootstrap: k.bootstrap[:1], Containers: k.names}, Contract: &history.Contract{MinISR: 2},
			PlanName: "plan", Plan: `
at 0.500s kill 1
at 1.500s start 1
at 2.500s pause 2
at 4.500s resume 2
at 5.500s cut 3->1 1->3 2->3
at 8.000s cut clients->1
at 9.000s heal
`}}
	r, err := tidemark.Run(t.Context(), config)
	require.NoError(t, err)
	got := r.Checked
	assert.Equal(t, checker.Consistent, got.Verdict, "%s: %v", got.Summary(), got.Details)
	assert.Equal(t, []checker.FaultCount{{Verb: "cut", Count: 2, Proven: 2}, {Verb: "kill", Count: 1, Proven: 1}, {Verb: "pause", Count: 1, Proven: 1}}, got.Evidence.Faults)
	assert.Positive(t, got.Evidence.LeaderChanges)
	for _, name := range k.names {
		info, err := c.ContainerInspect(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, "running", info.State.Status, "as it was found")
	}

	config.Foreign.Containers = map[int32]string{1: k.names[1], 2: k.names[2]}
	_, err = tidemark.Run(t.Context(), config)
	assert.ErrorContains(t, err, "broker 3 has no container; name one for each of [1 2 3]")
	config.Foreign.Containers = map[int32]string{1: k.names[1], 2: k.names[2], 3: "nobody"}
	_, err = tidemark.Run(t.Context(), config)
	assert.ErrorContains(t, err, "container 3=nobody: ")
	var mistake *tidemark.ConfigError
	assert.ErrorAs(t, err, &mistake)
}

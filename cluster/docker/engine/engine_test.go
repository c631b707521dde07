package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/engine"
	nodeimage "tidemark/cluster/docker/image"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnEngineThatSomebodyNamedIsUsedOrRefused(t *testing.T) {
	t.Run("nothing is there", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "no.sock"))
		_, err := engine.Connect(t.Context())
		require.ErrorIs(t, err, engine.ErrNoEngine)
		assert.ErrorContains(t, err, "no.sock", "it names the one that was meant")
		assert.ErrorContains(t, err, "start one")
	})
	t.Run("that is no address", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", "nonsense")
		_, err := engine.Connect(t.Context())
		require.ErrorIs(t, err, engine.ErrNoEngine)
		assert.ErrorContains(t, err, "DOCKER_HOST=nonsense")
	})
	t.Run("it runs other containers than Linux ones", func(t *testing.T) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			w.Header().Set("Ostype", "windows")
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		defer func() {
			assert.NoError(t, server.Close())
			assert.ErrorIs(t, <-served, http.ErrServerClosed)
		}()
		t.Setenv("DOCKER_HOST", "tcp://"+listener.Addr().String())
		_, err = engine.Connect(t.Context())
		require.ErrorIs(t, err, engine.ErrNoEngine)
		assert.ErrorContains(t, err, "windows")
	})
}

func TestTheReaperStaysOffUnlessItIsAskedFor(t *testing.T) {
	dockertest.Engine(t)
	assert.Equal(t, "true", os.Getenv("TESTCONTAINERS_RYUK_DISABLED"))

	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "false")
	dockertest.Engine(t)
	assert.Equal(t, "false", os.Getenv("TESTCONTAINERS_RYUK_DISABLED"))
}

// leftovers makes what a killed harness could leave of a run: a network and two containers, one of which has an anonymous
// volume, as images that are not ours often do. It returns the volume's name. The containers are never started, so it
// does not matter what is in their image.
func leftovers(t *testing.T, c *client.Client, run string) string {
	t.Helper()
	made, err := c.NetworkCreate(t.Context(), run+"-net", network.CreateOptions{Labels: map[string]string{engine.RunLabel: run}})
	require.NoError(t, err)
	text := filepath.Join(t.TempDir(), "tidemark")
	require.NoError(t, os.WriteFile(text, []byte("for "+run), 0o600))
	ref, err := nodeimage.Ensure(t.Context(), c, text, runtime.GOARCH)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine.Down(context.Background(), c, run)
		assert.NoError(t, err)
		dockertest.NothingLeft(t, c, run)
		_, err = c.ImageRemove(context.Background(), ref, image.RemoveOptions{})
		assert.NoError(t, err)
	})
	var volume string
	for _, node := range []string{"broker-1", "broker-2"} {
		config := &container.Config{Image: ref, Labels: engine.Labels(run, node, engine.RoleNode)}
		if node == "broker-2" {
			config.Volumes = map[string]struct{}{"/var/lib/log": {}}
		}
		host := &container.HostConfig{NetworkMode: container.NetworkMode(made.ID)}
		made, err := c.ContainerCreate(t.Context(), config, host, nil, nil, run+"-"+node)
		require.NoError(t, err)
		info, err := c.ContainerInspect(t.Context(), made.ID)
		require.NoError(t, err)
		for _, m := range info.Mounts {
			volume = m.Name
		}
	}
	require.NotEmpty(t, volume)
	return volume
}

func runName(suffix string) string { return fmt.Sprintf("test-%d-%s", os.Getpid(), suffix) }

func TestDownRemovesARunAndNothingElse(t *testing.T) {
	c := dockertest.Engine(t)
	one, other := runName("one"), runName("other")
	volume := leftovers(t, c, one)
	leftovers(t, c, other)
	_, err := c.VolumeInspect(t.Context(), volume)
	require.NoError(t, err)

	removed, err := engine.Down(t.Context(), c, one)
	require.NoError(t, err)
	assert.Equal(t, engine.Removed{
		Containers: []string{one + "-broker-1", one + "-broker-2"},
		Networks:   []string{one + "-net"},
	}, removed)
	dockertest.NothingLeft(t, c, one)
	_, err = c.VolumeInspect(t.Context(), volume)
	assert.True(t, errdefs.IsNotFound(err), "an anonymous volume goes with its container, not %v", err)

	removed, err = engine.Down(t.Context(), c, one)
	require.NoError(t, err, "finding nothing is no mistake")
	assert.Empty(t, removed)

	removed, err = engine.Down(t.Context(), c, other)
	require.NoError(t, err)
	assert.Len(t, removed.Containers, 2, "the other run was not touched")
}

func TestTwoMayTakeDownTheSameRunAtOnce(t *testing.T) {
	c := dockertest.Engine(t)
	run := runName("contended")
	leftovers(t, c, run)

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			_, err := engine.Down(t.Context(), c, run)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	dockertest.NothingLeft(t, c, run)
}

// stubborn is an engine with three containers and a network, that removes some of them only.
type stubborn struct {
	client.APIClient
	filter string
}

func (s *stubborn) ContainerList(_ context.Context, o container.ListOptions) ([]container.Summary, error) {
	s.filter = strings.Join(o.Filters.Get("label"), ",")
	if !o.All {
		return nil, errors.New("dead containers are left as well")
	}
	return []container.Summary{{ID: "3", Names: []string{"/three"}}, {ID: "2", Names: []string{"/two"}}, {ID: "1"}}, nil
}

func (s *stubborn) NetworkList(context.Context, network.ListOptions) ([]network.Summary, error) {
	return []network.Summary{{ID: "n", Name: "net"}}, nil
}

func (s *stubborn) ContainerRemove(_ context.Context, id string, o container.RemoveOptions) error {
	switch {
	case !o.Force || !o.RemoveVolumes:
		return errors.New("a container that runs, or its volumes, would be left")
	case id == "2":
		return errors.New("device or resource busy")
	case id == "3":
		return errdefs.ErrConflict.WithMessage("removal of container 3 is already in progress")
	}
	return nil
}

func (s *stubborn) ContainerWait(_ context.Context, _ string, until container.WaitCondition) (<-chan container.WaitResponse, <-chan error) {
	gone := make(chan container.WaitResponse, 1)
	failed := make(chan error, 1)
	if until == container.WaitConditionRemoved {
		gone <- container.WaitResponse{}
	} else {
		failed <- errors.New("the container is not gone")
	}
	return gone, failed
}

func (s *stubborn) NetworkRemove(context.Context, string) error {
	return errors.New("has active endpoints")
}

func TestDownRemovesTheRestAndSaysWhatItCouldNotRemove(t *testing.T) {
	s := &stubborn{}
	removed, err := engine.Down(t.Context(), s, "")
	require.Error(t, err)
	assert.Equal(t, "remove container 2: device or resource busy\nremove network n: has active endpoints", err.Error())
	assert.Equal(t, engine.Removed{Containers: []string{"1", "three"}}, removed)
	assert.Equal(t, engine.RunLabel, s.filter, "without a run: all runs, and nothing that is not a run's")
}

// Package dockertest is for tests that need a container engine: they skip without one, or fail where one is required.
package dockertest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"tidemark/cluster/docker/engine"
)

// Required is the environment variable that turns a missing engine from a reason to skip into a failure when it is 1, so
// that a CI whose engine is broken does not pass for having tested nothing.
const Required = "TIDEMARK_REQUIRE_DOCKER"

// patience bounds how long an engine may take to say that it is there.
const patience = 20 * time.Second

// Engine returns a client of the engine, which is closed at the end of the test. Without an engine it skips the test and
// says why, or fails it when [Required] is 1.
func Engine(t testing.TB) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := engine.Connect(ctx)
	if err != nil {
		if os.Getenv(Required) == "1" {
			t.Fatalf("%s is 1, and %v", Required, err)
		}
		t.Skipf("needs containers: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the engine's client: %v", err)
		}
	})
	return c
}

// NothingLeft fails the test for every container and network that is left of the run.
func NothingLeft(t testing.TB, c client.APIClient, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	only := filters.NewArgs(filters.Arg("label", engine.RunLabel+"="+run))
	containers, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: only})
	if err != nil {
		t.Errorf("list containers: %v", err)
	}
	for _, left := range containers {
		t.Errorf("container %v (%s) is left of run %s", left.Names, left.Status, run)
	}
	networks, err := c.NetworkList(ctx, network.ListOptions{Filters: only})
	if err != nil {
		t.Errorf("list networks: %v", err)
	}
	for _, left := range networks {
		t.Errorf("network %s is left of run %s", left.Name, run)
	}
}

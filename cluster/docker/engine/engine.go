package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/docker/docker/client"
	"github.com/testcontainers/testcontainers-go"
)

// ErrNoEngine is wrapped by the error of [Connect] when no container engine answers.
var ErrNoEngine = errors.New("no docker engine answers")

// ryukDisabled is read by testcontainers once, before its first container.
const ryukDisabled = "TESTCONTAINERS_RYUK_DISABLED"

// Connect returns a client of the engine that testcontainers uses, after the engine has answered. The caller closes it.
func Connect(ctx context.Context) (*client.Client, error) {
	if _, said := os.LookupEnv(ryukDisabled); !said {
		if err := os.Setenv(ryukDisabled, "true"); err != nil {
			return nil, fmt.Errorf("turn off testcontainers' reaper: %w", err)
		}
	}
	if err := meant(ctx); err != nil {
		return nil, err
	}
	c, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; %s", ErrNoEngine, err, advice)
	}
	if err := answers(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

const advice = "start one, or use another backend than docker"

// meant refuses to go on when somebody named an engine and it does not answer: testcontainers would take the next one
// that it finds.
func meant(ctx context.Context) error {
	host := os.Getenv(client.EnvOverrideHost)
	if host == "" {
		return nil
	}
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return fmt.Errorf("%w at %s=%s: %w", ErrNoEngine, client.EnvOverrideHost, host, err)
	}
	defer c.Close()
	return answers(ctx, c)
}

// answers says whether there is an engine behind the client, and one of use.
func answers(ctx context.Context, c *client.Client) error {
	ping, err := c.Ping(ctx)
	if err != nil {
		return fmt.Errorf("%w at %s: %w; %s", ErrNoEngine, c.DaemonHost(), err, advice)
	}
	if ping.OSType != "" && ping.OSType != "linux" {
		return fmt.Errorf("%w at %s that runs Linux containers: it runs %s ones", ErrNoEngine, c.DaemonHost(), ping.OSType)
	}
	return nil
}

// dial makes a client the way testcontainers does for itself, which panics when there is no engine to be found.
func dial(ctx context.Context) (c *client.Client, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("%v", r)
		}
	}()
	tc, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	return tc.Client, nil
}

// Architecture returns the engine's architecture in Go's words (amd64, arm64): what the executables in its containers
// must be made for. It is another than ours when the engine is another machine's.
func Architecture(ctx context.Context, c client.APIClient) (string, error) {
	v, err := c.ServerVersion(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	return v.Arch, nil
}

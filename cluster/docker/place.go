package docker

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/docker/docker/client"
)

// place is where the engine is, as far as it matters: what it shares with us.
type place struct {
	// direct: containers' addresses can be reached from here. Otherwise ports are published on loopback.
	direct bool
	// files: the engine sees our files, so that a node's folder in the container is the one in the folder of the run.
	// Otherwise it is in a volume, which goes with the run.
	files bool
}

// locate asks the engine. What it says of itself is all there is to go by before there are containers; if it is not so,
// starting the first node fails with an error that names the address that cannot be reached.
func locate(ctx context.Context, c *client.Client) (place, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return place{}, fmt.Errorf("ask the engine about itself: %w", err)
	}
	return placeOf(runtime.GOOS, c.DaemonHost(), info.OperatingSystem, info.SecurityOptions), nil
}

func placeOf(goos, host, system string, security []string) place {
	p := place{direct: goos == "linux", files: strings.HasPrefix(host, "unix://") || strings.HasPrefix(host, "npipe://")}
	if strings.Contains(system, "Docker Desktop") {
		p.direct = false // its engine is in a virtual machine, on Linux too
	}
	for _, o := range security {
		if strings.Contains(o, "rootless") {
			p.direct = false // its bridges are in a network namespace of their own
		}
	}
	return p
}

// unreachable says what to do when a node is ready and does not answer at its address.
func (p place) unreachable() string {
	if p.direct {
		return "containers' addresses must be reachable from here, as they are from the machine of a Linux engine"
	}
	return "the engine publishes ports on the loopback address of its own machine, which must be this one"
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"
	"github.com/testcontainers/testcontainers-go"

	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/sandbox"
)

// loopback is where ports are published: nobody else's business.
const loopback = "127.0.0.1"

type sandboxConfig struct {
	run     string
	node    string // the node's name: also the host name that it sees
	image   string
	command []string
	network *runNetwork
	publish []uint16 // TCP ports to publish on loopback, each on a port of the engine's choice
	volume  bool     // a volume for the node's data, because the engine does not see our files
}

// sandboxContainer is the container that owns a node's network namespace, and the connection to the sandbox in it.
type sandboxContainer struct {
	id        string
	addr      netip.Addr                // on the run's network, for as long as the container runs
	published map[uint16]netip.AddrPort // where the host reaches each published port
	rules     *sandbox.Client
}

// startSandbox returns when the sandbox answers. If it does not, nothing is left of it.
func startSandbox(ctx context.Context, c *client.Client, cfg sandboxConfig) (s *sandboxContainer, err error) {
	ports := make([]string, 0, len(cfg.publish))
	bindings := nat.PortMap{}
	for _, p := range cfg.publish {
		port := nat.Port(fmt.Sprintf("%d/tcp", p))
		ports = append(ports, string(port))
		bindings[port] = []nat.PortBinding{{HostIP: loopback}}
	}
	id, err := create(ctx, testcontainers.ContainerRequest{
		Name:         containerName(cfg.run, cfg.node, engine.RoleSandbox),
		Image:        cfg.image,
		Cmd:          cfg.command,
		Labels:       engine.Labels(cfg.run, cfg.node, engine.RoleSandbox),
		Networks:     []string{cfg.network.name},
		ExposedPorts: ports,
		ConfigModifier: func(config *container.Config) {
			interactive(config)
			config.Hostname = cfg.node
			if cfg.volume {
				config.Volumes = map[string]struct{}{dataRoot: {}}
			}
		},
		HostConfigModifier: func(host *container.HostConfig) {
			common(host)
			host.CapAdd = []string{"NET_ADMIN"}
			host.NetworkMode = container.NetworkMode(cfg.network.name)
			host.PortBindings = bindings
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create the sandbox of %s: %w", cfg.node, err)
	}
	s = &sandboxContainer{id: id}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start the sandbox of %s: %w", cfg.node, err), s.discard(ctx, c))
			s = nil
		}
	}()

	complaint := &lastWords{}
	stream, err := attachStream(ctx, c, s.id, complaint)
	if err != nil {
		return s, err
	}
	s.rules = sandbox.NewClient(stream)
	if err := c.ContainerStart(ctx, s.id, container.StartOptions{}); err != nil {
		return s, err
	}
	if _, err := s.rules.Count(ctx); err != nil {
		_ = s.rules.Close() // so that its last words are complete
		return s, fmt.Errorf("%w: %s", err, complaint)
	}
	info, err := c.ContainerInspect(ctx, s.id)
	if err != nil {
		return s, err
	}
	return s, s.locate(info, cfg)
}

// locate reads from the engine's description where the sandbox can be reached.
func (s *sandboxContainer) locate(info container.InspectResponse, cfg sandboxConfig) error {
	endpoint, ok := info.NetworkSettings.Networks[cfg.network.name]
	if !ok {
		return fmt.Errorf("container %.12s is not on network %s", s.id, cfg.network.name)
	}
	addr, err := netip.ParseAddr(endpoint.IPAddress)
	if err != nil {
		return fmt.Errorf("container %.12s on network %s: %w", s.id, cfg.network.name, err)
	}
	s.addr = addr
	s.published = make(map[uint16]netip.AddrPort, len(cfg.publish))
	for _, p := range cfg.publish {
		bound := info.NetworkSettings.Ports[nat.Port(fmt.Sprintf("%d/tcp", p))]
		if len(bound) == 0 {
			return fmt.Errorf("container %.12s: port %d is not published", s.id, p)
		}
		at, err := netip.ParseAddrPort(bound[0].HostIP + ":" + bound[0].HostPort)
		if err != nil {
			return fmt.Errorf("container %.12s: port %d is published at %v: %w", s.id, p, bound[0], err)
		}
		s.published[p] = at
	}
	return nil
}

// remove ends the sandbox, and the network of whatever has joined it.
func (s *sandboxContainer) remove(ctx context.Context, c client.ContainerAPIClient) error {
	if s.rules != nil {
		// Its error would be about a stream that is not needed any more.
		_ = s.rules.Close()
	}
	return engine.RemoveContainer(ctx, c, s.id)
}

// discard removes a sandbox that did not come to be.
func (s *sandboxContainer) discard(ctx context.Context, c client.ContainerAPIClient) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	return s.remove(ctx, c)
}

// create makes a container and does not start it, and returns its id.
func create(ctx context.Context, r testcontainers.ContainerRequest) (string, error) {
	ctx, cancel, err := making(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	made, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{ContainerRequest: r})
	if err != nil {
		return "", err
	}
	return made.GetContainerID(), nil
}

// containerName is what people see in "docker ps".
func containerName(run, node, role string) string {
	return fmt.Sprintf("tidemark-%s-%s-%s", run, node, role)
}

// common takes from a container what no node needs: capabilities, and the engine's own copy of its output, which can be
// long and is read by nobody, since we are attached.
func common(host *container.HostConfig) {
	host.CapDrop = []string{"ALL"}
	host.SecurityOpt = []string{"no-new-privileges"}
	host.LogConfig = container.LogConfig{Type: "none"}
}

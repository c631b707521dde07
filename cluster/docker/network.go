package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"tidemark/cluster/docker/engine"
)

// runNetwork is the bridge network of one run. Its subnet is the engine's choice, which knows what is taken: addresses
// are given out when sandboxes start and stay as long as they run.
type runNetwork struct {
	name    string
	id      string
	gateway netip.Addr // the host, as nodes see it: the peer of every client
}

func createNetwork(ctx context.Context, c client.NetworkAPIClient, run string) (*runNetwork, error) {
	ctx, cancel, err := making(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	name := "tidemark-" + run
	made, err := c.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Labels: map[string]string{engine.RunLabel: run}})
	if err != nil {
		err = fmt.Errorf("create the network of run %s: %w", run, err)
		if strings.Contains(err.Error(), "address pool") {
			err = fmt.Errorf("%w; the engine has no addresses left: tidemark down removes the networks of killed runs", err)
		}
		return nil, err
	}
	n := &runNetwork{name: name, id: made.ID}
	info, err := c.NetworkInspect(ctx, n.id, network.InspectOptions{})
	if err == nil {
		n.gateway, err = gateway(info.IPAM)
	}
	if err != nil {
		err = fmt.Errorf("look at the network of run %s: %w", run, err)
		return nil, errors.Join(err, n.remove(ctx, c))
	}
	return n, nil
}

func gateway(ipam network.IPAM) (netip.Addr, error) {
	for _, config := range ipam.Config {
		// Engines differ in whether they write it with the length of the prefix.
		if p, err := netip.ParsePrefix(config.Gateway); err == nil && p.Addr().Is4() {
			return p.Addr(), nil
		}
		if a, err := netip.ParseAddr(config.Gateway); err == nil && a.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no IPv4 gateway in %+v", ipam.Config)
}

func (n *runNetwork) remove(ctx context.Context, c client.NetworkAPIClient) error {
	return engine.RemoveNetwork(ctx, c, n.id)
}

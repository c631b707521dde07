package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"
)

// atOnce bounds how many containers are removed at the same time; the engine works on a few at best.
const atOnce = 4

// Removed says what [Down] removed: names, sorted.
type Removed struct {
	Containers []string
	Networks   []string
}

// Down removes the containers of the run, their anonymous volumes and their network, dead or alive; an empty run means
// every run there is, those of other processes included. What somebody else removes at the same time is no error, nor
// is finding nothing. After an error the rest was removed all the same, and Removed says what.
func Down(ctx context.Context, c client.APIClient, run string) (Removed, error) {
	label := RunLabel
	if run != "" {
		label += "=" + run
	}
	only := filters.NewArgs(filters.Arg("label", label))
	var removed Removed
	containers, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: only})
	if err != nil {
		return removed, fmt.Errorf("list containers labelled %s: %w", label, err)
	}
	networks, err := c.NetworkList(ctx, network.ListOptions{Filters: only})
	if err != nil {
		return removed, fmt.Errorf("list networks labelled %s: %w", label, err)
	}

	failed := make([]error, len(containers))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, one := range containers {
		group.Go(func() error {
			failed[i] = RemoveContainer(ctx, c, one.ID)
			return nil // the others are removed all the same
		})
	}
	_ = group.Wait()
	for i, one := range containers {
		if failed[i] == nil {
			removed.Containers = append(removed.Containers, nameOf(one))
		}
	}
	for _, one := range networks {
		err := RemoveNetwork(ctx, c, one.ID)
		if err == nil {
			removed.Networks = append(removed.Networks, one.Name)
		}
		failed = append(failed, err)
	}
	slices.Sort(removed.Containers)
	slices.Sort(removed.Networks)
	return removed, errors.Join(failed...)
}

func nameOf(c container.Summary) string {
	if len(c.Names) == 0 {
		return c.ID
	}
	return strings.TrimPrefix(c.Names[0], "/")
}

// RemoveContainer kills and removes a container with its anonymous volumes, and returns when it is gone, whoever removes
// it. That it is not there is no error.
func RemoveContainer(ctx context.Context, c client.ContainerAPIClient, id string) error {
	err := c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case !errdefs.IsConflict(err):
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
	// Somebody else is removing it already.
	gone, failed := c.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case <-gone:
		return nil
	case err := <-failed:
		if errdefs.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
}

// RemoveNetwork removes a network that nothing is connected to any more. That it is not there is no error.
func RemoveNetwork(ctx context.Context, c client.NetworkAPIClient, id string) error {
	if err := c.NetworkRemove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove network %.12s: %w", id, err)
	}
	return nil
}

package docker

import (
	"context"
	"errors"
	"os"

	"github.com/docker/docker/client"

	"tidemark/cluster/docker/engine"
	"tidemark/cluster/docker/image"
)

// Down removes the containers and networks of all runs, those that still go on included, and the images that no container
// uses; it says what it removed. Without an engine there is nothing to remove; only when DOCKER_HOST names one that does
// not answer is that an error, because what it has cannot be seen.
func Down(ctx context.Context) ([]string, error) { return down(ctx, engine.Connect) }

func down(ctx context.Context, connect func(context.Context) (*client.Client, error)) ([]string, error) {
	c, err := connect(ctx)
	if errors.Is(err, engine.ErrNoEngine) && os.Getenv(client.EnvOverrideHost) == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	removed, err := engine.Down(ctx, c, "")
	images, err2 := image.Prune(ctx, c)
	return words(removed, images), errors.Join(err, err2)
}

// words name what was removed: a line each.
func words(r engine.Removed, images []string) []string {
	var all []string
	for _, name := range r.Containers {
		all = append(all, "container "+name)
	}
	for _, name := range r.Networks {
		all = append(all, "network "+name)
	}
	for _, name := range images {
		all = append(all, "image "+name)
	}
	return all
}

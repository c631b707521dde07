package tidemark

import (
	"context"
	"errors"
	"time"

	"tidemark/cluster"
	"tidemark/cluster/docker"
	"tidemark/cluster/process"
	"tidemark/results"
)

// Up starts a cluster to play with and calls ready with the addresses at which clients reach it; it runs until the context
// ends. Of the configuration it uses what is about the cluster.
func Up(ctx context.Context, c RunConfig, ready func(bootstrap []string, folder string)) error {
	c, k, err := c.withDefaults()
	if err == nil && c.On == OnSim {
		err = errors.New("backend sim: a simulation has no addresses for clients; use process or docker")
	}
	if err != nil {
		return &ConfigError{err}
	}
	folder, err := results.Create(rootOr(c.Root), "up")
	if err != nil {
		return err
	}
	k.Run, k.Dir = folder.ID, folder.File(results.Nodes)
	r := &run{config: c, folder: folder}
	if err := r.describe(k); err != nil {
		return err
	}
	nodes, err := openCluster(ctx, c.On, k)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // interrupted before it was up
		}
		return err
	}
	r.cluster = &real{Cluster: nodes}
	go func() {
		for range nodes.Events() { // nobody records them here; nodes must not wait for a reader
		}
	}()
	if err = cluster.WaitFor(ctx, createdWithin, r.created); err == nil {
		ready(nodes.Bootstrap(), folder.Path)
		<-ctx.Done()
	} else if ctx.Err() != nil {
		err = nil
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, nodes.Close(closing))
}

// Down removes what killed harnesses have left behind: processes of nodes whose folders are under root ("": results.Root), and
// the containers and networks of all runs, wherever those are. It says what it removed.
func Down(ctx context.Context, root string) ([]string, error) {
	processes, err := process.Down(rootOr(root))
	containers, err2 := docker.Down(ctx)
	return append(processes, containers...), errors.Join(err, err2)
}

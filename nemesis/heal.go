package nemesis

import (
	"context"
	"errors"
	"sync"

	"tidemark/cluster"
	"tidemark/node/control"
)

// Heal sets the healthy state: links open, nobody paused, the controller and every broker up, disks whole and every replica on its
// disk. It tries everything, whatever fails. Doing it twice does nothing.
func Heal(ctx context.Context, c Target) error {
	_, err := c.Links(ctx, nil)
	nodes := everyNode(c)
	errs := make([]error, len(nodes))
	atOnce(len(nodes), func(i int) { errs[i] = healNode(ctx, c, nodes[i]) })
	return errors.Join(append([]error{err}, errs...)...)
}

// HealInOrder is [Heal], one node after the other: for a cluster in which nothing takes time, and where the order shows.
func HealInOrder(ctx context.Context, c Target) error {
	_, err := c.Links(ctx, nil)
	errs := []error{err}
	for _, n := range everyNode(c) {
		errs = append(errs, healNode(ctx, c, n))
	}
	return errors.Join(errs...)
}

func healNode(ctx context.Context, c Target, n cluster.NodeID) error {
	_, resumed := c.Pause(ctx, n, false)
	_, started := c.Start(ctx, n)
	err := errors.Join(resumed, started)
	if commander, ok := c.(Commander); ok && err == nil && n != control.Controller {
		err = healDisk(ctx, c, commander, n)
	}
	return err
}

func everyNode(c Target) []cluster.NodeID {
	nodes := []cluster.NodeID{control.Controller}
	for _, id := range c.Brokers() {
		nodes = append(nodes, cluster.NodeID(id))
	}
	return nodes
}

// atOnce does n things at the same time.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

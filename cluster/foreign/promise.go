package foreign

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Promise is what the configuration of topics promises, the weakest of all: it decides what a loss is.
type Promise struct {
	MinISR  int  // min.insync.replicas
	Unclean bool // unclean.leader.election.enable
	// UncleanUntold: a topic has no such setting. Then it is false, as in Kafka: whoever does not have it elects otherwise.
	UncleanUntold bool
}

// ErrUntold is wrapped by the error of [Cluster.Promise] when the cluster does not tell its configuration.
var ErrUntold = errors.New("the cluster does not tell its configuration")

// leastRetention is how long a topic has to keep records: a record that was deleted looks like one that was lost.
const leastRetention = time.Hour

// Promise asks for the configuration of topics (DescribeConfigs), and refuses those that delete what a run writes.
func (k *Cluster) Promise(ctx context.Context, names []string) (Promise, error) {
	ctx, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	p := Promise{}
	all, err := k.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrUntold, err)
	}
	for _, name := range names {
		r, err := all.On(name, nil)
		if err == nil {
			err = r.Err
		}
		if err != nil {
			return p, fmt.Errorf("%w of topic %s: %w", ErrUntold, name, err)
		}
		settings := map[string]string{}
		for _, c := range r.Configs {
			settings[c.Key] = c.MaybeValue()
		}
		if err := keeps(name, settings); err != nil {
			return p, err
		}
		least, err := strconv.Atoi(settings[minISR])
		if err != nil {
			return p, fmt.Errorf("%w: %s of topic %s is %q", ErrUntold, minISR, name, settings[minISR])
		}
		unclean := false
		if value, ok := settings[uncleanElection]; !ok {
			p.UncleanUntold = true
		} else if unclean, err = strconv.ParseBool(value); err != nil {
			return p, fmt.Errorf("%w: %s of topic %s is %q", ErrUntold, uncleanElection, name, value)
		}
		if p.MinISR == 0 || least < p.MinISR {
			p.MinISR = least
		}
		p.Unclean = p.Unclean || unclean
	}
	return p, nil
}

// Kafka's names of settings.
const (
	minISR          = "min.insync.replicas"
	uncleanElection = "unclean.leader.election.enable"
	cleanup         = "cleanup.policy"
	retention       = "retention.ms"
)

// keeps says what in a topic's settings makes records go away.
func keeps(name string, settings map[string]string) error {
	if strings.Contains(settings[cleanup], "compact") {
		return fmt.Errorf("%w: topic %s has %s=%s: a run needs a log from which nothing goes away", ErrConfig, name, cleanup, settings[cleanup])
	}
	if ms, err := strconv.ParseInt(settings[retention], 10, 64); err == nil && ms >= 0 && ms < leastRetention.Milliseconds() {
		return fmt.Errorf("%w: topic %s has %s=%d: records that were deleted look like lost ones; let it keep them for %d or more",
			ErrConfig, name, retention, ms, leastRetention.Milliseconds())
	}
	return nil
}

package checker

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark/checker/history"
)

// Options say how to judge. The zero value judges by the contract in the history's header, with the default thresholds and budget.
type Options struct {
	// Contract replaces the one in the header.
	Contract *history.Contract
	// Enough is what must have happened for a run to pass.
	Enough Enough
	// Porcupine is what porcupine may be asked to judge.
	Porcupine Limits
	// Uncertified leaves out the certificates: the replay of the order that explains what holds, and the slices that show what does not. It
	// saves a fifth of the time and is for measuring.
	Uncertified bool
	// Progress, if not nil, is called from time to time while events are taken in, and before each partition is decided.
	Progress func(Progress)
}

// Enough are thresholds: a run with fewer of something is inconclusive. At least one acknowledged produce and one read, be it a final
// one, are always asked for, so that an empty history does not pass.
type Enough struct {
	Acked         int `json:"acked,omitempty"`
	Reads         int `json:"reads,omitempty"`
	Unknown       int `json:"unknown,omitempty"`
	LeaderChanges int `json:"leader_changes,omitempty"`
	Truncations   int `json:"truncations,omitempty"`
	Faults        int `json:"faults,omitempty"`
}

// Limits bound what porcupine, whose time is exponential in what is concurrent, is asked to judge. Beyond them the exact check
// decides alone, and the result says so.
type Limits struct {
	// Operations of one partition; 0 is 10,000, negative is none: porcupine does not run.
	Operations int
	// Clients that are truly concurrent, that is operations open at one moment; 0 is 5. Histories of at most a hundred operations
	// are judged up to 20.
	Clients int
	// Timeout for one partition; 0 is 10 s. What takes longer counts as not judged.
	Timeout time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Operations = cmp.Or(l.Operations, 10_000)
	l.Clients = cmp.Or(l.Clients, 5)
	l.Timeout = cmp.Or(l.Timeout, 10*time.Second)
	return l
}

// ErrContract says that a contract cannot be understood.
var ErrContract = errors.New("contract cannot be understood")

// complete fills in a contract's defaults and refuses what it does not know, lest a misspelt promise be judged as another.
func complete(c history.Contract) (history.Contract, Level, error) {
	c.Acks = cmp.Or(c.Acks, "all")
	switch c.Acks {
	case "-1":
		c.Acks = "all"
	case "all", "0", "1":
	default:
		return c, Broken, fmt.Errorf("%w: acks: %q is none of all, 1, 0", ErrContract, c.Acks)
	}
	c.MinISR = cmp.Or(c.MinISR, 1)
	if c.MinISR < 0 {
		return c, Broken, fmt.Errorf("%w: min.insync.replicas: %d is negative", ErrContract, c.MinISR)
	}
	if c.CrashBudget == "" {
		c.CrashBudget = history.BudgetISR
		if c.Protocol == "kip966" {
			c.CrashBudget = history.BudgetMinISR
		}
	}
	switch c.CrashBudget {
	case history.BudgetISR, history.BudgetMinISR, history.BudgetAll:
	default:
		return c, Broken, fmt.Errorf("%w: crash-budget: %q is none of %s, %s, %s", ErrContract, c.CrashBudget,
			history.BudgetISR, history.BudgetMinISR, history.BudgetAll)
	}
	bar, err := ParseLevel(c.Bar)
	if err != nil {
		return c, Broken, fmt.Errorf("%w: bar: %w", ErrContract, err)
	}
	c.Bar = bar.String()
	return c, bar, nil
}

// effectiveMinISR is min.insync.replicas bounded by the partition's replication factor, as Kafka bounds it.
func effectiveMinISR(c history.Contract, topics []history.Topic, partition string) int {
	i := strings.LastIndexByte(partition, '-')
	for _, t := range topics {
		if i > 0 && t.Name == partition[:i] && t.Replicas > 0 {
			return min(c.MinISR, t.Replicas)
		}
	}
	return c.MinISR
}

// Progress says how far a check has come.
type Progress struct {
	// Events is how many were taken in.
	Events int64
	// Partition is the one that is being decided, with its number of operations; "" while events are taken in.
	Partition  string
	Operations int
}

package checker

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/checker/history"
)

// ParseContract reads a contract as a flag gives it, "acks=all,min.insync.replicas=2": Kafka's names of the settings, and protocol,
// crash-budget and bar as they stand in a history's header. What is not named has its default; hyphens may stand for the spaces of
// a level. Errors are [ErrContract].
func ParseContract(s string) (history.Contract, error) {
	var c history.Contract
	seen := map[string]bool{}
	for field := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		switch {
		case !ok:
			return c, fmt.Errorf("%w: %q is not of the form key=value", ErrContract, field)
		case seen[key]:
			return c, fmt.Errorf("%w: %s stands twice", ErrContract, key)
		}
		seen[key] = true
		var err error
		switch key {
		case "acks":
			c.Acks = value
		case "min.insync.replicas":
			c.MinISR, err = strconv.Atoi(value)
		case "unclean.leader.election.enable":
			c.Unclean, err = strconv.ParseBool(value)
		case "protocol":
			c.Protocol = value
		case "crash-budget":
			c.CrashBudget = history.CrashBudget(value)
		case "bar":
			c.Bar = value
		default:
			return c, fmt.Errorf("%w: %q is none of acks, min.insync.replicas, unclean.leader.election.enable, protocol, crash-budget, bar",
				ErrContract, key)
		}
		if err != nil {
			return c, fmt.Errorf("%w: %s: %q is not what it takes", ErrContract, key, value)
		}
	}
	_, _, err := complete(c)
	return c, err
}

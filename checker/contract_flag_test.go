package checker_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

func TestAContractIsReadFromAFlag(t *testing.T) {
	c, err := checker.ParseContract("acks=all,min.insync.replicas=2, unclean.leader.election.enable=true,protocol=kip966,crash-budget=all,bar=monotonic-end")
	require.NoError(t, err)
	assert.Equal(t, history.Contract{Acks: "all", MinISR: 2, Unclean: true, Protocol: "kip966", CrashBudget: history.BudgetAll, Bar: "monotonic-end"}, c)

	for flag, want := range map[string]string{
		"":                       `contract cannot be understood: "" is not of the form key=value`,
		"acks":                   `contract cannot be understood: "acks" is not of the form key=value`,
		"acks=all,acks=1":        `contract cannot be understood: acks stands twice`,
		"min.insync.replicas=x":  `contract cannot be understood: min.insync.replicas: "x" is not what it takes`,
		"min.insync.replica=2":   `contract cannot be understood: "min.insync.replica" is none of acks, min.insync.replicas, unclean.leader.election.enable, protocol, crash-budget, bar`,
		"acks=2":                 `contract cannot be understood: acks: "2" is none of all, 1, 0`,
		"min.insync.replicas=-1": `contract cannot be understood: min.insync.replicas: -1 is negative`,
		"crash-budget=some":      `contract cannot be understood: crash-budget: "some" is none of isr, min-isr, all`,
	} {
		_, err := checker.ParseContract(flag)
		require.ErrorIs(t, err, checker.ErrContract, flag)
		assert.EqualError(t, err, want, flag)
	}
	_, err = checker.ParseContract("bar=serial")
	require.ErrorIs(t, err, checker.ErrLevel)
}

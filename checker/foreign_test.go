package checker_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
	"tidemark/checker/history"
)

func TestAHistoryThatAnotherToolWroteIsJudged(t *testing.T) {
	written, err := exec.Command("go", "run", filepath.Join("testdata", "foreign", "main.go")).Output()
	require.NoError(t, err)
	r, err := history.NewReader(strings.NewReader(string(written)))
	require.NoError(t, err)
	defer r.Close()
	contract, err := checker.ParseContract("acks=all,min.insync.replicas=2")
	require.NoError(t, err)
	res, err := checker.Check(context.Background(), r, checker.Options{Contract: &contract})
	require.NoError(t, err)
	assert.Equal(t, checker.Violation, res.Verdict)
	assert.Equal(t, []string{"lost-acked m99"}, res.Shorts())
	assert.Equal(t, 2, res.Contract.MinISR)
	require.Len(t, res.Slices, 1)
}

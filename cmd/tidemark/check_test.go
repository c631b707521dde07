package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/checker"
)

func TestAStoredHistoryIsCheckedByTheContractOfTheFlag(t *testing.T) {
	lost := filepath.Join("..", "..", "checker", "testdata", "B-acked-tail-never-read-and-on-no-replica.jsonl")
	draw := filepath.Join(t.TempDir(), "slices")
	for name, c := range map[string]struct {
		flags []string
		want  int
	}{
		"by the header's":             {nil, 1},
		"by one that promises less":   {[]string{"--contract", "acks=1"}, 0},
		"the same, strictly":          {[]string{"--contract", "acks=1", "--strict"}, 1},
		"by one that says nothing":    {[]string{"--contract", "acks=7"}, exitUsage},
		"by none":                     {[]string{"--contract", ""}, exitUsage},
		"with too much asked for":     {[]string{"--contract", "bar=agreement", "--min-acked", "1000"}, 2},
		"and drawn, whatever it says": {[]string{"--draw", draw}, 1},
	} {
		assert.Equal(t, c.want, run(context.Background(), append([]string{"check", lost}, c.flags...)), name)
	}
	pages, err := os.ReadDir(draw)
	require.NoError(t, err)
	require.Len(t, pages, 1)
	assert.Equal(t, "01-orders-0-lost-acked_a1.html", pages[0].Name())
}

func TestADisagreementOfTheCheckersIsReportedWithFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	err := reported(&checker.DisagreementError{Partition: "orders-0", Level: checker.CommittedLog, Exact: true}, dir)
	require.ErrorContains(t, err, "this is a bug of the checker; the files to report it with: "+filepath.Join(dir, "disagreement.json"))
	var usage usageError
	assert.False(t, errors.As(err, &usage), "it is the harness that failed")
	assert.FileExists(t, filepath.Join(dir, "disagreement.json"))
	require.NoError(t, reported(nil, dir))
}

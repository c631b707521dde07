package kafka

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
)

// The table of versions in node/README.md is what brokers speak, a row for each protocol.
func TestTheReadmesVersionsAreThoseBetweenNodes(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "<!-- versions -->\n")
	require.True(t, found)
	rows := strings.Split(after[:strings.Index(after, "\n\n")], "\n")
	require.Equal(t, "| rules | Fetch | ListOffsets | OffsetForLeaderEpoch | AlterPartition |", rows[0])

	word := regexp.MustCompile("`([^`]+)`")
	told := map[string]bool{}
	for _, row := range rows[2:] {
		words := word.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, words, row)
		var settings []string
		for _, w := range words[1:] {
			settings = append(settings, w[1])
		}
		set, err := rules.Parse(rules.Protocol(words[0][1]), nil, settings)
		require.NoError(t, err, row)
		v := versionsOf(set)
		assert.True(t, strings.HasSuffix(row, fmt.Sprintf("| %d | %d | %d | %d |", v.fetch, v.listOffsets, v.offsetForLeaderEpoch, v.alterPartition)),
			"%s: it is %+v", row, v)
		told[words[0][1]] = true
	}
	for _, p := range rules.Protocols() {
		assert.True(t, told[string(p)], "no row for %s", p)
	}
}

package rulestest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFirstPlaceWhereAStoryGoesAnotherWayIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.txt")
	text := "# Once.\n\nsay a\n----\na\n\nsay b\n----\nb\n\nsay c\n----\nc\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	saying := func(wrong string) Teller {
		return func(_ testing.TB, d *datadriven.TestData) string {
			if d.CmdArgs[0].Key >= wrong {
				return "something else\n"
			}
			return d.CmdArgs[0].Key + "\n"
		}
	}
	assert.Empty(t, firstDifference(t, file, saying("d")))
	assert.Equal(t, "story.txt:7", firstDifference(t, file, saying("b")))
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, text, string(after), "telling changes no story")
}

func TestRulesThatNobodyNoticesAreMissing(t *testing.T) {
	noticed := map[Change][]string{{Rule: "elr", Value: "off"}: {"elr.txt:4"}, {Rule: "broker-epoch", Value: "off"}: {"alter.txt:86"}}
	assert.Equal(t, []string{"fetch-fencing=off"}, missing([]string{"fetch-fencing", "elr"}, noticed), "a rule that is not asked for is not missed")
	assert.Empty(t, missing([]string{"elr", "broker-epoch"}, noticed))
}

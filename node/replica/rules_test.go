package replica_test

import (
	"testing"

	"tidemark/node/rules/rulestest"
)

// A rule that no story notices when it is gone is one of which nothing says what it is for. -v prints who notices which.
func TestEveryRuleThatIsTakenAwayIsNoticedByAStory(t *testing.T) {
	rulestest.NoticedByStories(t, ".", func(c rulestest.Change) rulestest.Teller { return (&story{wrong: c}).tell })
}

package dockertest_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"tidemark/cluster/docker/dockertest"
)

// verdict is a test that notes how it would have ended.
type verdict struct {
	testing.TB
	skipped, failed string
}

// ended leaves the test, as the real ones do by ending the goroutine.
type ended struct{}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	panic(ended{})
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	panic(ended{})
}

func TestWithoutAnEngineTestsSkipOrFailIfOneIsRequired(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "no.sock"))
	ask := func() *verdict {
		v := &verdict{TB: t}
		assert.PanicsWithValue(t, ended{}, func() { dockertest.Engine(v) })
		return v
	}

	t.Setenv(dockertest.Required, "")
	v := ask()
	assert.Contains(t, v.skipped, "needs containers: no docker engine answers")
	assert.Empty(t, v.failed)

	t.Setenv(dockertest.Required, "1")
	v = ask()
	assert.Contains(t, v.failed, "TIDEMARK_REQUIRE_DOCKER is 1, and no docker engine answers")
	assert.Empty(t, v.skipped)
}

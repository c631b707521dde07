package image_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/image"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// executable writes a file that stands in for one. What is in it matters only to whoever runs it.
func executable(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	return path
}

// removeLater removes an image at the end of the test.
func removeLater(t testing.TB, c *client.Client, ref string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := c.ImageRemove(context.Background(), ref, dockerimage.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("remove image %s: %v", ref, err)
		}
	})
}

func TestAnImageIsMadeOnceForEachContent(t *testing.T) {
	c := dockertest.Engine(t)
	ensure := func(content string) (ref, id string) {
		ref, err := image.Ensure(t.Context(), c, executable(t, content), runtime.GOARCH)
		require.NoError(t, err)
		removeLater(t, c, ref)
		info, err := c.ImageInspect(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, []string{"/tidemark"}, info.Config.Entrypoint)
		assert.Contains(t, info.Config.Labels, image.Label)
		assert.Equal(t, "linux", info.Os)
		assert.Equal(t, runtime.GOARCH, info.Architecture)
		assert.Len(t, info.RootFS.Layers, 1)
		return ref, info.ID
	}
	first, firstID := ensure("one " + t.Name())
	again, againID := ensure("one " + t.Name())
	other, otherID := ensure("two " + t.Name())

	assert.True(t, strings.HasPrefix(first, image.Repository+":"), first)
	assert.Equal(t, first, again, "the same content, from another file")
	assert.Equal(t, firstID, againID)
	assert.NotEqual(t, first, other)
	assert.NotEqual(t, firstID, otherID)
}

func TestManyMayAskForTheSameImageAtOnce(t *testing.T) {
	c := dockertest.Engine(t)
	path := executable(t, t.Name())
	refs := make([]string, 8)
	var wg sync.WaitGroup
	for i := range refs {
		wg.Go(func() {
			var err error
			refs[i], err = image.Ensure(t.Context(), c, path, runtime.GOARCH)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	removeLater(t, c, refs[0])
	for _, ref := range refs {
		assert.Equal(t, refs[0], ref)
	}
	info, err := c.ImageInspect(t.Context(), refs[0])
	require.NoError(t, err)
	assert.Equal(t, []string{refs[0]}, info.RepoTags)
}

func TestPruneLeavesWhatAContainerUses(t *testing.T) {
	c := dockertest.Engine(t)
	used, err := image.Ensure(t.Context(), c, executable(t, "used "+t.Name()), runtime.GOARCH)
	require.NoError(t, err)
	removeLater(t, c, used)
	made, err := c.ContainerCreate(t.Context(), &container.Config{Image: used}, nil, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, c.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{}))
	}()
	unused, err := image.Ensure(t.Context(), c, executable(t, "unused "+t.Name()), runtime.GOARCH)
	require.NoError(t, err)
	removeLater(t, c, unused)

	// Other tests' images must stay, so the engine that is pruned has only these two.
	removed, err := image.Prune(t.Context(), only{c, []string{used, unused}})
	require.NoError(t, err)
	assert.Equal(t, []string{unused}, removed)
	_, err = c.ImageInspect(t.Context(), used)
	assert.NoError(t, err)
	_, err = c.ImageInspect(t.Context(), unused)
	assert.True(t, errdefs.IsNotFound(err), "%v", err)
}

// only is an engine of which some images are seen.
type only struct {
	client.ImageAPIClient
	refs []string
}

func (o only) ImageList(ctx context.Context, options dockerimage.ListOptions) ([]dockerimage.Summary, error) {
	all, err := o.ImageAPIClient.ImageList(ctx, options)
	var seen []dockerimage.Summary
	for _, i := range all {
		for _, ref := range o.refs {
			if len(i.RepoTags) == 1 && i.RepoTags[0] == ref {
				seen = append(seen, i)
			}
		}
	}
	return seen, err
}

// refusing is an engine that takes an archive and then says what is wrong with it.
type refusing struct {
	client.ImageAPIClient
	answer string
	loaded *bytes.Buffer
}

func (refusing) ImageInspect(context.Context, string, ...client.ImageInspectOption) (dockerimage.InspectResponse, error) {
	return dockerimage.InspectResponse{}, errdefs.ErrNotFound
}

func (r refusing) ImageLoad(_ context.Context, in io.Reader, _ ...client.ImageLoadOption) (dockerimage.LoadResponse, error) {
	_, err := io.CopyN(r.loaded, in, 512) // it gives up after the first block
	return dockerimage.LoadResponse{Body: io.NopCloser(strings.NewReader(r.answer))}, err
}

func TestWhatTheEngineSaysAboutAnArchiveIsHeard(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"an error in the stream", `{"stream":"Loading"}` + "\n" + `{"error":"no space left on device"}`, "no space left on device; make room where the engine keeps its images"},
		{"a stream that breaks off", `{"stream":"Loa`, "unexpected EOF"},
		{"an image that is not there afterwards", `{"stream":"Loaded image"}`, "the engine took it, but"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := refusing{answer: test.answer, loaded: &bytes.Buffer{}}
			_, err := image.Ensure(t.Context(), r, executable(t, t.Name()), "amd64")
			require.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, "load image tidemark:")
		})
	}
	_, err := image.Ensure(t.Context(), refusing{}, "/no/such/tidemark", "amd64")
	assert.ErrorContains(t, err, "read the executable for the image")
}

func BenchmarkEnsure(b *testing.B) {
	c := dockertest.Engine(b)
	content := make([]byte, 25<<20) // about what tidemark is
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	b.Run("a new image", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			content[0]++
			path := executable(b, string(content))
			b.StartTimer()
			ref, err := image.Ensure(b.Context(), c, path, runtime.GOARCH)
			require.NoError(b, err)
			b.StopTimer()
			_, err = c.ImageRemove(b.Context(), ref, dockerimage.RemoveOptions{})
			require.NoError(b, err)
			b.StartTimer()
		}
	})
	b.Run("one that is there", func(b *testing.B) {
		path := executable(b, string(content))
		ref, err := image.Ensure(b.Context(), c, path, runtime.GOARCH)
		require.NoError(b, err)
		removeLater(b, c, ref)
		for b.Loop() {
			_, err := image.Ensure(b.Context(), c, path, runtime.GOARCH)
			require.NoError(b, err)
		}
	})
}

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

const (
	// Label marks every image that was made here; its value begins the hash of the image's layer.
	Label = "tidemark.image"
	// Repository is the name that these images have before the colon. It has no registry and is never pushed.
	Repository = "tidemark"
)

// Ensure makes sure that the engine has the image of the executable at path binary and returns the image's name, such as
// tidemark:0123456789abcdef. arch is the engine's architecture in Go's words, which is what the executable must be made
// for. Any number of processes may ask for the same image at the same time.
func Ensure(ctx context.Context, c client.ImageAPIClient, binary, arch string) (string, error) {
	a, err := newArchive(binary, arch)
	if err != nil {
		return "", err
	}
	switch _, err := c.ImageInspect(ctx, a.ref()); {
	case err == nil:
		return a.ref(), nil
	case !errdefs.IsNotFound(err):
		return "", fmt.Errorf("look for image %s: %w", a.ref(), err)
	}
	if err := load(ctx, c, a); err != nil {
		err = fmt.Errorf("load image %s: %w", a.ref(), err)
		if strings.Contains(err.Error(), "no space left on device") {
			err = fmt.Errorf("%w; make room where the engine keeps its images (docker system df)", err)
		}
		return "", err
	}
	// The engine's answer is text for people. That the image is there is what counts.
	if _, err := c.ImageInspect(ctx, a.ref()); err != nil {
		return "", fmt.Errorf("load image %s: the engine took it, but: %w", a.ref(), err)
	}
	return a.ref(), nil
}

func load(ctx context.Context, c client.ImageAPIClient, a *archive) error {
	r, w := io.Pipe()
	defer r.Close() // ends the writer if the engine did not read all of it
	go func() { w.CloseWithError(a.writeTo(w)) }()

	answer, err := c.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	// The status is 200 before the engine has looked at the archive; what is wrong with it comes in the stream.
	for d := json.NewDecoder(answer.Body); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}

// Prune removes the images made here that no container uses, and returns their names, sorted. Each change of the
// executable leaves one image behind (some 25 MB), and nothing else removes them: another process may be about to start
// nodes from one, so this is for a person to ask for.
func Prune(ctx context.Context, c client.ImageAPIClient) ([]string, error) {
	images, err := c.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", Label))})
	if err != nil {
		return nil, fmt.Errorf("list images labelled %s: %w", Label, err)
	}
	var removed []string
	var failed []error
	for _, i := range images {
		names := i.RepoTags
		if len(names) == 0 {
			names = []string{i.ID}
		}
		for _, name := range names {
			switch _, err := c.ImageRemove(ctx, name, image.RemoveOptions{}); {
			case err == nil:
				removed = append(removed, name)
			case errdefs.IsNotFound(err), errdefs.IsConflict(err): // gone meanwhile, or a container uses it
			default:
				failed = append(failed, fmt.Errorf("remove image %s: %w", name, err))
			}
		}
	}
	slices.Sort(removed)
	return removed, errors.Join(failed...)
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// attachment holds a container's standard input and passes on its output. The container's input ends with the
// attachment, and so also when this process dies.
type attachment struct {
	conn net.Conn
	done chan struct{} // closed when the output has ended
	err  error         // why it ended, set before done; nil for the container's end
}

// interactive is how a container must be made to be attached to.
func interactive(c *container.Config) {
	c.OpenStdin, c.StdinOnce = true, true
	c.AttachStdin, c.AttachStdout, c.AttachStderr = true, true, true
}

// attach connects to a container that is not started yet, so that nothing of its output is missed.
func attach(ctx context.Context, c client.ContainerAPIClient, id string, stdout, stderr io.Writer) (*attachment, error) {
	h, err := c.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attach to container %.12s: %w", id, err)
	}
	a := &attachment{conn: h.Conn, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_, a.err = stdcopy.StdCopy(stdout, stderr, h.Reader)
	}()
	return a, nil
}

// close ends the container's standard input and waits until its output has been passed on as far as it came. Closing
// again does nothing.
func (a *attachment) close() error {
	err := a.conn.Close()
	<-a.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// stream is the attachment of a container that talks over its standard input and output.
type stream struct {
	*attachment
	*io.PipeReader
}

// attachStream returns the container's output to read and its input to write; stderr gets the rest.
func attachStream(ctx context.Context, c client.ContainerAPIClient, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	r, w := io.Pipe()
	a, err := attach(ctx, c, id, w, stderr)
	if err != nil {
		return nil, err
	}
	s := &stream{attachment: a, PipeReader: r}
	go func() {
		<-a.done
		w.CloseWithError(a.err) // nil means io.EOF
	}()
	return s, nil
}

// Write sends to the container's standard input.
func (s *stream) Write(b []byte) (int, error) { return s.conn.Write(b) }

// Close ends both directions.
func (s *stream) Close() error {
	s.PipeReader.Close() // whoever passes on output must not wait for a reader
	return s.attachment.close()
}

package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/cluster/binary"
	"tidemark/cluster/docker/dockertest"
	"tidemark/cluster/docker/engine"
	nodeimage "tidemark/cluster/docker/image"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := standIn.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// standIn is the image of testdata/node, which all tests share.
var standIn standInImage

type standInImage struct {
	once  sync.Once
	ref   string
	cache string
	err   error
}

// image builds the stand-in on first use.
func (s *standInImage) image(t testing.TB, c *client.Client) string {
	t.Helper()
	s.once.Do(func() {
		if s.cache, s.err = os.MkdirTemp("", "tidemark-docker-test-"); s.err != nil {
			return
		}
		var arch, path string
		if arch, s.err = engine.Architecture(context.Background(), c); s.err != nil {
			return
		}
		path, s.err = binary.Find(context.Background(), binary.Options{
			Static:  true,
			Arch:    arch,
			Package: "tidemark/cluster/docker/testdata/node",
			Cache:   s.cache,
		})
		if s.err == nil {
			s.ref, s.err = nodeimage.Ensure(context.Background(), c, path, arch)
		}
	})
	require.NoError(t, s.err)
	return s.ref
}

func (s *standInImage) remove() error {
	if s.cache == "" {
		return nil
	}
	if err := os.RemoveAll(s.cache); err != nil || s.ref == "" {
		return err
	}
	c, err := engine.Connect(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ImageRemove(context.Background(), s.ref, image.RemoveOptions{})
	return err
}

// field is a run with a network, on which a test puts pairs of containers. Nothing of it is left after the test, which
// is checked.
type field struct {
	t       testing.TB
	c       *client.Client
	run     string
	network *runNetwork
	image   string
	lives   atomic.Int32
}

func newField(t testing.TB) *field {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	f := &field{t: t, c: dockertest.Engine(t), run: fmt.Sprintf("test-%d-%s", os.Getpid(), name)}
	f.image = standIn.image(t, f.c)
	t.Cleanup(func() {
		if _, err := engine.Down(context.Background(), f.c, f.run); err != nil {
			t.Errorf("clean up: %v", err)
		}
		dockertest.NothingLeft(t, f.c, f.run)
	})
	var err error
	f.network, err = createNetwork(t.Context(), f.c, f.run)
	require.NoError(t, err)
	return f
}

const echoPort = 9092

func (f *field) sandbox(name string) *sandboxContainer {
	f.t.Helper()
	s, err := startSandbox(f.t.Context(), f.c, sandboxConfig{
		run:     f.run,
		node:    name,
		image:   f.image,
		command: []string{"sandbox"},
		network: f.network,
		publish: []uint16{echoPort},
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		if err := s.remove(context.Background(), f.c); err != nil {
			f.t.Errorf("remove the sandbox of %s: %v", name, err)
		}
	})
	return s
}

// echo starts a node that echoes, in the sandbox's network, and returns when it listens.
func (f *field) echo(name string, s *sandboxContainer, output *listeningWriter) *nodeContainer {
	f.t.Helper()
	n, err := startNode(f.t.Context(), f.c, f.node(name, s, output, "echo", fmt.Sprintf(":%d", echoPort)))
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		if err := n.remove(context.Background()); err != nil {
			f.t.Errorf("remove %s: %v", name, err)
		}
	})
	output.waitFor(f.t, fmt.Sprintf("listening on :%d\n", echoPort))
	return n
}

func (f *field) node(name string, s *sandboxContainer, output io.Writer, command ...string) nodeConfig {
	return nodeConfig{
		run:     f.run,
		node:    name,
		life:    int(f.lives.Add(1)),
		image:   f.image,
		command: command,
		sandbox: s,
		user:    "1000:1000",
		stdout:  output,
		stderr:  output,
	}
}

// listeningWriter keeps a node's output and tells when a line that was waited for has come.
type listeningWriter struct {
	mu     sync.Mutex
	text   []byte
	change chan struct{}
}

func newOutput() *listeningWriter { return &listeningWriter{change: make(chan struct{}, 1)} }

func (w *listeningWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.text = append(w.text, b...)
	w.mu.Unlock()
	select {
	case w.change <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (w *listeningWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// waitFor returns when the whole output so far is text.
func (w *listeningWriter) waitFor(t testing.TB, text string) {
	t.Helper()
	for w.String() != text {
		select {
		case <-w.change:
		case <-t.Context().Done():
			require.FailNow(t, "the output did not come", "want %q, have %q", text, w.String())
		}
	}
}

// dial connects to a node's own address, past the engine's proxy.
func dial(t testing.TB, s *sandboxContainer) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp4", net.JoinHostPort(s.addr.String(), fmt.Sprint(echoPort)))
	require.NoError(t, err)
	return conn
}

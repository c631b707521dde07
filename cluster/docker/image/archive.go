package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// inside is the executable's name in the image's root folder.
const inside = "tidemark"

// archive is a docker archive of one image with one layer that holds one file. Nothing in it depends on when, where or
// by whom it is made.
type archive struct {
	layer       []byte // a tar file with the executable
	layerDigest string // its SHA-256 in hex
	config      []byte // the image's configuration
	digest      string // its SHA-256 in hex: the image's id
}

// The parts of the image specification that an image like this needs
// (https://github.com/moby/docker-image-spec).
type (
	configFile struct {
		Architecture string          `json:"architecture"`
		OS           string          `json:"os"`
		Created      time.Time       `json:"created"`
		Config       containerConfig `json:"config"`
		RootFS       rootFS          `json:"rootfs"`
	}
	containerConfig struct {
		Entrypoint []string
		Labels     map[string]string
		WorkingDir string
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	manifestEntry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
)

func newArchive(binary, arch string) (*archive, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the executable for the image: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := add(w, inside, 0o755, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make the image's layer: %w", err)
	}
	a := &archive{layer: layer.Bytes(), layerDigest: digest(layer.Bytes())}
	a.config, err = json.Marshal(configFile{
		Architecture: arch,
		OS:           "linux",
		Created:      time.Unix(0, 0).UTC(), // the real time would make every image another one
		Config: containerConfig{
			Entrypoint: []string{"/" + inside},
			Labels:     map[string]string{Label: a.layerDigest[:16]},
			WorkingDir: "/",
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + a.layerDigest}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the image's configuration: %w", err)
	}
	a.digest = digest(a.config)
	return a, nil
}

// ref is the image's name. The configuration's hash covers the layer's, and so everything.
func (a *archive) ref() string {
	return Repository + ":" + a.digest[:16]
}

// writeTo writes the archive that "docker load" reads.
func (a *archive) writeTo(out io.Writer) error {
	configName, layerName := a.digest+".json", a.layerDigest+"/layer.tar"
	manifest, err := json.Marshal([]manifestEntry{{Config: configName, RepoTags: []string{a.ref()}, Layers: []string{layerName}}})
	if err != nil {
		return fmt.Errorf("make the image's manifest: %w", err)
	}
	w := tar.NewWriter(out)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {configName, a.config}, {layerName, a.layer}} {
		if err := add(w, file.name, 0o644, file.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return nil
}

func add(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return fmt.Errorf("write %s of the image: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("write %s of the image: %w", name, err)
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

package checker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Draw writes an HTML page, which needs no network, of the operations as intervals, with what porcupine could put in order of them.
func (s *Slice) Draw(w io.Writer) error {
	if s.cut == nil {
		return fmt.Errorf("checker: slice of %s was read from a file and has no operations to draw", s.Finding)
	}
	m := s.cut.model()
	_, info := porcupine.CheckOperationsVerbose(m, s.cut.feed(), sliceTimeout)
	var notes []porcupine.Annotation
	for _, o := range s.cut.ops {
		if slices.Contains(s.Core, o.seq) && o.out != failed {
			notes = append(notes, porcupine.Annotation{Tag: fmt.Sprintf("contradiction %d", len(notes)+1), Start: o.call, End: s.cut.end(o),
				Description: o.text, Details: s.Finding, BackgroundColor: "#f4c7c3"})
		}
	}
	info.AddAnnotations(notes)
	return porcupine.Visualize(m, info, w)
}

// DrawSlices draws all slices into a folder, which is made, a page each, and returns the names of the files.
func (r *Result) DrawSlices(dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("draw slices: %w", err)
	}
	for i := range r.Slices {
		s := &r.Slices[i]
		var page bytes.Buffer
		if err := s.Draw(&page); err != nil {
			return files, err
		}
		name := fmt.Sprintf("%02d-%s-%s.html", i+1, s.Partition, strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '.' {
				return c
			}
			return '_'
		}, s.Finding))
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[i], page.Bytes(), 0o644); err != nil {
			return files, fmt.Errorf("draw slices: %w", err)
		}
	}
	return files, nil
}

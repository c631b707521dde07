package docker

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"

	"tidemark/node"
)

// lines takes a node's standard output apart: it is an io.Writer that calls with each line that is one of a node's. What
// is no such line is passed over, and so is the half of one that a killed node leaves.
type lines struct {
	call    func(node.Line)
	partial []byte
}

func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.partial = append(l.partial, b...)
			return n, nil
		}
		whole := b[:i]
		if len(l.partial) > 0 {
			whole = append(l.partial, whole...)
		}
		var line node.Line
		if json.Unmarshal(whole, &line) == nil {
			l.call(line)
		}
		l.partial, b = l.partial[:0], b[i+1:]
	}
}

// lastLine is the last thing that a node wrote to its log, for an error.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "it wrote nothing to " + path
	}
	last := lineOf(data)
	if last == "" {
		return "it wrote nothing to " + path
	}
	return last + " (" + path + ")"
}

// lineOf is the last line of a text that is not empty.
func lineOf(text []byte) string {
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return all[len(all)-1]
}

// lastWords keeps the end of what a container prints, for an error.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// longest is as much of it as an error can use.
const longest = 1 << 10

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-longest):]
	return len(b), nil
}

// String is the last line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := lineOf(w.text); last != "" {
		return last
	}
	return "it said nothing"
}

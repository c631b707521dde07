package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// node/README.md shows commands in blocks of sh. Each is run, in simulation, and has to end as the comment behind it says; with
// exit code 0 if it says nothing.
func TestTheCommandsThatExplainTheProtocolRun(t *testing.T) {
	text, err := os.ReadFile("../../node/README.md")
	require.NoError(t, err)
	var commands []string
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside && line != "":
			commands = append(commands, line)
			require.True(t, strings.HasPrefix(line, "tidemark "), "line %d: %s", i+1, line)
		}
	}
	require.NotEmpty(t, commands)
	for _, line := range commands {
		t.Run(line, func(t *testing.T) {
			command, comment, _ := strings.Cut(line, "#")
			want := 0
			if says, ok := strings.CutPrefix(strings.TrimSpace(comment), "exit code "); ok {
				digits, _, _ := strings.Cut(says, ":")
				want, err = strconv.Atoi(digits)
				require.NoError(t, err)
			}
			args := strings.Fields(command)[1:]
			if args[0] == "reproduce" {
				args = append(args, "--on", "sim", "--results", t.TempDir())
			}
			code, out := execute(t.Context(), args)
			assert.Equal(t, want, code, out)
		})
	}
}

// execute runs a command line in this process.
func execute(ctx context.Context, args []string) (code int, out string) {
	var buf bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&buf)
	root.SetErr(&buf)
	err := root.ExecuteContext(ctx)
	var exit exitCode
	var usage usageError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		code = int(exit)
	case errors.As(err, &usage):
		code = exitUsage
	default:
		code = exitInternal
	}
	if err != nil {
		fmt.Fprintln(&buf, err)
	}
	return code, buf.String()
}

// Command node stands in for tidemark in the tests of package docker: it can be a sandbox, and a node that echoes.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"tidemark/cluster/docker/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "sandbox":
		return sandbox.Serve(ctx, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "echo":
		return echo(ctx, args[1])
	}
	return fmt.Errorf("usage: node sandbox | node echo ADDRESS, not %q", args)
}

// echo answers every line with the same line, until it is told to end or its standard input ends.
func echo(ctx context.Context, address string) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", address)
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for s := bufio.NewScanner(conn); s.Scan(); {
					fmt.Fprintln(conn, s.Text())
				}
			}()
		}
	}()
	select {
	case <-ctx.Done():
		fmt.Println("told to end")
	case <-orphaned:
		fmt.Println("left alone")
	}
	return nil
}

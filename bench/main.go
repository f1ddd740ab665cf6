package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command; it returns the exit code: 1 if measuring failed, 2 for
// wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role := os.Getenv(roleEnv); role != "" {
		return report(stderr, play(ctx, role, stdout))
	}
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	progress := func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, format+"\n", args...) }
	t, err := measure(ctx, o, progress)
	// What was measured before an error is still worth reading.
	if werr := t.write(stdout, o.JSON); err == nil {
		err = werr
	}
	return report(stderr, err)
}

// report prints an error and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "bench:", err)
	return 1
}

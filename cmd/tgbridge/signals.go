package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// stopRequest is the cause with which a context of untilSignal ends.
type stopRequest struct{ signal os.Signal }

func (s stopRequest) Error() string { return "asked to stop by signal: " + s.signal.String() }

// untilSignal returns a context for a member. It ends, with a stopRequest as
// its cause, at the first SIGINT or SIGTERM: time to stop gracefully. The
// second ends the process at once. Call stop when the member has ended.
//
// Until then a closed stdout or stderr is an error of the write, not the end
// of the process (SIGPIPE): a leader must not die of the reader of its log.
func (c *cli) untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	stops := make(chan os.Signal, 2)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	pipes := make(chan os.Signal, 1) // taken note of and dropped; ignoring would be inherited by commands
	signal.Notify(pipes, syscall.SIGPIPE)

	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case first := <-stops:
			cancel(stopRequest{first})
		case <-ended:
			return
		}
		select {
		case <-stops:
			fmt.Fprintln(c.stderr, "tgbridge: second signal: ending at once")
			c.exit(exitFailed)
		case <-ended:
		}
	}()
	return ctx, func() {
		signal.Stop(stops)
		signal.Stop(pipes)
		close(ended)
		<-done
		cancel(nil)
	}
}

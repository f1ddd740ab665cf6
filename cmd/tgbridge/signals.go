package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopRequest is the cause with which a context of untilSignal ends.
type stopRequest struct{ signal os.Signal }

func (s stopRequest) Error() string { return "asked to stop by signal: " + s.signal.String() }

// echoWithin is how soon after the first signal the same one is its echo, not a
// second: timeout(1) sends one to the process and one to its group, and what
// runs in a terminal gets Ctrl-C from there and again from a parent that passes
// it on.
const echoWithin = 100 * time.Millisecond

// untilSignal returns a context for a member. It ends, with a stopRequest as
// its cause, at the first SIGINT, SIGTERM or SIGHUP (the terminal was closed,
// unless nohup says not to mind): time to stop gracefully. The second SIGINT or
// SIGTERM ends the process at once. Closed pipes are survived until then. Call
// stop when the member has ended.
func (c *cli) untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	stops := make(chan os.Signal, 2)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(stops, syscall.SIGHUP)
	}
	unsurvive := surviveClosedPipes()

	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var first os.Signal
		select {
		case first = <-stops:
			cancel(stopRequest{first})
		case <-ended:
			return
		}
		for began := time.Now(); ; {
			select {
			case second := <-stops:
				// A terminal that is closed sends SIGHUP more than once.
				if second == syscall.SIGHUP || second == first && time.Since(began) < echoWithin {
					continue
				}
				fmt.Fprintln(c.stderr, "tgbridge: second signal: ending at once")
				if c.beforeExit != nil {
					c.beforeExit()
				}
				c.exit(exitFailed)
				return
			case <-ended:
				return
			}
		}
	}()
	// The signals stay caught: one that comes while the process ends must not
	// change its exit code.
	return ctx, func() {
		unsurvive()
		close(ended)
		<-done
		cancel(nil)
	}
}

// surviveClosedPipes makes a closed stdout or stderr an error of the write, not
// the end of the process (SIGPIPE), until stop is called: a leader must not die
// of the reader of its log.
func surviveClosedPipes() (stop func()) {
	pipes := make(chan os.Signal, 1) // taken note of and dropped; ignoring would be inherited by commands
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// heedHangup undoes for a test, and for what it starts, that SIGHUP is ignored,
// as it is under nohup.
func heedHangup(t *testing.T) {
	t.Helper()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

func TestSignals(t *testing.T) {
	heedHangup(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		var stderr bytes.Buffer
		codes := make(chan int, 1)
		c := newCLI(strings.NewReader(""), io.Discard, &stderr, nil, func(code int) { codes <- code })
		ctx, stop := c.untilSignal(t.Context())
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if want := "asked to stop by signal: " + sig.String(); context.Cause(ctx).Error() != want {
			t.Errorf("cause %q, want %q", context.Cause(ctx), want)
		}
		if err := syscall.Kill(os.Getpid(), sig); err != nil { // its echo
			t.Fatal(err)
		}
		time.Sleep(3 * echoWithin / 2)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil { // of a terminal that is closed after Ctrl-C
			t.Fatal(err)
		}
		time.Sleep(echoWithin / 2)
		if len(codes) > 0 {
			t.Error("the echo of the first signal, or SIGHUP, ended the process")
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := <-codes; code != exitFailed {
			t.Errorf("the second signal ends with %d, want %d", code, exitFailed)
		}
		stop()
		if want := "tgbridge: second signal: ending at once\n"; stderr.String() != want {
			t.Errorf("stderr %q, want %q", stderr.String(), want)
		}
	}
}

func TestStopWithoutSignal(t *testing.T) {
	c, _ := testCLI()
	ctx, stop := c.untilSignal(t.Context())
	stop()
	if ctx.Err() == nil {
		t.Error("the context lives on")
	}
}

// TestLogReaderMayDie is S12: a log that cannot be written stops no member.
func TestLogReaderMayDie(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args[0] = "closed-pipes"
	var readers []io.Closer
	for _, pipe := range []func() (io.ReadCloser, error){cmd.StdoutPipe, cmd.StderrPipe} {
		reader, err := pipe()
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, reader)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, end := range append(readers, stdin) {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("ended with %v, want exit status 7", cmd.ProcessState)
	}
}

//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These are S12: whoever reads a member's stderr decides nothing about the
// member.

// startInto starts a member whose stdout and stderr are the pipe's writing end,
// which is the member's alone from then on.
func (f *fleet) startInto(write *os.File, args ...string) *process {
	f.t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@" >&3 2>&3 3>&-`, program(f.t)}, args...)...)
	cmd.ExtraFiles = []*os.File{write}
	p := f.startCommand("m1", cmd)
	if err := write.Close(); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// pipe returns both ends of a pipe.
func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	return read, write
}

// fullPipe returns the writing end of a pipe that nobody reads and that takes no
// more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	_, write := pipe(t)
	for { // as much as fits at once, then what still does
		if err := write.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := write.Write(make([]byte, 4096)); errors.Is(err, os.ErrDeadlineExceeded) {
			return write
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestS12BlockedStderr: from its first line on nobody reads the log.
func TestS12BlockedStderr(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.startInto(fullPipe(t), "exec", "--", "sh")
	f.waitMembers(1)
	f.say(42, "exit 1") // logs a warning
	f.say(42, "echo on")
	f.wantSent(42, sorry, "on")
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if e, held := f.leader(); held {
		t.Errorf("%s still holds the lease", e.Name)
	}
}

// TestS12BlockedStderrSecondSignal: the second signal ends at once here, too.
func TestS12BlockedStderrSecondSignal(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	f := newFleet(t, "BEGUN="+begun)
	p := f.startInto(fullPipe(t), "exec", "--", "sh", "-c", `trap '' TERM; echo x >>"$BEGUN"; while :; do sleep 0.1; done`)
	f.say(42, "x")
	waitFile(t, begun, 1)
	p.signalTwice(t, syscall.SIGTERM, 2*time.Second) // the first signal leaves the command 4.5 s
}

// TestS12StderrReaderGone: the reader is gone before the first line. With one
// processor the last line is written late, when the member has ended.
func TestS12StderrReaderGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "GOMAXPROCS=1")
	read, write := pipe(t)
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	p := f.startInto(write, "echo")
	f.waitMembers(1)
	f.say(42, "hello")
	if got := f.waitSent(42, 1)[0]; !strings.HasPrefix(got, "hello") {
		t.Errorf("sent %q", got)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

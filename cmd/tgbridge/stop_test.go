//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestF12StopInAPoll: told to stop in the middle of a long poll, a member is gone
// in less than two seconds, with exit code 0.
func TestF12StopInAPoll(t *testing.T) {
	t.Parallel()
	heedHangup(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			leader, follower := f.led(2, "echo")
			f.waitCall("getupdates")
			for _, p := range []*process{follower, leader} {
				began := time.Now()
				p.signal(t, signal)
				if code := p.wait(t, 10*time.Second); code != 0 {
					t.Errorf("%s: exit code %d", p.name, code)
				}
				if took := time.Since(began); took > 5*time.Second { // 2 s on a machine that does nothing else
					t.Errorf("%s: took %v", p.name, took)
				}
				if text := p.said.String(); !strings.Contains(text, `"asked to stop by signal: `) || !strings.Contains(text, `"stopped"`) {
					t.Errorf("%s wrote %s", p.name, text)
				}
			}
			if e, held := f.leader(); held {
				t.Errorf("%s still holds the lease", e.Name)
			}
		})
	}
}

// signalTwice signals a member that has work in hand: it outlives the first one,
// and the second ends it within so long.
func (p *process) signalTwice(t *testing.T, signal syscall.Signal, within time.Duration) {
	t.Helper()
	p.signal(t, signal)
	select {
	case <-p.gone:
		t.Fatal("gone after the first signal")
	case <-time.After(3 * echoWithin):
	}
	began := time.Now()
	p.signal(t, signal)
	if code := p.wait(t, 5*time.Second); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > within {
		t.Errorf("took %v", took)
	}
}

// TestSecondSignal ends a member at once, although a command is under way.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	f := newFleet(t, "BEGUN="+begun)
	p, _ := f.led(1, "exec", "--", "sh", "-c", `trap '' TERM; echo x >>"$BEGUN"; while :; do sleep 0.1; done`)
	f.say(42, "x")
	waitFile(t, begun, 1)
	p.signalTwice(t, syscall.SIGINT, 3*time.Second)
	if !strings.HasSuffix(p.said.String(), "tgbridge: second signal: ending at once\n") {
		t.Errorf("wrote %s", p.said)
	}
}

// TestLeaderOutlivesItsLogReader: the other end of stdout and stderr is closed,
// and the leader leads on; its commands still get SIGPIPE.
func TestLeaderOutlivesItsLogReader(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec "$0" exec -- sh >&3 2>&3 3>&-`, program(t))
	cmd.ExtraFiles = []*os.File{write}
	p := f.startCommand("m1", cmd)
	_ = write.Close()
	f.waitMembers(1)
	_ = read.Close()
	f.say(42, "yes | head -n 1")
	if got := f.waitSent(42, 1)[0]; got != "y" {
		t.Errorf("sent %q", got)
	}
	f.say(42, "exit 1") // logs a warning
	f.say(42, "echo on")
	f.wantSent(42, "y", sorry, "on")
	if e, _ := f.leader(); e.Epoch != 1 || e.PID != p.pid() {
		t.Errorf("pid %d leads, term %d", e.PID, e.Epoch)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestNohup: SIGHUP stops no member that was started with it ignored.
func TestNohup(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.startCommand("m1", exec.Command("sh", "-c", `trap '' HUP; exec "$0" exec -- cat`, program(t)))
	f.waitMembers(1)
	p.signal(t, syscall.SIGHUP)
	f.say(42, "on")
	f.wantSent(42, "on")
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if said := p.said.String(); strings.Contains(said, "signal: hangup") {
		t.Errorf("wrote %s", said)
	}
}

// TestF53FailureAfterTheLease: what fails when the lease is taken already ends
// the member with a code, and the next start leads within 3 s.
func TestF53FailureAfterTheLease(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p, _ := f.led(1, "echo")
	f.say(42, "hello")
	f.waitSent(42, 1)
	p.signal(t, syscall.SIGTERM)
	p.wait(t, 5*time.Second)
	journal := filepath.Join(f.dir(), "journal")
	aside := filepath.Join(t.TempDir(), "journal")
	if err := os.Rename(filepath.Join(journal, "1"), aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(journal, "1"), nil, 0o600); err != nil { // not a directory
		t.Fatal(err)
	}
	r := f.run("echo")
	r.wants(t, 4, journal)
	if r.took > 10*time.Second {
		t.Errorf("took %v", r.took)
	}
	if e, held := f.leader(); held {
		t.Errorf("term %d is still held", e.Epoch)
	}
	for _, name := range []string{"1", "2"} {
		_ = os.Remove(filepath.Join(journal, name))
	}
	began := time.Now()
	before, _ := f.leader()
	f.start("m2", "echo")
	f.waitLeader(before.Epoch, 20*time.Second)
	if took := time.Since(began); took > 8*time.Second { // 3 s on a machine that does nothing else
		t.Errorf("led after %v", took)
	}
}

//go:build unix

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/lock"
)

var handedOver = regexp.MustCompile(`^(\S+) leads since \d\d:\d\d:\d\d, term (\d+) \(before: (\S+), term (\d+)\)\n$`)

// TestHandover: to anybody, to a certain one, and what is refused; the lease
// stays where it is then.
func TestHandover(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, follower := f.led(2, "echo")
	r := f.run("handover")
	r.wants(t, 0)
	if m := handedOver.FindStringSubmatch(r.stdout); m == nil || m[1] != follower.name || m[2] != "2" || m[3] != leader.name || m[4] != "1" {
		t.Errorf("printed %q", r.stdout)
	}
	third := f.start("m3", "echo")
	f.waitMembers(3)
	r = f.run("handover", "--to", "m3")
	r.wants(t, 0)
	if m := handedOver.FindStringSubmatch(r.stdout); m == nil || m[1] != "m3" || m[2] != "3" {
		t.Errorf("printed %q", r.stdout)
	}
	f.waitMembers(3)
	if r := f.run("__complete", "handover", "--to", ""); !strings.Contains(r.stdout, "m1\nm2\n:") {
		t.Errorf("completed to %q", r.stdout)
	}
	f.run("handover", "--to", "m9").wants(t, 1, `no member named "m9" is there to take over`)
	f.run("handover", "--to", "m3").wants(t, 1, "m3 leads already, term 3")
	f.run("handover", "--to", "m1", "--force").wants(t, 2, "--force and --to exclude one another")
	if e, _ := f.leader(); e.Epoch != 3 || e.PID != third.pid() {
		t.Errorf("%s leads, term %d", e.Name, e.Epoch)
	}
	for _, r := range f.polls() {
		if r.End.Status == 409 {
			t.Error("a poll was answered with 409")
		}
	}
	f.say(42, "hello")
	f.waitSent(42, 1)
}

// TestHandoverToNobody is refused, and the leader leads on.
func TestHandoverToNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, _ := f.led(1, "echo")
	f.run("handover").wants(t, 1, "no other member is there to take over; start one, or stop this one instead")
	if e, _ := f.leader(); e.Epoch != 1 {
		t.Errorf("term %d", e.Epoch)
	}
	f.say(42, "hello")
	f.waitSent(42, 1)
	leader.signal(t, syscall.SIGTERM)
	leader.wait(t, 5*time.Second)
	f.run("handover").wants(t, 1, "nobody leads this bot now")
	f.run("handover", "--force").wants(t, 1, "nobody leads this bot now")
}

// TestHandoverByForce takes the lease from a frozen leader at once; thawed, that
// one follows, and has polled no more than G1 allows.
func TestHandoverByForce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader, follower := f.led(2, "echo")
	leader.signal(t, syscall.SIGSTOP)
	r := f.run("handover", "--force")
	r.wants(t, 0)
	if r.took > 10*time.Second {
		t.Errorf("took %v", r.took)
	}
	if m := handedOver.FindStringSubmatch(r.stdout); m == nil || m[1] != follower.name || m[3] != leader.name {
		t.Errorf("printed %q", r.stdout)
	}
	f.say(42, "hello")
	f.waitSent(42, 1)
	thawed := f.server.Now()
	leader.signal(t, syscall.SIGCONT)
	e := f.waitMembers(2)
	if e.PID != follower.pid() {
		t.Errorf("pid %d leads, want %d", e.PID, follower.pid())
	}
	f.say(42, "again")
	f.waitSent(42, 2)
	late := map[string]int{}
	for _, r := range f.polls() {
		if r.Begin.At > thawed {
			late[r.Begin.Conn]++
		}
	}
	if len(late) > 2 {
		t.Errorf("polls after the thaw by connection: %v", late)
	}
	readings, err := lock.NewObserver(lock.ObserverOptions{Dir: f.dir()}).Members()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readings {
		if r.Info.Role == lock.RoleCommand {
			t.Errorf("the command's member file was left: %+v", r.Info)
		}
	}
}

// TestHandoverOfFrozenLeader: not by force it waits for what the members do by
// themselves, and tells who leads then; with nobody there it names the way out.
func TestHandoverOfFrozenLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, quickTimes...)
	leader, follower := f.led(2, "echo")
	leader.signal(t, syscall.SIGSTOP)
	r := f.run("handover")
	m := handedOver.FindStringSubmatch(r.stdout)
	// A command that is slow to start finds that it has happened.
	late := r.code == 1 && strings.Contains(r.stderr, "no other member is there to take over")
	if !late && (r.code != 0 || m == nil || m[1] != follower.name) {
		t.Errorf("exit code %d, printed %q, %q", r.code, r.stdout, r.stderr)
	}
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t, 5*time.Second)
	follower.signal(t, syscall.SIGSTOP)
	r = f.run("handover")
	r.wants(t, 1, "makes no progress, and nobody has taken over from it", "tgbridge handover --force")
	r = f.run("handover", "--force")
	r.wants(t, 1, follower.name+" gave the lease up, but nobody took over within 3s")
	if e, held := f.leader(); held || e.Epoch < 3 {
		t.Errorf("%q holds the lease, term %d", e.Name, e.Epoch)
	}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

// TestF72OtherUser: a state directory of another user is refused with its path,
// its owner and what to do; with one of its own the same user's member works.
func TestF72OtherUser(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir, tgbridge := reachable(t)
	foreign := filepath.Join(dir, "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(dir, "shared") // of root, but everybody may write
	if err := os.Mkdir(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(own, nobody, nobody); err != nil {
		t.Skip(err)
	}
	run := func(state string, args ...string) result {
		cmd := exec.Command(tgbridge, args...)
		cmd.SysProcAttr = asUser(t, nobody)
		cmd.Env = []string{"TGBRIDGE_STATE_DIR=" + state}
		return f.runCommand(cmd)
	}
	const whose = "belongs to uid 0, mode 0700, this process is uid 65534"
	run(foreign, "echo").wants(t, 4, foreign, whose, "run all members as one user, or give the state directory to this one")
	run(filepath.Join(foreign, "deep"), "echo").wants(t, 4, foreign, "permission denied")
	run(foreign, "status").wants(t, 4, foreign, "permission denied")

	// F43: a leader is root's, the other nobody's.
	rooted := exec.Command(tgbridge, "echo")
	rooted.Env = []string{"TGBRIDGE_STATE_DIR=" + shared}
	f.startCommand("root", rooted)
	f.state = shared
	f.waitMembers(1)
	run(shared, "echo").wants(t, 4, filepath.Join(shared, "8112046593"), whose)
	run(shared, "status").wants(t, 4, filepath.Join(shared, "8112046593"))

	alone := exec.Command(tgbridge, "echo")
	alone.SysProcAttr = asUser(t, nobody)
	alone.Env = []string{"TGBRIDGE_STATE_DIR=" + own}
	f.startCommand("nobody", alone)
	f.state = own
	f.waitMembers(1)
	run(own, "health").wants(t, 0)
}

// TestF72ReadOnly: a read-only file system is refused; with only the state
// directory writable a member works.
func TestF72ReadOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir, tgbridge := reachable(t)
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	const script = `set -e; mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"`
	cmd := unshare(t, []string{"--mount"}, "sh", "-c", script, "sh", dir, tgbridge, "echo")
	cmd.Env = []string{"TGBRIDGE_STATE_DIR=" + state}
	f.runCommand(cmd).wants(t, 4, state, "read-only", "make it writable, or give another state directory")

	const open = `set -e; mount --bind "$1" "$1"; mount --bind "$1/state" "$1/state"; mount -o remount,bind,ro "$1"; shift; exec "$@"`
	cmd = unshare(t, []string{"--mount"}, "sh", "-c", open, "sh", dir, tgbridge, "echo")
	cmd.Env = []string{"TGBRIDGE_STATE_DIR=" + state}
	f.state = state
	f.startCommand("m1", cmd)
	f.waitMembers(1)
	f.say(42, "hello")
	f.waitSent(42, 1)
}

// TestFullDisk: a start on a full file system fails with the path and why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir, tgbridge := reachable(t)
	const script = `set -e; mount -t tmpfs -o size=64k tmpfs "$1"; head -c 100000 /dev/zero >"$1/filler" 2>/dev/null || true; shift; exec "$@"`
	where := filepath.Join(dir, "state")
	if err := os.Mkdir(where, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := unshare(t, []string{"--mount"}, "sh", "-c", script, "sh", where, tgbridge, "echo")
	cmd.Env = []string{"TGBRIDGE_STATE_DIR=" + where}
	f.runCommand(cmd).wants(t, 4, where, "no space left on device", "Another state directory is set by TGBRIDGE_STATE_DIR or --state-dir")
}

// TestF46LongStateDirectory: of 150 bytes, more than the path of a socket may
// have: two processes find each other.
func TestF46LongStateDirectory(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	f.state = filepath.Join(dir, strings.Repeat("x", 149-len(dir)))
	if len(f.state) != 150 {
		t.Fatalf("%d bytes", len(f.state))
	}
	f.env = append(f.env, "TGBRIDGE_STATE_DIR="+f.state)
	leader, follower := f.led(2, "echo")
	f.run("status").wants(t, 0)
	leader.signal(t, syscall.SIGKILL)
	if e := f.waitLeader(1, 15*time.Second); e.PID != follower.pid() {
		t.Errorf("pid %d leads", e.PID)
	}
	f.say(42, "hello")
	f.waitSent(42, 1)
}

// container are the flags of what has PID, UTS and mount namespaces of its own.
var container = []string{"--pid", "--fork", "--kill-child", "--mount-proc", "--uts"}

// TestF37TwoNamespaces: two members, both pid 1 of the same host name, share a
// directory: one polls, and when it is killed the other does. Health tells of
// the own namespace's member alone; ready asks the leader across.
func TestF37TwoNamespaces(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	enter := func(name string) *process {
		return f.startCommand(name, unshare(t, container, "sh", "-c", `hostname bot && exec "$@"`, "sh", program(t), "echo"))
	}
	members := map[string]*process{"a": enter("a"), "b": enter("b")}
	e := f.waitMembers(2)
	if e.PID != 1 || e.Host != "bot" {
		t.Errorf("pid %d on %s leads", e.PID, e.Host)
	}
	leader := members[e.Name]
	delete(members, e.Name)
	var follower *process
	for _, p := range members {
		follower = p
	}
	in := func(p *process, args ...string) result {
		t.Helper()
		enter := []string{"--target", fmt.Sprint(inner(t, p)), "--pid", "--mount", program(t)}
		return f.runCommand(exec.Command("nsenter", append(enter, args...)...))
	}
	for _, p := range []*process{leader, follower} {
		in(p, "health").wants(t, 0)
		in(p, "health", "--ready").wants(t, 0)
	}
	f.run("health").wants(t, 1, "no member runs in this PID namespace")
	if err := syscall.Kill(inner(t, leader), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if next := f.waitLeader(e.Epoch, 15*time.Second); next.Name != follower.name {
		t.Errorf("%s leads", next.Name)
	}
	in(follower, "health", "--ready").wants(t, 0)
	for _, r := range f.polls() {
		if r.End.Status == 409 {
			t.Error("a poll was answered with 409")
		}
	}
}

// TestF36FirstPIDAgain: the registry names pid 1 of this host; a start as pid 1
// of a new namespace leads within 3 s, or without a member file to tell within
// stale-after and a second.
func TestF36FirstPIDAgain(t *testing.T) {
	t.Parallel()
	for _, withFile := range []bool{true, false} {
		t.Run(fmt.Sprint("member file ", withFile), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, quickTimes...)
			first := f.startCommand("first", unshare(t, container, program(t), "echo"))
			e := f.waitMembers(1)
			if err := syscall.Kill(inner(t, first), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			first.wait(t, 5*time.Second)
			if !withFile {
				if err := os.RemoveAll(filepath.Join(f.dir(), "members")); err != nil {
					t.Fatal(err)
				}
			}
			f.startCommand("second", unshare(t, container, program(t), "echo"))
			f.waitLeader(e.Epoch, 15*time.Second) // 3 s on a machine that does nothing else
		})
	}
}

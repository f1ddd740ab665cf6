package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgbridge/internal/botapitest"
)

// runs reports whether a process exists and has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

// TestF66ProcEnviron: what the system shows of a command has no token in it.
func TestF66ProcEnviron(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, "PIDS="+pids)
	f.led(1, "exec", "--", "sh", "-c", `echo $$ >>"$PIDS"; exec sleep 1000`)
	f.say(42, "x")
	pid := waitFile(t, pids, 1)[0]
	for _, what := range []string{"environ", "cmdline"} {
		var text []byte
		eventually(t, 5*time.Second, func() string { // empty for a moment, at exec
			var err error
			if text, err = os.ReadFile(filepath.Join("/proc", pid, what)); err != nil || len(text) == 0 {
				return fmt.Sprintf("no %s: %v", what, err)
			}
			return ""
		})
		if bytes.Contains(text, []byte("AAbotapitest")) || bytes.Contains(text, []byte(botapitest.DefaultToken)) {
			t.Errorf("%s of the command: %q", what, text)
		}
	}
}

// TestCommandDiesWithItsMember: SIGKILL of the member ends the command, too, and
// the next member handles the message as the second attempt.
func TestCommandDiesWithItsMember(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, "PIDS="+pids)
	const shell = `echo $$ >>"$PIDS"; test $TGBRIDGE_ATTEMPT = 2 && echo second || exec sleep 1000`
	member, _ := f.led(1, "exec", "--", "sh", "-c", shell)
	f.say(42, "x")
	pid, err := strconv.Atoi(waitFile(t, pids, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	member.signal(t, syscall.SIGKILL)
	eventually(t, 5*time.Second, func() string {
		if runs(pid) {
			return fmt.Sprintf("command %d lives", pid)
		}
		return ""
	})
	f.start("m2", "exec", "--", "sh", "-c", shell)
	f.wantSent(42, "second")
}

// TestSecondSignalEndsCommands, and what they have started, which the kernel does
// not end with the member.
func TestSecondSignalEndsCommands(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, "PIDS="+pids)
	p, _ := f.led(1, "exec", "--", "sh", "-c", `trap '' TERM; sleep 1000 & echo $! >>"$PIDS"; wait`)
	f.say(42, "x")
	pid, err := strconv.Atoi(waitFile(t, pids, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	eventually(t, 5*time.Second, func() string {
		if !strings.Contains(p.said.String(), `"stopping"`) {
			return "the log does not say that it stops"
		}
		return ""
	})
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t, 5*time.Second); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	eventually(t, 5*time.Second, func() string {
		if runs(pid) {
			return fmt.Sprintf("process %d of the command lives", pid)
		}
		return ""
	})
}

// TestExecMemory: a command that prints 200 MB does not fill its member's memory.
func TestExecMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	member, _ := f.led(1, "exec", "--", "sh")
	f.say(42, "yes 0123456789 | head -c 200000000")
	if got := f.waitSent(42, 1)[0]; !strings.HasSuffix(got, overflowNotice) {
		t.Errorf("got ...%.100q", got[max(0, len(got)-100):])
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", member.pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(peak, &kib); err != nil || kib == 0 || kib > 150<<10 {
		t.Errorf("the member's memory peaked at %d KiB (%v)", kib, err)
	}
}

// unshare returns a command in namespaces of its own, or skips the test.
func unshare(t *testing.T, flags []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and unshare")
	}
	if err := exec.Command(path, append(flags, "true")...).Run(); err != nil {
		t.Skipf("unshare %v: %v", flags, err)
	}
	return exec.Command(path, append(append(flags, name), args...)...)
}

// ownPID are the flags with which the program is pid 1 of a namespace.
var ownPID = []string{"--pid", "--fork", "--kill-child", "--mount-proc"}

// inner returns the pid, as seen from here, of what an unshare started.
func inner(t *testing.T, p *process) int {
	t.Helper()
	var pid int
	eventually(t, 5*time.Second, func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.pid()))
		if err != nil {
			t.Skip("this kernel does not list children")
		}
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			return "no child"
		}
		return ""
	})
	return pid
}

// TestF69FirstProcess: the member is pid 1 and its command leaves orphans: none
// stays defunct, and when the member has stopped none is left.
func TestF69FirstProcess(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, "PIDS="+pids)
	cmd := unshare(t, ownPID, program(t), "exec", "--", "sh")
	p := f.startCommand("first", cmd)
	f.waitMembers(1)
	first := inner(t, p)
	// Orphans in the command's group, in sessions of their own, and short-lived.
	f.say(42, `for i in 1 2 3 4 5; do sleep 317 & setsid sleep 318 >/dev/null 2>&1 & (setsid sleep 0.05 >/dev/null 2>&1 &); done; sleep 1; echo done`)
	f.waitSent(42, 1)
	eventually(t, 5*time.Second, func() string {
		sleeping, defunct := 0, 0
		for _, s := range namespaceOf(t, first) {
			switch {
			case strings.Contains(s, ") Z"):
				defunct++
			case strings.Contains(s, "(sleep)"):
				sleeping++
			}
		}
		if sleeping != 5 || defunct != 0 { // what left the group ends with pid 1 alone
			return fmt.Sprintf("%d sleep, %d are defunct", sleeping, defunct)
		}
		return ""
	})
	outside := namespace(t, first)
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t, 6*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := inNamespace(outside); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// namespace is the PID namespace of a process.
func namespace(t *testing.T, pid int) string {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func namespaceOf(t *testing.T, pid int) []string {
	t.Helper()
	return inNamespace(namespace(t, pid))
}

// inNamespace returns the stat of each process of a PID namespace.
func inNamespace(ns string) []string {
	var stats []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if at, linkErr := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && linkErr == nil && at == ns {
			stats = append(stats, string(stat))
		}
	}
	return stats
}

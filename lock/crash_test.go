//go:build linux

package lock_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tgbridge/lock"
)

// TestKilledAtEverySystemCall kills a member at the first, second, third, ...
// system call of each kind that it makes on files: while it starts, removes a
// dead member's guard, acquires and releases. Whatever it leaves, the next
// member leads at once, and a sweep leaves nothing (G6, S1, D5). It needs strace.
func TestKilledAtEverySystemCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	for _, call := range []string{"mkdirat", "openat", "write", "pwrite64", "flock", "fsync", "renameat", "unlinkat"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			killAtEach(t, strace, call)
		})
	}
}

// killAtEach kills a member at each system call of one kind.
func killAtEach(t *testing.T, strace, call string) {
	killAt := func(n int) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			c.Args = []string{strace, "-f", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n), c.Path}
			c.Path = strace
		}
	}
	dir := newState(t)
	m := openMember(t, dir)
	var last uint64
	n := 1
	for ; n < 100; n++ {
		makeGuard(t, dir, whole(t, deadMember(t, dir)))
		p := start(t, "once", helperArgs{Dir: dir}, killAt(n))
		_, ended := <-p.lines
		if err := p.wait(); ended && err == nil {
			break
		}
		if p.errs.Len() != 0 {
			t.Skip("strace does not work here:", p.errs.String())
		}
		last = recovers(t, dir, m, last, fmt.Sprintf("%s %d", call, n))
	}
	if n == 1 || n == 100 {
		t.Errorf("killed %d times", n-1)
	}
	noDebris(t, dir)
	if left, err := filepath.Glob(filepath.Join(dir, "members", ".*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
	t.Logf("killed at each of %d", n-1)
}

// recovers checks that a member leads at once, under a higher term, and that a
// sweep removes what the killed one left.
func recovers(t *testing.T, dir string, m *lock.Member, last uint64, at string) (term uint64) {
	t.Helper()
	began := time.Now()
	l := newLock(t, dir, m)
	res, err := l.Acquire(ctx, lock.Plain, nil)
	if err != nil || !res.Acquired || res.Term <= last {
		t.Fatalf("after a kill at %s: %+v after term %d, %v", at, res, last, err)
	}
	if took := time.Since(began); took > testStaleAfter/2 {
		t.Errorf("after a kill at %s: took %v", at, took)
	}
	if _, released, err := l.Release(ctx); !released || err != nil {
		t.Fatal(released, err)
	}
	if _, err := newObserver(dir).Sweep(0); err != nil {
		t.Fatal(err)
	}
	return res.Term
}

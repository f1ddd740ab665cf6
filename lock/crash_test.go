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
// system call that changes a file, from its start to its end, once on a clean
// directory and once while it removes a dead member's guard. Whatever it leaves,
// the next member leads at once, and a sweep leaves nothing (G6, S1, D5). It
// needs strace.
func TestKilledAtEverySystemCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	const calls = "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,write,pwrite64,fsync,flock"
	killAt := func(n int) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			c.Args = []string{strace, "-f", "-o", "/dev/null", "-e", "trace=" + calls, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", calls, n), c.Path}
			c.Path = strace
		}
	}
	for _, reclaim := range []bool{false, true} {
		t.Run(fmt.Sprintf("guard of a dead member %v", reclaim), func(t *testing.T) {
			t.Parallel()
			dir := newState(t)
			m := openMember(t, dir)
			var last uint64
			for n := 1; ; n++ {
				if n == 200 {
					t.Fatal("the helper never got to its end")
				}
				if reclaim {
					makeGuard(t, dir, whole(t, deadMember(t, dir)))
				}
				p := start(t, "once", helperArgs{Dir: dir}, killAt(n))
				_, ended := <-p.lines
				if err := p.wait(); ended && err == nil {
					t.Logf("killed at each of %d system calls", n-1)
					break
				} else if n == 1 && p.errs.Len() != 0 {
					t.Skip("strace does not work here:", p.errs.String())
				}
				began := time.Now()
				l := newLock(t, dir, m)
				res, err := l.Acquire(ctx, lock.Plain, nil)
				if err != nil || !res.Acquired || res.Term <= last {
					t.Fatalf("after a kill at call %d: %+v after term %d, %v", n, res, last, err)
				}
				if took := time.Since(began); took > testStaleAfter/2 {
					t.Errorf("after a kill at call %d: took %v", n, took)
				}
				last = res.Term
				if _, released, err := l.Release(ctx); !released || err != nil {
					t.Fatal(released, err)
				}
				// So that those that were killed are not all looked at again.
				if _, err := newObserver(dir).Sweep(0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := newObserver(dir).Sweep(0); err != nil {
				t.Fatal(err)
			}
			noDebris(t, dir)
			if left, err := filepath.Glob(filepath.Join(dir, "members", ".*")); err != nil || len(left) != 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

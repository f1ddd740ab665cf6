//go:build unix

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
)

func TestR6Unreadable(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	o := lock.TransactionOptions{Dir: dir, File: "locks.json", Member: m}
	fn := func(current []byte) ([]byte, error) { return []byte("{}"), nil }
	for _, damage := range []string{"", "{", "\x00\x00\x00", "[]"} {
		writeFile(t, registryOf(dir), damage)
		if _, released, err := l.Release(ctx); released || !errors.Is(err, lock.ErrDamaged) {
			t.Errorf("release on %q: %v %v", damage, released, err)
		}
		if err := lock.Transaction(ctx, o, fn); !errors.Is(err, lock.ErrDamaged) {
			t.Errorf("transaction on %q: %v", damage, err)
		}
		if _, err := l.Current(); !errors.Is(err, lock.ErrDamaged) {
			t.Errorf("current on %q: %v", damage, err)
		}
		if got := readFile(t, registryOf(dir)); got != damage {
			t.Errorf("%q was changed to %q", damage, got)
		}
	}
	if err := os.Remove(registryOf(dir)); err != nil {
		t.Fatal(err)
	}
	if err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) { return []byte("[]"), nil }); !errors.Is(err, lock.ErrDamaged) {
		t.Errorf("publishing damage: %v", err)
	}
	if err := lock.Transaction(ctx, o, fn); err != nil {
		t.Errorf("a missing file is empty: %v", err)
	}
}

func TestR6NotAFile(t *testing.T) {
	tests := []struct {
		name string
		make func(path string) error
	}{
		{"R6 directory", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"R6 symlink", func(path string) error {
			target := path + ".target"
			return errors.Join(os.WriteFile(target, []byte("{}"), 0o600), os.Symlink(target, path))
		}},
		{"R6 symlink to nothing", func(path string) error { return os.Symlink(path+".nothing", path) }},
		{"R6 FIFO", makeFIFO},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			l := newLock(t, dir, openMember(t, dir))
			if err := tt.make(registryOf(dir)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(registryOf(dir))
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.Acquire(ctx, lock.Plain, nil)
			if !lock.IsUnusable(err) || !strings.Contains(err.Error(), registryOf(dir)) {
				t.Errorf("got %v", err)
			}
			after, err := os.Lstat(registryOf(dir))
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("touched: %v %v", after, err)
			}
		})
	}
}

// TestR9 runs on a clock of its own: a registry that says nothing.
func TestR9(t *testing.T) {
	damages := []struct{ name, content string }{
		{"missing", "missing"}, {"empty", ""}, {"half", `{"a":{"pid":`}, {"NULs", "\x00\x00\x00\x00"}, {"wrong shape", "[]"},
	}
	for _, d := range damages {
		t.Run("R9 F44 "+d.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				mkdir(t, dir) // not by a member: not new
				if d.content != "missing" {
					writeFile(t, registryOf(dir), d.content)
				}
				m := openMember(t, dir)
				m.NoteTerm(6)
				began := time.Now()
				res := mustAcquire(t, newLock(t, dir, m))
				if took := time.Since(began); took < 3*time.Second || took > 3200*time.Millisecond {
					t.Errorf("took %v, want 3 s", took)
				}
				if res.Term != 7 {
					t.Errorf("term %d", res.Term)
				}
				if d.content == "missing" {
					if res.DamagedCopy != "" {
						t.Error(res.DamagedCopy)
					}
					return
				}
				if got := readFile(t, res.DamagedCopy); got != d.content {
					t.Errorf("copy holds %q", got)
				}
				if lock.Damaged([]byte(readFile(t, registryOf(dir)))) {
					t.Error("still damaged")
				}
			})
		})
	}
}

func TestR9NewDirectoryIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		m := openMember(t, dir)
		l := newLock(t, dir, m)
		began := time.Now()
		mustAcquire(t, l)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		// It is new once: not when the registry was there and is gone.
		if err := os.Remove(registryOf(dir)); err != nil {
			t.Fatal(err)
		}
		if owns, err := l.Refresh(ctx); owns || err != nil {
			t.Fatal(owns, err)
		}
		res := mustAcquire(t, l)
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("took %v", took)
		}
		if res.Term != 2 {
			t.Errorf("term %d", res.Term)
		}
	})
}

func TestR9NewDirectoryGetsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		l := newLock(t, dir, openMember(t, dir))
		time.Sleep(3 * time.Second) // by now another may have led here
		began := time.Now()
		mustAcquire(t, l)
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestR9WaitsForALeader: a live member that says it leads is waited for,
// however long it takes, on every registry that should name it and does not.
func TestR9WaitsForALeader(t *testing.T) {
	for _, content := range []string{"missing", "{", "{}", `{"` + key + `":17}`} {
		t.Run("R9 S16 "+content, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				mkdir(t, dir)
				if content != "missing" {
					writeFile(t, registryOf(dir), content)
				}
				leader := openMember(t, dir)
				if err := leader.SetRole(lock.RoleLeader, 4); err != nil {
					t.Fatal(err)
				}
				l := newLock(t, dir, openMember(t, dir))
				stepDown := time.Now().Add(10 * time.Second)
				var beating sync.WaitGroup
				beating.Go(func() {
					for time.Now().Before(stepDown) {
						if err := leader.Beat(); err != nil {
							t.Error(err)
						}
						time.Sleep(testHeartbeat)
					}
					if err := leader.SetRole(lock.RoleFollower, 0); err != nil {
						t.Error(err)
					}
				})
				res := mustAcquire(t, l)
				if late := time.Since(stepDown); late < 0 || late > 200*time.Millisecond {
					t.Errorf("acquired %v after it stepped down", late)
				}
				if res.Term != 5 {
					t.Errorf("term %d", res.Term)
				}
				beating.Wait()
			})
		})
	}
}

// TestR9HungLeaderIsNotWaitedFor for longer than stale-after.
func TestR9HungLeaderIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		mkdir(t, dir)
		leader := openMember(t, dir)
		if err := leader.SetRole(lock.RoleLeader, 4); err != nil {
			t.Fatal(err)
		}
		o := testOptions(dir, openMember(t, dir))
		o.StaleAfter = 5 * time.Second
		l, err := lock.New(o)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		mustAcquire(t, l)
		if took := time.Since(began); took < 5*time.Second || took > 5200*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestR9LeaderOfAnotherKeyIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		leader := openMember(t, dir)
		mustAcquire(t, newLock(t, dir, leader))
		if err := leader.SetRole(lock.RoleLeader, 1); err != nil {
			t.Fatal(err)
		}
		o := testOptions(dir, openMember(t, dir))
		o.Key = "other"
		l, err := lock.New(o)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		mustAcquire(t, l)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestR9GivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		mkdir(t, dir)
		l := newLock(t, dir, openMember(t, dir))
		wanted := errors.New("wanted")
		ctx, cancel := context.WithTimeoutCause(ctx, time.Second, wanted)
		defer cancel()
		if res, err := l.Acquire(ctx, lock.Plain, nil); !errors.Is(err, wanted) || res.Acquired {
			t.Errorf("%+v %v", res, err)
		}
	})
}

// TestR6TooLarge: a registry of more than 16 MiB is damaged like any other that
// cannot be read, whatever is in it. The copy has its first 16 MiB.
func TestR6TooLarge(t *testing.T) {
	const most = 16 << 20
	tests := []struct {
		name string
		make func(path string) error
		size int64
	}{
		{"a registry", func(path string) error {
			return os.WriteFile(path, fmt.Appendf(nil, `{"other":{"a":%q}}`, strings.Repeat("x", most)), 0o600)
		}, most + 18},
		{"1 TiB of zeros", func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) }, 1 << 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				mkdir(t, dir)
				if err := tt.make(registryOf(dir)); err != nil {
					t.Fatal(err)
				}
				m := openMember(t, dir)
				m.NoteTerm(6)
				l := newLock(t, dir, m)
				mustOwn(t, l, false)
				if _, err := l.Current(); !errors.Is(err, lock.ErrDamaged) {
					t.Errorf("current: %v", err)
				}
				err := lock.Transaction(ctx, lock.TransactionOptions{Dir: dir, File: "locks.json", Member: m},
					func([]byte) ([]byte, error) { return []byte("{}"), nil })
				if !errors.Is(err, lock.ErrDamaged) {
					t.Errorf("transaction: %v", err)
				}
				if info, err := os.Stat(registryOf(dir)); err != nil || info.Size() != tt.size {
					t.Fatalf("touched: %v %v", info.Size(), err)
				}
				began := time.Now()
				res := mustAcquire(t, l)
				if took := time.Since(began); took < 3*time.Second || took > 3200*time.Millisecond || res.Term != 7 {
					t.Errorf("term %d after %v, want 7 after 3 s", res.Term, took)
				}
				if info, err := os.Stat(res.DamagedCopy); err != nil || info.Size() != most {
					t.Errorf("copy: %v %v", info, err)
				}
				mustOwn(t, l, true)
			})
		})
	}
}

// TestPublishTooLarge: what nobody could read again is not published.
func TestPublishTooLarge(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	large := func([]byte) ([]byte, error) { return make([]byte, 16<<20+1), nil }
	if ran, err := l.Commit(ctx, "f", large); ran || !lock.IsUnusable(err) || !strings.Contains(err.Error(), dir+"/f: would get 16777217 bytes") {
		t.Error(ran, err)
	}
	if _, err := os.Stat(dir + "/f"); err == nil {
		t.Error("published")
	}
	// An entry that makes the registry too large is others' to solve.
	if _, _, err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	doc := fmt.Sprintf(`{"other":%q}`, strings.Repeat("x", 16<<20-100))
	writeFile(t, registryOf(dir), doc)
	if res, err := l.Acquire(ctx, lock.Plain, nil); res.Acquired || !lock.IsUnusable(err) || !strings.Contains(err.Error(), registryOf(dir)) {
		t.Errorf("%+v %v", res, err)
	}
	if readFile(t, registryOf(dir)) != doc {
		t.Error("changed")
	}
	mustOwn(t, l, false)
	noDebris(t, dir)
}

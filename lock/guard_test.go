//go:build unix

package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
)

const (
	genA = "0f8fad5b-d9cb-469f-a165-70867728950e"
	genB = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

func guardOf(dir string) string { return filepath.Join(dir, "locks.json.transaction") }

// guardOwner is the content of an owner file in the name of member m.
func guardOwner(tb testing.TB, m *lock.Member, generation string) string {
	tb.Helper()
	i := m.Info()
	raw, err := json.Marshal(map[string]any{
		"pid": i.PID, "acquiredAtMs": 1, "generation": generation, "instanceId": i.Instance,
		"bootId": i.BootID, "pidNamespace": i.PIDNamespace, "bornAt": i.BornAt,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// makeGuard puts a guard in place: file names and their contents.
func makeGuard(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	mkdir(tb, guardOf(dir))
	for name, content := range files {
		writeFile(tb, filepath.Join(guardOf(dir), name), content)
	}
}

func whole(tb testing.TB, m *lock.Member) map[string]string {
	return map[string]string{"owner." + genA + ".json": guardOwner(tb, m, genA), "next." + genA + ".json": ""}
}

// deadMember is a member whose kernel lock is free.
func deadMember(tb testing.TB, dir string) *lock.Member {
	tb.Helper()
	m, err := lock.OpenMember(lock.MemberOptions{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	if err := m.Close(); err != nil {
		tb.Fatal(err)
	}
	return m
}

// writeShared runs a transaction that writes a file, and returns how long it
// took.
func writeShared(ctx context.Context, o lock.TransactionOptions) (time.Duration, error) {
	began := time.Now()
	err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) { return []byte("new"), nil })
	return time.Since(began), err
}

// TestGuardStates has every state that a crash, a hang or a stranger can leave
// at the guard's place, and when another member goes on. The clock is the
// test's own.
func TestGuardStates(t *testing.T) {
	const stale = 5 * time.Second
	type setup struct{ dead, hung, alive *lock.Member }
	guard := func(files func(t *testing.T, s setup) map[string]string) func(*testing.T, string, setup) {
		return func(t *testing.T, dir string, s setup) { makeGuard(t, dir, files(t, s)) }
	}
	file := func(content string) func(*testing.T, string, setup) {
		return func(t *testing.T, dir string, _ setup) { writeFile(t, guardOf(dir), content) }
	}
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string, s setup)
		after time.Duration // -1: never
	}{
		{"D1 nothing", func(*testing.T, string, setup) {}, 0},
		{"D1 empty directory is no guard", guard(func(*testing.T, setup) map[string]string { return nil }), 0},
		{"D4 dead", guard(func(t *testing.T, s setup) map[string]string { return whole(t, s.dead) }), 0},
		{"D4 hung", guard(func(t *testing.T, s setup) map[string]string { return whole(t, s.hung) }), stale},
		{"D4 alive and forgotten", guard(func(t *testing.T, s setup) map[string]string { return whole(t, s.alive) }), 2 * stale},
		{"D5 dead, next gone: published, or half reclaimed", guard(func(t *testing.T, s setup) map[string]string {
			return map[string]string{"owner." + genA + ".json": guardOwner(t, s.dead, genA)}
		}), 0},
		{"D5 dead, half written next", guard(func(t *testing.T, s setup) map[string]string {
			files := whole(t, s.dead)
			files["next."+genA+".json"] = `{"half`
			return files
		}), 0},
		{"D4 owner gone, next left", guard(func(*testing.T, setup) map[string]string {
			return map[string]string{"next." + genA + ".json": ""}
		}), 2 * stale},
		{"D2 owner file empty after a power cut", guard(func(*testing.T, setup) map[string]string {
			return map[string]string{"owner." + genA + ".json": "", "next." + genA + ".json": ""}
		}), 2 * stale},
		{"D2 owner file torn", guard(func(*testing.T, setup) map[string]string {
			return map[string]string{"owner." + genA + ".json": `{"pid":`}
		}), 2 * stale},
		{"D4 no member file, other boot", guard(func(*testing.T, setup) map[string]string {
			return map[string]string{"owner." + genA + ".json": `{"pid":1,"instanceId":"gone","bootId":"b","pidNamespace":"p"}`}
		}), 2 * stale},
		{"D4 no member file, same PID namespace, pid gone", guard(func(*testing.T, setup) map[string]string {
			h := lock.ThisHost()
			return map[string]string{"owner." + genA + ".json": fmt.Sprintf(`{"pid":2147483647,"instanceId":"gone","bootId":%q,"pidNamespace":%q}`, h.BootID, h.PIDNamespace)}
		}), 0},
		{"D4 no member file, same PID namespace, pid born at another time", guard(func(*testing.T, setup) map[string]string {
			h := lock.ThisHost()
			return map[string]string{"owner." + genA + ".json": fmt.Sprintf(`{"pid":%d,"instanceId":"gone","bootId":%q,"pidNamespace":%q,"bornAt":"1"}`, h.PID, h.BootID, h.PIDNamespace)}
		}), 0},
		{"D4 instance id with a path", guard(func(*testing.T, setup) map[string]string {
			return map[string]string{"owner." + genA + ".json": `{"pid":1,"instanceId":"../locks.json"}`}
		}), 2 * stale},
		{"D4 two generations", guard(func(t *testing.T, s setup) map[string]string {
			files := whole(t, s.dead)
			files["next."+genB+".json"] = ""
			return files
		}), 0},
		{"D2 other names", guard(func(t *testing.T, s setup) map[string]string {
			files := whole(t, s.dead)
			files["notes.txt"] = "mine"
			return files
		}), -1},
		{"D7 plain file, pid gone", file(`{"pid":2147483647,"acquiredAtMs":1,"generation":"g"}`), 0},
		{"D7 plain file, pid alive", file(fmt.Sprintf(`{"pid":%d,"acquiredAtMs":1,"generation":"g"}`, os.Getpid())), 2 * stale},
		{"D7 plain file, no owner", file(""), 2 * stale},
		{"D7 symlink", func(t *testing.T, dir string, _ setup) {
			if err := os.Symlink(dir, guardOf(dir)); err != nil {
				t.Fatal(err)
			}
		}, -1},
		{"D7 FIFO", func(t *testing.T, dir string, _ setup) {
			if err := makeFIFO(guardOf(dir)); err != nil {
				t.Fatal(err)
			}
		}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newState(t)
				m := openMember(t, dir)
				s := setup{dead: deadMember(t, dir), hung: openMember(t, dir), alive: openMember(t, dir)}
				ctx, cancel := context.WithCancel(ctx)
				var beating sync.WaitGroup
				beating.Go(func() { _ = s.alive.Run(ctx, func() bool { return true }) })
				defer beating.Wait()
				defer cancel()
				tt.setup(t, dir, s)
				before, _ := os.Lstat(guardOf(dir))

				took, err := writeShared(ctx, lock.TransactionOptions{Dir: dir, File: "f", Member: m, StaleAfter: stale})
				if tt.after < 0 {
					after, lerr := os.Lstat(guardOf(dir))
					if !lock.IsUnusable(err) || !strings.Contains(err.Error(), guardOf(dir)) {
						t.Errorf("got %v after %v", err, took)
					}
					if lerr != nil || !os.SameFile(before, after) || took < 3*stale {
						t.Errorf("touched, or given up too soon: %v %v", lerr, took)
					}
					return
				}
				if err != nil || took < tt.after || took > tt.after+100*time.Millisecond {
					t.Errorf("went on after %v, %v; want %v", took, err, tt.after)
				}
				if got := readFile(t, filepath.Join(dir, "f")); got != "new" {
					t.Errorf("content %q", got)
				}
				noDebris(t, dir)
			})
		})
	}
}

// TestD2AppearsInside: a stranger's file that appears in the guard under its
// holder does not keep the holder from publishing. The next transaction fails
// with path and remedy, nobody removes anything, and once the stranger is gone
// all is well.
func TestD2AppearsInside(t *testing.T) {
	strangers := []struct {
		name string
		make func(guard string) error
	}{
		{"notes.txt", func(guard string) error {
			return os.WriteFile(filepath.Join(guard, "notes.txt"), []byte("mine"), 0o600)
		}},
		{"directory", func(guard string) error { return os.MkdirAll(filepath.Join(guard, "directory", "x"), 0o700) }},
		{"next." + genA + ".json.bak", func(guard string) error {
			return os.Symlink("/nowhere", filepath.Join(guard, "next."+genA+".json.bak"))
		}},
	}
	for _, s := range strangers {
		t.Run("D2 "+s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newState(t)
				o := lock.TransactionOptions{Dir: dir, File: "f", Member: openMember(t, dir), StaleAfter: time.Second}
				err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) { return []byte("first"), s.make(guardOf(dir)) })
				if got := readFile(t, filepath.Join(dir, "f")); err != nil || got != "first" {
					t.Fatalf("holder: %q %v", got, err)
				}
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, err := writeShared(short, o); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), guardOf(dir)) {
					t.Errorf("given up: %v", err)
				}
				for _, m := range []*lock.Member{o.Member, openMember(t, dir)} {
					o.Member = m
					took, err := writeShared(ctx, o)
					if !lock.IsUnusable(err) || took < 3*time.Second {
						t.Fatalf("got %v after %v", err, took)
					}
					for _, want := range []string{guardOf(dir), s.name, "move it away"} {
						if !strings.Contains(err.Error(), want) {
							t.Errorf("%q does not say %q", err, want)
						}
					}
				}
				files, err := os.ReadDir(guardOf(dir))
				if err != nil || len(files) != 1 || files[0].Name() != s.name {
					t.Errorf("guard holds %v %v", files, err)
				}
				if err := os.RemoveAll(filepath.Join(guardOf(dir), s.name)); err != nil {
					t.Fatal(err)
				}
				if took, err := writeShared(ctx, o); err != nil || took > 100*time.Millisecond {
					t.Errorf("once it is gone: %v after %v", err, took)
				}
				noDebris(t, dir)
			})
		})
	}
}

// TestD4KeepsTimeAcrossTries: an observer that saw the guard before need not
// begin anew.
func TestD4KeepsTimeAcrossTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newState(t)
		o := lock.TransactionOptions{Dir: dir, File: "f", Member: openMember(t, dir), Observer: newObserver(dir), StaleAfter: time.Second}
		makeGuard(t, dir, map[string]string{"next." + genA + ".json": ""})
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := writeShared(short, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if took, err := writeShared(ctx, o); err != nil || took != 0 {
			t.Errorf("took %v %v", took, err)
		}
	})
}

// TestD4WatchedBefore: who looks at a lease regularly, as owner or not, has seen
// a guard stand that is nobody's, and takes it at once when it is in the way.
func TestD4WatchedBefore(t *testing.T) {
	looks := map[string]func(l *lock.Lock) error{
		"Current": func(l *lock.Lock) error { _, err := l.Current(); return err },
		"State":   func(l *lock.Lock) error { _, _, err := l.State(); return err },
		"Refresh": func(l *lock.Lock) error { _, err := l.Refresh(ctx); return err },
		"Acquire": func(l *lock.Lock) error { _, err := l.Acquire(ctx, lock.Election, nil); return err },
	}
	for name, look := range looks {
		t.Run("D4 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newState(t)
				l := newLock(t, dir, openMember(t, dir))
				theirs, err := lock.OpenMember(lock.MemberOptions{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				writeFile(t, registryOf(dir), entryJSON(t, theirs, func(e map[string]any) { e["pid"] = 1 }))
				makeGuard(t, dir, map[string]string{"owner." + genA + ".json": "", "next." + genA + ".json": ""})
				for range 21 {
					if err := errors.Join(look(l), theirs.Beat()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(testStaleAfter / 10)
				}
				if err := theirs.Close(); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if res := mustAcquire(t, l); time.Since(began) > 100*time.Millisecond || !res.ReplacedStale {
					t.Errorf("%+v after %v", res, time.Since(began))
				}
				noDebris(t, dir)
			})
		})
	}
}

// TestD8NamesTheHolder: a guard that changes hands all the time is not taken
// away, and the error says who has it.
func TestD8NamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newState(t)
		m, holder := openMember(t, dir), openMember(t, dir)
		inside, done := make(chan struct{}), make(chan error, 1)
		o := lock.TransactionOptions{Dir: dir, File: "f", Member: holder, StaleAfter: 10 * time.Second}
		go func() {
			done <- lock.Transaction(ctx, o, func([]byte) ([]byte, error) {
				close(inside)
				time.Sleep(4 * time.Second)
				return []byte("holder"), nil
			})
		}()
		<-inside
		o.Member, o.StaleAfter = m, time.Second
		o.Observer = lock.NewObserver(lock.ObserverOptions{Dir: dir, LocksBelieved: true, Now: func() time.Duration { return 0 }})
		took, err := writeShared(ctx, o)
		var busy *lock.BusyError
		if !errors.As(err, &busy) || lock.IsUnusable(err) || took < 3*time.Second {
			t.Fatalf("got %v after %v", err, took)
		}
		if busy.Instance != holder.Instance() || busy.PID != os.Getpid() || busy.Name != "test" || busy.Host != holder.Info().Host || busy.Path != guardOf(dir) {
			t.Errorf("%+v", busy)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		noDebris(t, dir)
	})
}

// TestS2DelayedReclaimer: of two that recover the same dead guard, one is
// delayed after its decision, until a live guard stands there. It does not touch
// that one (D6).
func TestS2DelayedReclaimer(t *testing.T) {
	dir := newState(t)
	slow, quick := openMember(t, dir), openMember(t, dir)
	makeGuard(t, dir, whole(t, deadMember(t, dir)))

	decided, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	delayed := lock.NewObserverWith(lock.ObserverOptions{Dir: dir, LocksBelieved: true}, func(f *os.File, exclusive bool) error {
		err := lock.SystemFlock(f, exclusive)
		if err == nil { // the dead holder's lock: from here it will reclaim
			once.Do(func() { close(decided); <-goOn })
		}
		return err
	})
	done := make(chan error, 1)
	slowCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := writeShared(slowCtx, lock.TransactionOptions{Dir: dir, File: "slow", Member: slow, Observer: delayed})
		done <- err
	}()
	<-decided
	o := lock.TransactionOptions{Dir: dir, File: "quick", Member: quick}
	err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) {
		before, err := os.ReadDir(guardOf(dir))
		if err != nil {
			return nil, err
		}
		close(goOn) // now it unlinks what it decided on
		time.Sleep(50 * time.Millisecond)
		after, err := os.ReadDir(guardOf(dir))
		if err != nil || len(after) != 2 || after[0].Name() != before[0].Name() || after[1].Name() != before[1].Name() {
			t.Errorf("live guard touched: %v, then %v %v", before, after, err)
		}
		return []byte("new"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error("the delayed one:", err)
	}
	noDebris(t, dir)
}

// TestD3TakenAway: whoever was overtaken publishes nothing, releases nothing of
// the other's, and begins anew with what the other wrote.
func TestD3TakenAway(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	runs := 0
	o := lock.TransactionOptions{Dir: dir, File: "f", Member: m}
	err := lock.Transaction(ctx, o, func(current []byte) ([]byte, error) {
		runs++
		if runs > 1 {
			return append(current, " and mine"...), nil
		}
		// What a reclaimer does, and then another's whole transaction.
		files, err := os.ReadDir(guardOf(dir))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if err := os.Remove(filepath.Join(guardOf(dir), f.Name())); err != nil {
				return nil, err
			}
		}
		other := lock.TransactionOptions{Dir: dir, File: "f", Member: m}
		_, err = writeShared(ctx, other)
		return []byte("stale"), err
	})
	if err != nil || runs != 2 {
		t.Fatal(runs, err)
	}
	if got := readFile(t, filepath.Join(dir, "f")); got != "new and mine" {
		t.Errorf("content %q", got)
	}
	noDebris(t, dir)
}

// TestD3EveryHalfway takes away each file of the guard alone, inside of the
// transaction.
func TestD3EveryHalfway(t *testing.T) {
	for _, prefix := range []string{"next.", "owner."} {
		t.Run(prefix, func(t *testing.T) {
			dir := newState(t)
			runs := 0
			o := lock.TransactionOptions{Dir: dir, File: "f", Member: openMember(t, dir)}
			err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) {
				if runs++; runs > 1 {
					return []byte("second"), nil
				}
				names, err := filepath.Glob(filepath.Join(guardOf(dir), prefix+"*"))
				if err != nil || len(names) != 1 {
					return nil, fmt.Errorf("guard holds %v %w", names, err)
				}
				return []byte("first"), os.Remove(names[0])
			})
			want := map[string]string{"next.": "second", "owner.": "first"}[prefix]
			if got := readFile(t, filepath.Join(dir, "f")); err != nil || got != want {
				t.Errorf("content %q, want %q; %v", got, want, err)
			}
			noDebris(t, dir)
		})
	}
}

func TestStateDirectoryRemovedInside(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	runs := 0
	o := lock.TransactionOptions{Dir: dir, File: "f", Member: m}
	err := lock.Transaction(ctx, o, func([]byte) ([]byte, error) {
		if runs++; runs == 1 {
			return []byte("lost"), os.RemoveAll(dir)
		}
		return []byte("new"), nil
	})
	if err != nil || runs != 2 {
		t.Fatal(runs, err)
	}
	if got := readFile(t, filepath.Join(dir, "f")); got != "new" {
		t.Errorf("content %q", got)
	}
}

// TestD8DiskFull needs a small file system of its own.
func TestD8DiskFull(t *testing.T) {
	t.Parallel()
	dir := newState(t)
	if err := mountSmall(t, dir); err != nil {
		t.Skip("no small file system to be had:", err)
	}
	writeFile(t, registryOf(dir), "{}")
	m := openMember(t, dir)
	full := filepath.Join(dir, "ballast")
	fill(t, full)
	room := make(chan time.Time, 1)
	time.AfterFunc(1500*time.Millisecond, func() {
		room <- time.Now()
		_ = os.Remove(full)
	})
	if _, err := writeShared(ctx, lock.TransactionOptions{Dir: dir, File: "f", Member: m}); err != nil {
		t.Fatal(err)
	}
	select {
	case since := <-room: // it is tried each second
		if late := time.Since(since); late > 3*time.Second {
			t.Errorf("written %v after there was room", late)
		}
	default:
		t.Fatal("written before there was room")
	}
	noDebris(t, dir)
	fill(t, full)
	took, err := writeShared(ctx, lock.TransactionOptions{Dir: dir, File: "g", Member: m, StaleAfter: time.Second})
	if !errors.Is(err, syscall.ENOSPC) || took < 3*time.Second {
		t.Errorf("took %v, %v", took, err)
	}
	if err := m.Beat(); err != nil { // the file is there already, in full
		t.Error("beat on a full disk:", err)
	}
	noDebris(t, dir)
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestD9M5Sweep leaves everything but the leftovers of the dead (S14).
func TestD9M5Sweep(t *testing.T) {
	dir := newState(t)
	alive, young, old, owner := openMember(t, dir), deadMember(t, dir), deadMember(t, dir), deadMember(t, dir)
	members := filepath.Join(dir, "members")
	hourAgo := time.Now().Add(-time.Hour)
	for _, m := range []*lock.Member{old, owner} {
		if err := os.Chtimes(filepath.Join(members, m.Instance()), hourAgo, hourAgo); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, registryOf(dir), entryJSON(t, owner, nil))
	staged := func(m, generation string) string {
		return filepath.Join(dir, "locks.json.transaction.staged."+m+"."+generation)
	}
	for _, m := range []*lock.Member{alive, young, old} {
		mkdir(t, staged(m.Instance(), genA))
		writeFile(t, filepath.Join(staged(m.Instance(), genA), "owner."+genA+".json"), "")
		writeFile(t, filepath.Join(members, "."+m.Instance()+".new"), "")
		writeFile(t, filepath.Join(members, "."+m.Instance()+".flock"), "")
	}
	keep := []string{
		filepath.Join(dir, "locks.json"), filepath.Join(dir, "locks.json.damaged.20260101.00000000"), filepath.Join(dir, "journal"),
		staged("..", genA), staged(young.Instance(), "not-a-generation"), filepath.Join(members, ".hidden"), filepath.Join(members, "with.dot"),
		staged(alive.Instance(), genA), filepath.Join(members, "."+alive.Instance()+".new"),
		filepath.Join(members, alive.Instance()), filepath.Join(members, young.Instance()), filepath.Join(members, owner.Instance()),
	}
	for _, path := range keep[1:7] {
		writeFile(t, path, "x")
	}
	removed, err := newObserver(dir).Sweep(30 * time.Minute)
	if err != nil || len(removed) != 1 || removed[0] != old.Instance() {
		t.Errorf("removed %v, want %s; %v", removed, old.Instance(), err)
	}
	for _, path := range keep {
		if _, err := os.Lstat(path); err != nil {
			t.Error("swept:", err)
		}
	}
	for _, m := range []*lock.Member{young, old} {
		left, err := filepath.Glob(filepath.Join(dir, "*", "."+m.Instance()+"*"))
		if _, serr := os.Lstat(staged(m.Instance(), genA)); len(left) != 0 || err != nil || serr == nil {
			t.Errorf("left: %v %v %v", left, err, serr)
		}
	}
	if _, err := os.Lstat(filepath.Join(members, old.Instance())); err == nil {
		t.Error("an old dead member's file stays")
	}
}

func TestR12Patience(t *testing.T) {
	tests := []struct {
		name string
		errs []error
		want error
		runs int
	}{
		{"R12 EPERM, then well", []error{syscall.EPERM, nil}, nil, 2},
		{"R12 EBUSY and EACCES, then well", []error{syscall.EBUSY, syscall.EACCES, syscall.EBUSY, syscall.EBUSY, nil}, nil, 5},
		{"R12 five tries", []error{syscall.EBUSY, syscall.EBUSY, syscall.EBUSY, syscall.EBUSY, syscall.EBUSY}, syscall.EBUSY, 5},
		{"R12 another error at once", []error{syscall.EIO}, syscall.EIO, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				err := lock.Patiently(func() error { runs++; return tt.errs[runs-1] })
				if !errors.Is(err, tt.want) || runs != tt.runs {
					t.Errorf("%d runs, %v", runs, err)
				}
			})
		})
	}
}

//go:build unix

package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tgbridge/lock"
)

func memberFile(m *lock.Member, dir string) string {
	return filepath.Join(dir, "members", m.Instance())
}

func TestM1File(t *testing.T) {
	dir := newDir(t)
	m, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Instance: "me-1", Name: "n", Version: "v", Role: lock.RoleFollower})
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, m)
	h := lock.ThisHost()
	content := readFile(t, memberFile(m, dir))
	if len(content) != 21+1024 || content[:21] != "00000000000000000000\n" || content[len(content)-1] != '\n' {
		t.Errorf("content %q", content)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(content[21:]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"instance": "me-1", "name": "n", "pid": float64(h.PID), "host": h.Name, "bootId": h.BootID, "pidNamespace": h.PIDNamespace,
		"bornAt": h.BornAt, "locks": true, "role": "follower", "joined": 0.0, "term": 0.0, "version": "v",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("line\n%v, want\n%v", got, want)
	}
	info, err := os.Stat(memberFile(m, dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "members"))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	if _, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Instance: "me-1"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an id used twice: %v", err)
	}
	for _, bad := range []string{".x", "a/b", "..", "ä", strings.Repeat("x", 129)} {
		if _, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Instance: bad}); err == nil {
			t.Errorf("instance id %q accepted", bad)
		}
	}
}

func TestM2BeatAndLine(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	o := newObserver(dir)
	for want := range uint64(3) {
		r, err := o.Look(m.Instance())
		if err != nil || r.Beat != want || r.Torn || r.Kernel != lock.LockHeld || r.Dead() {
			t.Fatalf("%+v %v", r, err)
		}
		if err := m.Beat(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetRole(lock.RoleLeader, 7); err != nil {
		t.Fatal(err)
	}
	if err := m.SetName(strings.Repeat("long", 50)); err != nil {
		t.Fatal(err)
	}
	if err := m.SetName("b"); err != nil { // shorter: nothing of the longer is left
		t.Fatal(err)
	}
	m.NoteTerm(12)
	m.NoteTerm(11)
	r, err := o.Look(m.Instance())
	if err != nil || r.Info.Role != lock.RoleLeader || r.Info.Joined != 7 || r.Info.Term != 12 || r.Info.Name != "b" || r.Beat != 3 || m.HighestTerm() != 12 {
		t.Errorf("%+v %v", r, err)
	}
	if err := m.SetName(strings.Repeat("\x00", 300)); err == nil {
		t.Error("a name too long for the line was taken")
	}
	if m.Info().Name != "b" {
		t.Error(m.Info().Name)
	}
}

func TestM2TornLine(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	o := newObserver(dir)
	for _, damage := range []string{"", "0000", strings.Repeat("\x00", 1045), "00000000000000000009\n{\"instance\":"} {
		writeFile(t, memberFile(m, dir), damage)
		r, err := o.Look(m.Instance())
		if err != nil || !r.Exists || !r.Torn || r.Dead() || r.Info.Role != "" {
			t.Errorf("%q: %+v %v", damage, r, err)
		}
	}
}

func TestM2ConcurrentUse(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	o := newObserver(dir)
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			for k := range 100 {
				err := errors.Join(m.Beat(), m.SetRole(lock.RoleFollower, uint64(k)), m.SetName(fmt.Sprint("n", i)), m.Check())
				if err != nil {
					t.Error(err)
				}
				m.NoteTerm(uint64(i*100 + k))
				if r, err := o.Look(m.Instance()); err != nil || r.Dead() {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	users.Wait()
	if r, err := o.Look(m.Instance()); err != nil || r.Beat != 400 || r.Info.Term != 399 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestM3Probe(t *testing.T) {
	other := lock.ThisHost()
	other.BootID = "another boot"
	never := func(*os.File, bool) error { return nil }
	eperm := func(*os.File, bool) error { return syscall.EPERM } // a sandbox
	enolck := func(*os.File, bool) error { return fmt.Errorf("flock: ENOLCK: %w", syscall.ENOLCK) }
	tests := []struct {
		name           string
		flock          lock.Flock
		host           lock.Host
		observer       bool // it believes in locks
		observerFlock  lock.Flock
		alive, closed  lock.KernelLock
		believed, told bool
	}{
		{"M3 locks work", lock.SystemFlock, lock.ThisHost(), true, lock.SystemFlock, lock.LockHeld, lock.LockFree, true, false},
		{"M3 other boot", lock.SystemFlock, other, true, lock.SystemFlock, lock.LockUnknown, lock.LockUnknown, true, false},
		{"M3 no boot id", lock.SystemFlock, lock.Host{PID: 1}, true, lock.SystemFlock, lock.LockUnknown, lock.LockUnknown, true, false},
		{"M3 observer does not believe", lock.SystemFlock, lock.ThisHost(), false, lock.SystemFlock, lock.LockUnknown, lock.LockUnknown, true, false},
		{"F39 never excludes", never, lock.ThisHost(), true, never, lock.LockUnknown, lock.LockUnknown, false, true},
		{"F39 always fails", enolck, lock.ThisHost(), true, enolck, lock.LockUnknown, lock.LockUnknown, false, true},
		{"F39 not permitted", eperm, lock.ThisHost(), true, eperm, lock.LockUnknown, lock.LockUnknown, false, true},
		{"F39 fails for the observer alone", lock.SystemFlock, lock.ThisHost(), true, enolck, lock.LockUnknown, lock.LockUnknown, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			var log bytes.Buffer
			m, err := lock.OpenMemberAs(lock.MemberOptions{Dir: dir, Logger: zerolog.New(&log)}, tt.host, tt.flock)
			if err != nil {
				t.Fatal(err)
			}
			o := lock.NewObserverWith(lock.ObserverOptions{Dir: dir, LocksBelieved: tt.observer}, tt.observerFlock)
			if r, err := o.Look(m.Instance()); err != nil || r.Kernel != tt.alive || r.Dead() || r.Info.Locks != tt.believed {
				t.Errorf("alive: %+v %v", r, err)
			}
			if m.LocksBelieved() != tt.believed {
				t.Error("LocksBelieved:", m.LocksBelieved())
			}
			if told := strings.Count(log.String(), "kernel locks do not work here"); told != map[bool]int{true: 1}[tt.told] {
				t.Errorf("told %d times: %s", told, &log)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err := o.Look(m.Instance()); err != nil || r.Kernel != tt.closed || r.Dead() != (tt.closed == lock.LockFree) {
				t.Errorf("closed: %+v %v", r, err)
			}
			if got := o.DeadAfterEOF(ctx, m.Instance()); got != (tt.closed == lock.LockFree) {
				t.Errorf("DeadAfterEOF = %v", got)
			}
		})
	}
}

// TestF39ErrorIsNamed: what is told names the error.
func TestF39ErrorIsNamed(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.SystemFlock(f, true); err == nil || !strings.Contains(err.Error(), "flock: EBADF") {
		t.Errorf("got %v", err)
	}
}

func TestLocksExclude(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	if excludes, err := lock.LocksExclude(dir); !excludes || err != nil {
		t.Error(excludes, err)
	}
	if files, err := os.ReadDir(filepath.Dir(memberFile(m, dir))); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	if excludes, err := lock.LocksExclude(newDir(t)); excludes || !errors.Is(err, fs.ErrNotExist) {
		t.Error("no members:", excludes, err)
	}
}

func TestM3Clock(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	var now time.Duration
	o := lock.NewObserver(lock.ObserverOptions{Dir: dir, Now: func() time.Duration { return now }}) // by beats alone
	look := func(step, want time.Duration) {
		t.Helper()
		now += step
		r, err := o.Look(m.Instance())
		if err != nil || r.Unmoved != want || r.Hung(3*time.Second) != (want >= 3*time.Second) {
			t.Errorf("at %v: unmoved %v, hung %v, %v; want %v", now, r.Unmoved, r.Hung(3*time.Second), err, want)
		}
	}
	beat := func() {
		t.Helper()
		if err := m.Beat(); err != nil {
			t.Error(err)
		}
	}
	look(time.Hour, 0) // a first reading starts the clock
	look(time.Second, time.Second)
	look(time.Second, 2*time.Second)
	look(time.Second, 3*time.Second) // hung
	beat()
	look(time.Second, 0)
	look(2*time.Second, 2*time.Second)
	look(2001*time.Millisecond, 0) // a gap of the observer's own
	look(2*time.Second, 2*time.Second)
	writeFile(t, memberFile(m, dir), "00000000000000000000\n{}") // any difference, also back
	look(time.Second, 0)
	look(time.Second, time.Second)
	if err := os.Remove(memberFile(m, dir)); err != nil {
		t.Fatal(err)
	}
	look(time.Second, 0) // so is that the file is gone
	look(2*time.Second, 2*time.Second)
	look(time.Second, 3*time.Second)
	for _, nobody := range []string{"", ".", "..", "../locks.json", "a/b"} {
		if r, err := o.Look(nobody); err != nil || r.Exists || r.Unmoved != 0 {
			t.Errorf("%q: %+v %v", nobody, r, err)
		}
	}
}

func TestM4MadeAnew(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir, path string) error
	}{
		{"M4 removed", func(_ *testing.T, _, path string) error { return os.Remove(path) }},
		{"M4 replaced", func(_ *testing.T, _, path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("x"), 0o600))
		}},
		{"M4 emptied", func(_ *testing.T, _, path string) error { return os.Truncate(path, 0) }},
		{"M4 overwritten", func(_ *testing.T, _, path string) error {
			return os.WriteFile(path, []byte("not a member's file"), 0o600)
		}},
		{"M4 members removed", func(_ *testing.T, _, path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		{"M4 all removed", func(_ *testing.T, dir, _ string) error { return os.RemoveAll(dir) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			if err := errors.Join(m.SetRole(lock.RoleLeader, 9), m.Beat(), m.Check()); err != nil {
				t.Fatal(err)
			}
			if err := tt.damage(t, dir, memberFile(m, dir)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(m.Beat(), m.Check(), m.Beat()); err != nil {
				t.Fatal(err)
			}
			r, err := newObserver(dir).Look(m.Instance())
			if err != nil || r.Kernel != lock.LockHeld || r.Beat != 3 || r.Info.Role != lock.RoleLeader || r.Info.Term != 9 {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	dir := newDir(t)
	o := newObserver(dir)
	if members, err := o.Members(); len(members) != 0 || err != nil {
		t.Error("no directory:", members, err)
	}
	for _, instance := range []string{"b", "a", "c"} {
		m, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Instance: instance})
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, m)
	}
	writeFile(t, filepath.Join(dir, "members", ".d.new"), "x")
	mkdir(t, filepath.Join(dir, "members", "e"))
	writeFile(t, filepath.Join(dir, "members", "f"), readFile(t, filepath.Join(dir, "members", "a")))
	writeFile(t, filepath.Join(dir, "members", "g"), "torn")
	members, err := o.Members()
	var got []string
	for _, r := range members {
		got = append(got, r.Info.Instance)
	}
	if err != nil || fmt.Sprint(got) != "[a b c f g]" {
		t.Errorf("%v %v", got, err)
	}
}

func TestClosedMember(t *testing.T) {
	m, err := lock.OpenMember(lock.MemberOptions{Dir: newDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Beat": m.Beat(), "Check": m.Check(), "SetRole": m.SetRole(lock.RoleLeader, 1), "SetName": m.SetName("x"),
		"Run": m.Run(ctx, func() bool { return true }),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunBeatsWhileAlive(t *testing.T) {
	dir := newDir(t)
	m, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Heartbeat: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, m)
	ctx, cancel := context.WithCancel(ctx)
	asked := 0
	err = m.Run(ctx, func() bool {
		if asked++; asked == 10 {
			cancel()
		}
		return asked <= 3
	})
	r, lerr := newObserver(dir).Look(m.Instance())
	if err != nil || lerr != nil || r.Beat != 3 {
		t.Errorf("beat %d, %v %v", r.Beat, err, lerr)
	}
}

// TestM3GapIsTheObserversOwn: who looks at others meanwhile was not stopped, so
// that a beat which stood between two looks stood all the time.
func TestM3GapIsTheObserversOwn(t *testing.T) {
	dir := newDir(t)
	m, other := openMember(t, dir), openMember(t, dir)
	var now time.Duration
	o := lock.NewObserver(lock.ObserverOptions{Dir: dir, Now: func() time.Duration { return now }})
	unmoved := func(m *lock.Member) time.Duration {
		t.Helper()
		r, err := o.Look(m.Instance())
		if err != nil {
			t.Fatal(err)
		}
		return r.Unmoved
	}
	unmoved(m)
	for range 5 {
		now += time.Second
		unmoved(other)
	}
	if got := unmoved(m); got != 5*time.Second {
		t.Errorf("stood for %v, want 5 s", got)
	}
	now += 2001 * time.Millisecond // stopped itself
	if got := unmoved(other); got != 0 {
		t.Errorf("after a gap: stood for %v", got)
	}
	now += time.Second
	if got := unmoved(m); got != time.Second {
		t.Errorf("a second after a gap: stood for %v", got)
	}
}

// TestM3AfterEOF: a lock that seems held is tried again for 39 ms.
func TestM3AfterEOF(t *testing.T) {
	for _, tt := range []struct {
		held time.Duration
		want bool
	}{{0, true}, {100 * time.Microsecond, true}, {4 * time.Millisecond, true}, {38 * time.Millisecond, true}, {39 * time.Millisecond, false}, {time.Hour, false}} {
		t.Run(fmt.Sprint("M3 held for ", tt.held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				m := openMember(t, dir)
				began := time.Now()
				o := lock.NewObserverWith(lock.ObserverOptions{Dir: dir, LocksBelieved: true}, func(*os.File, bool) error {
					if time.Since(began) < tt.held {
						return lock.ErrHeld
					}
					return nil
				})
				if got := o.DeadAfterEOF(ctx, m.Instance()); got != tt.want {
					t.Errorf("dead: %v after %v", got, time.Since(began))
				}
				if took := time.Since(began); took > 39*time.Millisecond {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestM5KnownDead: what an observer remembers of the dead is what they said last,
// ends with their files, and hides nobody who lives.
func TestM5KnownDead(t *testing.T) {
	dir := newState(t)
	o := newObserver(dir)
	highest := func() (highest uint64, alive, dead int) {
		readings, err := o.Members()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range readings {
			highest = max(highest, r.Info.Term)
			if r.Dead() {
				dead++
			} else {
				alive++
			}
		}
		return highest, alive, dead
	}
	want := func(term uint64, alive, dead int) {
		t.Helper()
		if gotTerm, gotAlive, gotDead := highest(); gotTerm != term || gotAlive != alive || gotDead != dead {
			t.Errorf("term %d, %d live, %d dead; want %d, %d, %d", gotTerm, gotAlive, gotDead, term, alive, dead)
		}
	}
	m := openMember(t, dir)
	m.NoteTerm(3)
	want(3, 1, 0)
	m.NoteTerm(7)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	want(7, 0, 1)
	want(7, 0, 1)
	l := newLock(t, dir, openMember(t, dir))
	if r, err := l.Acquire(t.Context(), lock.Plain, nil); err != nil || r.Term != 8 {
		t.Errorf("%+v, %v; want term 8", r, err)
	}
	if err := os.Remove(memberFile(m, dir)); err != nil {
		t.Fatal(err)
	}
	want(8, 1, 0)
}

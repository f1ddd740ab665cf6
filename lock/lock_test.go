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
	"testing"
	"time"

	"tgbridge/internal/secret"
	"tgbridge/lock"
)

var ctx = context.Background()

// entryJSON is an entry of this process's member m, as another runtime or an
// older version may have written it.
func entryJSON(tb testing.TB, m *lock.Member, change func(map[string]any)) string {
	tb.Helper()
	i := m.Info()
	e := map[string]any{
		"pid": i.PID, "cwd": "/srv/here", "instanceId": i.Instance, "leaderEpoch": 5, "runtimeGeneration": 1,
		"bootId": i.BootID, "pidNamespace": i.PIDNamespace, "bornAt": i.BornAt,
	}
	if change != nil {
		change(e)
	}
	raw, err := json.Marshal(map[string]any{key: e})
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

func registryOf(dir string) string { return filepath.Join(dir, "locks.json") }

func mustOwn(tb testing.TB, l *lock.Lock, want bool) {
	tb.Helper()
	if owns, err := l.Owns(); owns != want || err != nil {
		tb.Errorf("Owns() = %v, %v; want %v", owns, err, want)
	}
}

func TestAcquireAndRelease(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	o := testOptions(dir, m)
	o.SocketPath, o.Secret = "sockets/x.sock", secret.New("hush")
	l, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	mustOwn(t, l, false)
	res := mustAcquire(t, l)
	if !res.Wrote || res.ReplacedStale || res.Term != 1 || res.State != lock.Inactive || res.Owner != nil {
		t.Errorf("A1: %+v", res)
	}
	e, err := l.Current()
	if err != nil || e.BusSocketPath != "sockets/x.sock" || e.BusSecret.Reveal() != "hush" || e.Name != "test" || e.Version != "v1" {
		t.Errorf("published %+v %v", e, err)
	}
	before := readFile(t, registryOf(dir))
	res = mustAcquire(t, l)
	if res.Wrote || res.Term != 1 || res.State != lock.ActiveHere || readFile(t, registryOf(dir)) != before {
		t.Errorf("A3: %+v", res)
	}
	if term, owns, err := l.OwnedTerm(); term != 1 || !owns || err != nil {
		t.Error("R8:", term, owns, err)
	}
	if state, released, err := l.Release(ctx); state != lock.ActiveHere || !released || err != nil {
		t.Error("R2:", state, released, err)
	}
	mustOwn(t, l, false)
	if term, owns, err := l.OwnedTerm(); term != 0 || owns || err != nil {
		t.Error("R8 after release:", term, owns, err)
	}
	if e, err := l.Current(); e.Held() || e.Epoch != 1 || e.ReleasedMs == 0 || err != nil {
		t.Errorf("released lease %+v %v", e, err)
	}
	if res := mustAcquire(t, l); res.Term != 2 {
		t.Errorf("term %d after a release, want 2", res.Term)
	}
	if info, err := os.Stat(registryOf(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Error("R12:", info.Mode(), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	noDebris(t, dir)
}

// TestForceTakesFromTheExpectedOwner is A4, A5 and A6 with two members of two
// "processes": the second is on another host.
func TestForceTakesFromTheExpectedOwner(t *testing.T) {
	dir := newDir(t)
	first := newLock(t, dir, openMember(t, dir))
	mustAcquire(t, first)
	host := lock.ThisHost()
	host.PID, host.PIDNamespace = 1, "pid:[2]"
	m, err := lock.OpenMemberAs(lock.MemberOptions{Dir: dir}, host, lock.SystemFlock)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, m)
	second := newLock(t, dir, m)
	owner, err := first.Current()
	if err != nil {
		t.Fatal(err)
	}
	res, err := second.Acquire(ctx, lock.Plain, nil)
	if err != nil || res.Acquired || res.State != lock.ActiveElsewhere || !res.Owner.SameOwner(owner) {
		t.Fatalf("A4: %+v %v", res, err)
	}
	older := owner
	older.Epoch--
	for _, expected := range []*lock.Entry{nil, &older} {
		if res, err := second.Acquire(ctx, lock.Force, expected); err != nil || res.Acquired {
			t.Fatalf("A6: %+v %v", res, err)
		}
	}
	res, err = second.Acquire(ctx, lock.Force, &owner)
	if err != nil || !res.Acquired || res.Term != 2 || res.ReplacedStale || !res.Owner.SameOwner(owner) {
		t.Fatalf("A5: %+v %v", res, err)
	}
	mustOwn(t, first, false)
	mustOwn(t, second, true)
}

// TestTwoRuntimes is A4, A10, A11 and R5 with two runtimes of one process.
func TestTwoRuntimes(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	older, younger := newLock(t, dir, m), newLock(t, dir, m)
	mustAcquire(t, older)
	owner, err := older.Current()
	if err != nil {
		t.Fatal(err)
	}
	if res, err := younger.Acquire(ctx, lock.Plain, nil); err != nil || res.Acquired || res.State != lock.ActiveHere {
		t.Fatalf("A4: %+v %v", res, err)
	}
	mustOwn(t, younger, false)
	if res, err := younger.Acquire(ctx, lock.Force, &owner); err != nil || !res.Acquired || res.State != lock.ActiveHere {
		t.Fatalf("A10: %+v %v", res, err)
	}
	mustOwn(t, older, false)
	owner, err = younger.Current()
	if err != nil {
		t.Fatal(err)
	}
	if res, err := older.Acquire(ctx, lock.Force, &owner); err != nil || res.Acquired {
		t.Fatalf("A11: %+v %v", res, err)
	}

	o := testOptions(dir, m)
	o.Key = "other"
	other, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	mustOwn(t, other, false)
	if owns, err := other.Refresh(ctx); owns || err != nil {
		t.Error("R5 refresh:", owns, err)
	}
	if _, released, err := other.Release(ctx); released || err != nil {
		t.Error("R5 release:", released, err)
	}
	mustAcquire(t, other)
	mustOwn(t, younger, true)
}

func TestR1Refresh(t *testing.T) {
	tests := []struct {
		name     string
		registry func(l *lock.Lock, m *lock.Member) string // "" removes it
		want     bool
		changed  bool
	}{
		{"R1 own", nil, true, false},
		{"R1 registry gone", func(*lock.Lock, *lock.Member) string { return "" }, false, false},
		{"R1 entry gone", func(*lock.Lock, *lock.Member) string { return "{}" }, false, false},
		{"R1 another's", func(_ *lock.Lock, m *lock.Member) string {
			return entryJSON(t, m, func(e map[string]any) { e["pid"] = 1; e["leaderEpoch"] = 9 })
		}, false, false},
		{"R1 registry damaged", func(*lock.Lock, *lock.Member) string { return "{" }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			l := newLock(t, dir, m)
			mustAcquire(t, l)
			own := readFile(t, registryOf(dir))
			want := own
			if tt.registry != nil {
				want = tt.registry(l, m)
				if err := os.Remove(registryOf(dir)); err != nil {
					t.Fatal(err)
				}
				if want != "" {
					writeFile(t, registryOf(dir), want)
				}
			}
			if owns, err := l.Refresh(ctx); owns != tt.want || err != nil {
				t.Fatalf("got %v %v, want %v", owns, err, tt.want)
			}
			if want == "" {
				if _, err := os.Stat(registryOf(dir)); err == nil {
					t.Error("a lost lease was re-created")
				}
			} else if got := readFile(t, registryOf(dir)); got != want {
				t.Errorf("registry changed to %s", got)
			}
			if !tt.want {
				// Forgotten: not even the same entry makes it the owner by memory.
				writeFile(t, registryOf(dir), own)
				if ran, err := l.Commit(ctx, "f", func([]byte) ([]byte, error) { return []byte("x"), nil }); ran || err != nil {
					t.Error("not forgotten:", ran, err)
				}
			}
		})
	}
}

// TestR1Completes: an adopted entry gets a term, a generation and the socket
// path, and keeps its secret.
func TestR1Completes(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	o := testOptions(dir, m)
	o.SocketPath, o.Secret = "new.sock", secret.New("new")
	o.Floor = func() (uint64, error) { return 40, nil }
	l, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, registryOf(dir), entryJSON(t, m, func(e map[string]any) {
		delete(e, "leaderEpoch")
		delete(e, "runtimeGeneration")
		e["busSocketPath"], e["busSecret"] = "old.sock", "kept"
	}))
	if owns, err := l.Refresh(ctx); !owns || err != nil {
		t.Fatal(owns, err)
	}
	e, err := l.Current()
	if err != nil || e.Epoch != 41 || e.Generation == 0 || e.BusSocketPath != "new.sock" || e.BusSecret.Reveal() != "kept" {
		t.Errorf("%+v %v", e, err)
	}
	mustOwn(t, l, true)
}

func TestR2ReleaseByOthers(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	owner, other := newLock(t, dir, m), newLock(t, dir, m)
	if state, released, err := other.Release(ctx); state != lock.Inactive || released || err != nil {
		t.Error("of nobody's lease:", state, released, err)
	}
	mustAcquire(t, owner)
	before := readFile(t, registryOf(dir))
	if state, released, err := other.Release(ctx); state != lock.ActiveHere || released || err != nil {
		t.Error("of another's lease:", state, released, err)
	}
	if readFile(t, registryOf(dir)) != before {
		t.Error("the registry changed")
	}
	mustOwn(t, owner, true)
	// Of a lease that was lost meanwhile: nothing changes, and it is forgotten.
	theirs := entryJSON(t, m, func(e map[string]any) { e["instanceId"], e["pid"], e["leaderEpoch"] = "other", 1, 9 })
	writeFile(t, registryOf(dir), theirs)
	if state, released, err := owner.Release(ctx); state != lock.Stale || released || err != nil {
		t.Error("of a lost lease:", state, released, err)
	}
	if readFile(t, registryOf(dir)) != theirs {
		t.Error("the registry changed")
	}
}

func TestR3Owns(t *testing.T) {
	dir := newDir(t)
	l := newLock(t, dir, openMember(t, dir))
	mustAcquire(t, l)
	own := readFile(t, registryOf(dir))
	for _, damage := range []string{"", "{", "\x00\x00\x00", "[]"} {
		writeFile(t, registryOf(dir), damage)
		mustOwn(t, l, false)
	}
	if err := os.Remove(registryOf(dir)); err != nil {
		t.Fatal(err)
	}
	mustOwn(t, l, false)
	mkdir(t, registryOf(dir))
	if owns, err := l.Owns(); owns || !lock.IsUnusable(err) {
		t.Error("a read that failed:", owns, err)
	}
	if owns, err := l.Refresh(ctx); owns || err == nil {
		t.Error("a refresh that failed:", owns, err)
	}
	if err := os.Remove(registryOf(dir)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, registryOf(dir), own)
	if ran, err := l.Commit(ctx, "f", func([]byte) ([]byte, error) { return []byte("x"), nil }); !ran || err != nil {
		t.Error("a read that failed made it forget:", ran, err)
	}
}

func TestR4Commit(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	owner, other := newLock(t, dir, m), newLock(t, dir, m)
	mustAcquire(t, owner)
	for want := range 3 {
		ran, err := owner.Commit(ctx, "data", func(current []byte) ([]byte, error) {
			if len(current) != want {
				t.Errorf("content %q", current)
			}
			return append(current, 'x'), nil
		})
		if !ran || err != nil {
			t.Fatal(ran, err)
		}
	}
	wanted := errors.New("wanted")
	if _, err := owner.Commit(ctx, "data", func([]byte) ([]byte, error) { return []byte("y"), wanted }); !errors.Is(err, wanted) {
		t.Error(err)
	}
	if ran, err := owner.Commit(ctx, "data", func([]byte) ([]byte, error) { return nil, nil }); !ran || err != nil {
		t.Error("nothing to publish:", ran, err)
	}
	ran, err := other.Commit(ctx, "data", func([]byte) ([]byte, error) {
		t.Error("ran for one that is not the owner")
		return nil, nil
	})
	if ran || err != nil {
		t.Error(ran, err)
	}
	for _, file := range []string{"", ".", "..", "a/b", "/a", "locks.json", "locks.json.transaction", "members"} {
		if _, err := owner.Commit(ctx, file, nil); err == nil {
			t.Errorf("file %q accepted", file)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = owner.Commit(ctx, "data", func([]byte) ([]byte, error) { panic("boom") })
	}()
	noDebris(t, dir) // D3: released after a panic, too
	if got := readFile(t, filepath.Join(dir, "data")); got != "xxx" {
		t.Errorf("content %q", got)
	}
	writeFile(t, registryOf(dir), "{")
	if ran, err := owner.Commit(ctx, "data", nil); ran || !errors.Is(err, lock.ErrDamaged) {
		t.Error("R6:", ran, err)
	}
}

// TestR7ReadersSeeWholeFiles reads while the registry is rewritten.
func TestR7ReadersSeeWholeFiles(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if owns, err := l.Owns(); !owns || err != nil {
					t.Errorf("Owns() = %v %v", owns, err)
					return
				}
			}
		})
	}
	o := lock.TransactionOptions{Dir: dir, File: "locks.json", Member: m}
	for i := range 20 {
		err := lock.Transaction(ctx, o, func(current []byte) ([]byte, error) {
			return lock.EditRegistry(current, "other", fmt.Appendf(nil, "%q", strings.Repeat("x", i*100)))
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 { // a takeover from itself is never seen as a loss
			if res, err := l.Raise(ctx, uint64(100*(i+1))); err != nil || !res.Acquired {
				t.Fatal(res, err)
			}
		}
	}
	close(stop)
	readers.Wait()
}

func TestR10Adopts(t *testing.T) {
	entry := func(t *testing.T, m *lock.Member) string {
		return entryJSON(t, m, func(e map[string]any) { delete(e, "runtimeGeneration") })
	}
	tests := []struct {
		name string
		do   func(l *lock.Lock) (bool, error)
		want bool
	}{
		{"R10 owns", func(l *lock.Lock) (bool, error) { return l.Owns() }, true},
		{"R10 refresh", func(l *lock.Lock) (bool, error) { return l.Refresh(ctx) }, true},
		{"R10 owned term", func(l *lock.Lock) (bool, error) { term, _, err := l.OwnedTerm(); return term == 5, err }, true},
		{"R10 acquire", func(l *lock.Lock) (bool, error) {
			res, err := l.Acquire(ctx, lock.Plain, nil)
			return res.Acquired && !res.Wrote && res.Term == 5, err
		}, true},
		{"R10 never release", func(l *lock.Lock) (bool, error) { _, released, err := l.Release(ctx); return released, err }, false},
		{"R10 never commit", func(l *lock.Lock) (bool, error) {
			return l.Commit(ctx, "f", func([]byte) ([]byte, error) { return []byte("x"), nil })
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			l := newLock(t, dir, m)
			writeFile(t, registryOf(dir), entry(t, m))
			if got, err := tt.do(l); got != tt.want || err != nil {
				t.Errorf("got %v %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestF44NewerVersion: what a newer version wrote is kept, and its live owner
// respected.
func TestF44NewerVersion(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	live := openMember(t, dir)
	doc := fmt.Sprintf(`{"schema": 3, %q: {"pid": 4, "instanceId": %q, "leaderEpoch": 6, "version": 9, "shards": [1, 2]}, "x": {"pid":"?"}}`, key, live.Instance())
	writeFile(t, registryOf(dir), doc)
	if res, err := l.Acquire(ctx, lock.Plain, nil); err != nil || res.State != lock.ActiveElsewhere {
		t.Fatalf("%+v %v", res, err)
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	if res := mustAcquire(t, l); res.Term != 7 || !res.ReplacedStale {
		t.Errorf("%+v", res)
	}
	got := readFile(t, registryOf(dir))
	if !strings.HasPrefix(got, `{"schema": 3, "`+key+`": {`) || !strings.HasSuffix(got, `}, "x": {"pid":"?"}}`) {
		t.Errorf("registry is now %s", got)
	}
}

// TestHungOwnerRevives: the beat is read once more right before publishing.
func TestHungOwnerRevives(t *testing.T) {
	dir := newState(t)
	owner := openMember(t, dir)
	m := openMember(t, dir)
	var now time.Duration
	o := testOptions(dir, m)
	o.Observer = lock.NewObserver(lock.ObserverOptions{Dir: dir, LocksBelieved: true, MaxGap: time.Hour, Now: func() time.Duration { return now }})
	o.Floor = func() (uint64, error) { return 0, owner.Beat() } // between judging and publishing
	l, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, registryOf(dir), entryJSON(t, owner, func(e map[string]any) { e["pid"] = 1 }))
	if res, err := l.Acquire(ctx, lock.Plain, nil); err != nil || res.State != lock.ActiveElsewhere {
		t.Fatalf("%+v %v", res, err)
	}
	now += testStaleAfter
	before := readFile(t, registryOf(dir))
	res, err := l.Acquire(ctx, lock.Plain, nil)
	if err != nil || res.Acquired || res.State != lock.ActiveElsewhere || res.Owner == nil {
		t.Errorf("%+v %v", res, err)
	}
	if readFile(t, registryOf(dir)) != before {
		t.Error("published all the same")
	}
	mustOwn(t, l, false)
	noDebris(t, dir)
}

func TestOptions(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	good := lock.Options{Dir: dir, Key: "k", Member: m}
	tests := []struct {
		name   string
		change func(*lock.Options)
		want   string
	}{
		{"defaults", func(*lock.Options) {}, ""},
		{"no directory", func(o *lock.Options) { o.Dir = "" }, "no state directory"},
		{"no key", func(o *lock.Options) { o.Key = "" }, "key"},
		{"no member", func(o *lock.Options) { o.Member = nil }, "no member"},
		{"heartbeat", func(o *lock.Options) { o.Heartbeat = 1001 * time.Millisecond }, "heartbeat"},
		{"check", func(o *lock.Options) { o.OwnershipCheck = 2001 * time.Millisecond }, "ownership check"},
		{"check, short stale-after", func(o *lock.Options) { o.StaleAfter, o.Heartbeat = time.Second, 200*time.Millisecond }, "ownership check"},
		{"negative", func(o *lock.Options) { o.StaleAfter = -1 }, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			_, err := lock.New(o)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if lock.DefaultHeartbeat != time.Second || lock.DefaultStaleAfter != 5*time.Second || lock.DefaultOwnershipCheck != time.Second {
		t.Error("S9: defaults")
	}
}

// TestR1AcquireGivesATerm: an entry without a term is not acquired as it is: every
// owner has one.
func TestR1AcquireGivesATerm(t *testing.T) {
	for name, epoch := range map[string]any{"missing": nil, "zero": 0} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			l := newLock(t, dir, m)
			m.NoteTerm(7)
			writeFile(t, registryOf(dir), entryJSON(t, m, func(e map[string]any) {
				delete(e, "runtimeGeneration")
				e["leaderEpoch"] = epoch
			}))
			res, err := l.Acquire(ctx, lock.Plain, nil)
			if err != nil || !res.Acquired || !res.Wrote || res.Term != 8 {
				t.Fatalf("got %+v %v, want term 8", res, err)
			}
			if term, owns, err := l.OwnedTerm(); term != 8 || !owns || err != nil {
				t.Errorf("owned term %d %v %v", term, owns, err)
			}
			if m.HighestTerm() != 8 {
				t.Errorf("highest term %d", m.HighestTerm())
			}
		})
	}
}

// TestS16LeaseMisnamesItsMember: an entry that names a member's only runtime, but
// is not what that published, is nobody's: the member takes it at once, since
// everyone else sees a live owner.
func TestS16LeaseMisnamesItsMember(t *testing.T) {
	edits := map[string]func(map[string]any){
		"epoch broken":   func(e map[string]any) { e["leaderEpoch"] = 1.5 },
		"epoch negative": func(e map[string]any) { e["leaderEpoch"] = -5 },
		"epoch a text":   func(e map[string]any) { e["leaderEpoch"] = "7" },
		"epoch higher":   func(e map[string]any) { e["leaderEpoch"] = 9 },
		"epoch lower":    func(e map[string]any) { e["leaderEpoch"] = 2 },
		"cwd":            func(e map[string]any) { e["cwd"] = "/elsewhere" },
		"generation":     func(e map[string]any) { e["runtimeGeneration"] = 1 << 50 },
		"pid":            func(e map[string]any) { e["pid"] = 1 },
	}
	for name, edit := range edits {
		for _, led := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, led before: %v", name, led), func(t *testing.T) {
				dir := newDir(t)
				m := openMember(t, dir)
				l := newLock(t, dir, m)
				m.NoteTerm(5)
				if led {
					mustAcquire(t, l)
				}
				writeFile(t, registryOf(dir), entryJSON(t, m, edit))
				state, now, err := l.State()
				if err != nil || state != lock.Stale {
					t.Fatalf("state %v %v, want stale", state, err)
				}
				other := newLock(t, dir, openMember(t, dir))
				if state, _, err := other.State(); err != nil || state == lock.Stale || state == lock.Inactive {
					t.Errorf("to another member it is %v %v", state, err)
				}
				mustOwn(t, l, false)
				res, err := l.Acquire(ctx, lock.Election, &now)
				if err != nil || !res.Acquired || !res.Wrote || !res.ReplacedStale || res.Term < 6 {
					t.Fatalf("got %+v %v", res, err)
				}
				mustOwn(t, l, true)
			})
		}
	}
}

// TestStateOfTheOwnLease: what a runtime holds, or may adopt, is active here.
func TestStateOfTheOwnLease(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	if state, _, err := l.State(); err != nil || state != lock.ActiveHere {
		t.Errorf("own: %v %v", state, err)
	}
	dir = newDir(t)
	m = openMember(t, dir)
	l = newLock(t, dir, m)
	writeFile(t, registryOf(dir), entryJSON(t, m, func(e map[string]any) { delete(e, "runtimeGeneration") }))
	if state, _, err := l.State(); err != nil || state != lock.ActiveHere {
		t.Errorf("adoptable: %v %v", state, err)
	}
	if _, released, err := l.Release(ctx); released || err != nil {
		t.Error("State adopted it:", err)
	}
}

// TestReadsAreFresh: what a Lock remembers of the registry is nothing but the
// meaning of the same bytes.
func TestReadsAreFresh(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	own := readFile(t, registryOf(dir))
	other := strings.Replace(own, `"leaderEpoch":1,`, `"leaderEpoch":2,`, 1)
	for i := range 4 {
		content, epoch := own, uint64(1)
		if i%2 == 1 {
			content, epoch = other, 2
		}
		writeFile(t, registryOf(dir), content)
		for range 2 {
			if e, err := l.Current(); err != nil || e.Epoch != epoch {
				t.Fatalf("epoch %d %v, want %d", e.Epoch, err, epoch)
			}
			mustOwn(t, l, epoch == 1)
		}
	}
	writeFile(t, registryOf(dir), "")
	if _, err := l.Current(); !errors.Is(err, lock.ErrDamaged) {
		t.Errorf("an empty registry: %v", err)
	}
	if err := os.Remove(registryOf(dir)); err != nil {
		t.Fatal(err)
	}
	if e, err := l.Current(); err != nil || e.Held() {
		t.Errorf("no registry: %+v %v", e, err)
	}
}

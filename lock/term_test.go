//go:build unix

package lock_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
)

func TestNewTermIsAboveAll(t *testing.T) {
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string, m *lock.Member, o *lock.Options)
		want  uint64
	}{
		{"first", func(*testing.T, string, *lock.Member, *lock.Options) {}, 1},
		{"entry", func(t *testing.T, dir string, _ *lock.Member, _ *lock.Options) {
			writeFile(t, registryOf(dir), `{"`+key+`":{"leaderEpoch":7,"releasedMs":1}}`)
		}, 8},
		{"entry that is none", func(t *testing.T, dir string, _ *lock.Member, _ *lock.Options) {
			writeFile(t, registryOf(dir), `{"`+key+`":{"leaderEpoch":7,"pid":"x"}}`)
		}, 8},
		{"entry with a text", func(t *testing.T, dir string, _ *lock.Member, _ *lock.Options) {
			writeFile(t, registryOf(dir), `{"`+key+`":{"leaderEpoch":"7"}}`)
		}, 8},
		{"floor", func(_ *testing.T, _ string, _ *lock.Member, o *lock.Options) {
			o.Floor = func() (uint64, error) { return 20, nil }
		}, 21},
		{"this process", func(_ *testing.T, _ string, m *lock.Member, _ *lock.Options) { m.NoteTerm(30) }, 31},
		{"a dead member's file", func(t *testing.T, dir string, _ *lock.Member, _ *lock.Options) {
			dead, err := lock.OpenMember(lock.MemberOptions{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(dead.SetRole(lock.RoleLeader, 50), dead.Close()); err != nil {
				t.Fatal(err)
			}
		}, 51},
		{"the highest but one", func(_ *testing.T, _ string, m *lock.Member, _ *lock.Options) { m.NoteTerm(1<<52 - 1) }, 1 << 52},
		{"text beyond", func(t *testing.T, dir string, _ *lock.Member, _ *lock.Options) {
			writeFile(t, registryOf(dir), `{"`+key+`":{"leaderEpoch":"4503599627370497"}}`)
		}, 1},
		{"beyond: what this process was told", func(_ *testing.T, _ string, m *lock.Member, _ *lock.Options) { m.NoteTerm(1<<52 + 1) }, 1},
		{"beyond: floor", func(_ *testing.T, _ string, _ *lock.Member, o *lock.Options) {
			o.Floor = func() (uint64, error) { return 1<<52 + 1, nil }
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			m := openMember(t, dir)
			o := testOptions(dir, m)
			tt.setup(t, dir, m, &o)
			l, err := lock.New(o)
			if err != nil {
				t.Fatal(err)
			}
			if res := mustAcquire(t, l); res.Term != tt.want {
				t.Errorf("term %d, want %d", res.Term, tt.want)
			}
			if m.HighestTerm() != tt.want {
				t.Errorf("highest term %d", m.HighestTerm())
			}
		})
	}
}

// beyond are terms that there cannot be.
var beyond = []string{
	"4503599627370497", "9007199254740990", "9007199254740991", "9007199254740992", "18446744073709551615", "18446744073709551616",
}

// TestTermBeyondInMemberFile: what a member's file says of such a term is not
// counted, and neither is it taken for a torn line: the rest holds.
func TestTermBeyondInMemberFile(t *testing.T) {
	for _, field := range []string{"joined", "term"} {
		for _, term := range beyond[:len(beyond)-1] { // the last one is no uint64, and the line torn
			t.Run(field+" "+term, func(t *testing.T) {
				dir := newState(t)
				m, dead := openMember(t, dir), deadMember(t, dir)
				number, _, _ := strings.Cut(readFile(t, memberFile(dead, dir)), "\n")
				writeFile(t, memberFile(dead, dir), number+"\n"+`{"locks":true,"bootId":"`+dead.Info().BootID+`","joined":6,"term":6,"`+field+`":`+term+"}\n")
				if r, err := newObserver(dir).Look(dead.Instance()); err != nil || r.Torn || !r.Dead() || r.Info.Joined+r.Info.Term != 6 {
					t.Errorf("%+v %v", r, err)
				}
				if res := mustAcquire(t, newLock(t, dir, m)); res.Term != 7 || res.DamagedCopy != "" {
					t.Errorf("%+v, want term 7", res)
				}
			})
		}
	}
}

// TestTermBeyondInLease: such a lease, held or released, proves as little as a
// damaged registry (R6, R9), and what else is in the registry stays.
func TestTermBeyondInLease(t *testing.T) {
	live := fmt.Sprint(os.Getpid())
	for _, owner := range []string{``, `"pid":2147483647,"instanceId":"gone",`, `"pid":` + live + `,"instanceId":"gone",`} {
		for _, term := range beyond {
			t.Run(owner+term, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := newDir(t)
					mkdir(t, dir)
					doc := `{"other": {"leaderEpoch": 9007199254740993}, "` + key + `": {` + owner + `"leaderEpoch":` + term + `,"releasedMs":1}}`
					writeFile(t, registryOf(dir), doc)
					m := openMember(t, dir)
					m.NoteTerm(6)
					l := newLock(t, dir, m)
					mustOwn(t, l, false)
					if e, err := l.Current(); !errors.Is(err, lock.ErrDamaged) || !strings.Contains(err.Error(), term) || e.Held() {
						t.Errorf("current: %+v %v", e, err)
					}
					if _, err := lock.ReadLease(dir, key); !errors.Is(err, lock.ErrDamaged) {
						t.Errorf("read: %v", err)
					}
					if s, e, err := l.State(); s != lock.Inactive || e.Held() || err != nil {
						t.Errorf("state: %v %+v %v", s, e, err)
					}
					if err := lock.TakeFrom(ctx, testOptions(dir, m), lock.Entry{}); !errors.Is(err, lock.ErrDamaged) {
						t.Errorf("take from: %v", err)
					}
					if got := readFile(t, registryOf(dir)); got != doc {
						t.Errorf("changed to %s", got)
					}
					began := time.Now()
					res := mustAcquire(t, l)
					if took := time.Since(began); took < 3*time.Second || took > 3200*time.Millisecond {
						t.Errorf("took %v, want 3 s", took)
					}
					if res.Term != 7 || res.Owner != nil || readFile(t, res.DamagedCopy) != doc {
						t.Errorf("%+v, want term 7 and a copy", res)
					}
					if got := readFile(t, registryOf(dir)); !strings.HasPrefix(got, `{"other": {"leaderEpoch": 9007199254740993}, "`+key+`": {"pid":`) {
						t.Errorf("registry is now %s", got)
					}
				})
			})
		}
	}
}

// TestTermBeyondUnderALeader: a leader whose lease gets such a term has lost it,
// and is waited for until it stepped down.
func TestTermBeyondUnderALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newState(t)
		leader := openMember(t, dir)
		l := newLock(t, dir, leader)
		if err := leader.SetRole(lock.RoleLeader, mustAcquire(t, l).Term); err != nil {
			t.Fatal(err)
		}
		writeFile(t, registryOf(dir), strings.Replace(readFile(t, registryOf(dir)), `"leaderEpoch":1`, `"leaderEpoch":9007199254740990`, 1))
		if owns, err := l.Refresh(ctx); owns || err != nil {
			t.Fatal("refresh:", owns, err)
		}
		if _, _, err := l.Release(ctx); err != nil { // forgotten: nothing to release
			t.Error("release:", err)
		}
		began := time.Now()
		var beating sync.WaitGroup
		beating.Go(func() {
			for time.Since(began) < 10*time.Second {
				if err := leader.Beat(); err != nil {
					t.Error(err)
				}
				time.Sleep(testHeartbeat)
			}
			if err := leader.SetRole(lock.RoleFollower, 0); err != nil {
				t.Error(err)
			}
		})
		res := mustAcquire(t, newLock(t, dir, openMember(t, dir)))
		if took := time.Since(began); took < 10*time.Second || took > 10200*time.Millisecond || res.Term != 2 {
			t.Errorf("term %d after %v, want 2 after 10 s", res.Term, took)
		}
		beating.Wait()
	})
}

// TestNoTermIsLeft: it is said where to look, and nothing is given.
func TestNoTermIsLeft(t *testing.T) {
	dir := newDir(t)
	o := testOptions(dir, openMember(t, dir))
	o.Floor = func() (uint64, error) { return lock.MaxTerm, nil }
	l, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := l.Acquire(ctx, lock.Plain, nil)
	if res.Acquired || !lock.IsUnusable(err) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "4503599627370496") {
		t.Errorf("%+v %v", res, err)
	}
	mustOwn(t, l, false)
	noDebris(t, dir)
}

func TestFloorFails(t *testing.T) {
	dir := newDir(t)
	o := testOptions(dir, openMember(t, dir))
	wanted := errors.New("wanted")
	o.Floor = func() (uint64, error) { return 0, wanted }
	l, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := l.Acquire(ctx, lock.Plain, nil); !errors.Is(err, wanted) || res.Acquired {
		t.Errorf("%+v %v", res, err)
	}
	mustOwn(t, l, false)
	noDebris(t, dir)
}

func TestRaise(t *testing.T) {
	dir := newDir(t)
	m := openMember(t, dir)
	l := newLock(t, dir, m)
	if res, err := l.Raise(ctx, 9); err != nil || res.Acquired {
		t.Errorf("not the owner: %+v %v", res, err)
	}
	mustAcquire(t, l)
	if res, err := l.Raise(ctx, 1); err != nil || !res.Acquired || res.Wrote || res.Term != 1 {
		t.Errorf("not below: %+v %v", res, err)
	}
	if res, err := l.Raise(ctx, 9); err != nil || !res.Acquired || !res.Wrote || res.Term != 10 || res.Owner.Epoch != 1 {
		t.Errorf("below: %+v %v", res, err)
	}
	if term, owns, err := l.OwnedTerm(); term != 10 || !owns || err != nil {
		t.Error(term, owns, err)
	}
	if m.HighestTerm() != 10 {
		t.Error(m.HighestTerm())
	}
	for _, most := range []uint64{lock.MaxTerm, 1 << 60} {
		if _, err := l.Raise(ctx, most); err == nil {
			t.Errorf("a term above %d was given", most)
		}
	}
	mustOwn(t, l, true)
}

func TestTakeFrom(t *testing.T) {
	dir := newDir(t)
	l := newLock(t, dir, openMember(t, dir))
	mustAcquire(t, l)
	owner, err := l.Current()
	if err != nil {
		t.Fatal(err)
	}
	command, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Role: lock.RoleCommand})
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir, command)
	other := owner
	other.Epoch = 9
	if err := lock.TakeFrom(ctx, o, other); !errors.Is(err, lock.ErrOwnerChanged) {
		t.Error(err)
	}
	mustOwn(t, l, true)
	if err := lock.TakeFrom(ctx, o, owner); err != nil {
		t.Fatal(err)
	}
	mustOwn(t, l, false)
	if e, err := l.Current(); e.Held() || e.Epoch != 2 || err != nil {
		t.Errorf("%+v %v", e, err)
	}
	if err := command.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "members", command.Instance())); err == nil {
		t.Error("a command's file stays")
	}
}

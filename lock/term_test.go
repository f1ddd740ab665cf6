//go:build unix

package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

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
		{"damage does not use up the numbers", func(t *testing.T, dir string, m *lock.Member, _ *lock.Options) {
			writeFile(t, registryOf(dir), `{"`+key+`":{"leaderEpoch":18446744073709551615}}`)
			m.NoteTerm(1 << 60)
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
			if m.HighestTerm() != tt.want && tt.want < 1<<53 {
				t.Errorf("highest term %d", m.HighestTerm())
			}
		})
	}
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
	if _, err := l.Raise(ctx, 1<<60); err == nil {
		t.Error("a term that cannot be one was given")
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

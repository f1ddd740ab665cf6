//go:build unix

package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/lock"
)

// strangers are what may stand in the place of a member's file.
var strangers = []struct {
	name string
	make func(path string) error
}{
	{"directory", func(path string) error { return os.Mkdir(path, 0o700) }},
	{"full directory", func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }},
	{"symlink", func(path string) error { return os.Symlink("/dev/zero", path) }},
	{"FIFO", makeFIFO},
	{"1 TiB", func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) }},
}

// TestG6StrangerForMemberFile: whatever stands in the place of the owner's file,
// or of another dead member's, keeps nobody from a lease and a guard for longer
// than twice stale-after.
func TestG6StrangerForMemberFile(t *testing.T) {
	for _, s := range strangers {
		t.Run("G6 "+s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newState(t)
				m, owner, other := openMember(t, dir), deadMember(t, dir), deadMember(t, dir)
				for _, dead := range []*lock.Member{owner, other} {
					if err := errors.Join(os.Remove(memberFile(dead, dir)), s.make(memberFile(dead, dir))); err != nil {
						t.Fatal(err)
					}
				}
				// Of another boot: not even the pid tells.
				writeFile(t, registryOf(dir), entryJSON(t, owner, func(e map[string]any) { e["bootId"], e["pid"] = "other", 1 }))
				makeGuard(t, dir, map[string]string{
					"owner." + genA + ".json": `{"pid":1,"instanceId":"` + owner.Instance() + `","bootId":"other"}`, "next." + genA + ".json": "",
				})
				l := newLock(t, dir, m)
				began := time.Now()
				for {
					res, err := l.Acquire(ctx, lock.Plain, nil)
					if err != nil {
						t.Fatal(err)
					}
					if res.Acquired {
						break
					}
					time.Sleep(testHeartbeat / 4)
				}
				if took := time.Since(began); took < testStaleAfter || took > 2*testStaleAfter+200*time.Millisecond {
					t.Errorf("took %v", took)
				}
				noDebris(t, dir)
			})
		})
	}
}

// TestFileForMembersDirectory: it is said where it is and what to do, and once it
// is gone all goes on.
func TestFileForMembersDirectory(t *testing.T) {
	dir := newState(t)
	m, owner := openMember(t, dir), openMember(t, dir)
	l := newLock(t, dir, m)
	writeFile(t, registryOf(dir), entryJSON(t, owner, func(e map[string]any) { e["pid"] = 1 }))
	members := filepath.Dir(memberFile(m, dir))
	if err := os.Rename(members, members+".away"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, members, "not ours")
	_, lookErr := newObserver(dir).Look(owner.Instance())
	_, listErr := newObserver(dir).Members()
	_, acquireErr := l.Acquire(ctx, lock.Plain, nil)
	_, openErr := lock.OpenMember(lock.MemberOptions{Dir: dir})
	for what, err := range map[string]error{"look": lookErr, "list": listErr, "acquire": acquireErr, "check": m.Check(), "open": openErr} {
		if !lock.IsUnusable(err) || !strings.Contains(err.Error(), members) || !strings.Contains(err.Error(), "move") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(m.Beat(), os.Remove(members), os.Rename(members+".away", members), m.Check()); err != nil {
		t.Error(err)
	}
	if r, err := newObserver(dir).Look(m.Instance()); err != nil || r.Kernel != lock.LockHeld || r.Beat != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

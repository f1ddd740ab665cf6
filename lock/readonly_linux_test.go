package lock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgbridge/lock"
)

// mountReadOnly puts a read-only view of dir over dir: what is open stays
// writable, paths do not. The returned function takes it away again.
func mountReadOnly(t *testing.T, dir string) (undo func()) {
	t.Helper()
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("mount:", err)
	}
	mounted := true
	undo = func() {
		if mounted {
			mounted = false
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(undo)
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip("remount:", err)
	}
	return undo
}

// mountFailing puts an ext4 over dir, which the kernel makes read-only, open
// files included, as it does when a disk fails.
func mountFailing(t *testing.T, dir string) (fail func()) {
	t.Helper()
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Skip(name, err, string(out))
		}
		return strings.TrimSpace(string(out))
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8<<20)); err != nil {
		t.Fatal(err)
	}
	run("mkfs.ext4", "-q", image)
	run("mount", "-o", "loop,errors=remount-ro", image, dir)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	device := filepath.Base(run("losetup", "-n", "-O", "NAME", "-j", image))
	return func() {
		if err := os.WriteFile("/sys/fs/ext4/"+device+"/trigger_fs_error", []byte("test"), 0); err != nil {
			t.Skip(err)
		}
	}
}

// saysReadOnly checks that an error says what cannot be done, where, why, and what
// to do.
func saysReadOnly(t *testing.T, what string, err error, path string) {
	t.Helper()
	if !lock.IsUnusable(err) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("%s: got %v", what, err)
		return
	}
	for _, want := range []string{path, "read-only", "make it writable"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q does not say %q", what, err, want)
		}
	}
}

// TestReadOnly: a state directory that becomes read-only under its members keeps
// their leases as they are, says what is wrong, and is as before once it can be
// written again.
func TestReadOnly(t *testing.T) {
	dir := newState(t)
	m, other := openMember(t, dir), openMember(t, dir)
	l := newLock(t, dir, m)
	mustAcquire(t, l)
	before := readFile(t, registryOf(dir))
	undo := mountReadOnly(t, dir)

	if err := errors.Join(m.Beat(), m.SetRole(lock.RoleFollower, 1), m.Check()); err != nil {
		t.Error("what is open:", err)
	}
	if owns, err := l.Refresh(ctx); !owns || err != nil {
		t.Error("refresh:", owns, err)
	}
	_, released, err := l.Release(ctx)
	if released {
		t.Error("released")
	}
	saysReadOnly(t, "release", err, dir)
	_, err = l.Commit(ctx, "f", func([]byte) ([]byte, error) { return []byte("x"), nil })
	saysReadOnly(t, "commit", err, dir)
	_, err = l.Raise(ctx, 9)
	saysReadOnly(t, "raise", err, dir)
	o := testOptions(dir, other)
	o.Key = "other"
	free, err := lock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = free.Acquire(ctx, lock.Plain, nil)
	saysReadOnly(t, "acquire", err, dir)
	_, err = lock.OpenMember(lock.MemberOptions{Dir: dir})
	saysReadOnly(t, "open member", err, dir)
	mustOwn(t, l, true)
	if readFile(t, registryOf(dir)) != before {
		t.Error("registry changed")
	}

	undo()
	if _, released, err := l.Release(ctx); !released || err != nil {
		t.Error("release:", released, err)
	}
	if res := mustAcquire(t, newLock(t, dir, other)); res.Term != 2 {
		t.Errorf("term %d", res.Term)
	}
	mustAcquire(t, free)
	noDebris(t, dir)
}

// TestDiskFails: the same for what is open, too.
func TestDiskFails(t *testing.T) {
	dir := newDir(t)
	mkdir(t, dir)
	fail := mountFailing(t, dir)
	m := openMember(t, dir)
	fail()
	saysReadOnly(t, "beat", m.Beat(), memberFile(m, dir))
	saysReadOnly(t, "role", m.SetRole(lock.RoleLeader, 1), memberFile(m, dir))
	if info := m.Info(); info.Role != lock.RoleStarting {
		t.Errorf("the role that was not written is told: %s", info.Role)
	}
	if r, err := newObserver(dir).Look(m.Instance()); err != nil || r.Kernel != lock.LockHeld || r.Beat != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

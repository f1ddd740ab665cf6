package lock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func newPIDNamespace(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
}

// asNobody runs a helper as uid 65534, from a copy of the test binary that this
// user may execute.
func asNobody(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	return func(c *exec.Cmd) {
		dir := t.TempDir()
		openWay(t, dir)
		exe := filepath.Join(dir, "helper")
		binary, err := os.ReadFile(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(exe, binary, 0o755); err != nil {
			t.Fatal(err)
		}
		c.Path, c.Dir = exe, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

// openWay lets every user pass the directories of a test.
func openWay(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// mountSmall puts an empty file system of 64 KiB over dir.
func mountSmall(t *testing.T, dir string) error {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}

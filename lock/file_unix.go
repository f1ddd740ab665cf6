//go:build unix

package lock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openSafely keeps an open from following a symlink and from waiting on a FIFO.
const openSafely = unix.O_NOFOLLOW | unix.O_NONBLOCK

// supported says why the package cannot work on this system.
func supported() error { return nil }

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// inodeOf tells files apart that were at the same path one after another.
func inodeOf(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Ino)
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

func isDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// syncDir gets the names in a directory onto the disk. File systems that cannot
// (EINVAL, ENOTSUP) have nothing to sync.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

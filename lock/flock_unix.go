//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// systemFlock is flock(2).
func systemFlock(f *os.File, mode lockMode) error {
	how := unix.LOCK_SH | unix.LOCK_NB
	if mode == lockExclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		var errno unix.Errno
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case errors.As(err, &errno):
			return fmt.Errorf("flock: %s: %w", unix.ErrnoName(errno), err)
		default:
			return fmt.Errorf("flock: %w", err)
		}
	}
}

// systemUnlock ends the lock of an open file description, whoever else has a
// descriptor of it.
func systemUnlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

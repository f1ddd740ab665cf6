package journal

import (
	"errors"
	"syscall"
)

// syncDir does nothing: Windows keeps the names of a directory in its own log.
func syncDir(string) error { return nil }

// isFull reports whether the error is ERROR_DISK_FULL or
// ERROR_HANDLE_DISK_FULL.
func isFull(err error) bool {
	return errors.Is(err, syscall.Errno(112)) || errors.Is(err, syscall.Errno(39))
}

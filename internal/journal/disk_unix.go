//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// syncDir brings the names in a directory to disk. File systems that cannot
// (EINVAL, ENOTSUP) do it unasked or not at all.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// isFull reports whether the error says that there is no space, or no quota.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
